"""Failures of the Neural Engine and its compiler."""

from __future__ import annotations

from coremlscope.doctor.failures.failure import (
    CLEAR_CACHE,
    COREMLTOOLS,
    PUBLIC_NOTES,
    SEE_PLAN,
    TRY_UNITS,
    Failure,
)
from coremlscope.placement.publications import ANE_BOOK, ANEMLL, COMPILER_TEXTS, M1_PLAN, MOBIUS

__all__ = ["NEURAL_ENGINE"]

NEURAL_ENGINE: tuple[Failure, ...] = (
    Failure(
        id="ane-compile-failed",
        texts=("ANECCompile", "failed to compile ANE model"),
        pattern=r"(?i)ANECCompile(?:\(\))? ?(?:FAILED|produces|.{0,10}fail)|failed to compile ANE model",
        cause="The Neural Engine's compiler rejected a part of the program. The load may still succeed and"
        " run"
        " that part on the CPU, often slower than CPU_ONLY, or the first prediction fails.",
        fix=f"use CPU_AND_GPU until the operation is found; {SEE_PLAN};"
        " bisect the model where no rule applies",
        source=f"{COREMLTOOLS} #2247, #2503; pytorch/executorch #19635; soniqo/speech-swift PR 466",
        confidence="measured",
        example="E5RT encountered an STL exception. msg = MILCompilerForANE error: failed to compile ANE"
        " model using"
        " ANEF. Error=_ANECompiler : ANECCompile() FAILED.",
        negative_examples=("ANECCompile() finished in 3 s",),
    ),
    Failure(
        id="ane-reload-failed",
        texts=("Must re-compile the E5 bundle", "Program load failure (0x20004)"),
        cause="A compiled program in the cache no longer fits the Neural Engine's driver, mostly after an"
        " update"
        " or an interrupted compilation; the load can hang.",
        fix=CLEAR_CACHE,
        source=PUBLIC_NOTES,
        confidence="anecdotal",
        example="ANE model load has failed for on-device compiled macho. Must re-compile the E5 bundle."
        " @ GetANEFModel",
        negative_examples=("compiled the E5 bundle",),
    ),
    Failure(
        id="ane-compiler-busy",
        texts=("ANECompilerService",),
        cause="The system's compiler for the Neural Engine is at work or hangs; convolutions with strides of"
        " 5"
        " or 7 and very large graphs took minutes to hours.",
        fix="load with CPU_AND_GPU to see whether the compiler is the cause; split the model",
        source=f"{COREMLTOOLS} #2367, #2473; ggml-org/whisper.cpp #937",
        confidence="anecdotal",
        is_general=True,
        example="ANECompilerService 100.0 % CPU, 11.7 GB",
        negative_examples=("the ANE compiler",),
    ),
    Failure(
        id="e5rt-timeout",
        texts=("Submit Async failed", "Timeout occurred while computing the asynchronous prediction"),
        cause="A prediction did not finish in time, mostly because the Neural Engine or the GPU was busy.",
        fix="repeat the prediction; run fewer models at once; use CPU_AND_GPU where it stays",
        source=PUBLIC_NOTES,
        confidence="anecdotal",
        example='"E5RT: Submit Async failed for the program: it has timed out"',
        negative_examples=("submitted 3 requests",),
    ),
    Failure(
        id="unbounded-dimension",
        texts=("has unbounded dimension",),
        cause="An input has a dimension without an upper bound, so that the program cannot be compiled for"
        " the"
        " Neural Engine and mostly runs on the CPU.",
        fix="declare enumerated shapes, or a range with an upper bound",
        source=PUBLIC_NOTES,
        confidence="measured",
        example="E5RT encountered an STL exception. msg = Input: input has unbounded dimension which is not"
        " supported",
        negative_examples=("all dimensions are bounded",),
    ),
    Failure(
        id="shape-probe",
        texts=("PropagateInputTensorShapes", "zero shape error"),
        pattern=r"(?:(?P<op>[a-z]\w{1,60}): )?zero shape error|PropagateInputTensorShapes",
        cause="Core ML tried a shape for which a slice would be empty; results were right in all reports.",
        fix="nothing, if predictions succeed; else give the flexible input a larger lower bound",
        source=PUBLIC_NOTES,
        confidence="anecdotal",
        example="Failed to PropagateInputTensorShapes: std::runtime_error during type inference for"
        " ios16.slice_by_index: zero shape error.",
        negative_examples=("shapes are inferred",),
    ),
    Failure(
        id="e5rt-exception",
        texts=("E5RT encountered an STL exception", "E5RT:"),
        cause="Core ML's runtime of ML Programs reports an error; the rest of the line is the reason.",
        fix=f"{TRY_UNITS}; predictions may still be right, so compare their values",
        source=f"{COREMLTOOLS} #2247; {PUBLIC_NOTES}",
        confidence="anecdotal",
        is_general=True,
        example="E5RT encountered an STL exception. msg = unordered_map::at: key not found.",
        negative_examples=("E5RT is a runtime",),
    ),
    Failure(
        id="unsupported-op",
        texts=("Unsupported op ", "Unsupported MIL operation"),
        pattern=r"""Unsupported (?:op \d+ \(|MIL operation ["']?)(?P<op>[\w.]{1,80})""",
        cause="The Neural Engine does not run this operation, so that it and often its neighbours run on the"
        " CPU or GPU.",
        fix="replace the operation before conversion: `coremlscope ops NAME` shows the rules and fixes",
        source=f"{ANEMLL}; {MOBIUS}",
        confidence="measured",
        example="Unsupported op 12 (logical_or): no engine path",
        negative_examples=("Unsupported option --fast",),
    ),
    Failure(
        id="fp32-on-ane",
        texts=("tensor format: fp32",),
        pattern=r"(?:Invalid (?:in|out)put|Unsupported) tensor format: fp32",
        cause="The Neural Engine computes in fp16; an fp32 operation is kept off it.",
        fix="convert with compute_precision=FLOAT16 and, for inputs and outputs, fp16 types (iOS 16 and"
        " later)",
        source=M1_PLAN,
        confidence="measured",
        example="Invalid output tensor format: fp32",
        negative_examples=("tensor format: fp16",),
    ),
    Failure(
        id="int32-on-ane",
        texts=("Unsupported tensor data type: int32",),
        cause="The Neural Engine does not run int32 operations; index and mask arithmetic stays on the CPU.",
        fix="keep masks and positions in fp16, or compute them in the app",
        source=f"{ANEMLL}; {MOBIUS}",
        confidence="measured",
        example="Unsupported tensor data type: int32",
        negative_examples=("tensor data type: int32",),
    ),
    Failure(
        id="unsupported-producer",
        texts=("Unable to resolve operation input",),
        cause="The operation reads the result of another one that the Neural Engine rejected.",
        fix="fix the operation before it first",
        source=MOBIUS,
        confidence="measured",
        example="Unable to resolve operation input x",
        negative_examples=("operation input x",),
    ),
    Failure(
        id="tile-of-booleans",
        texts=("In tile operations, tensors x[0] and output must have the same data type",),
        cause="A tile of a boolean mask makes the Neural Engine's compiler reject the whole program.",
        fix="replace the boolean mask by an additive or multiplicative mask in fp16",
        source=MOBIUS,
        confidence="measured",
        op="tile",
        example="In tile operations, tensors x[0] and output must have the same data type",
        negative_examples=("tile operations",),
    ),
    Failure(
        id="unsupported-neuron",
        texts=("doesn't support Neuron",),
        pattern=r"doesn't support Neuron (?:ZinIrNeuronType::k(?P<op>\w{1,40}))?",
        cause="This generation of the Neural Engine lacks an activation; sine needs an A15, an M3 or later.",
        fix="compute it in advance (position tables) or replace it by a polynomial; `coremlscope rules --op"
        " sin`",
        source=MOBIUS,
        confidence="measured",
        example="This platform doesn't support Neuron ZinIrNeuronType::kSin (aka ZinIrNonLinearSin)",
        negative_examples=("AWS Neuron",),
    ),
    Failure(
        id="dimension-limit",
        texts=("are not within supported range",),
        pattern=r"Tensor dimensions \w+ are not within supported range",
        cause="A tensor exceeds the largest dimension of the Neural Engine (16384 up to M3), often because a"
        " dilated convolution doubles the width; the whole program then fails to compile.",
        fix="split the tensor along its longest axis before conversion",
        source=MOBIUS,
        confidence="measured",
        example="Tensor dimensions N1D1C27H1W16386 are not within supported range",
        negative_examples=("values are not within supported range",),
    ),
    Failure(
        id="argmax-axis",
        texts=("Only Channelwise or Spatial ArgMax/Min is supported on ANE",),
        cause="The Neural Engine reduces to an index only along channels or over the spatial axes.",
        fix="transpose so that the axis is the channel, or compute the index in the app",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        op="reduce_argmax",
        example="Only Channelwise or Spatial ArgMax/Min is supported on ANE",
        negative_examples=("ArgMax is supported",),
    ),
    Failure(
        id="rank-limit",
        texts=("ANE cannot support Linear with input rank", "Cannot reshape a tensor of rank > 5"),
        pattern=r"(?P<op>Linear|reshape)",
        cause="The Neural Engine handles tensors of up to four or five dimensions.",
        fix="merge dimensions so that tensors have rank 4",
        source="sbryngelson/ane-guide, chapter 17; apple/coreai-models: rules for the Neural Engine",
        confidence="measured",
        example="ANE cannot support Linear with input rank >= 5",
        negative_examples=("ANE supports Linear",),
    ),
    Failure(
        id="slice-update",
        texts=("Cannot support standalone slice_update",),
        cause="Writing a slice at a position that is known at run time is not supported on the Neural"
        " Engine.",
        fix="write with a one-hot mask, or update the cache outside the model",
        source=ANEMLL,
        confidence="measured",
        op="slice_update",
        example="Cannot support standalone slice_update",
        negative_examples=("slice_update",),
    ),
    Failure(
        id="range-shape",
        texts=("not supported for range shape",),
        cause="The Neural Engine runs enumerated and fixed shapes, but few operations with a range of"
        " shapes.",
        fix="use EnumeratedShapes or fixed shapes instead of RangeDim",
        source=f"{COREMLTOOLS} #2370, #1764; {COREMLTOOLS}: guide to flexible inputs",
        confidence="documented",
        example="Reshape is not supported for range shape",
        negative_examples=("range shape",),
    ),
    Failure(
        id="known-strides",
        texts=("tensor_buffer has known strides while model has FlexibleShapeInfo",),
        cause="A model with flexible shapes was loaded for the Neural Engine, where this fails on some"
        " systems.",
        fix="use fixed or enumerated shapes, or CPU_AND_GPU",
        source=f"{COREMLTOOLS} #2730",
        confidence="anecdotal",
        example="E5RT: tensor_buffer has known strides while model has FlexibleShapeInfo",
        negative_examples=("strides are known",),
    ),
    Failure(
        id="quantisation-axis",
        texts=("ANE only support per-cout/per-tensor quantization",),
        cause="Weights are quantised by block, which the Neural Engine does not run.",
        fix="quantise per channel or per tensor, or use palettization",
        source=f"{ANE_BOOK}; {COREMLTOOLS} #2510",
        confidence="measured",
        example="ANE only support per-cout/per-tensor quantization",
        negative_examples=("per-tensor quantization",),
    ),
    Failure(
        id="not-resident",
        texts=("Marking all operations as non ANE-resident", "bounces between the ANE and"),
        cause="Too few operations can stay on the Neural Engine, so that the planner keeps all of them off"
        " it.",
        fix=f"{SEE_PLAN}; replace those that interrupt the graph",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        example="One or more network operations are not ANE-resident - Marking all operations as non"
        " ANE-resident",
        negative_examples=("all operations are ANE-resident",),
    ),
)
