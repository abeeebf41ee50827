"""Failures to read, compile or load a model."""

from __future__ import annotations

from coremlscope.doctor.failures.failure import COREMLTOOLS, PUBLIC_NOTES, SEE_PLAN, TRY_UNITS, Failure
from coremlscope.placement.publications import ANE_BOOK, MOBIUS

__all__ = ["LOADING"]

LOADING: tuple[Failure, ...] = (
    Failure(
        id="plan-error-14",
        texts=("execution plan",),
        pattern=r"execution plan.*error code: ?-?14\b",
        cause="Core ML could not build an execution plan. It was reported with programs that write to states,"
        " with flexible shapes, and with models of more than about 1 GB on the Neural Engine; the code names"
        " no operation.",
        fix=f"{TRY_UNITS}; the E5RT line before it often names the operation; {SEE_PLAN}",
        source=f"{COREMLTOOLS} #2325, finnvoor/CoreMLPipelines PR 4, {ANE_BOOK}",
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
        fix="look for the lines before it, which name Core ML and often the operation;"
        f" {TRY_UNITS}; {SEE_PLAN}",
        source=f"{COREMLTOOLS} #2325, finnvoor/CoreMLPipelines PR 4, {ANE_BOOK}",
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
        fix=f"{TRY_UNITS}; {SEE_PLAN}",
        source=f"{COREMLTOOLS} #2325; {PUBLIC_NOTES}",
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
        fix=f"{TRY_UNITS}; convert to an ML Program (ONNX Runtime: ModelFormat MLProgram) for a clearer"
        " message",
        source=f"{COREMLTOOLS} #1106, #1548",
        confidence="anecdotal",
        example="Error in building plan.",
        negative_examples=("Error in planning the building",),
    ),
    Failure(
        id="declaring-network",
        texts=("Error in declaring network",),
        cause="Core ML could not set up a neural network, because a unit rejected a layer or memory ran out.",
        fix="load it with CPU_ONLY; keep one instance of the model instead of loading it for each input",
        source=f"{COREMLTOOLS}: FAQ",
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
        source=f"{COREMLTOOLS} #2283; pytorch/executorch: guide to its Core ML backend",
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
        source=f"onnxsim/onnxsim: notes on its Core ML export; {PUBLIC_NOTES}",
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
        source=f"{COREMLTOOLS} #2283, #1704",
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
        source=PUBLIC_NOTES,
        confidence="anecdotal",
        example='Code=3 "Error reading protobuf spec. validator error: unable to open file for read"',
        negative_examples=("reading protobuf spec took 3 ms",),
    ),
    Failure(
        id="not-compiled",
        texts=("Compile the model with Xcode or",),
        cause="An uncompiled .mlmodel or .mlpackage was given to a call that takes a compiled .mlmodelc.",
        fix="compile it first: `xcrun coremlcompiler compile MODEL FOLDER`, or MLModel.compileModel(at:)",
        source=PUBLIC_NOTES,
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
        source=f"{COREMLTOOLS} #2757",
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
        source=f"{COREMLTOOLS} #2465, #2350",
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
