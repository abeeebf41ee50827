"""Failures of predictions, and of those who pass them on: Vision, pipelines, ONNX Runtime."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import Failure

_ONNX_RUNTIME = "microsoft/onnxruntime"
_STATIC = "give the graph fixed shapes (onnxruntime.tools.make_dynamic_shape_fixed)"

RUNNING: tuple[Failure, ...] = (
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
)
