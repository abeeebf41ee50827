"""Convolutional networks with published plans, from the public architectures: MobileNetV2 and ResNet-50."""

from __future__ import annotations

from benchmarks.plan.builder import Builder, shape_of
from coremlscope.model.ir import DType, Model, TensorType, Value, constant
from coremlscope.planning.patterns.rule import weight

__all__ = ["mobilenet", "resnet50"]

#: Expansion, channels, repetitions and step of MobileNetV2's stages (arXiv 1801.04381, table 2).
_STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
#: Channels, repetitions and step of ResNet-50's stages (arXiv 1512.03385, table 1).
_BLOCKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def mobilenet(batch: int) -> Model:
    """Returns MobileNetV2 as `transformers` exports it: padded right and below where it steps by two."""
    builder, image = Builder(), _image(batch)
    x = _clipped(builder, _window(builder, builder.one("cast", x=image, dtype="fp16"), 32, 2))
    for expansion, channels, times, step in _STAGES:
        for place in range(times):
            x = _inverted(builder, x, expansion, channels, 1 if place else step)
    return builder.model((image,), _pooled(builder, _clipped(builder, builder.conv(x, 1280, bias=True))))


def _inverted(builder: Builder, x: Value, expansion: int, channels: int, step: int) -> Value:
    wide, before = x, shape_of(x)[1]
    if expansion > 1:
        wide = _clipped(builder, builder.conv(x, before * expansion, bias=True))
    inner = _clipped(builder, _window(builder, wide, shape_of(wide)[1], step, groups=shape_of(wide)[1]))
    out = builder.conv(inner, channels, bias=True)
    return builder.one("add", x=x, y=out) if step == 1 and before == channels else out


def _window(builder: Builder, x: Value, channels: int, step: int, groups: int = 1) -> Value:
    pads = [0, 0, 0, 0, 0, 1, 0, 1] if step == 2 else [0, 0, 0, 0, 1, 1, 1, 1]
    padded = builder.one("pad", x=x, pad=pads, mode="constant", constant_val=constant(0.0, DType.FP16))
    kernel = weight(channels, shape_of(x)[1] // groups, 3, 3)
    return builder.one(
        "conv",
        x=padded,
        weight=kernel,
        bias=weight(channels),
        strides=[step, step],
        groups=groups,
        pad_type="valid",
    )


def _clipped(builder: Builder, x: Value) -> Value:
    return builder.one("clip", x=x, alpha=constant(0.0, DType.FP16), beta=constant(6.0, DType.FP16))


def resnet50(batch: int) -> Model:
    """Returns ResNet-50."""
    builder, image = Builder(), _image(batch)
    x = _square(builder, builder.one("cast", x=image, dtype="fp16"), 64, 7, 2)
    sizes = {"kernel_sizes": [3, 3], "strides": [2, 2], "pad": [1, 1, 1, 1]}
    x = builder.one("max_pool", x=builder.one("relu", x=x), pad_type="custom", **sizes, ceil_mode=False)
    for channels, times, step in _BLOCKS:
        for place in range(times):
            x = _bottleneck(builder, x, channels, 1 if place else step, is_first=not place)
    return builder.model((image,), _pooled(builder, x))


def _bottleneck(builder: Builder, x: Value, channels: int, step: int, is_first: bool) -> Value:
    inner = builder.one("relu", x=_square(builder, x, channels, 1, 1))
    inner = builder.one("relu", x=_square(builder, inner, channels, 3, step))
    inner = _square(builder, inner, 4 * channels, 1, 1)
    shortcut = _square(builder, x, 4 * channels, 1, step) if is_first else x
    return builder.one("relu", x=builder.one("add", x=inner, y=shortcut))


def _square(builder: Builder, x: Value, channels: int, size: int, step: int) -> Value:
    kernel, edge = weight(channels, shape_of(x)[1], size, size), size // 2
    arguments = {"strides": [step, step], "pad_type": "custom", "pad": [edge] * 4}
    return builder.one("conv", x=x, weight=kernel, bias=weight(channels), **arguments)


def _image(batch: int) -> Value:
    return Value("pixel_values", TensorType(DType.FP32, (batch, 3, 224, 224)))


def _pooled(builder: Builder, x: Value) -> Value:
    mean = builder.one("reduce_mean", x=x, axes=[-1, -2], keep_dims=True)
    return builder.one("reshape", x=mean, shape=list(shape_of(x)[:2]))
