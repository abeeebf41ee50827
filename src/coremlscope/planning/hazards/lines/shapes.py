"""Failures of inputs, and of the shapes inside a model."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import COREMLTOOLS, PUBLIC_NOTES, Failure

_INSPECT = "`coremlscope inspect MODEL` lists the inputs with their types, shapes and ranges"

SHAPES: tuple[Failure, ...] = (
    Failure(
        id="enumerated-shapes",
        texts=("enumerated set of allowed", "not in the enumerated", "enumerated shapes"),
        pattern=r"(?:shape|size) \(?(?P<shape>[\d x×,]{1,100}\d)?\)?.{0,60}\bnot in (?:the )?enumerated",
        cause="An input, or an output whose description lists shapes, has a shape that is none of those that"
        " the model enumerates. Several enumerated inputs must all use the shape of the same position.",
        fix=f"{_INSPECT}; resize or pad to one of them, or convert again with this shape in EnumeratedShapes",
        source=f"{COREMLTOOLS} #672, #2271; hollance/coreml-survival-guide #3",
        confidence="documented",
        examples=("Shape (1 x 128 x 32 x 32) was not in enumerated set of allowed shapes",),
        negative_examples=("the shape was found in the enumerated set of allowed shapes",),
    ),
    Failure(
        id="input-shape",
        texts=(
            "does not match the shape",
            "not compatible with the model",
            "must be of rank",
            "does not match model description",
            "image is not valid",
            "not in allowed set of image sizes",
            "not in the allowed range",
            "not in allowed range",
            "-dimension ",
        ),
        pattern=r"MultiArray shape \(?(?P<found>[\d x×]{1,100}\d)\)? does not match the shape"
        r" \(?(?P<expected>[\d x×]{1,100}\d)|not compatible with the model's feature|feature '.{0,80}' must"
        r" be of rank (?P<rank>\d+)|image feature .{1,100} does not match model description|Image is not"
        r" valid (?P<side>width|height) (?P<image>\d+), instead is (?P<given>\d+)|(?:shape|size) .{0,100}not"
        r" in (?:the )?allowed (?:set|range)|Invalid (?P<axis>[XYZ])-dimension (?P<sizes>\d+/\d+)",
        cause="An input has another shape, size or rank than the model declares.",
        fix=f"{_INSPECT}; resize the image or array, or convert again with flexible shapes",
        source=f"alibaba/MNN #1672; eelretep/mlmodelzoo #2; {PUBLIC_NOTES}",
        confidence="measured",
        examples=(
            "MultiArray shape (1 x 236) does not match the shape (1 x 256) specified in the model"
            " description",
            "Image is not valid width 480, instead is 640",
        ),
        negative_examples=("the key does not match the shape of a key", "the image is not valid JSON"),
    ),
    Failure(
        id="image-binding",
        texts=("error binding image input",),
        pattern=r"Error binding image input buffer (?P<name>[\w.]{1,200})",
        cause="An image could not be bound. Reported with several image inputs that all enumerate sizes:"
        " Core ML"
        " takes them together only where all have the size of the same position in their lists.",
        fix=f"{_INSPECT}; give all images the sizes of one position, or keep one input of enumerated sizes",
        source=f"{COREMLTOOLS} #1115",
        confidence="anecdotal",
        examples=('NSLocalizedDescription = "Error binding image input buffer x1.";',),
        negative_examples=("binding the image took 3 ms",),
    ),
    Failure(
        id="no-flexible-shape-information",
        texts=("flexibleshapeinformation attribute is missing",),
        cause="A program has flexible shapes without the attribute that lists them, as older converters"
        " wrote it:"
        " the package still loads, and this form of it does not run without a shape.",
        fix="nothing, if it works; else convert again with ct.RangeDim or ct.EnumeratedShapes by a current"
        " coremltools",
        source="FluidInference/FluidAudio #738",
        confidence="anecdotal",
        examples=(
            "MIL program has non-constant (dynamic) shapes for external input but FlexibleShapeInformation"
            " attribute is missing.",
        ),
        negative_examples=("FlexibleShapeInformation was read",),
    ),
    Failure(
        id="input-type",
        texts=(
            "only allows",
            "to be an image, but the input",
            "expects input feature",
            "is not expected type",
        ),
        pattern=r"\w{1,40}Constraint only allows (?P<expected>\w{1,40})"
        r"|expects (?:input )?feature (?P<name>\S{1,200}) to be (?P<type>an? \w{1,40}), but"
        r"|Image is not expected type (?P<formats>.{1,80}), instead is (?P<format>[^\n]{1,60})",
        cause="An input has another type than the model declares: an image for an array, or the reverse, or"
        " an image in another pixel format.",
        fix=f"{_INSPECT}; images need a CVPixelBuffer of 32BGRA or 32ARGB (in Python a PIL image), arrays an"
        f" MLMultiArray",
        source=f"{COREMLTOOLS} #301; alibaba/MNN #2207",
        confidence="documented",
        examples=(
            "MultiArrayConstraint only allows MultiArrays",
            "The model expects input feature 0 to be an image, but the input (MultiArray) is of type 5.",
            "Image is not expected type 32-BGRA or 32-ARGB, instead is Unsupported (875704422)",
        ),
        negative_examples=("the lock only allows one owner",),
    ),
    Failure(
        id="missing-input",
        texts=(
            "required but not specified",
            "required input feature",
            "does not contain a feature",
            "missing input",
        ),
        pattern=r"Feature (?P<name>\S{1,200}) is required but not specified|Required input feature not passed"
        r"|does not contain a feature named|missing (?:required )?input feature",
        cause="An input of the model was not given, mostly because its name differs or because the app and"
        " the model are of different versions.",
        fix=f"{_INSPECT}; give each that is not optional by its exact name",
        source=f"{COREMLTOOLS} #339; ynagatomo/ImgGenSD2 #14; apple/ml-stable-diffusion #258",
        confidence="anecdotal",
        examples=(
            "Feature x is required but not specified.",
            "Required input feature not passed to neural network.",
        ),
        negative_examples=("this field is required but not specified",),
    ),
    Failure(
        id="vision-input",
        texts=("valid input feature of type image", "no valid vncoremlmodel"),
        cause="Vision needs a model with an image input, and with no other input that has no default value.",
        fix="convert again with ct.ImageType (`image_input_names` in old converters), or use MLModel"
        " directly",
        source="tf-coreml/tf-coreml #150; kingreza/SeeFood #1; hollance/coreml-survival-guide #9",
        confidence="anecdotal",
        examples=("Error: The model does not have a valid input feature of type image",),
        negative_examples=("the form has a valid input of type image",),
    ),
    Failure(
        id="output-missing",
        texts=("was not output by",),
        pattern=r"feature named '(?P<name>[^']{1,200})' was not output by",
        cause="The description names an output that the model, or the last stage of a pipeline, does not"
        " make.",
        fix="export the model again with a newer tool; `coremlscope inspect MODEL` shows the stages",
        source="apple/turicreate #61",
        confidence="anecdotal",
        examples=("Predicted feature named 'room' was not output by pipeline",),
        negative_examples=("the sheet was not output by the printer",),
    ),
    Failure(
        id="output-backings",
        texts=("completeoutputbackings", "outputbackings", "output backing"),
        pattern=r"Failure in -completeOutputBackings|output ?backings?.{0,80}(?:fail|invalid|not"
        r" (?:match|compatible))",
        cause="The buffers that the app gives for results do not fit the model, or MLPredictionOptions was"
        " allocated without being initialized.",
        fix="leave the options out, or give buffers of the exact shape and type of each output",
        source=f"{COREMLTOOLS} #931",
        confidence="anecdotal",
        examples=("[coreml] Failure in -completeOutputBackings:error:",),
        negative_examples=("output backings: 2",),
    ),
    Failure(
        id="broadcast",
        texts=("broadcast",),
        pattern=r"cannot broadcast (?P<shapes>\[[\d, ]{1,80}\] and \[[\d, ]{1,80}\])|cannot broadcast"
        r" (?:blobs|shapes?|tensors?|dim)|not compatible for broadcasting|(?<!' are )(?:not|n't have)"
        r" broadcast[- ]?(?:compatible|able)|could not be broadcast"
        r" together|input types 'tensor<(?:[\dx?*]{0,60}x)?([a-z]\w{0,7})>' and"
        r" 'tensor<(?:[\dx?*]{0,60}x)?\2>' are not broadcast"
        r"|\bbroadcast\w*\b.{0,60}\b(?:shapes?|blobs?|tensors?|dim\w*)\b.{0,60}(?:incompatible"
        r"|mismatch|not (?:match|supported))",
        cause="Two tensors that an operation combines have shapes that do not fit each other, mostly because"
        " an upsampling, reshape or slice before it makes another size than the original network, or because"
        " the input has another shape than the one that the network was traced with.",
        fix="compare shapes with `coremlscope inspect MODEL --ops`; give the scale of each upsampling, and"
        " convert with the shape that is used",
        source="onnx/onnx-coreml #511; apple/coremltools #1019, #1427; eai-lab/On-device-Sora #6",
        confidence="anecdotal",
        examples=(
            'Espresso exception: "Invalid blob shape": Cannot broadcast blobs',
            "generic_elementwise_kernel: cannot broadcast [48, 64, 32, 1, 1] and [24, 32, 32, 1, 1]",
            '"Shapes are not compatible for broadcasting" during ios18.add',
            "input types 'tensor<1x2xf32>' and 'tensor<3xf32>' are not broadcast compatible",
        ),
        negative_examples=(
            "input types 'tensor<1x1024xf32>' and 'tensor<1024xf16>' are not broadcast compatible",
            "broadcasting the stream to 3 clients",
            "the station cannot broadcast today",
        ),
    ),
    Failure(
        id="element-types",
        texts=("data type", "element type", "input types"),
        pattern=r"(?:data|element) ?types? must match"
        r"|(?:data|element) ?types? (?:do not|don't|does not) match"
        r"|input types '(?P<found>tensor<(?:[\dx?*]{0,60}x)?([a-z]\w{0,7})>)' and"
        r" '(?P<other>tensor<(?:[\dx?*]{0,60}x)?(?!\2>)[a-z]\w{0,7}>)'",
        cause="Operands of one operation have different element types, mostly float16 and float32: older"
        " systems converted them silently, newer ones refuse.",
        fix="convert again with a newer coremltools; cast both to one type; keep caches in the type of what"
        " is written to them",
        source="Anemll/Anemll #39; hako-mikan/sd-webui-negpip #31",
        confidence="anecdotal",
        examples=(
            "Slice update: update data type must match output data type.",
            "error: input types 'tensor<1x1024xf32>' and 'tensor<1024xf16>' are not broadcast compatible",
        ),
        negative_examples=(
            "the data type is float32",
            "input types 'tensor<1x2xf32>' and 'tensor<3xf32>' are not broadcast compatible",
        ),
    ),
    Failure(
        id="rank-limit",
        texts=("rank",),
        pattern=r"ANE cannot support (?P<op>Linear) with input rank|Cannot (?P<operation>reshape) a tensor"
        r" of rank > 5|only supports tensors with rank <= 5.{0,300}?outputs a rank (?P<rank>\d+)|does not"
        r" support blob (?:with )?rank:? ?(?P<blob>[<>]? ?-?\d+)|Invalid rank: ?(?P<invalid>\d+)|rank"
        r" (?:greater|larger|higher) than (?:5|five)|at most rank 5|\b(?:tensors?|blobs?|inputs?|ANE|Core"
        r" ML|CoreML)\b.{0,60}\b(?P<dimensions>[6-9])-?(?:D|dimension\w*)\b.{0,40}not supported|unsupported"
        r" rank:? ?(?P<unsupported>\d)|rank (?P<other>\d) (?:tensors? )?(?:is|are) not supported",
        cause="A tensor has more dimensions than Core ML (5) or the Neural Engine's form of an operation (4"
        " or 5) takes. Window partitions, pixel shuffles and upfirdn2d reshape to rank 6.",
        fix="merge dimensions before the operation and split them after it, so that tensors have rank 4 or"
        " less; use the operations pixel_shuffle or space_to_depth",
        source="apple/coremltools #832, #1330, #1723, #1796; pytorch/executorch #11694;"
        " sbryngelson/ane-guide, chapter 17",
        confidence="documented",
        rules=("ne-rank", "ne-linear-rank"),
        examples=(
            "ANE cannot support Linear with input rank >= 5",
            'Core ML only supports tensors with rank <= 5. Layer "x.7", with type "reshape", outputs a rank 6'
            " tensor.",
            'Espresso exception: "Invalid blob shape": ANE does not support blob with rank: 6 status=-7',
            "terminating with uncaught exception of type std::runtime_error: Invalid rank: 6",
        ),
        negative_examples=("ANE supports Linear", "rank 6 of 8 finished"),
    ),
    Failure(
        id="inner-shape",
        texts=(
            "invalid bottom shape",
            "invalid dst shape",
            "invalid data blob",
            "axis out of bounds",
            "cannot squeeze a dimension",
            "_kernel: ",
            "invalid blob shape",
            "input blob dimensions",
            "differ in rank",
            "shape mismatch",
            "incompatible shape",
        ),
        pattern=r"(?:(?P<layer>\w{1,60}_kernel): )?Invalid (?:bottom|dst) shape ?\(?(?P<shape>[\d"
        r" x-]{1,80}\d)|Invalid data blob: '(?P<where>[^']{1,200})' shape"
        r" \((?P<blob>[^)]{1,80})\)|(?:(?P<kernel>\w{1,60}_kernel): )axis out of bounds|\"Invalid blob"
        r" shape\": (?!.{0,200}(?:broadcast|rank|dependent))(?P<problem>.{1,120})|layer:"
        r" '(?P<name>[^']{1,200})' : .{0,60}input blob dimensions .{0,40}\((?P<given>[\d,]{1,40})\) must"
        r" be|Inferred shape and existing shape differ in"
        r" rank|\b(?:blob|tensor|layer|matmul|kernel)\b.{0,60}(?:shape mismatch|incompatible shapes?)",
        cause="A shape inside the network does not work out: a reshape to another number of elements, an"
        " axis that does not exist, or a result without elements. The input is smaller than, or different"
        " from, what the network was made for, or the converter misread a dimension.",
        fix="compare shapes with `coremlscope inspect MODEL --ops --shape NAME=SHAPE`; convert with the"
        " shape that is used, and without constants taken from another one",
        source="apple/coremltools #81, #157, #1037, #1075; edouardlp/Mask-RCNN-CoreML #3",
        confidence="anecdotal",
        examples=(
            'Espresso exception: "Invalid argument": generic_reshape_kernel: Invalid bottom shape (64 12 1 1'
            " 1) for"
            " reshape to (9216 -1 1 1 1)",
            "[Espresso::handle_ex_plan] exception=Invalid dst shape1 x 1 x 2 x 0 x -1",
            "compiler error:  Invalid data blob: 'a' shape (C,H,W = 32,0,0) for output of layer: 'b'.",
            "generic_general_concat_kernel: axis out of bounds status=-6",
        ),
        negative_examples=("Invalid blob in repository",),
    ),
    Failure(
        id="flexible-size",
        texts=(
            "std::bad_cast",
            "dynamically resizing",
            "in resetsizes",
            "minimum sequence length",
            "sequence of length",
        ),
        pattern=r"MIL->EIR.{0,400}std::bad_cast|Failure dynamically resizing"
        r"|Failure in resetSizes|computing minimum sequence length"
        r"|Cannot evaluate a sequence of length (?P<length>\d+).{0,60}maximum of (?P<limit>\d+)",
        cause="A network does not work for an input of this size or length, although its description allows"
        " it: a layer holds a size of the shape that it was converted with, or a limit is exceeded.",
        fix="look for the Espresso line before it, which names the layer; use enumerated or fixed shapes;"
        " split long sequences",
        source="apple/coremltools #1075, #142, #1420; onnx/onnx-coreml #533",
        confidence="anecdotal",
        examples=(
            "Failure dynamically resizing for sequence length.",
            "MIL->EIR translation error at /tmp/a.mlmodelc/model.mil:7:12: std::bad_cast",
            "Cannot evaluate a sequence of length 8000, which is longer than maximum of 400.",
        ),
        negative_examples=("dynamically resizing the window",),
    ),
    Failure(
        id="unbounded-dimension",
        texts=("has unbounded dimension",),
        cause="An input has a dimension without an upper bound, so that the program cannot be compiled for"
        " the Neural Engine and mostly runs on the CPU.",
        fix="declare enumerated shapes, or a range with an upper bound",
        source=PUBLIC_NOTES,
        confidence="measured",
        rules=("ne-range-shapes",),
        examples=(
            "E5RT encountered an STL exception. msg = Input: input has unbounded dimension which is not"
            " supported",
        ),
        negative_examples=("all dimensions are bounded",),
    ),
    Failure(
        id="range-shape",
        texts=("range shape",),
        pattern=r"not (?:currently )?supported for (?:models with )?range shape",
        cause="The Neural Engine runs enumerated and fixed shapes, but few operations with a range of"
        " shapes; the model runs on other units instead.",
        fix="use EnumeratedShapes or fixed shapes instead of RangeDim, or load with CPU_AND_GPU",
        source=f"{COREMLTOOLS} #2370, #1764, #1029; {COREMLTOOLS}: guide to flexible inputs",
        confidence="documented",
        rules=("ne-range-shapes",),
        examples=(
            "Reshape is not supported for range shape",
            "MLE5Engine is not currently supported for models with range shape inputs that try to utilize the"
            " Neural Engine.",
        ),
        negative_examples=("range shape",),
    ),
    Failure(
        id="known-strides",
        texts=("known strides", "unknown strides"),
        pattern=r"tensor_buffer has known strides while model has FlexibleShapeInfo|contains unknown strides",
        cause="A model with flexible shapes was loaded for the Neural Engine, where this fails on some"
        " systems.",
        fix="use fixed shapes, one model or function for each, or CPU_AND_GPU",
        source=f"{COREMLTOOLS} #2730",
        confidence="anecdotal",
        rules=("ne-range-shapes",),
        examples=("E5RT: tensor_buffer has known strides while model has FlexibleShapeInfo",),
        negative_examples=("strides are known",),
    ),
)
