"""Failures of the GPU and MPSGraph."""

from __future__ import annotations

from coremlscope.doctor.failures.failure import COREMLTOOLS, Failure
from coremlscope.placement.publications import FLUID_AUDIO

__all__ = ["GPU"]

GPU: tuple[Failure, ...] = (
    Failure(
        id="mpsgraph-abort",
        texts=("MTLReportFailure", "MLIR pass manager failed", "failed assertion `shape.count"),
        cause="MPSGraph, which runs programs on the GPU, aborted the process; this happens only where the"
        " GPU is"
        " allowed, and mostly after an update of the system.",
        fix="load with CPU_AND_NE or CPU_ONLY; convert with an older deployment target; report it to Apple"
        " with"
        " the model",
        source="pytorch/executorch #11541; ultralytics/ultralytics PR 25860, PR 24885",
        confidence="measured",
        example="failed assertion `shape.count = 0 != strides.count = 2'",
        negative_examples=("the pass manager finished",),
    ),
    Failure(
        id="mpsgraph-target",
        texts=(
            "unhandled platform for MPSGraph serialization",
            "the minimum deployment target for macOS is 14.0.0",
        ),
        cause="MPSGraph cannot store the compiled program for this system.",
        fix="update macOS, or load with CPU_AND_NE or CPU_ONLY",
        source=f"mallman/CoreMLaMa #6; {COREMLTOOLS} #2273",
        confidence="anecdotal",
        example="unhandled platform for MPSGraph serialization",
        negative_examples=("the minimum deployment target for macOS is 13",),
    ),
    Failure(
        id="mpsgraph-recurrent",
        texts=("JIT not supported",),
        cause="On M5 with macOS 26.5 and later the GPU does not run recurrent layers and aborts.",
        fix="load that model with CPU_AND_NE or CPU_ONLY",
        source=FLUID_AUDIO,
        confidence="measured",
        op="lstm",
        example="MPSGraph RNN: JIT not supported",
        negative_examples=("JIT supported",),
    ),
    Failure(
        id="dequantize-crash",
        texts=("mps.dequantize",),
        cause="The GPU fails on palettized weights with a scale per channel on macOS 26.",
        fix="compress again with enable_per_channel_scale=False, or load with CPU_AND_NE",
        source=f"{COREMLTOOLS} #2688",
        confidence="anecdotal",
        op="constexpr_lut_to_dense",
        example="error: 'mps.dequantize' op operand #0 must be tensor",
        negative_examples=("dequantize took 2 ms",),
    ),
    Failure(
        id="gpu-timeout",
        texts=("GPU Timeout Error",),
        cause="One piece of GPU work took longer than the system allows, mostly on an old or throttled"
        " device.",
        fix="use smaller inputs, or load with CPU_AND_NE or CPU_ONLY",
        source="s1ddok/HED-CoreML #1",
        confidence="anecdotal",
        example="Execution of the command buffer was aborted due to an error during execution. Caused GPU"
        " Timeout"
        " Error (IOAF code 2)",
        negative_examples=("GPU time: 3 ms",),
    ),
    Failure(
        id="mps-out-of-memory",
        texts=("MPS backend out of memory",),
        cause="The GPU's memory limit is reached; virtual Macs allow about 1 GB.",
        fix="load with CPU_ONLY on virtual machines; use a smaller model or batch",
        source="actions/runner-images #9918, #11899",
        confidence="anecdotal",
        example="RuntimeError: MPS backend out of memory (MPS allocated: 1.02 GB)",
        negative_examples=("MPS backend is available",),
    ),
)
