"""Known failure texts of Core ML, each with its cause, a fix, its source and how the source knows."""

from __future__ import annotations

from dataclasses import dataclass

from coremlscope.findings import Confidence
from coremlscope.placement.publications import ANE_BOOK, ANEMLL, COMPILER_TEXTS, FLUID_AUDIO, M1_PLAN, MOBIUS

__all__ = ["FAILURES", "Failure"]

_CT = "apple/coremltools"
_NOTES = "notes of public projects"
_PLAN = "`coremlscope plan MODEL --device NAME` names the operations that each unit rejects"
_UNITS = "load the model with CPU_ONLY, CPU_AND_GPU and CPU_AND_NE in turn to see which unit fails"
_CLEAR = (
    "quit the program, delete its folder com.apple.e5rt.e5bundlecache in ~/Library/Caches, and load again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A known failure text.

    Attributes:
        id: A stable identifier in kebab case.
        texts: A line must contain at least one of these texts.
        pattern: A regular expression that the line must match as well; empty if the text is enough. The group
            `op` holds the type of the operation, `where` its name, `seconds` and `minutes` a duration.
        cause: The likely cause, one sentence.
        fix: What to try.
        source: Where this was published.
        confidence: How the source knows.
        op: The operation type that the text is about, if it is always the same.
        least_seconds: The duration in the line must be at least this long.
        is_general: True for a text that says little: it is reported only where no other row matches the line.
        example: A line that matches.
        negative_examples: Lines that do not match.
    """

    id: str
    texts: tuple[str, ...]
    pattern: str = ""
    cause: str
    fix: str
    source: str
    confidence: Confidence
    op: str = ""
    least_seconds: float = 0.0
    is_general: bool = False
    example: str
    negative_examples: tuple[str, ...]


_LOADING = (
    Failure(
        id="plan-error-14",
        texts=("execution plan",),
        pattern=r"execution plan.*error code: ?-?14\b",
        cause="Core ML could not build an execution plan. It was reported with programs that write to states,"
        " with flexible shapes, and with models of more than about 1 GB on the Neural Engine; the code names"
        " no operation.",
        fix=f"{_UNITS}; the E5RT line before it often names the operation; {_PLAN}",
        source=f"{_CT} #2325, finnvoor/CoreMLPipelines PR 4, {ANE_BOOK}",
        confidence="anecdotal",
        example="Failed to build the model execution plan using a model architecture file"
        " '/tmp/a.mlmodelc/model.mil' with error code: -14.",
        negative_examples=(
            "Failed to build the model execution plan using a model architecture file"
            " '/tmp/a.mlmodelc/model.mil'"
            " with error code: -7.",
            "the process ended with error code: -14",
        ),
    ),
    Failure(
        id="error-14-alone",
        texts=("error code: -14", "error code:-14"),
        pattern=r"^\W*(?:error:?\s+)?error code: ?-14\b\W*$",
        cause="If Core ML printed it, it could not build an execution plan. It was reported with programs"
        " that write to states, with flexible shapes, and with models of more than about 1 GB on the Neural"
        " Engine.",
        fix=f"look for the lines before it, which name Core ML and often the operation; {_UNITS}; {_PLAN}",
        source=f"{_CT} #2325, finnvoor/CoreMLPipelines PR 4, {ANE_BOOK}",
        confidence="anecdotal",
        is_general=True,
        example="error code: -14",
        negative_examples=("the process ended with error code: -14", "error code: -140"),
    ),
    Failure(
        id="plan-error",
        texts=("model execution plan",),
        pattern=r"execution plan.*error code: ?-?\d+",
        cause="Core ML could not build an execution plan; the meaning of the code is not published.",
        fix=f"{_UNITS}; {_PLAN}",
        source=f"{_CT} #2325; {_NOTES}",
        confidence="anecdotal",
        is_general=True,
        example="Failed to build the model execution plan using a model architecture file"
        " '/var/a.mlmodelc/model.mil' with error code: -7.",
        negative_examples=("the model execution plan was built",),
    ),
    Failure(
        id="neural-network-plan",
        texts=("Error in building plan", "Error plan build:"),
        cause="Core ML's engine of neural networks could not build a plan, mostly because the Neural Engine"
        " or"
        " the GPU rejected a layer. ONNX Runtime's Core ML provider passes the text on.",
        fix=f"{_UNITS}; convert to an ML Program (ONNX Runtime: ModelFormat MLProgram) for a clearer message",
        source=f"{_CT} #1106, #1548",
        confidence="anecdotal",
        example="Error in building plan.",
        negative_examples=("Error in planning the building",),
    ),
    Failure(
        id="declaring-network",
        texts=("Error in declaring network",),
        cause="Core ML could not set up a neural network, because a unit rejected a layer or memory ran out.",
        fix="load it with CPU_ONLY; keep one instance of the model instead of loading it for each input",
        source=f"{_CT}: FAQ",
        confidence="documented",
        example='Error Domain=com.apple.CoreML Code=0 "Error in declaring network."',
        negative_examples=("declaring network neutrality",),
    ),
    Failure(
        id="unknown-opset",
        texts=("Unknown opset",),
        pattern=r"Unknown opset '?CoreML\d+",
        cause="The program uses a newer operation set than this system knows: CoreML5 needs iOS 15 and macOS"
        " 12,"
        " CoreML6 iOS 16 and macOS 13, CoreML7 iOS 17 and macOS 14, CoreML8 iOS 18 and macOS 15.",
        fix="update the system, or convert again with a lower minimum_deployment_target",
        source=f"{_CT} #2283; pytorch/executorch: guide to its Core ML backend",
        confidence="documented",
        example="Failed to parse the model specification. Error: Unable to parse ML Program: at unknown"
        " location:"
        " Unknown opset 'CoreML8'.",
        negative_examples=("Unknown opset 'ai.onnx'",),
    ),
    Failure(
        id="missing-parameter",
        texts=("Required param",),
        pattern=r"(?:in operation (?P<where>\S{1,200}): )?Required param '\w+' is missing",
        cause="An operation lacks a parameter that its operation set requires: the specification version was"
        " raised without converting the model again, or the converter has a bug.",
        fix="convert the model again with the wanted minimum_deployment_target instead of editing the"
        " version",
        source=f"onnxsim/onnxsim: notes on its Core ML export; {_NOTES}",
        confidence="measured",
        example="Unable to parse ML Program: in operation gather_1: Required param 'validate_indices' is"
        " missing",
        negative_examples=("Required parameters: none",),
    ),
    Failure(
        id="missing-weights",
        texts=("weight.bin", "missing weights"),
        pattern=r"(?i)could ?n[o']t (?:be )?open\S* .{0,2000}weight\.bin|missing weights"
        r"|weight\.bin.{0,40}(?:no such file|not found|couldn.t be opened)",
        cause="The weight file is not where the program expects it: only a part of the package was copied or"
        " downloaded, or the weights are Git LFS pointers.",
        fix="copy the whole .mlpackage or .mlmodelc folder; with Git LFS run `git lfs pull`;"
        " `coremlscope doctor MODEL` checks the files",
        source="exPHAT/SwiftWhisper #15, apple/ml-stable-diffusion #5",
        confidence="anecdotal",
        example="Error parsing MIL model: at /tmp/a.mlmodelc/model.mil:11:258: Could not open"
        " /tmp/a.mlmodelc/weights/weight.bin",
        negative_examples=("mapped weights/weight.bin (94 MB)", "no weights are absent"),
    ),
    Failure(
        id="parse-error",
        texts=(
            "Error parsing MIL model",
            "Unable to parse ML Program",
            "Failed to parse the model specification",
        ),
        pattern=r"(?:in operation (?P<where>[^\s:]{1,200}))?",
        cause="Core ML cannot read the program: it is damaged, or newer than the system.",
        fix="run `coremlscope doctor MODEL`; convert again for the system's version",
        source=f"{_CT} #2283, #1704",
        confidence="anecdotal",
        is_general=True,
        example="coremlcompiler: error: Unable to parse ML Program: Failed to find type of logits_out.",
        negative_examples=("the ML Program was parsed",),
    ),
    Failure(
        id="file-not-read",
        texts=("Error reading protobuf spec",),
        cause="The model file cannot be opened or is not a Core ML specification.",
        fix="check the path; a file of a few hundred bytes may be a Git LFS pointer or an error page",
        source=_NOTES,
        confidence="anecdotal",
        example='Code=3 "Error reading protobuf spec. validator error: unable to open file for read"',
        negative_examples=("reading protobuf spec took 3 ms",),
    ),
    Failure(
        id="not-compiled",
        texts=("Compile the model with Xcode or",),
        cause="An uncompiled .mlmodel or .mlpackage was given to a call that takes a compiled .mlmodelc.",
        fix="compile it first: `xcrun coremlcompiler compile MODEL FOLDER`, or MLModel.compileModel(at:)",
        source=_NOTES,
        confidence="measured",
        example="Compile the model with Xcode or `MLModel.compileModel(at:)`.",
        negative_examples=("Compile the shaders with Xcode",),
    ),
    Failure(
        id="not-a-compiled-model",
        texts=("coremldata.bin",),
        pattern=r"not a valid \.mlmodelc",
        cause="MLComputePlan or MLModelStructure was given a folder that is not a compiled model;"
        " the process aborts and the error cannot be caught.",
        fix="compile the .mlpackage first and give the .mlmodelc; check that coremldata.bin exists in it",
        source=f"{_CT} #2757",
        confidence="documented",
        example="ios_base::failure: Failed to open file: /tmp/a.mlpackage/coremldata.bin. It is not a valid"
        " .mlmodelc file.",
        negative_examples=("reading /tmp/a.mlmodelc/coremldata.bin",),
    ),
    Failure(
        id="predict-unavailable",
        texts=("You will not be able to run predict() on this Core ML model",),
        cause="coremltools could not load the model; the message of Core ML follows in the same warning.",
        fix="look at the rest of the warning; CompiledMLModel raises the error instead of hiding it",
        source="coremltools 9.0: models/model.py",
        confidence="documented",
        is_general=True,
        example="RuntimeWarning: You will not be able to run predict() on this Core ML model. Underlying"
        " exception"
        " message was: …",
        negative_examples=("predict() returned a dictionary",),
    ),
    Failure(
        id="no-native-module",
        texts=("Failed to load _MLModelProxy", "Unable to load libmodelpackage", "Fail to import BlobReader"),
        cause="coremltools was installed without its native modules: there is no wheel for this Python or"
        " machine.",
        fix="use Python 3.11 to 3.13; off a Mac `coremlscope run SCRIPT` supplies the runtime",
        source=f"{_CT} #2465, #2350",
        confidence="anecdotal",
        example="Failed to load _MLModelProxy: No module named 'coremltools.libcoremlpython'",
        negative_examples=("loaded _MLModelProxy",),
    ),
    Failure(
        id="no-compute-device",
        texts=("Cannot provide zero compute device types",),
        cause="None of the allowed compute units exists on this machine, such as the Neural Engine alone in a"
        " virtual machine.",
        fix="allow the CPU as well: CPU_AND_NE, CPU_AND_GPU or ALL",
        source="microsoft/onnxruntime #22275, PR 22277",
        confidence="documented",
        example="Failed to set compute_device_types_mask E5RT: Cannot provide zero compute device types. (1)",
        negative_examples=("2 compute device types were provided",),
    ),
    Failure(
        id="data-dependent-shape",
        texts=("Data-dependent shapes were disabled",),
        cause="A shape in the program is computed from a value at run time (the limit of a range, the bound"
        " of a"
        " slice), which the Neural Engine's compiler rejects.",
        fix="replace it by a constant or enumerated shape, or load with CPU_AND_GPU",
        source=f"onnxsim/onnxsim: notes on its Core ML export; {MOBIUS}",
        confidence="measured",
        example="Invalid blob shape: Data-dependent shapes were disabled",
        negative_examples=("shapes were inferred",),
    ),
    Failure(
        id="slow-first-load",
        texts=("first run on a device may take a while", "load", "Load", "compil", "Compil"),
        pattern=r"first run on a device may take a while"
        r"|(?i:\b(?:load|compil)\w*\b).{0,60}?\b"
        r"(?:(?P<seconds>\d{1,6}(?:\.\d{1,6})?) ?(?:s|sec|secs|seconds)\b"
        r"|(?P<minutes>\d{1,4}(?:\.\d{1,6})?) ?(?:min|mins|minutes)\b)",
        cause="The first load compiles the model for the Neural Engine, which takes minutes for large"
        " programs;"
        " the result is cached until the system, the model, the settings or the program changes.",
        fix="time a second load; if each load is slow, use CPU_AND_GPU, or split the model; keep disk space"
        " free,"
        " because a full disk empties the cache",
        source="ggml-org/whisper.cpp #1278; argmaxinc/argmax-oss-swift #300",
        confidence="anecdotal",
        least_seconds=60,
        example="loading the model took 118.4 s",
        negative_examples=("loading the model took 2.1 s", "loaded 120 songs"),
    ),
)

_NEURAL_ENGINE = (
    Failure(
        id="ane-compile-failed",
        texts=("ANECCompile", "failed to compile ANE model"),
        pattern=r"(?i)ANECCompile(?:\(\))? ?(?:FAILED|produces|.{0,10}fail)|failed to compile ANE model",
        cause="The Neural Engine's compiler rejected a part of the program. The load may still succeed and"
        " run"
        " that part on the CPU, often slower than CPU_ONLY, or the first prediction fails.",
        fix=f"use CPU_AND_GPU until the operation is found; {_PLAN}; bisect the model where no rule applies",
        source=f"{_CT} #2247, #2503; pytorch/executorch #19635; soniqo/speech-swift PR 466",
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
        fix=_CLEAR,
        source=_NOTES,
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
        source=f"{_CT} #2367, #2473; ggml-org/whisper.cpp #937",
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
        source=_NOTES,
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
        source=_NOTES,
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
        source=_NOTES,
        confidence="anecdotal",
        example="Failed to PropagateInputTensorShapes: std::runtime_error during type inference for"
        " ios16.slice_by_index: zero shape error.",
        negative_examples=("shapes are inferred",),
    ),
    Failure(
        id="e5rt-exception",
        texts=("E5RT encountered an STL exception", "E5RT:"),
        cause="Core ML's runtime of ML Programs reports an error; the rest of the line is the reason.",
        fix=f"{_UNITS}; predictions may still be right, so compare their values",
        source=f"{_CT} #2247; {_NOTES}",
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
        source=f"{_CT} #2370, #1764; {_CT}: guide to flexible inputs",
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
        source=f"{_CT} #2730",
        confidence="anecdotal",
        example="E5RT: tensor_buffer has known strides while model has FlexibleShapeInfo",
        negative_examples=("strides are known",),
    ),
    Failure(
        id="quantisation-axis",
        texts=("ANE only support per-cout/per-tensor quantization",),
        cause="Weights are quantised by block, which the Neural Engine does not run.",
        fix="quantise per channel or per tensor, or use palettization",
        source=f"{ANE_BOOK}; {_CT} #2510",
        confidence="measured",
        example="ANE only support per-cout/per-tensor quantization",
        negative_examples=("per-tensor quantization",),
    ),
    Failure(
        id="not-resident",
        texts=("Marking all operations as non ANE-resident", "bounces between the ANE and"),
        cause="Too few operations can stay on the Neural Engine, so that the planner keeps all of them off"
        " it.",
        fix=f"{_PLAN}; replace those that interrupt the graph",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        example="One or more network operations are not ANE-resident - Marking all operations as non"
        " ANE-resident",
        negative_examples=("all operations are ANE-resident",),
    ),
)

_GPU = (
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
        source=f"mallman/CoreMLaMa #6; {_CT} #2273",
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
        source=f"{_CT} #2688",
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

_RUNNING = (
    Failure(
        id="neural-network-run",
        texts=("Error computing NN outputs", "Failure in -executePlan"),
        cause="A neural network failed while it ran: an input of the wrong shape, too little memory, or a"
        " layer"
        " that the chosen unit runs wrongly.",
        fix="repeat it with CPU_ONLY; check input shapes with `coremlscope inspect MODEL`",
        source=f"{_CT}: FAQ; apple/ml-stable-diffusion #96",
        confidence="documented",
        example="[coreml] Error computing NN outputs -1",
        negative_examples=("computing NN outputs took 3 ms",),
    ),
    Failure(
        id="espresso-exception",
        texts=("Espresso::handle_ex",),
        pattern=r"\[?Espresso::handle_ex\w*\]? exception=",
        cause="Core ML's engine of neural networks reports an error; the text after `exception=` is the"
        " reason.",
        fix=f"{_UNITS}; convert the model to an ML Program",
        source=f"{_CT} #1106, #1548",
        confidence="anecdotal",
        example="[Espresso::handle_ex_plan] exception=ANECF error: failed to load ANE model",
        negative_examples=("Espresso::net",),
    ),
    Failure(
        id="input-shape",
        texts=("does not match the shape", "not compatible with the model", "must be of rank"),
        pattern=r"MultiArray shape .{0,80} does not match the shape|not compatible with the model's feature"
        r"|feature '.{0,80}' must be of rank \d+",
        cause="An input has another shape or rank than the model declares.",
        fix="`coremlscope inspect MODEL` lists the inputs with their shapes and ranges",
        source=_NOTES,
        confidence="measured",
        example="MultiArray shape (1 x 236) does not match the shape (1 x 256) specified in the model"
        " description",
        negative_examples=("the key does not match the shape of a key",),
    ),
    Failure(
        id="prediction-failed",
        texts=("prediction using ML Program",),
        pattern=r"Unable to compute the (?:asynchronous )?prediction using ML Program",
        cause="An ML Program failed while it ran; the underlying error follows or stands in the system log.",
        fix=f"{_UNITS}; compare input shapes with `coremlscope inspect MODEL`",
        source=_NOTES,
        confidence="anecdotal",
        is_general=True,
        example='"Unable to compute the asynchronous prediction using ML Program. It can be an invalid input'
        " data or"
        ' broken/unsupported model."',
        negative_examples=("a prediction using ML Program took 3 ms",),
    ),
    Failure(
        id="killed",
        texts=("Killed: 9", "SIGKILL", "137"),
        pattern=r"Killed: 9|\bSIGKILL\b"
        r"|exit(?:ed)?(?: with)?(?: code| status)?:? 137\b|returncode=?:? ?137\b",
        cause="The system ended the process, mostly because memory ran out. It was also seen at the first"
        " prediction after the Neural Engine's compiler had failed.",
        fix="look for ANECCompile above it; load with CPU_AND_GPU; use a smaller or more compressed model",
        source=f"{_CT} #2758",
        confidence="anecdotal",
        example="python: exited with code 137",
        negative_examples=("row 137 of 200", "1.137 s"),
    ),
    Failure(
        id="memory-limit",
        texts=("RESOURCE_TYPE_MEMORY", "EXC_RESOURCE", "per-process-limit"),
        pattern=r"RESOURCE_TYPE_MEMORY|EXC_RESOURCE.{0,80}(?i:memory)|per-process-limit",
        cause="The app exceeded the memory that the system allows it.",
        fix="compress the weights, load stages one after another, or request the entitlement for more memory",
        source="Apple: Understanding the exception types in a crash report",
        confidence="documented",
        example="EXC_RESOURCE -> App[1234] RESOURCE_TYPE_MEMORY (high watermark memory limit exceeded)",
        negative_examples=("EXC_RESOURCE (wakeups)",),
    ),
    Failure(
        id="memory-of-the-device",
        texts=("vm-pageshortage", "vm-compressor", "highwater"),
        pattern=r"JetsamEvent .{0,200}(?:vm-pageshortage|vm-compressor|highwater)"
        r"|ended .{1,200}: (?:vm-pageshortage|vm-compressor|highwater)",
        cause="The device ran out of memory, and the system ended processes that it could do without.",
        fix="compress the weights, load stages one after another, and release models in the background",
        source="Apple: Identifying high-memory use with jetsam event reports",
        confidence="documented",
        example="JetsamEvent vm-pageshortage",
        negative_examples=("vm-pageshortage statistics", "the highwater mark is 3"),
    ),
    Failure(
        id="fork",
        texts=("when fork() was called",),
        pattern=r"may have been in progress in another thread when fork\(\) was called",
        cause="Core ML was used in a child that was started by fork, which Apple's runtime does not allow.",
        fix='use multiprocessing with the start method "spawn", or a subprocess',
        source=f"{_CT} #963, #1819",
        confidence="anecdotal",
        example="objc[88]: +[NSNumber initialize] may have been in progress in another thread when fork()"
        " was called.",
        negative_examples=("fork() was called",),
    ),
    Failure(
        id="disk-full",
        texts=("Failed to create a working directory appropriate for URL", "No space left on device"),
        cause="The disk is full, sometimes by the Neural Engine's cache in /Library/Caches/com.apple.aned,"
        " which"
        " ordinary programs cannot see.",
        fix="free disk space and restart the Mac; leave several times the model's size free",
        source=f"{_CT} #2549",
        confidence="anecdotal",
        example="Failed to create a working directory appropriate for URL: file:///tmp/a.mlmodelc",
        negative_examples=("created a working directory",),
    ),
    Failure(
        id="half-written-cache",
        texts=("resources.bin missing at", "manifest.plist"),
        pattern=r"resources\.bin missing at|manifest\.plist.{0,3} couldn.t be opened",
        cause="An entry of Core ML's cache is incomplete, because the disk was full or the process was killed"
        " while it was written.",
        fix=f"free disk space; {_CLEAR}",
        source=f"{_CT} #2507; saurabhav88/EnviousWispr #2585",
        confidence="anecdotal",
        example="Error: resources.bin missing at"
        " file:///Users/a/Library/Caches/python/main.mpsgraphpackage/resources.bin",
        negative_examples=("wrote manifest.plist",),
    ),
)

#: Lines that `crash.py` makes of the frames of a crash report: `frame 3: IMAGE symbol`.
_CRASHES = (
    Failure(
        id="bnns-crash",
        texts=("bnns::GraphCompile", "BnnsGraph", "bnns_graph"),
        cause="The CPU's graph compiler crashed while the model was loaded; seen on M5 with macOS 26.4 to"
        " 26.5.",
        fix="update to macOS 26.6 or later, or load with CPU_AND_GPU",
        source=f"soniqo/speech-swift #313, PR 314; {FLUID_AUDIO}",
        confidence="measured",
        example="frame 0: libBNNS.dylib bnns::GraphCompile(std::__1::shared_ptr<bnns::Graph>)",
        negative_examples=("libBNNS.dylib was loaded",),
    ),
    Failure(
        id="structure-load-crash",
        texts=("structureLoadQueue",),
        pattern=r"queue: .{0,100}structureLoadQueue",
        cause="Core ML was loading a model's structure, as MLModelStructure and MLComputePlan do. It compiles"
        " for the allowed units meanwhile, and aborts for a folder that is not a compiled model, such as an"
        " .mlpackage.",
        fix=f"give the compiled model (.mlmodelc) with coremldata.bin; {_UNITS}",
        source=f"{_CT} #2757, #2595, PR 2780",
        confidence="anecdotal",
        is_general=True,
        example="queue: com.apple.coreml.MLModelAssetResourceFactory.structureLoadQueue",
        negative_examples=("structureLoadQueue is idle", "queue: com.apple.main-thread"),
    ),
    Failure(
        id="crash-on-gpu",
        texts=("MetalPerformanceShadersGraph", "GetMPSGraphExecutable", "AGXMetal"),
        pattern=r"frame \d+: (?:MetalPerformanceShaders|AGXMetal)|GetMPSGraphExecutable",
        cause="The faulting thread was in MPSGraph or the GPU's driver.",
        fix="load with CPU_AND_NE or CPU_ONLY to confirm it",
        source=f"{_CT} #2757, #2595",
        confidence="anecdotal",
        is_general=True,
        example="frame 4: MetalPerformanceShadersGraph -[MPSGraphExecutable initWithMLIR:]",
        negative_examples=("MetalPerformanceShadersGraph was loaded",),
    ),
    Failure(
        id="crash-on-neural-engine",
        texts=("AppleNeuralEngine", "ANECompiler", "ANEServices"),
        pattern=r"frame \d+: (?:AppleNeuralEngine|ANECompiler|ANEServices)",
        cause="The faulting thread was in the Neural Engine's framework or compiler.",
        fix="load with CPU_AND_GPU to confirm it; split the model to find the operation",
        source=f"{_CT} #2758",
        confidence="anecdotal",
        is_general=True,
        example="frame 2: AppleNeuralEngine -[_ANEClient evaluateWithModel:]",
        negative_examples=("AppleNeuralEngine: ready",),
    ),
    Failure(
        id="crash-in-core-ml",
        texts=("CoreML", "Espresso", "MIL", "BNNS"),
        pattern=r"frame \d+: (?:CoreML|Espresso|MIL|MLCompilerRuntime|MLAssetIO|libBNNS)",
        cause="The faulting thread was in Core ML. On older systems predictions crashed where inputs did not"
        " fit"
        " the model or one instance was used by two threads at once.",
        fix=f"use one instance of the model per thread; check the inputs; {_UNITS}",
        source=f"{_CT} #1526, #1576; Apple: MLModel",
        confidence="anecdotal",
        is_general=True,
        example="frame 3: CoreML -[MLModel predictionFromFeatures:error:]",
        negative_examples=("linked CoreML.framework",),
    ),
)

#: All rows. Several rows may match one line.
FAILURES: tuple[Failure, ...] = (*_LOADING, *_NEURAL_ENGINE, *_GPU, *_RUNNING, *_CRASHES)
