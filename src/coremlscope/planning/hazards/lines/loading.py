"""Failures to read, compile or load a model."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import (
    COREMLTOOLS,
    PUBLIC_NOTES,
    SEE_PLAN,
    TRY_UNITS,
    VALIDATORS,
    Failure,
)
from coremlscope.planning.patterns.publications import ANE_BOOK, MOBIUS

LOADING: tuple[Failure, ...] = (
    Failure(
        id="plan-error-14",
        texts=("-14", "code: 14"),
        pattern=r"execution plan.*error code: ?-?14\b|^\W*(?:error:?\s+)?error code: ?-14\b\W*$",
        cause="Core ML could not build an execution plan. It was reported with programs that write to states,"
        " with flexible shapes, and with models of more than about 1 GB on the Neural Engine; the code names"
        " no operation.",
        fix=f"{TRY_UNITS}; the E5RT line before it often names the operation; {SEE_PLAN}",
        source=f"{COREMLTOOLS} #2325, finnvoor/CoreMLPipelines PR 4, {ANE_BOOK}",
        confidence="anecdotal",
        rules=("ne-three-states", "ne-slice-update"),
        examples=(
            "Failed to build the model execution plan using a model architecture file"
            " '/tmp/a.mlmodelc/model.mil' with error code: -14.",
            "error code: -14",
        ),
        negative_examples=(
            "Failed to build the model execution plan using a model architecture file"
            " '/tmp/a.mlmodelc/model.mil' with error code: -7.",
            "the process ended with error code: -14",
            "error code: -140",
        ),
    ),
    Failure(
        id="newer-than-system",
        texts=(
            "intended for a newer version of",
            "unknown opset",
            "unsupported layer type",
            "valid model-parameter type",
            "specification version field missing",
            "only valid in specification version",
            "more recent than this framework",
            "no available version for",
        ),
        pattern=r"(?:\.mlmodel|model) supplied is of version (?P<version>\d+), intended for a newer"
        r"|Unknown opset '?(?P<opset>CoreML\d+)"
        r"|Unsupported layer type .{0,200} for layer '(?P<layer>[^']{1,200})'"
        r"|did not specify a valid model-parameter type|specification version field missing"
        r"|only valid in specification version >= (?P<needed>\d+)"
        r"|compiled model is (?P<compiler>[\d.]{1,20}) and is more recent than this framework"
        r"|No available version for (?P<operation>\w{1,60}) in the \S{1,60} opset",
        cause="The model uses something that this system or Xcode, or the version that it declares, does not"
        " know. Specification 4 needs iOS 13 and macOS 10.15, 5 iOS 14 and macOS 11, 6 (CoreML5) iOS 15 and"
        " macOS 12, 7 (CoreML6) iOS 16 and macOS 13, 8 (CoreML7) iOS 17 and macOS 14, 9 (CoreML8) iOS 18 and"
        " macOS 15, 10 (CoreML9) iOS 26 and macOS 26.",
        fix="update the system and Xcode, or convert again with the minimum_deployment_target of that system;"
        " `coremlscope doctor MODEL --os SYSTEM` checks it",
        source=f"{VALIDATORS}; {COREMLTOOLS} #198, #195, #422, #1323, #2283; ultralytics/ultralytics #19953",
        confidence="documented",
        examples=(
            "validator error: The .mlmodel supplied is of version 3, intended for a newer version of Xcode.",
            "Unable to parse ML Program: at unknown location: Unknown opset 'CoreML8'.",
            "validator error: Unsupported layer type (CoreML.Specification.NeuralNetworkLayer) for layer"
            " 'a'.",
            "Error reading protobuf spec. validator error: Model did not specify a valid model-parameter"
            " type.",
            "validator error: Model specification version field missing or corrupt.",
            "compiler major version for compiled model is 9.0.0 and is more recent than this framework major"
            " version 8.0.0",
            "Description of multiarray feature 'a' has FLOAT16 dataType, which is only valid in specification"
            " version >= 7. This model has version 5",
        ),
        negative_examples=(
            "Unknown opset 'ai.onnx'",
            "a document intended for a newer version of Word",
            "Unsupported layer type: dense",
        ),
    ),
    Failure(
        id="layer-inputs",
        texts=("inputs but expects", "outputs but expects", "input but expects", "output but expects"),
        pattern=r"Layer '(?P<where>[^']{1,200})' of type '?(?P<layer>\w{1,60})'? has (?P<found>\d+) "
        r"(?:in|out)puts? but expects (?P<expected>(?:exactly|at least|at most) \d+)",
        cause="A layer has more or fewer inputs or outputs than this validator allows: the converter wrote a"
        " form of a newer specification, or has a bug.",
        fix="update the system and Xcode, convert again with a newer coremltools, or to an ML Program",
        source=f"{VALIDATORS}; {COREMLTOOLS} #826, #1599",
        confidence="documented",
        examples=("validator error: Layer 'a/Tile' of type 920 has 2 inputs but expects exactly 1.",),
        negative_examples=("the parser has 2 inputs but expects exactly 1",),
    ),
    Failure(
        id="layer-rank",
        texts=(
            "but expects rank",
            "must have dimension 1",
            "rank of input must be",
            "ranks of the inputs",
            "inputs can only be of size 1, 3, or 5",
        ),
        pattern=r"has (?:in|out)put rank (?P<found>\d+) but expects rank (?P<expected>(?:at least |at most"
        r" )?\d+)|Input MLMultiArray to neural networks must have dimension 1"
        r"|Neural Network inputs can only be of size 1, 3, or 5",
        cause="A layer, or the input of a neural network, has another rank than the specification allows:"
        " older ones take vectors and images (ranks 1 and 3) only, and many layers a least rank.",
        fix="convert again with a newer minimum_deployment_target, to an ML Program, or reshape before the"
        " layer",
        source=f"{VALIDATORS}; {COREMLTOOLS} #643; mittagessen/kraken #239",
        confidence="documented",
        examples=(
            "Neural Network inputs can only be of size 1, 3, or 5.",
            "validator error: Layer 'output' of type 'Softmax' has input rank 2 but expects rank at least 3.",
            "validator error: Input MLMultiArray to neural networks must have dimension 1 (vector) or 3"
            " (image-like arrays).",
        ),
        negative_examples=("the page has rank 2 but expects rank 1",),
    ),
    Failure(
        id="layer-weights",
        texts=(
            "data buffer of length",
            "incorrect mean size",
            "size of ",
            "weight size",
            "weight matrix",
            "has incorrect",
            "has invalid weights",
        ),
        pattern=r"encodes a data buffer of length (?P<found>\d+) but should be (?P<expected>\d+)|[Ss]ize of"
        r" (?:bias|weights?|gamma|beta|mean|variance|alpha)\b.{0,40}not equal to the .{1,200}in layer"
        r" (?P<where>\S{1,200})|has invalid"
        r" weights/bias|validator error: .{0,300}(?:incorrect \w{1,20} size|weight (?:size|matrix)|has"
        r" incorrect)",
        cause="The weights of a layer are missing or lack the size that its parameters ask for: the"
        " converter lost or halved them, or the file was edited.",
        fix="convert again with a newer coremltools, and update macOS and Xcode, whose older validators"
        " misjudge half-precision weights",
        source=f"{VALIDATORS}; {COREMLTOOLS} #158; tf-coreml/tf-coreml #168; prisma-ai/torch2coreml #7;"
        " tensorflow/tensorflow #51626; ZachNagengast/similarity-search-kit #26",
        confidence="documented",
        examples=(
            "validator error: Load constant layer 'a' encodes a data buffer of length 0 but should be 1024.",
            "validator error: In layer instancenormalization_5: incorrect mean size 0",
            "compiler error: Size of bias = 0 is not equal to the output channels = 7 in layer"
            " FullyConnected_17",
        ),
        negative_examples=("a data buffer of length 12 was sent", "biases were not found"),
    ),
    Failure(
        id="layer-parameters",
        texts=("only compatible with", "does not support weight as input", "does not support"),
        pattern=r"(?:upsample|resize|pad|pool|conv|crop|reduc|slice|gather|softmax)\w*[^\n]{0,80}only"
        r" compatible with|Layer \S{1,200} does not support",
        cause="The parameters of a layer do not go together. Upsampling by a fractional factor, for instance,"
        " is bilinear and needs its align-corners mode set, to true or false, of specification 5 (iOS 14).",
        fix="set the parameters that the text names, or convert again: to an ML Program, or with"
        " minimum_deployment_target of iOS 14 or later",
        source=f"{VALIDATORS}; {COREMLTOOLS} #1198, #774, #1048",
        confidence="documented",
        examples=(
            "Fractional upsample only compatible with align_corners=true or align_corners=false",
            "validator error: Deconvolution Layer a does not support weight as input tensor.",
        ),
        negative_examples=(
            "this plug is only compatible with old sockets",
            "the server does not support TLS",
        ),
    ),
    Failure(
        id="layer-connections",
        texts=("not present in this network", "which is also an output", "not produced by any layer"),
        pattern=r"Layer '(?P<where>[^']{1,200})' (?:consumes|produces) an? \w{1,20} named"
        r" '(?P<name>[^']{1,200})'",
        cause="Layers are connected wrongly: one reads a value that none before it makes, or two make the"
        " same one. The converter has a bug, or the file was edited.",
        fix="rename or reorder the layers, or convert again with a newer coremltools",
        source=VALIDATORS,
        confidence="documented",
        examples=(
            "validator error: Layer 'b' consumes an input named 'x' which is not present in this network.",
        ),
        negative_examples=("the host is not present in this network",),
    ),
    Failure(
        id="interface-invalid",
        texts=(
            "description of",
            "feature description",
            "interface specif",
            "size range is invalid",
            "but provided",
        ),
        pattern=r"Description of (?:multiarray|image|dictionary|sequence|state) feature"
        r" '(?P<name>[^']{1,200})' (?P<problem>.{1,200})|Feature description .{1,200} must"
        r" (?:specify|have)|Size range is invalid|Interface specif\w+|Classifier declared to have \d+"
        r" classes but provided \d+",
        cause="The description of an input or output is not allowed, or does not agree with what the model"
        " computes: its type, its default shape, its range or its enumerated shapes.",
        fix="give it what the text asks for (ct.TensorType, ct.ImageType, ct.EnumeratedShapes) and convert"
        " again; `coremlscope inspect MODEL` shows the descriptions",
        source=f"{VALIDATORS}; cocoa-ai/NamesCoreMLDemo #1",
        confidence="documented",
        examples=(
            "validator error: Description of multiarray feature 'a' has an invalid or unspecified dataType."
            " It must be specified as DOUBLE, FLOAT32 or INT32",
        ),
        negative_examples=("Description of the feature branch",),
    ),
    Failure(
        id="encryption-key",
        texts=("encryption block size",),
        pattern=r"Key length \d+ does not match encryption block size",
        cause="The model is encrypted while it is compiled, and the key has another length than this compiler"
        " takes.",
        fix="create the key again with the Xcode that compiles the model, for the team that signs the app",
        source="apple/turicreate #3358; Apple: Encrypting a model in your app",
        confidence="anecdotal",
        examples=("coremlc: error: compiler error:  Key length 32 does not match encryption block size 16",),
        negative_examples=("a block size of 16 does not match",),
    ),
    Failure(
        id="decryption-key-fetch",
        texts=("com.apple.coreml code=8", "modeldecryptionkeyfetch", "decryption key"),
        pattern=r"com\.apple\.CoreML Code=8\b|modelDecryptionKeyFetch"
        r"|(?:fetch|retrieve)\w* (?:the )?decryption key",
        cause="The model is encrypted, and its key could not be fetched. The first load fetches it from Apple"
        " and stores it on the device; it usually fails because there is no network.",
        fix="load the model with network when the app is first opened, tell the user if that fails, and try"
        " again later",
        source="Apple: MLModelError.modelDecryptionKeyFetch, MLModelError.h; Apple's forums, thread 650089",
        confidence="documented",
        examples=(
            'Error Domain=com.apple.CoreML Code=8 "(null)"',
            "MLModelError.modelDecryptionKeyFetch",
        ),
        negative_examples=(
            "the decryption key is stored",
            'Error Domain=com.apple.CoreML Code=80 "(null)"',
            'Error Domain=com.apple.Vision Code=8 "(null)"',
        ),
    ),
    Failure(
        id="model-decryption",
        texts=("com.apple.coreml code=9", "modeldecryption"),
        pattern=r"com\.apple\.CoreML Code=9\b|modelDecryption\b",
        cause="The model is encrypted, and Core ML could not decrypt it: its key is not the right one, or the"
        " system is a Mac without System Integrity Protection.",
        fix="encrypt the model again with a key of the team that signs the app; on a Mac, `csrutil status`"
        " says whether the protection is on",
        source="Apple: MLModelError.modelDecryption, MLModelError.h",
        confidence="documented",
        examples=(
            'Error Domain=com.apple.CoreML Code=9 "(null)"',
            "MLModelError.modelDecryption",
        ),
        negative_examples=(
            "MLModelError.modelDecryptionKeyFetch",
            'Error Domain=com.apple.CoreML Code=90 "(null)"',
            'Error Domain=com.apple.Vision Code=9 "Could not create inference context"',
        ),
    ),
    Failure(
        id="missing-parameter",
        texts=("required param",),
        pattern=r"(?:in operation (?P<where>\S{1,200}): )?Required param '(?P<parameter>\w{1,80})' is"
        r" missing",
        cause="An operation lacks a parameter that its operation set requires: the specification version was"
        " raised without converting the model again, or the converter has a bug.",
        fix="convert the model again with the wanted minimum_deployment_target instead of editing the"
        " version",
        source=f"onnxsim/onnxsim: notes on its Core ML export; {PUBLIC_NOTES}",
        confidence="measured",
        examples=(
            "Unable to parse ML Program: in operation gather_1: Required param 'validate_indices' is missing",
        ),
        negative_examples=("Required parameters: none",),
    ),
    Failure(
        id="state-missing",
        texts=("mil program input", "mlstate", "make_state", "newstate", "read_state", "stateful", "state"),
        pattern=r"MIL program input, '(?P<name>[^']{1,200})', not found in Core ML model inputs|feature"
        r" (?:for |named )?'?(?P<state>[\w.]{1,200})'? must be an MLState|newState\]: unrecognized"
        r" selector|object has no attribute 'newState'|^(?=.*(?:MLState|MLModel|predict|iOS 18|macOS"
        r" 15)).*\bstate(?:ful)?\b.{0,60}(?:not"
        r" (?:found|provided|passed|supported|available)|missing|required?s?)\b",
        cause="The program has a state (a cache that predictions update) which the caller, the model's"
        " description or the system does not. Conversions with `view` and `transpose` of a cache made such"
        " files; states need iOS 18 and macOS 15, and predictions need a state of the model.",
        fix="convert again with `states=` and minimum_deployment_target=iOS18; predict with make_state();"
        " without support for states, pass the cache as input and output",
        source=f"{COREMLTOOLS} #2275, #2278; pytorch/executorch #21855",
        confidence="anecdotal",
        examples=(
            "Error Domain=com.apple.CoreML Code=0 \"MIL program input, 'k_cache', not found in Core ML model"
            ' inputs"',
            "The input feature for layers_9_state must be an MLState, but it was not.",
        ),
        negative_examples=("read_state took 3 ms", "MIL program inputs: 3"),
    ),
    Failure(
        id="function-name",
        texts=("functionname", "function name", "function_name"),
        pattern=r"functionName`? property must be `?nil|function named? .{1,200}(?:not found|does not exist)",
        cause="A function was named that the model does not have, or the file is not an ML Program of several"
        " functions; other models take no name.",
        fix="`coremlscope inspect MODEL` lists the functions; leave the name out for models of one function",
        source="0seba/VoxCPMANE #15; Anemll/Anemll #5",
        confidence="anecdotal",
        examples=(
            "The .functionName property must be nil unless the model has several functions",
            "`MLModelConfiguration`'s `.functionName` property must be `nil` unless the model type is ML"
            " Program.",
        ),
        negative_examples=("function name: main",),
    ),
    Failure(
        id="missing-weights",
        texts=("weight.bin", "weights.bin", "missing weights"),
        pattern=r"could ?n[o'’]t (?:be )?open\S* .{0,2000}weights?\.bin|missing weights"
        r"|weights?\.bin.{0,40}(?:no such file|not found|couldn.t be opened)",
        cause="The weight file is not where the program expects it: only a part of the package was copied or"
        " downloaded, or the weights are Git LFS pointers.",
        fix="copy the whole .mlpackage or .mlmodelc folder; with Git LFS run `git lfs pull`;"
        " `coremlscope doctor MODEL` checks the files",
        source="exPHAT/SwiftWhisper #15, apple/ml-stable-diffusion #5",
        confidence="anecdotal",
        examples=(
            "Error parsing MIL model: at /tmp/a.mlmodelc/model.mil:11:258: Could not open"
            " /tmp/a.mlmodelc/weights/weight.bin",
        ),
        negative_examples=("mapped weights/weight.bin (94 MB)", "no weights are absent"),
    ),
    Failure(
        id="weight-file-format",
        texts=("storage reader expects", "sentinel in blob"),
        pattern=r"Storage Reader expects file format version (?P<version>\d+)|Invalid sentinel in blob",
        cause="The file of weights is not one, is damaged, or the program gives a wrong offset in it. A Git"
        " LFS pointer or a file that was cut has other bytes there than Core ML expects; so has the cache of"
        " a compilation that was cut off.",
        fix="fetch the whole .mlpackage again, with Git LFS by `git lfs pull`; a tool that writes weights"
        " itself must write version 2 with its entries at multiples of 64; `coremlscope doctor MODEL` checks"
        " the file. If that is sound, delete the app's cache folder com.apple.e5rt.e5bundlecache",
        source="rustnn/rustnn PR 173; coremltools: mlmodel/src/MILBlob",
        confidence="documented",
        examples=(
            "MIL->EIR translation error at /tmp/a.mlmodelc/model.mil:6:12: Storage Reader expects file format"
            " version 2..",
            "Invalid sentinel in blob_metadata.",
        ),
        negative_examples=("the reader expects file format version 2",),
    ),
    Failure(
        id="weights-apart",
        texts=("cannot be loaded just from the model spec",),
        cause="The specification of an ML Program was given without its weights, which are a file of its"
        " package.",
        fix="save and load a .mlpackage, give weights_dir, or convert with convert_to='neuralnetwork'",
        source="coremltools 9.0: models/model.py; ggml-org/whisper.cpp #1495",
        confidence="documented",
        examples=("MLModel of type mlProgram cannot be loaded just from the model spec object.",),
        negative_examples=("loaded from the model spec",),
    ),
    Failure(
        id="two-gigabytes",
        texts=("protobuf size of 2gb", "weight file size"),
        pattern=r"exceeds maximum protobuf size of 2 ?GB"
        r"|Weight file size \((?P<size>\d+ bytes)\) exceeds the maximum \((?P<limit>\d+ bytes)\)",
        cause="A file is larger than its reader takes: 2 GB for a specification, and for the weights of a"
        " function on the Neural Engine.",
        fix="convert to an ML Program, whose weights are a file of their own; compress the weights, or split"
        " the model",
        source=f"{COREMLTOOLS} #1170, PR 2593",
        confidence="anecdotal",
        rules=("ne-model-size-macos", "ne-model-size-ios"),
        examples=(
            "Message CoreML.Specification.Model exceeds maximum protobuf size of 2GB",
            "ane: Weight file size (2525476480 bytes) exceeds the maximum (2147483648 bytes)",
        ),
        negative_examples=("Weight file size: 94 MB",),
    ),
    Failure(
        id="file-not-read",
        texts=(
            "unable to deserialize object",
            "unable to open file for read",
            "unable to read document",
            "a valid manifest does not exist",
            "is not recognizable",
            "unable to extract model type",
            "unable to read model file",
        ),
        pattern=r"unable to (?:deserialize object|open file for read|read document|read model file"
        r"|extract model type from stream)"
        r"|A valid manifest does not exist|first word \((?P<word>\d{1,10})\) is not recognizable",
        cause="The file is not a model, or only a part of one: mostly a Git LFS pointer of about 130 bytes,"
        " a web page that was saved in its place, or an incomplete download.",
        fix="look at its size; `git lfs pull`, or download it again; `coremlscope doctor MODEL` says what it"
        " is",
        source="huggingface/swift-coreml-transformers #15, #18; argmaxinc/argmax-oss-swift #7, #171;"
        " tf-coreml/tf-coreml #375",
        confidence="anecdotal",
        examples=(
            'Code=3 "Error reading protobuf spec. validator error: unable to open file for read"',
            "Error: A valid manifest does not exist at path: /tmp/a/Manifest.json",
            "coremldata.bin is not a valid .mlmodelc file because the first word (1329865020) is not"
            " recognizable.",
        ),
        negative_examples=("reading protobuf spec took 3 ms", "the voice is not recognizable"),
    ),
    Failure(
        id="no-model",
        texts=("failed to load core ml model from", "nil value for url", "input stream is not valid"),
        cause="There is no model at that place, or only a part of one: the path is wrong, it was not made for"
        " this network, or is not a resource of the app.",
        fix="look for the .mlmodelc folder and its weights; add it to the app's target; `coremlscope doctor"
        " MODEL` checks its files",
        source="ggml-org/whisper.cpp #865, #2278; pytorch/pytorch PR 109444; huggingface/swift-transformers"
        " #19",
        confidence="anecdotal",
        examples=(
            "whisper_init_state: failed to load Core ML model from 'models/ggml-base.en-encoder.mlmodelc'",
            'NSLocalizedDescription = "nil value for URL";',
            'Code=3 "Error reading protobuf spec. validator error: Input stream is not valid."',
        ),
        negative_examples=("loading Core ML model from 'models/a.mlmodelc'",),
    ),
    Failure(
        id="not-compiled",
        texts=("compile the model with xcode or",),
        cause="An uncompiled .mlmodel or .mlpackage, or a damaged .mlmodelc, was given to a call that takes a"
        " compiled model.",
        fix="compile it first: `xcrun coremlcompiler compile MODEL FOLDER`, or MLModel.compileModel(at:)",
        source=PUBLIC_NOTES,
        confidence="measured",
        examples=("Compile the model with Xcode or `MLModel.compileModel(at:)`.",),
        negative_examples=("Compile the shaders with Xcode",),
    ),
    Failure(
        id="not-a-compiled-model",
        texts=("coremldata.bin",),
        pattern=r"It is not a valid \.mlmodelc",
        cause="MLComputePlan or MLModelStructure was given a folder that is not a compiled model;"
        " the process aborts and the error cannot be caught.",
        fix="compile the .mlpackage first and give the .mlmodelc; check that coremldata.bin exists in it",
        source=f"{COREMLTOOLS} #2757",
        confidence="documented",
        examples=(
            "ios_base::failure: Failed to open file: /tmp/a.mlpackage/coremldata.bin. It is not a valid"
            " .mlmodelc file.",
        ),
        negative_examples=("reading /tmp/a.mlmodelc/coremldata.bin",),
    ),
    Failure(
        id="no-native-module",
        texts=(
            "failed to load _mlmodelproxy",
            "unable to load libmodelpackage",
            "fail to import blobreader",
            "unable to load coreml.framework",
            "model prediction is only supported on macos",
            "blobwriter not loaded",
            "blobreader not loaded",
            "no module named 'coremltools.lib",
        ),
        cause="coremltools cannot reach Core ML: it does not run on a Mac, or was installed without its"
        " native modules, because there is no wheel for this Python or machine.",
        fix="use Python 3.11 to 3.13; off a Mac `coremlscope run SCRIPT` supplies the runtime",
        source=f"{COREMLTOOLS} #2465, #2350, #2361, #1712, #372; tf-coreml/tf-coreml #187",
        confidence="anecdotal",
        examples=(
            "Failed to load _MLModelProxy: No module named 'coremltools.libcoremlpython'",
            "RuntimeError: BlobWriter not loaded",
            "ModuleNotFoundError: No module named 'coremltools.libmilstoragepython'",
            "Exception: Unable to load CoreML.framework. Cannot make predictions.",
        ),
        negative_examples=("loaded _MLModelProxy",),
    ),
    Failure(
        id="conversion-operation",
        texts=("not implemented", "unsupported onnx ops", "shape translator missing"),
        pattern=r"convert function for op '(?P<operation>[\w.:]{1,100})' not implemented"
        r"|Unsupported ONNX ops? of type: (?P<operations>[\w, ]{1,200})",
        cause="The converter does not know an operation of the network; nothing was converted.",
        fix="update coremltools; write the operation with others, or register it (coremltools: composite"
        " operators)",
        source="coremltools 9.0: converters/mil/frontend/torch/ops.py; pytorch/executorch #5728",
        confidence="documented",
        examples=(
            "RuntimeError: PyTorch convert function for op '_upsample_bilinear2d_aa' not implemented.",
        ),
        negative_examples=("HTTP error 501: not implemented",),
    ),
    Failure(
        id="too-many-palette-values",
        texts=("cannot be represented by",),
        pattern=r"Unique values in weight cannot be represented by (?P<bits>\d+) bits palettization",
        cause="The weights hold more distinct values than a palette of this size: they were not palettized"
        " before"
        " the conversion, or the palettizer was not finalized.",
        fix="call finalize() of the palettizer before the conversion, leave the pass out of the pipeline"
        " (DEFAULT_PALETTIZATION is for weights with at most 256 values), or use coremltools 7.2, or 8.0b1"
        " and newer",
        source=f"{COREMLTOOLS} #2269",
        confidence="anecdotal",
        examples=("ValueError: Unique values in weight cannot be represented by 8 bits palettization.",),
        negative_examples=("weights represented by 8 bits",),
    ),
    Failure(
        id="executorch-backend",
        texts=("coremlbackend is not registered",),
        cause="The program asks for ExecuTorch's Core ML backend, and the app or build does not link it.",
        fix="link the library of the Core ML backend (coremldelegate, with -all_load or force_load), and"
        " build"
        " with EXECUTORCH_BUILD_COREML=ON",
        source="pytorch/executorch #5722",
        confidence="anecdotal",
        examples=("Backend CoreMLBackend is not registered.",),
        negative_examples=("CoreMLBackend is registered",),
    ),
    Failure(
        id="custom-layer",
        texts=("custom layer", "custom neural network layer", "user-provided custom", "inputschema"),
        pattern=r"custom layer \"(?P<layer>[^\"]{1,200})\"|custom (?:neural network )?layer .{0,200}"
        r"(?:requires|not found|failed)|computing user-provided custom layer"
        r"|missing custom layer|Custom layer (?P<name>\S{1,200}) has an empty 'className'"
        r"|missingMetadataField\(named: \"inputSchema\"\)",
        cause="A layer is implemented by a class of the app, which is absent, not named in the model, or"
        " failed. An ML Program cannot have such layers.",
        fix="add the class to every app that loads the model, and test it; convert with"
        " convert_to='neuralnetwork', or write the layer with operations of Core ML; `coremlscope doctor"
        " MODEL` names them",
        source=f"mapbox/vision-ios-examples #60; {COREMLTOOLS} #423, #1416, #1301;"
        " hollance/YOLO-CoreML-MPSNNGraph #48",
        confidence="anecdotal",
        examples=(
            '[coreml] Error evaluating Core ML custom layer "ArgmaxCustomLayer" on CPU.',
            "validator error: Custom layer lambda_1 has an empty 'className' field.",
            'missingMetadataField(named: "inputSchema")',
        ),
        negative_examples=("a custom layer was drawn",),
    ),
    Failure(
        id="no-compute-device",
        texts=("cannot provide zero compute device types",),
        cause="None of the allowed compute units exists on this machine, such as the Neural Engine alone in a"
        " virtual machine.",
        fix="allow the CPU as well: CPU_AND_NE, CPU_AND_GPU or ALL",
        source="microsoft/onnxruntime #22275, PR 22277",
        confidence="documented",
        examples=(
            "Failed to set compute_device_types_mask E5RT: Cannot provide zero compute device types. (1)",
        ),
        negative_examples=("2 compute device types were provided",),
    ),
    Failure(
        id="api-newer-than-system",
        texts=("unrecognized selector", "or later is required to"),
        pattern=r"(?P<call>[-+]\[_?(?:ML|MPS|VN|ANE|ET)\w{1,80} [\w:]{1,200}\]): unrecognized selector"
        r"|iOS [\d.]{1,8}\+?/macOS (?P<system>[\d.]{1,8})\+? or later is required to (?P<option>\w{1,60})",
        cause="The program calls a function of Core ML that this system does not have.",
        fix="update the system, or use the version of the package that supports it",
        source=f"{COREMLTOOLS} #2079; pytorch/executorch #6984; pagarcia/sam2-onnx-cpp #3",
        confidence="anecdotal",
        examples=("-[MLMultiArray getBytesWithHandler:]: unrecognized selector sent to instance 0x7fa8",),
        negative_examples=("-[NSString foo]: unrecognized selector sent to instance 0x1",),
    ),
    Failure(
        id="data-dependent-shape",
        texts=("data-dependent shape", "target shape is static"),
        cause="A shape in the program is computed from a value at run time (the limit of a range, the bound"
        " of a slice), which the Neural Engine's compiler rejects.",
        fix="replace it by a constant or enumerated shape, or load with CPU_AND_GPU",
        source=f"onnxsim/onnxsim: notes on its Core ML export; {MOBIUS}",
        confidence="measured",
        rules=("ne-computed-shape",),
        examples=("Invalid blob shape: Data-dependent shapes were disabled",),
        negative_examples=("shapes were inferred",),
    ),
    Failure(
        id="slow-first-load",
        texts=("load", "compil"),
        pattern=r"\b(?:load|compil)\w*\b.{0,60}?\b"
        r"(?:(?P<seconds>\d{1,6}(?:\.\d{1,6})?) ?(?:s|sec|secs|seconds)\b"
        r"|(?P<minutes>\d{1,4}(?:\.\d{1,6})?) ?(?:min|mins|minutes)\b)",
        cause="The first load compiles the model for the Neural Engine, which takes minutes for large"
        " programs; the result is cached until the system, the model, the settings or the program changes.",
        fix="time a second load; if each load is slow, use CPU_AND_GPU, or split the model; keep disk space"
        " free, because a full disk empties the cache",
        source="ggml-org/whisper.cpp #1278; argmaxinc/argmax-oss-swift #300",
        confidence="anecdotal",
        least_seconds=60,
        examples=("loading the model took 118.4 s",),
        negative_examples=("loading the model took 2.1 s", "loaded 120 songs"),
    ),
)
