"""Findings on values: operations that return wrong ones on a unit, without an error, mostly in Core AI.

Each was published for a system and a device; whether later systems still do it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.devices.unit import ComputeUnits
from coremlscope.model.ir import DType, TensorType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Found,
    FunctionView,
    dtype_of,
    has_trait,
    listed,
    shape_of,
)

#: Settings under which an operation may run on a unit: in Core AI only `cpu_only` forbids any.
_ON_ACCELERATORS: frozenset[ComputeUnits] = frozenset({"all", "cpu_and_ne", "cpu_and_gpu"})
_ON_NEURAL_ENGINE: frozenset[ComputeUnits] = frozenset({"all", "cpu_and_ne"})
_PRODUCT = Trait.LINEAR | Trait.MATRIX_PRODUCT
#: The place of a point, and how visible it is.
_POINT = (2, 1)


def _found(text: str, views: Sequence[OpView]) -> Found | None:
    """Returns what was found; None for no operations."""
    if not views:
        return None
    return Found(text=f"{text}: {listed(views)}.", ops=tuple(view.op.id for view in views))


def _argmax(function: FunctionView) -> Found | None:
    views = [
        view
        for view in function.views
        if view.op.type == "reduce_argmax" and dtype_of(view, "x") is DType.FP16
    ]
    return _found(
        "An argmax of float16 values may return wrong indices unless it runs on the CPU",
        views,
    )


def _rounding(function: FunctionView) -> Found | None:
    views = [view for view in function.views if _is_floor(view)]
    return _found(
        "The GPU may return the argument of floor, ceil and trunc unchanged: Core AI has them as a"
        " division by 1",
        views,
    )


def _is_floor(view: OpView) -> bool:
    dtype = dtype_of(view, "x")
    if view.op.type != "floor_div" or dtype is None or not dtype.is_float or not view.is_known("y"):
        return False
    divisor = view.value("y")
    return bool(divisor.size) and bool((divisor == 1).all())


def _ties(function: FunctionView) -> Found | None:
    return _found(
        "round may take halves away from zero on the GPU, and to the even neighbour on the CPU",
        [view for view in function.views if view.op.type == "round"],
    )


def _hard_swish(function: FunctionView) -> Found | None:
    views = [view for view in function.views if _is_hard_swish_of_matrix(function, view)]
    return _found(
        "A hardswish of float16 directly behind a linear layer of two dimensions may be inaccurate"
        " on the Neural Engine",
        views,
    )


def _is_hard_swish_of_matrix(function: FunctionView, view: OpView) -> bool:
    """True for the product of a matrix and its own hard sigmoid."""
    if view.op.type != "mul" or dtype_of(view) is not DType.FP16 or len(shape_of(view) or ()) != 2:
        return False
    makers = [function.source(view, name) for name in ("x", "y")]
    for gate, layer in (makers, makers[::-1]):
        if gate is None or layer is None or gate.op.type != "sigmoid_hard":
            continue
        # coremltools writes x·[x ≥ −3] for the factor x, which is the same product.
        base = function.source(layer) if layer.op.type == "thresholded_relu" else layer
        is_gated = function.source(gate) in (layer, base)
        if base is not None and is_gated and _is_matrix_product(function, base):
            return True
    return False


def _is_matrix_product(function: FunctionView, view: OpView) -> bool:
    """True for a product with a matrix, also with a bias added."""
    if view.op.type == "add":
        makers = [function.source(view, name) for name in ("x", "y")]
        return any(has_trait(maker, _PRODUCT) for maker in makers)
    return has_trait(view, _PRODUCT)


def _points(function: FunctionView) -> Found | None:
    if not any(has_trait(view, Trait.SORTING) for view in function.views):
        return None
    views = [view for view in function.views if _joins_points(function, view)]
    return _found(
        "Places of points are joined with sigmoids, in float16 and in a program that"
        " chooses the best by sorting: Core AI may return wrong numbers for such heads on the Neural Engine",
        views,
    )


def _joins_points(function: FunctionView, view: OpView) -> bool:
    """True where the coordinates of points are joined with how visible each is."""
    if view.op.type != "concat" or dtype_of(view) is not DType.FP16 or not view.is_known("axis"):
        return False
    names = [getattr(argument, "name", "") for argument in view.op.inputs["values"]]
    types = view.types("values")
    axis = view.integer("axis")
    if len(names) != 2 or tuple(_extent(type_, axis) for type_ in types) != _POINT:
        return False
    makers = [function.makers.get(name) for name in names]
    return makers[1] is not None and makers[1].op.type == "sigmoid" and makers[0] is not None


def _extent(type_: TensorType, axis: int) -> int | None:
    shape = type_.shape or ()
    return shape[axis] if -len(shape) <= axis < len(shape) else None


VALUE_RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="core-ai-argmax",
        doc="An argmax of float16 values, also the indices of a maximum along an axis. In a segmentation"
        " network of 19 classes, half of the pixels got another class under the default options than on"
        " the CPU.",
        find=_argmax,
        fix="compute the argmax of float32 values, x.float().argmax(…), return the scores instead, or load"
        " with cpuOnly",
        source="apple/coreai-torch issue 116: iPhone 17 Pro, iOS 27.0",
        confidence="measured",
        severity="warning",
        settings=_ON_ACCELERATORS,
    ),
    AdviceRule(
        id="core-ai-rounding",
        doc="The functions floor, ceil and trunc, which coreai-torch writes as a floor division by 1. The GPU"
        " returned their argument unchanged; a floor division by another number was right.",
        find=_rounding,
        fix="write floor(x) as torch.div(x * 2, 2, rounding_mode='floor'), ceil(x) as the negative floor of"
        " -x, or load with cpuOnly",
        source="apple/coreai-torch issue 10: M4 Max, a beta of macOS 27",
        confidence="measured",
        severity="warning",
        settings=_ON_ACCELERATORS,
    ),
    AdviceRule(
        id="core-ai-ties",
        doc="The function round: the GPU rounded halves away from zero, where PyTorch and the CPU round them"
        " to the even neighbour. Other numbers were right.",
        find=_ties,
        fix="check whether halves occur, for instance behind a product with 0.5, or load with cpuOnly",
        source="apple/coreai-torch issue 10: M4 Max, a beta of macOS 27",
        confidence="measured",
        settings=_ON_ACCELERATORS,
    ),
    AdviceRule(
        id="core-ai-hard-swish",
        doc="A hardswish of float16 directly behind a product of two-dimensional matrices, as in the"
        " classifier of MobileNetV3, whose outputs on the Neural Engine differed by up to 0.2 from those of"
        " the GPU. With four-dimensional matrices they did not.",
        find=_hard_swish,
        fix="reshape the matrix to four dimensions before the product and back behind the hardswish, or"
        " prefer the GPU",
        source="apple/coreai-torch issue 51",
        confidence="measured",
        severity="warning",
        settings=_ON_NEURAL_ENGINE,
    ),
    AdviceRule(
        id="core-ai-points",
        doc="The head of a pose network in float16: places of points, joined with the sigmoids of their"
        " visibility, of which the best are chosen by sorting. YOLO26n-pose returned confidences of 0 on the"
        " Neural Engine, and right ones in float32, on the GPU and on the CPU; the detector with the same"
        " top-k was right. Which operation is at fault is not known, so this is a likeness only.",
        find=_points,
        fix="compare the outputs on a device with those under cpuOnly, prefer the GPU, or convert with"
        " float32",
        source="apple/coreai-torch issue 115: iPhone 17 Pro, iOS 27.0",
        confidence="anecdotal",
        severity="warning",
        settings=_ON_NEURAL_ENGINE,
    ),
)


CORE_ML_VALUE_RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="hard-swish-behind-linear",
        doc="A hardswish of float16 directly behind a linear layer over a matrix, as in the classifier of"
        " MobileNetV3. Converted by coremltools, that network was off by 0.19 to 0.26 with the Neural Engine"
        " or the GPU, three times as much as on the CPU, where ResNet-18 was not; converted for Core AI, by"
        " 0.2 on the Neural Engine, where the same layer over four dimensions was right. That both have one"
        " cause is a likeness: rounding alone does not reproduce it.",
        find=_hard_swish,
        fix="write the layer as a 1×1 convolution over (N, C, 1, 1), which gives the same result, and compare"
        " the outputs on a device with those under cpuOnly",
        source="apple/coremltools issue 2625: M4; apple/coreai-torch issue 51",
        confidence="anecdotal",
        transform="linear-as-conv",
        settings=_ON_NEURAL_ENGINE,
    ),
)
