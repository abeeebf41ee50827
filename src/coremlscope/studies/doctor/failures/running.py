"""Failures of predictions, and of those who pass them on: Vision, pipelines, ONNX Runtime."""

from __future__ import annotations

from coremlscope.studies.doctor.failures.failure import COREMLTOOLS, PUBLIC_NOTES, TRY_UNITS, Failure

_ONNX_RUNTIME = "microsoft/onnxruntime"
_STATIC = "give the graph fixed shapes (onnxruntime.tools.make_dynamic_shape_fixed)"

RUNNING: tuple[Failure, ...] = (
    Failure(
        id="neural-network-run",
        texts=("error computing nn outputs", "failure in -executeplan"),
        cause="A neural network failed while it ran: an input of the wrong shape, a tensor of rank 6 or"
        " more, too little memory, work in the background, or a layer that the chosen unit runs wrongly.",
        fix="look at the line before it; repeat it with CPU_ONLY; check input shapes with `coremlscope"
        " inspect MODEL`",
        source=f"{COREMLTOOLS}: FAQ, #1461; apple/ml-stable-diffusion #96",
        confidence="documented",
        is_general=True,
        examples=("[coreml] Error computing NN outputs -1",),
        negative_examples=("computing NN outputs took 3 ms",),
    ),
    Failure(
        id="espresso-exception",
        texts=("espresso::handle_ex", "espresso exception:"),
        pattern=r"\[?Espresso::handle_ex\w*\]? exception=|Espresso exception:",
        cause="Core ML's engine of neural networks reports an error; the text after it is the reason.",
        fix=f"{TRY_UNITS}; convert the model to an ML Program",
        source=f"{COREMLTOOLS} #1106, #1548",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "[Espresso::handle_ex_plan] exception=something new",
            'Espresso exception: "Network translation error": something new',
        ),
        negative_examples=("Espresso::net",),
    ),
    Failure(
        id="e5rt-exception",
        texts=("e5rt encountered an stl exception", "e5rt:"),
        pattern=r"E5RT encountered an STL exception|\bE5RT: ",
        cause="Core ML's runtime of ML Programs reports an error; the rest of the line is the reason.",
        fix=f"{TRY_UNITS}; predictions may still be right, so compare their values",
        source=f"{COREMLTOOLS} #2247; {PUBLIC_NOTES}",
        confidence="anecdotal",
        is_general=True,
        examples=("E5RT encountered an STL exception. msg = unordered_map::at: key not found.",),
        negative_examples=("E5RT is a runtime", "E5RT::Ops::Compute()"),
    ),
    Failure(
        id="prediction-failed",
        texts=("unable to compute the",),
        pattern=r"Unable to compute the (?:asynchronous )?prediction using (?:an? )?(?P<kind>ML"
        r" Program|neural network)(?:.{0,160}\(error code: (?P<code>-?\d+)\))?",
        cause="A model failed while it ran. The text is the same for all causes: inputs that do not fit, a"
        " time-out, and partitions with flexible shapes, as ONNX Runtime makes them, were reported. The"
        " underlying error follows or stands in the system log.",
        fix=f"{TRY_UNITS}; compare input shapes with `coremlscope inspect MODEL`; with ONNX Runtime set"
        f" ModelFormat"
        " to MLProgram and RequireStaticInputShapes to 1",
        source=f"{_ONNX_RUNTIME} #26355; docling-project/docling.rs #324; ekhodzitsky/gigastt PR 43;"
        f" {PUBLIC_NOTES}",
        confidence="anecdotal",
        is_general=True,
        examples=(
            '"Unable to compute the asynchronous prediction using ML Program. It can be an invalid input'
            ' data or broken/unsupported model."',
            "Unable to compute the prediction using a neural network model. It can be an invalid input data"
            " or broken/unsupported model (error code: -1).",
        ),
        negative_examples=("a prediction using ML Program took 3 ms",),
    ),
    Failure(
        id="onnxruntime-run",
        texts=("error executing model", "error creating mlmodel", "coremlexecutionprovider_"),
        pattern=r"Non-zero status code returned while running \S*CoreML.{0,400}Error executing model"
        r"|Error (?:executing|creating) (?:ML)?model:? ?(?:Error |Unable |Failed |For input |MultiArray )",
        cause="A part of an ONNX graph that ONNX Runtime gave to Core ML fails there. Parts with dynamic"
        " shapes and those in the default NeuralNetwork format fail most; ONNX Runtime does not go back to"
        " the CPU once the session was made.",
        fix=f"set ModelFormat to MLProgram and RequireStaticInputShapes to 1; {_STATIC}; or leave"
        " CoreMLExecutionProvider out",
        source=f"{_ONNX_RUNTIME} #26355, #14212; docling-project/docling.rs #324; ekhodzitsky/gigastt PR 43",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "Non-zero status code returned while running 1_CoreML_3 node. Name:'CoreMLExecutionProvider_1'"
            " Status Message: Error executing model: something new",
        ),
        negative_examples=("Error executing model: HTTP 400",),
    ),
    Failure(
        id="onnxruntime-shape",
        texts=(
            "has zero elements",
            "dimension values of 0",
            "dynamic shape is not supported",
            "unable to get shape for output",
            "unable to get shape of input",
            "coreml static output shape",
        ),
        pattern=r"Input \((?P<name>[^)]{1,200})\) has a dynamic shape \((?P<declared>\{[^)]{1,80}\})\) but"
        r" the runtime shape \((?P<given>\{[^)]{1,80}\}) ?\) has zero elements|CoreML does not support"
        r" shapes with dimension values of 0|Dynamic shape is not supported for now|Unable to get shape"
        r" (?:for output|of input)|CoreML static output shape \((?P<output>\{[^)]{1,80}\})\) and inferred"
        r" shape \((?P<inferred>\{[^)]{1,80}\})\)",
        cause="ONNX Runtime's Core ML provider needs shapes that are known and not empty. It leaves"
        " operations with others to the CPU, and fails where a dimension turns out to be 0 at run time, as"
        " the number of boxes after a suppression or an empty memory.",
        fix=f"{_STATIC}; move the operations that may be empty out of the model; set"
        f" RequireStaticInputShapes to 1",
        source=f"{_ONNX_RUNTIME} #14212, #20372, #23262, PR 16915; pagarcia/sam2-onnx-cpp #3",
        confidence="documented",
        examples=(
            "Input (memory_0) has a dynamic shape ({-1,256}) but the runtime shape ({0,256}) has zero"
            " elements. This is not supported by the CoreML EP.",
            "CoreML does not support shapes with dimension values of 0. Input:/Slice_1_output_0, shape: {0}",
        ),
        negative_examples=("the list has zero elements",),
    ),
    Failure(
        id="onnxruntime-left-out",
        texts=("onnxruntime",),
        pattern=r"\[[VWI]:onnxruntime:.{0,80}(?:helper\.cc|op_builder\.cc|coreml\w*\.cc).{0,200}"
        r"(?:not support|unsupported|only support|must be|should be|is required)",
        cause="ONNX Runtime's Core ML provider leaves an operation to the CPU for the reason that it gives;"
        " the graph is cut there.",
        fix="set ModelFormat to MLProgram, which takes more operations; change the operation, or convert the"
        " network with coremltools instead; `coremlscope doctor MODEL.onnx` lists what the provider does not"
        " take",
        source=f"{_ONNX_RUNTIME}: core/providers/coreml/builders",
        confidence="documented",
        is_general=True,
        examples=("[V:onnxruntime:, gemm_op_builder.cc:149 IsOpSupportedImpl] Only support transA == 0",),
        negative_examples=("[I:onnxruntime:, session.cc:1 Load] loaded",),
    ),
    Failure(
        id="onnxruntime-build",
        texts=(
            "appendexecutionprovider_coreml",
            "coremlexecutionprovider' is not in available",
            "coreml execution provider",
            "currently supported values are",
        ),
        pattern=r"AppendExecutionProvider_CoreML\W{1,3}referenced from|[Uu]ndefined symbols?:"
        r" \S{0,20}AppendExecutionProvider_CoreML"
        r"|\s\"_Ort\w{1,60}AppendExecutionProvider_CoreML\"\s*$"
        r"|provider 'CoreMLExecutionProvider' is not in available"
        r"|CoreML [Ee]xecution [Pp]rovider (?:was not included|is not (?:supported|enabled)) in this build"
        r"|Unknown provider name\. Currently supported values are (?!.*CORE_?ML)",
        cause="This build of ONNX Runtime has no Core ML provider. The packages for Python on macOS have it"
        " since 1.17; many static libraries and builds for other languages do not.",
        fix="use a package for macOS or iOS from ONNX Runtime itself, or build with --use_coreml; remove"
        " other onnxruntime packages of the same environment",
        source=f"{_ONNX_RUNTIME} PR 17844, #16989, #25869; csukuangfj/onnxruntime-libs #55",
        confidence="documented",
        examples=(
            "UserWarning: Specified provider 'CoreMLExecutionProvider' is not in available provider names.",
            '"_OrtSessionOptionsAppendExecutionProvider_CoreML", referenced from:',
            '  "_OrtSessionOptionsAppendExecutionProvider_CoreML"',
            "The CoreML Execution Provider was not included in this build of ONNX Runtime.",
            "Unknown provider name. Currently supported values are 'OPENVINO', 'SNPE', 'QNN' and 'AZURE'",
        ),
        negative_examples=(
            "provider 'CUDAExecutionProvider' is not in available provider names",
            "Unknown provider name. Currently supported values are 'QNN', 'COREML'",
            "call OrtSessionOptionsAppendExecutionProvider_CoreML(options, 0)",
        ),
    ),
    Failure(
        id="onnxruntime-partitions",
        texts=("number of partitions supported by coreml",),
        pattern=r"partitions supported by CoreML: (?P<partitions>\d+),? number of nodes in the graph:"
        r" (?P<nodes>\d+),? number of nodes supported by CoreML: (?P<supported>\d+)",
        cause="Not an error: ONNX Runtime says which share of the graph Core ML gets. Each partition is a"
        " model of its own, and values are copied between them and the CPU, so that many of them are slower"
        " than the CPU alone.",
        fix="convert the network with coremltools from PyTorch or TensorFlow instead, or replace the"
        " operations that the provider does not take; verbose logging names them",
        source=f"{_ONNX_RUNTIME} #16934, #23262; ONNX Runtime: CoreML execution provider",
        confidence="documented",
        examples=(
            "CoreMLExecutionProvider::GetCapability, number of partitions supported by CoreML: 123 number of"
            " nodes in the graph: 2361 number of nodes supported by CoreML: 949",
        ),
        negative_examples=("number of partitions: 3",),
    ),
    Failure(
        id="pipeline-stage",
        texts=("failed to evaluate model",),
        pattern=r"Failed to evaluate model (?P<stage>\d+) in pipeline",
        cause="A stage of a pipeline failed; the underlying error, if there is one, says why. Sound and"
        " feature extractors of Create ML take inputs of one type and length only.",
        fix="`coremlscope inspect MODEL` shows the stages and the inputs, with types and lengths",
        source=f"{COREMLTOOLS} #1862",
        confidence="anecdotal",
        is_general=True,
        examples=('NSLocalizedDescription = "Failed to evaluate model 0 in pipeline";',),
        negative_examples=("the pipeline was evaluated",),
    ),
    Failure(
        id="vision-failed",
        texts=("vncoremltransform",),
        pattern=r"VNCoreMLTransform\w* request failed|Failed to initialize VNCoreMLTransform",
        cause="Vision could not run the model; the underlying error, if there is one, says why. Vision"
        " passes one image, scaled to the size that the model declares.",
        fix="run the model with MLModel directly to see Core ML's own error; check its inputs with"
        " `coremlscope inspect MODEL`",
        source=f"{COREMLTOOLS} #697, #1211; eelretep/mlmodelzoo #2",
        confidence="anecdotal",
        is_general=True,
        examples=('Error Domain=com.apple.vis Code=3 "The VNCoreMLTransform request failed"',),
        negative_examples=("VNCoreMLTransform started",),
    ),
    Failure(
        id="inference-context",
        texts=("could not create inference context",),
        cause="Core ML got no device to run the model on; reported in the Simulator, which has neither the"
        " GPU nor the Neural Engine of a device.",
        fix="run it on a device, or with CPU_ONLY",
        source="artemnovichkov/StickerViewExample #1",
        confidence="anecdotal",
        examples=('Error Domain=com.apple.Vision Code=9 "Could not create inference context"',),
        negative_examples=("created the inference context",),
    ),
    Failure(
        id="bnns-operation",
        texts=("executing a bnns op",),
        cause="An operation on the CPU refuses its inputs for the reason that follows; it names an operation"
        " by its number.",
        fix=f"{TRY_UNITS}; convert again with a newer coremltools",
        source="Anemll/Anemll #39",
        confidence="anecdotal",
        is_general=True,
        examples=("E5RT: Error(s) occurred executing a BNNS Op: something new",),
        negative_examples=("executed a BNNS Op",),
    ),
    Failure(
        id="bnns-input-is-output",
        texts=("as both an input and output",),
        pattern=r"Function (?P<function>\w{1,80}) has tensor (?P<where>[\w.]{1,200}) as both an input and"
        r" output",
        cause="A function returns an input unchanged, which the CPU's graph compiler rejects; the model"
        " loads and runs with another backend.",
        fix="add an identity operation to that output before conversion, or leave the output out",
        source="FluidInference/FluidAudio #294",
        confidence="anecdotal",
        op="identity",
        examples=("BNNS Graph Compile: Function main has tensor conv0_first as both an input and output.",),
        negative_examples=("the tensor is both an input and an output",),
    ),
)
