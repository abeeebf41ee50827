"""Advice on operations that the Neural Engine does not run, where it depends on their form."""

from __future__ import annotations

from coremlscope.model.ir import DType, FeatureType, ImageFeature, TensorType, Value
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import BUFFERS, kernel
from coremlscope.planning.patterns.rule import RuleContext

_TARGET = "(minimum_deployment_target iOS16 or later)"
_HALF = "convert with compute_precision=ct.precision.FLOAT16"
FP32_FIX = f"{_HALF}, and declare the model's inputs and outputs as np.float16 {_TARGET}"
FP32_BUFFER_FIX = f"declare the model's inputs as np.float16 {_TARGET}"
_INNER_CAST = (
    "let the operations around this cast compute in float16 too (coremltools keeps recurrent layers, control"
    " flow and classify in float32)"
)
#: Casts at the edges, and the scale and bias of images.
FP32_FIX_BY_NAME = ("cast", "mul", "add")
#: The ends of the names of what coremltools computes from the scale and the bias of an image input.
_OF_IMAGES = ("__scaled__", "__biased__")
_ARG_MAX = "return the scores, and take the arg-max in the app"
LARGE_OPERAND_FIX = "work in chunks, or reduce the operand earlier"
INTEGER_FIX = (
    "keep masks and positions in float16, compute index arithmetic in the app and pass the result in"
)
_SCALE = "fold the scale and bias of ct.ImageType into the weights of the first layer"

_PARTS = "replace it by two smaller kernels (k1 + k2 - 1 = the old size) and train again"
_PATCHES = (
    "the windows of this convolution do not overlap, as in an embedding of patches: cut the input with"
    " reshape and transpose, and use linear with the same weights"
)
_FILTER = (
    "a filter this long, as of an STFT, can be cut: split the input with reshape or slices, and use linear"
    " with the same weights"
)
_WHOLE = (
    "this convolution covers its whole input: flatten that with reshape, and use linear with the same weights"
)
_CUT = (
    "cut the kernel along its long side, convolve shifted slices of the input with the parts, and add the"
    " results"
)
#: Longer kernels would be cut into too many parts.
_CUT_UP_TO = 64
_TURNED = "lay the long axis along the height, so that the kernel is Kx1 instead of 1xK"
KERNEL_FIX = (
    f"up to twice that size, {_PARTS}, or turn a 1xK kernel up to 31 into Kx1; for patches (stride = kernel)"
    " and longer filters (an STFT) cut the input with reshape or slices, and use linear with the same weights"
)


def fp32_fix(view: OpView, context: RuleContext) -> str:
    """Returns how to get rid of a float32 tensor of an operation."""
    if view.op.type == "cast":
        return _cast_fix(view, context)
    if view.op.type == "classify":
        return "convert without classifier_config, and look up the labels in the app"
    if traits_of(view.op.type) & (Trait.RECURRENCE | Trait.CONTROL_FLOW | Trait.LIST):
        return ""  # coremltools keeps it in float32, and rules of its own advise on it.
    if view.op.type in FP32_FIX_BY_NAME and view.op.outputs[0].name.endswith(_OF_IMAGES):
        return _SCALE
    return _HALF


def _cast_fix(view: OpView, context: RuleContext) -> str:
    given = next((one for one in view.op.inputs.get("x", ()) if isinstance(one, Value)), None)
    dtype = view.output_type().dtype
    if given is not None and given.name.endswith(_OF_IMAGES):
        return _SCALE
    if dtype is DType.FP16 and given is not None and _is_input(given.name, view, context):
        return _declaration("input", context.facts.inputs.get(given.name))
    if dtype is DType.FP32 and view.op.outputs[0].name in context.facts.outputs:
        return _declaration("output", context.facts.outputs[view.op.outputs[0].name])
    return _INNER_CAST if dtype in (DType.FP16, DType.FP32) else _HALF


def _is_input(name: str, view: OpView, context: RuleContext) -> bool:
    """True for an input of the model: its conversion, or its cast, is what makes it."""
    maker = context.producers.get(name)
    return maker is None or maker.op.type in BUFFERS or maker.op.id == view.op.id


def _declaration(side: str, feature: FeatureType | None) -> str:
    if not isinstance(feature, ImageFeature):
        return f"declare the {side} as np.float16 {_TARGET}"
    if feature.color_space == "GRAYSCALE":
        return f"declare the image as ct.colorlayout.GRAYSCALE_FLOAT16 {_TARGET}"
    if feature.color_space == "GRAYSCALE_FLOAT16":
        return "use float16 in the program as well, as the image is declared"
    verb = "take" if side == "input" else "return"
    return (
        "color images are float32 in programs, and cannot be declared otherwise: keep the conversion, or"
        f" {verb} the picture as an np.float16 array"
    )


def fp32_buffer_fix(view: OpView, context: RuleContext) -> str:
    """Returns how to declare the float32 inputs of a model otherwise."""
    single = [
        value.name
        for value in view.op.inputs.get("input", ())
        if isinstance(value, Value) and isinstance(value.type, TensorType) and value.type.dtype is DType.FP32
    ]
    fixes = [_declaration("input", context.facts.inputs.get(name)) for name in single]
    return "; ".join(dict.fromkeys(fixes)) or FP32_BUFFER_FIX


def integer_fix(view: OpView, context: RuleContext) -> str:
    """Returns how to do without the 32-bit integers of an operation."""
    if view.op.type != "cast":
        return INTEGER_FIX
    given = next((one for one in view.op.inputs.get("x", ()) if isinstance(one, Value)), None)
    maker = context.producers.get(given.name) if given is not None else None
    if maker is not None and Trait.ARG_REDUCTION in traits_of(maker.op.type):
        return _ARG_MAX
    is_half = view.output_type().dtype in (DType.FP16, DType.FP32)
    if is_half and given is not None and _is_input(given.name, view, context):
        return f"declare the input as np.float16, which is exact up to 2048 {_TARGET}"
    if any(value.name in context.facts.outputs for value in view.op.outputs):
        return f"return it as np.float16, which is exact up to 2048 {_TARGET}"
    return INTEGER_FIX


def large_operand_fix(view: OpView, context: RuleContext) -> str:
    """Returns how to do with smaller operands, by the kind of operation."""
    traits = traits_of(view.op.type)
    if traits & (Trait.MATRIX_PRODUCT | Trait.ATTENTION | Trait.SOFTMAX):
        return "split attention by heads, or work on part of the queries at a time"
    if traits & (Trait.CONVOLUTION | Trait.POOLING | Trait.RESIZING):
        return "reduce the resolution or the channels earlier, or work in tiles"
    return LARGE_OPERAND_FIX


def kernel_fix(view: OpView, context: RuleContext) -> str:
    """Returns how to do without the kernel of a convolution, by what it does."""
    sizes = kernel(view)
    if view.integers("strides", [1] * len(sizes)) == list(sizes):
        return _PATCHES
    if all(size == 1 for size in (view.output_type().shape or ())[-len(sizes) :]):
        return _WHOLE
    widest, highest = (13, 29) if context.neural_engine_generation <= 13 else (15, 31)
    width, height = sizes[-1], sizes[-2] if len(sizes) > 1 else 1
    fixes = []
    if width <= 2 * widest - 1 and height <= 2 * highest - 1:
        fixes.append(_PARTS)
    if height == 1 and width <= highest:
        fixes.append(_TURNED)
    return ", or ".join(fixes) or (_CUT if max(width, height) <= _CUT_UP_TO else _FILTER)
