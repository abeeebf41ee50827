"""Neural Engine: kernels of convolutions and windows of poolings."""

from __future__ import annotations

from functools import partial

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.ops.view import OpView
from coremlscope.ops.window import Window
from coremlscope.planning.patterns.forms import kernel
from coremlscope.planning.patterns.publications import (
    COMPILER_TEXTS,
    COREML_LLM,
    GUIDE_LIMITS,
    GUIDE_OPS,
    HOLLANCE,
    M4_PLANS,
)
from coremlscope.planning.patterns.rule import Example, Rule, RuleContext, Scope, fp16, weight
from coremlscope.planning.placement.rules.neural_engine.fixes import KERNEL_FIX, kernel_fix

_X = fp16(1, 64, 32, 32)
_on_m1 = partial(Example, chip="m1", os="14.5")
_SQUARE = 16


def _conv(*shape: int, **more: object) -> dict[str, object]:
    return {"x": _X, "weight": weight(*shape), "pad_type": "same", **more}


def _pool(*sizes: int, **more: object) -> dict[str, object]:
    return {"x": _X, "kernel_sizes": list(sizes), "strides": [1] * len(sizes), "pad_type": "same", **more}


def _size(view: OpView) -> str:
    return f"the kernel is {'x'.join(map(str, kernel(view)))}"


def _wide(view: OpView, context: RuleContext) -> str:
    sizes = kernel(view)
    if sizes[-2:] == (_SQUARE, _SQUARE):
        return ""
    return _size(view) if sizes[-1] > 15 else ""


def _high(view: OpView, context: RuleContext) -> str:
    sizes = kernel(view)
    return _size(view) if len(sizes) > 1 and sizes[-2] > 31 else ""


def _too_large_for_m1(view: OpView, context: RuleContext) -> str:
    sizes = kernel(view)
    return _size(view) if sizes[-1] > 13 or (len(sizes) > 1 and sizes[-2] > 29) else ""


def _deep(view: OpView, context: RuleContext) -> str:
    sizes = kernel(view)
    return _size(view) if len(sizes) == 3 and sizes[0] > 16 else ""


def _long_depthwise(view: OpView, context: RuleContext) -> str:
    shape, sizes = view.static_shape("weight"), kernel(view)
    groups = view.integer("groups", 1)
    in_one_row = len(sizes) == 1 or all(size == 1 for size in sizes[:-1])
    return f"{groups} groups" if groups >= 1024 and shape[1] == 1 and in_one_row and sizes[-1] == 3 else ""


def _too_wide_pool(view: OpView, context: RuleContext) -> str:
    width = kernel(view)[-1]
    return f"the window is {width} wide" if width > 8 and width != 32 else ""


def _old_pool(view: OpView, context: RuleContext) -> str:
    sizes, strides = kernel(view), view.integers("strides", [1])
    if max(sizes) > 13:
        return f"the window is {max(sizes)} long"
    return f"the stride is {max(strides)}" if max(strides) > 2 else ""


def _pads_beyond(view: OpView, context: RuleContext) -> bool:
    if not view.flag("exclude_padding_from_average", False):
        return False
    sizes = kernel(view)
    window = Window.of(view, sizes)
    spatial = view.shape("x")[-len(sizes) :]
    pads = [window.padding(axis, size) for axis, size in enumerate(spatial)]
    return any(pad is not None and max(pad) >= size for pad, size in zip(pads, sizes, strict=True))


def _dilated(view: OpView, context: RuleContext) -> bool:
    return max(view.integers("dilations", [1])) > 1


_KERNEL_SAYS = "Error: conv with large kernel does not meet decomposition preconditions"
_AFTER_M1 = Scope(neural_engine=(14, None))

RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-conv-width",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=_wide,
        message="kernels wider than 15 (square ones: 16) do not run on the Neural Engine: {detail}",
        core_ml=_KERNEL_SAYS,
        fix=KERNEL_FIX,
        fix_for=kernel_fix,
        source=M4_PLANS,
        confidence="measured",
        scope=_AFTER_M1,
        applies_to=(
            Example("conv", _conv(64, 64, 17, 17)),
            Example("conv", _conv(64, 64, 1, 16)),
            Example("conv", {"x": fp16(1, 64, 1024), "weight": weight(64, 64, 31), "pad_type": "same"}),
        ),
        negative_examples=(
            Example("conv", _conv(64, 64, 16, 16)),
            Example("conv", _conv(64, 64, 1, 15)),
            Example("conv", _conv(64, 64, 31, 1)),
        ),
    ),
    Rule(
        id="ne-conv-height",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=_high,
        message="kernels higher than 31 do not run on the Neural Engine: {detail}",
        core_ml=_KERNEL_SAYS,
        fix=KERNEL_FIX,
        fix_for=kernel_fix,
        source=M4_PLANS,
        confidence="measured",
        scope=_AFTER_M1,
        applies_to=(Example("conv", _conv(64, 64, 32, 1)),),
        negative_examples=(
            Example("conv", _conv(64, 64, 31, 1)),
            Example("conv", {"x": fp16(1, 64, 1024), "weight": weight(64, 64, 9), "pad_type": "same"}),
        ),
    ),
    Rule(
        id="ne-conv-size-on-m1",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=_too_large_for_m1,
        message="kernels wider than 13 or higher than 29 do not run on this Neural Engine: {detail}",
        core_ml=_KERNEL_SAYS,
        fix=KERNEL_FIX,
        fix_for=kernel_fix,
        source=GUIDE_LIMITS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 13)),
        applies_to=(
            _on_m1("conv", _conv(64, 64, 1, 14)),
            _on_m1("conv", _conv(64, 64, 31, 1)),
        ),
        negative_examples=(_on_m1("conv", _conv(64, 64, 13, 13)), _on_m1("conv", _conv(64, 64, 29, 1))),
    ),
    Rule(
        id="ne-conv-depth",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=_deep,
        message="kernels deeper than 16 do not run on the Neural Engine: {detail}",
        fix="replace it by two smaller kernels",
        source=GUIDE_OPS,
        confidence="static analysis",
        applies_to=(
            Example(
                "conv", {"x": fp16(1, 8, 32, 8, 8), "weight": weight(8, 8, 17, 3, 3), "pad_type": "same"}
            ),
        ),
        negative_examples=(
            Example("conv", {"x": fp16(1, 8, 32, 8, 8), "weight": weight(8, 8, 3, 3, 3), "pad_type": "same"}),
        ),
    ),
    Rule(
        id="ne-conv-3d-before-m1",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=lambda view, context: len(kernel(view)) == 3,
        message="this Neural Engine has no 3-D convolution; A14, M1 and later have",
        fix="work slice by slice with 2-D convolutions",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=Scope(neural_engine=(None, 12)),
        applies_to=(
            Example("conv", {"x": fp16(1, 8, 8, 8, 8), "weight": weight(8, 8, 3, 3, 3)}, chip="a12", os="17"),
        ),
        negative_examples=(Example("conv", {"x": _X, "weight": weight(8, 64, 3, 3)}, chip="a12", os="17"),),
    ),
    Rule(
        id="ne-conv-long-depthwise",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=_long_depthwise,
        message="depthwise convolutions along one axis with 1024 channels or more stay on the CPU: {detail}",
        fix="write it as a 2-D convolution with a 3x3 kernel whose outer rows are zero, or pad the kernel",
        source=f"{COREML_LLM}: LFM2 (macOS 26)",
        confidence="measured",
        scope=Scope(since=(26, 0), before=(27, 0)),
        applies_to=(
            Example(
                "conv",
                {"x": fp16(1, 1024, 1, 8), "weight": weight(1024, 1, 1, 3), "groups": 1024},
                chip="m4",
                os="26",
            ),
        ),
        negative_examples=(
            Example("conv", {"x": fp16(1, 64, 1, 8), "weight": weight(64, 1, 1, 3), "groups": 64}, os="26"),
        ),
    ),
    Rule(
        id="ne-conv-transpose-dilated",
        unit=NEURAL_ENGINE,
        ops=("conv_transpose",),
        when=_dilated,
        message="the Neural Engine does not run dilated transposed convolutions",
        fix="use a dilation of 1",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        applies_to=(
            Example(
                "conv_transpose",
                {"x": _X, "weight": weight(64, 8, 3, 3), "dilations": [2, 2]},
                outputs=(fp16(1, 8, 36, 36),),
            ),
        ),
        negative_examples=(
            Example("conv_transpose", {"x": _X, "weight": weight(64, 8, 2, 2), "strides": [2, 2]}),
        ),
    ),
    Rule(
        id="ne-max-pool-width",
        unit=NEURAL_ENGINE,
        ops=("max_pool",),
        when=_too_wide_pool,
        message="max pooling on the Neural Engine takes windows 1 to 8 or 32 wide: {detail}",
        core_ml="Invalid Pool kernel width (15), must be [1-8] or 32.",
        fix="chain smaller windows with stride 1 (5 and 5 make 9, three of 5 make 13); the height is free",
        source=M4_PLANS,
        confidence="measured",
        scope=_AFTER_M1,
        applies_to=(
            Example("max_pool", _pool(15, 15)),
            Example("max_pool", _pool(1, 9)),
            Example("max_pool", _pool(9, 9)),
        ),
        negative_examples=(
            Example("max_pool", _pool(8, 8)),
            Example("max_pool", _pool(9, 1)),
            Example("max_pool", _pool(32, 32)),
        ),
    ),
    Rule(
        id="ne-pool-before-2021",
        unit=NEURAL_ENGINE,
        ops=("max_pool", "avg_pool"),
        when=_old_pool,
        message="up to iOS 14 the Neural Engine pooled windows up to 13 with strides up to 2: {detail}",
        fix="chain smaller windows, and use strides of 2",
        source=HOLLANCE,
        confidence="anecdotal",
        scope=Scope(before=(15, 0)),
        applies_to=(
            Example("max_pool", _pool(15, 15), chip="a12", os="14"),
            Example("avg_pool", _pool(3, 3, strides=[3, 3]), chip="a12", os="14"),
        ),
        negative_examples=(Example("max_pool", _pool(3, 3, strides=[2, 2]), chip="a12", os="14"),),
    ),
    Rule(
        id="ne-avg-pool-padding",
        unit=NEURAL_ENGINE,
        ops=("avg_pool",),
        when=_pads_beyond,
        message="an average pooling that does not count its padding runs when padded by less than its window",
        fix="pad less than the window",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        applies_to=(
            Example(
                "avg_pool",
                {
                    "x": _X,
                    "kernel_sizes": [2, 2],
                    "strides": [1, 1],
                    "pad_type": "custom",
                    "pad": [2, 2, 2, 2],
                    "exclude_padding_from_average": True,
                },
            ),
        ),
        negative_examples=(
            Example("avg_pool", _pool(3, 3, exclude_padding_from_average=True)),
            Example("avg_pool", _pool(2, 2)),
        ),
    ),
)
