"""Failures of the GPU and MPSGraph."""

from __future__ import annotations

from coremlscope.planning.patterns.publications import FLUID_AUDIO
from coremlscope.studies.doctor.failures.failure import COREMLTOOLS, Failure

_OTHER_UNITS = "load with CPU_AND_NE or CPU_ONLY"

GPU: tuple[Failure, ...] = (
    Failure(
        id="mpsgraph-abort",
        texts=("mlir pass manager failed", "failed assertion", "llvm error", "mps"),
        pattern=r"(?!.{0,400}(?:minimum deployment target|unhandled platform|on this device|greater than the"
        r" maximum| > 2\*\*|XPC_ERROR|input types '|'mps.dequantize'))(?:MLIR pass manager failed"
        r"|failed assertion `shape\.count|MPS\w{1,60}\.mm:\d+.{0,40}failed assertion"
        r" [`'](?P<assertion>[^`'\n]{1,200})|'mps\.\w{1,40}' op"
        r" (?P<operation>[^\n]{1,160})|MPSGraph\w{0,40}\.mm.{0,120}error: (?P<problem>.{1,160})|LLVM ERROR:"
        r" Failed to infer result type|validate\w{3,60}(?::\d+|, line \d+): (?:failed"
        r" assertion|error)|failed assertion `original module)",
        cause="MPSGraph, which runs programs on the GPU, aborted the process over a shape, a type or a"
        " buffer that it does not take. This happens only where the GPU is allowed, and often after an"
        " update of the system; a matmul by a transposed attention in deep networks, updates of a cache at a"
        " computed position and empty shapes were reported.",
        fix=f"{_OTHER_UNITS}; convert with an older deployment target, or attention as"
        " scaled_dot_product_attention; report it to Apple with the model",
        source="pytorch/executorch #11541; ultralytics/ultralytics PR 25860, PR 24885;"
        " argmaxinc/argmax-oss-swift #264; apple/coreai-models #5, #27",
        confidence="measured",
        examples=(
            "failed assertion `shape.count = 0 != strides.count = 2'",
            "Error: MLIR pass manager failed",
            "/Sources/MetalPerformanceShadersGraph/MPSGraphConvolutionOps.mm:346: failed assertion"
            " `sourceTensor rank must be 4'",
        ),
        negative_examples=("the pass manager finished", "test.c:3: failed assertion `x > 0'"),
    ),
    Failure(
        id="gpu-feature-missing",
        texts=(
            "unhandled platform for mpsgraph serialization",
            "the minimum deployment target for macos is 14.0.0",
            "zero metal services found",
            "not supported on this device",
            "biases were not found",
        ),
        pattern=r"unhandled platform for MPSGraph serialization|minimum deployment target for macOS is"
        r" 14\.0\.0|Zero Metal services found|failed assertion .{0,200}not supported on this device"
        r"|has_biases is true, but biases were not found",
        cause="The GPU cannot run the program here. Known: simulators, virtual and Intel Macs, old GPUs and"
        " Mac Catalyst apps, for which MPSGraph cannot store what it compiled.",
        fix=f"{_OTHER_UNITS} there; build a Mac Catalyst app as a macOS app, or run the iPad app as it is;"
        " try another device; update macOS",
        source=f"mallman/CoreMLaMa #6; imxieyi/waifu2x-ios #84; {COREMLTOOLS} #2273, #1375;"
        " ZachNagengast/similarity-search-kit #20, #26; ml-explore/mlx-swift PR 47",
        confidence="anecdotal",
        examples=(
            "unhandled platform for MPSGraph serialization",
            " +[MTLIOAccelDevice registerDevices]: Zero Metal services found",
            "failed assertion `Dispatch Threads with Non-Uniform Threadgroup Size is not supported on this"
            " device'",
            'Espresso exception: "Invalid state": inner product kernel p.has_biases is true, but biases were'
            " not found!",
        ),
        negative_examples=(
            "the minimum deployment target for macOS is 13",
            "Haptics are not supported on this device",
        ),
    ),
    Failure(
        id="mpsgraph-recurrent",
        texts=("jit not supported",),
        cause="On M5 with macOS 26.5 and later the GPU does not run recurrent layers and aborts.",
        fix=f"{_OTHER_UNITS} for that model",
        source=FLUID_AUDIO,
        confidence="measured",
        op="lstm",
        rules=("gpu-recurrent-on-m5",),
        examples=("MPSGraph RNN: JIT not supported",),
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
        examples=("error: 'mps.dequantize' op operand #0 must be tensor",),
        negative_examples=("dequantize took 2 ms",),
    ),
    Failure(
        id="gpu-timeout",
        texts=("gpu timeout error", "gpu hang error", "callbackerrortimeout", "callbackerrorhang"),
        cause="One piece of GPU work took longer than the system allows or did not end, mostly on an old or"
        " throttled device.",
        fix=f"use smaller inputs, or {_OTHER_UNITS}",
        source="s1ddok/HED-CoreML #1",
        confidence="anecdotal",
        examples=(
            "Execution of the command buffer was aborted due to an error during execution. Caused GPU Timeout"
            " Error (IOAF code 2)",
        ),
        negative_examples=("GPU time: 3 ms",),
    ),
    Failure(
        id="gpu-in-background",
        texts=("to submit gpu work from background", "backgroundexecutionnotpermitted"),
        cause="iOS does not let an app use the GPU while it is in the background; the prediction fails, and"
        " some frameworks end the app.",
        fix=f"{_OTHER_UNITS} for work in the background, or wait until the app is active; from iOS 26 on a"
        " BGContinuedProcessingTask may ask for the GPU",
        source="argmaxinc/argmax-oss-swift #194; mlalma/kokoro-ios #18",
        confidence="documented",
        examples=("Insufficient Permission (to submit GPU work from background) (IOAF code 6)",),
        negative_examples=("the window moved to the background",),
    ),
    Failure(
        id="metal-compiler",
        texts=("xpc_error_connection_in",),
        pattern=r"[Cc]ompil(?:er|ation) .{0,60}XPC_ERROR_CONNECTION_IN(?:TERRUPTED|VALID)",
        cause="The service of the system that compiles kernels for the GPU crashed or could not be reached,"
        " as from a process that was forked, from one without a login session or from an older Metal.",
        fix=f"load the model after a fork, not before it, in a process of its own; update the system; or"
        f" {_OTHER_UNITS}",
        source="apetersson/immich_ml_balancer #1; middlefeng/NuoModelViewer #3, PR 6",
        confidence="anecdotal",
        examples=(
            "MTLCompiler: Compilation failed with XPC_ERROR_CONNECTION_INTERRUPTED on 3 try",
            "(null) Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS shutting down?)",
        ),
        negative_examples=("XPC_ERROR_CONNECTION_INVALID from the helper of an app",),
    ),
    Failure(
        id="metal-limit",
        texts=("greater than the maximum allowed", " > 2**"),
        pattern=r"MPS\w{1,60} .{0,80}Error: (?P<measure>total bytes of NDArray|product of dimension sizes) >"
        r" (?P<most>2\*\*\d+)|MTL\w{1,60} has (?P<what>\w{1,40}) \((?P<extent>\d+)\) greater than the"
        r" maximum allowed size of (?P<limit>\d+)",
        cause="A tensor is larger than the GPU's textures or arrays may be, along an axis or in all.",
        fix=f"use smaller inputs or shorter sequences, or {_OTHER_UNITS}",
        source=f"{COREMLTOOLS} #142, #283; pytorch/pytorch #84039, #143859",
        confidence="anecdotal",
        examples=(
            "MTLTextureDescriptor has arrayLength (2400) greater than the maximum allowed size of 2048.",
            "MPSNDArray.mm:724: failed assertion `[MPSNDArray initWithDevice:descriptor:] Error: total bytes"
            " of NDArray > 2**32'",
        ),
        negative_examples=("the file is greater than the maximum allowed size of 10 MB",),
    ),
)
