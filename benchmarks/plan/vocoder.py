"""Compares the plan of a vocoder with the published one of an A15.

orukahairuka/coreml-audio-research publishes the units of a HiFi-GAN with 256 mel bands and 262 frames on an
iPhone 13 by type of operation under three settings (docs/2026-05-19/mlcomputeplan-dispatch-map.md). Its
system is not stated; its operations are those of iOS 18. Our network has the published number of operations
of each type.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.plan.agreement import Agreement
from benchmarks.plan.builder import Builder, shape_of
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, find_device
from coremlscope.model.ir import DType, Model, Value, constant
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.patterns.rule import fp16, weight

__all__ = ["compare_vocoder", "vocoder"]

_DEVICE = find_device("a15", "18")
_FRAMES, _BANDS, _CHANNELS = 262, 256, 512
#: Strides and kernels of the transposed convolutions; kernels and dilations of the blocks between them.
_STAGES, _KERNELS, _DILATIONS = ((8, 16), (8, 16), (2, 4), (2, 4)), (3, 7, 11), (1, 3, 5)

_Counts = Mapping[ComputeUnit, int]
#: Operations of each type on each unit.
_PUBLISHED: Mapping[ComputeUnits, Mapping[str, _Counts]] = {
    "all": {
        "conv": {CPU: 4, GPU: 53, NEURAL_ENGINE: 17},
        "leaky_relu": {CPU: 4, GPU: 47, NEURAL_ENGINE: 18},
        "add": {GPU: 20, NEURAL_ENGINE: 24},
        "conv_transpose": {CPU: 2, GPU: 1, NEURAL_ENGINE: 1},
        "mul": {CPU: 1, GPU: 2, NEURAL_ENGINE: 1},
        "tanh": {GPU: 1},
    },
    "cpu_and_gpu": {
        "conv": {CPU: 1, GPU: 73},
        "leaky_relu": {CPU: 4, GPU: 65},
        "add": {GPU: 44},
        "conv_transpose": {CPU: 3, GPU: 1},
        "mul": {GPU: 4},
        "tanh": {GPU: 1},
    },
    "cpu_and_ne": {
        "conv": {CPU: 57, NEURAL_ENGINE: 17},
        "leaky_relu": {CPU: 51, NEURAL_ENGINE: 18},
        "add": {NEURAL_ENGINE: 44},
        "conv_transpose": {CPU: 3, NEURAL_ENGINE: 1},
        "mul": {CPU: 3, NEURAL_ENGINE: 1},
        "tanh": {CPU: 1},
    },
}


def vocoder() -> Model:
    """Returns the network."""
    builder = Builder()
    mel = Value("mel", fp16(1, _BANDS, _FRAMES))
    x = _conv(builder, mel, _CHANNELS, 7)
    for stride, width in _STAGES:
        x = _upsampled(builder, _leaky(builder, x), stride, width)
        first = _leaky(builder, x)
        total = _block(builder, x, first, _KERNELS[0])
        for kernel in _KERNELS[1:]:
            total = builder.one("add", x=total, y=_block(builder, x, first, kernel))
        x = builder.one("mul", x=total, y=constant(1 / 3, DType.FP16))
    x = builder.one("tanh", x=_conv(builder, _leaky(builder, x), 1, 7))
    return builder.model((mel,), x)


def _block(builder: Builder, x: Value, first: Value, kernel: int) -> Value:
    """Three pairs of convolutions, one of each dilated; the blocks of a stage share their first input."""
    for place, dilation in enumerate(_DILATIONS):
        inner = _leaky(builder, x) if place else first
        channels = shape_of(x)[1]
        inner = _leaky(builder, _conv(builder, inner, channels, kernel, dilation))
        x = builder.one("add", x=_conv(builder, inner, channels, kernel), y=x)
    return x


def _leaky(builder: Builder, x: Value) -> Value:
    return builder.one("leaky_relu", x=x, alpha=constant(0.1, DType.FP16))


def _conv(builder: Builder, x: Value, channels: int, kernel: int, dilation: int = 1) -> Value:
    weights = {"weight": weight(channels, shape_of(x)[1], kernel), "bias": weight(channels)}
    return builder.one("conv", x=x, **weights, dilations=[dilation], pad_type="same")


def _upsampled(builder: Builder, x: Value, stride: int, width: int) -> Value:
    channels = shape_of(x)[1] // 2
    weights = {"weight": weight(2 * channels, channels, width), "bias": weight(channels)}
    padding = [(width - stride) // 2] * 2
    return builder.one("conv_transpose", x=x, **weights, strides=[stride], pad_type="custom", pad=padding)


def compare_vocoder() -> list[Agreement]:
    """Compares the number of operations of each type on each unit."""
    settings: tuple[ComputeUnits, ...] = ("all", "cpu_and_gpu", "cpu_and_ne")
    (function,) = place_functions(vocoder(), _DEVICE, settings, with_advice=False).values()
    agreements = []
    for setting in settings:
        found = Agreement(f"A15 · operations of a vocoder on the published unit, by counts, {setting}")
        ours: dict[str, dict[ComputeUnit, int]] = {}
        for op in function.ops:
            unit = op.choices[setting].unit
            if not op.inserted and unit is not None:
                counts = ours.setdefault(op.type, {})
                counts[unit] = counts.get(unit, 0) + 1
        for type_, published in _PUBLISHED[setting].items():
            mine = ours.get(type_, {})
            found.total += sum(published.values())
            found.right += sum(min(mine.get(unit, 0), count) for unit, count in published.items())
            if mine != published:
                found.misses.append(f"{type_}: {dict(published)}, ours {mine}")
        agreements.append(found)
    return agreements
