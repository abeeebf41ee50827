"""Compares plans of networks for depth with published ones of an M1 Max: unit and cost of each operation.

jvcleave/DepthStudies publishes the plans of ZipDepth in three sizes and of Depth Anything V2 (small) in three
forms on an M1 Max with macOS 27.0, under three settings, with the unit and the weight of each operation. The
structure of both is public. The costs here (`depth.csv`: network, backend, place in the program) are weights
times the sum that one operation of known cost gives: one for each kind and shape of operation.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plan.agreement import Agreement
from benchmarks.plan.builder import Builder, shape_of
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, find_device
from coremlscope.model.ir import DType, Model, TensorType, Value, constant
from coremlscope.planning.cost.planned.prices import price
from coremlscope.planning.cost.planned.rates import RateTable, rate_table
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.patterns.rule import Example, example_view, fp16, weight
from coremlscope.planning.placement.backend import Backend
from coremlscope.results.plan import PlannedOp

__all__ = ["compare_depth", "depth_anything", "zipdepth"]

_DEVICE = find_device("m1-max", "27")
_SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_gpu", "cpu_and_ne")
_CLOSE = 0.01
_COSTS = Path(__file__).with_name("depth.csv")


class _Network(Builder):
    """Adds the operations that these networks share."""

    def image(self, height: int, width: int, *, half: bool = False) -> tuple[Value, Value]:
        """An image, and the same scaled and normalized."""
        dtype = DType.FP16 if half else DType.FP32
        given = Value("image", TensorType(dtype, (1, 3, height, width)))
        x = self.one("mul", x=given, y=constant(1 / 255, dtype))
        if not half:
            x = self.one("cast", x=x, dtype="fp16")
        x = self.one("sub", x=x, y=weight(1, 3, 1, 1))
        return given, self.one("mul", x=x, y=weight(1, 3, 1, 1))

    def conv(
        self,
        x: Value,
        channels: int,
        size: int,
        *,
        stride: int = 1,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = True,
        pad: int | None = None,
    ) -> Value:
        """A convolution with as many results as the stride leaves."""
        border = dilation * (size - 1) // 2 if pad is None else pad
        more = {"bias": weight(channels)} if bias else {}
        return self.one(
            "conv",
            x=x,
            weight=weight(channels, shape_of(x)[1] // groups, size, size),
            strides=[stride, stride],
            pad_type="custom",
            pad=[border] * 4,
            dilations=[dilation, dilation],
            groups=groups,
            **more,
        )

    def active(self, x: Value, channels: int, size: int, stride: int = 1) -> Value:
        """A convolution and `relu`."""
        return self.one("relu", x=self.conv(x, channels, size, stride=stride))

    def up(self, x: Value, height: float, width: float) -> Value:
        factors = {"scale_factor_height": height, "scale_factor_width": width}
        return self.one("upsample_bilinear", x=x, align_corners=False, **factors)

    def near(self, x: Value) -> Value:
        factors = {"scale_factor_height": 2.0, "scale_factor_width": 2.0}
        return self.one("upsample_nearest_neighbor", x=x, **factors)

    def pair(self, type_: str, x: Value, y: Value) -> Value:
        return self.one(type_, x=x, y=y)

    def scaled(self, x: Value, factor: float) -> Value:
        return self.one("mul", x=x, y=constant(factor, DType.FP16))

    def batch_norm(self, x: Value) -> Value:
        vectors = {name: weight(shape_of(x)[1]) for name in ("mean", "variance", "gamma", "beta")}
        return self.one("batch_norm", x=x, **vectors)

    def layer_norm(self, x: Value) -> Value:
        vectors = {name: weight(shape_of(x)[-1]) for name in ("gamma", "beta")}
        return self.one("layer_norm", x=x, axes=[-1], **vectors)

    def mean(self, x: Value, *axes: int) -> Value:
        return self.one("reduce_mean", x=x, axes=list(axes), keep_dims=True)

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.one("reshape", x=x, shape=list(shape))

    def transpose(self, x: Value, *perm: int) -> Value:
        return self.one("transpose", x=x, perm=list(perm))

    def linear(self, x: Value, channels: int) -> Value:
        return self.one("linear", x=x, weight=weight(channels, shape_of(x)[-1]), bias=weight(channels))


# ZipDepth (fabiotosi92/ZipDepth), base, for neural engines


def zipdepth(height: int, width: int) -> Model:
    """Returns ZipDepth: base, balanced, without unfolding, its normalizations folded as in the source."""
    net = _Network()
    image, x = net.image(height, width)
    half = net.active(x, 24, 3, 2)
    first = net.active(net.active(net.active(half, 48, 3, 2), 48, 3), 48, 3)
    x = net.active(net.active(net.active(first, 96, 3, 2), 96, 3), 96, 3)
    branches = [net.conv(x, 96, 3, groups=96, dilation=dilation, bias=False) for dilation in (1, 2)]
    x = net.pair("add", x, net.batch_norm(net.pair("add", *branches)))
    strips = net.pair("add", net.mean(x, 3), net.mean(x, 2))
    second = net.pair("mul", x, net.one("sigmoid", x=net.conv(strips, 96, 1, groups=96)))
    x = net.active(second, 192, 3, 2)
    for _ in range(6):
        x = net.active(x, 192, 3)
    third = _context(net, _channel_attention(net, x))
    x = net.active(third, 384, 3, 2)
    for _ in range(2):
        x = net.active(x, 384, 3)
    pooled = [net.active(x, 96, 1)]
    for _ in range(3):
        pooled.append(_max_pool(net, pooled[-1]))
    fourth = net.active(net.one("concat", values=tuple(pooled), axis=1, interleave=False), 384, 1)
    high = net.near(net.conv(fourth, 192, 1, groups=4, bias=False))
    low = _average(net, net.conv(third, 384, 1, groups=4, bias=False))
    third = net.pair("add", third, net.scaled(high, 0.3))
    x = net.active(net.pair("add", fourth, net.scaled(low, 0.3)), 288, 1)
    for skip, channels in ((third, 192), (second, 144), (first, 96), (half, 32)):
        x = _fused(net, skip, x, channels)
    return net.model((image,), _upsampled(net, x))


def _channel_attention(net: _Network, x: Value) -> Value:
    hidden = net.one("relu", x=net.conv(net.mean(x, 2, 3), 24, 1, bias=False))
    return net.pair("mul", x, net.one("sigmoid", x=net.conv(hidden, 192, 1, bias=False)))


def _context(net: _Network, x: Value) -> Value:
    _, channels, height, width = shape_of(x)
    mask = net.reshape(net.conv(x, 1, 1), 1, 1, height * width)
    mask = net.one("softmax", x=mask, axis=-1)
    flat = net.reshape(x, 1, channels, height * width)
    context = net.one("matmul", x=flat, y=mask, transpose_x=False, transpose_y=True)
    context = net.one("expand_dims", x=context, axes=[-1])
    return net.pair("add", x, net.conv(net.active(context, 48, 1), channels, 1))


def _max_pool(net: _Network, x: Value) -> Value:
    window = {"kernel_sizes": [5, 5], "strides": [1, 1], "pad_type": "custom", "pad": [2] * 4}
    return net.one("max_pool", x=x, ceil_mode=False, **window)


def _average(net: _Network, x: Value) -> Value:
    window = {"kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "custom", "pad": [0] * 4}
    return net.one("avg_pool", x=x, ceil_mode=False, exclude_padding_from_average=False, **window)


def _fused(net: _Network, skip: Value, x: Value, channels: int) -> Value:
    above = net.up(x, 2.0, 2.0)
    beside, below = (net.conv(one, channels, 1, groups=4, bias=False) for one in (skip, above))
    return net.one("relu", x=net.batch_norm(net.pair("add", beside, below)))


def _upsampled(net: _Network, x: Value) -> Value:
    depth = net.conv(x, 1, 3)
    nearest, linear = net.near(depth), net.up(depth, 2.0, 2.0)
    hidden = net.active(x, 16, 1)
    hidden = net.one("relu", x=net.conv(hidden, 16, 5, groups=16))
    share = net.one("sigmoid", x=net.up(net.conv(hidden, 1, 1, bias=False), 2.0, 2.0))
    near = net.pair("mul", share, nearest)
    rest = net.one("sub", x=constant(1.0, DType.FP16), y=share)
    return net.one("relu", x=net.pair("add", near, net.pair("mul", rest, linear)))


# Depth Anything V2, small (DepthAnything/Depth-Anything-V2): ViT-S/14 and DPT


_HEIGHT, _WIDTH = 24, 32
_TOKENS = _HEIGHT * _WIDTH + 1


def depth_anything(*, fused: bool, half: bool = False) -> Model:
    """Returns Depth Anything V2 for images of 448×336.

    Args:
        fused: Whether attention is one operation.
        half: Whether the input is in half precision.
    """
    net = _Network()
    image, x = net.image(14 * _HEIGHT, 14 * _WIDTH, half=half)
    x = net.reshape(net.conv(x, 384, 14, stride=14, pad=0), 1, 384, _TOKENS - 1)
    x = net.one("concat", values=(weight(1, 1, 384), net.transpose(x, 0, 2, 1)), axis=1, interleave=False)
    factors = {
        f"scale_factor_{side}": (size + 0.1) / 37 for side, size in (("height", _HEIGHT), ("width", _WIDTH))
    }
    places = net.one("upsample_bilinear", x=weight(1, 384, 37, 37), align_corners=False, **factors)
    places = net.reshape(net.transpose(places, 0, 2, 3, 1), 1, _TOKENS - 1, 384)
    places = net.one("concat", values=(weight(1, 1, 384), places), axis=1, interleave=False)
    x = net.pair("add", x, places)
    features = []
    for index in range(12):
        x = _block(net, x, fused)
        if index in (2, 5, 8, 11):
            features.append(x)
    ends = {"begin": [0, 1, 0], "end": [1, _TOKENS, 384], "end_mask": [True] * 3}
    features = [net.one("slice_by_index", x=net.layer_norm(one), **ends) for one in features]
    return net.model((image,), _depth(net, features))


def _block(net: _Network, x: Value, fused: bool) -> Value:
    scale = weight(384)
    parts = net.reshape(net.linear(net.layer_norm(x), 1152), 1, _TOKENS, 3, 6, 64)
    parts = net.transpose(parts, 2, 0, 3, 1, 4)
    mixed = _fused_attention(net, parts) if fused else _attention(net, parts)
    mixed = net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, _TOKENS, 384)
    x = net.pair("add", x, net.one("mul", x=net.linear(mixed, 384), y=scale))
    hidden = net.one("gelu", x=net.linear(net.layer_norm(x), 1536), mode="EXACT")
    return net.pair("add", x, net.one("mul", x=net.linear(hidden, 384), y=scale))


def _fused_attention(net: _Network, parts: Value) -> Value:
    split = net.add("split", 3, x=parts, split_sizes=[1, 1, 1], axis=0)
    query, key, value = (net.one("squeeze", x=one, axes=[0]) for one in split)
    return net.one("scaled_dot_product_attention", query=query, key=key, value=value)


def _attention(net: _Network, parts: Value) -> Value:
    def part(index: int) -> Value:
        masks = {"end_mask": [False, *[True] * 4], "squeeze_mask": [True, *[False] * 4]}
        ends = {"begin": [index, 0, 0, 0, 0], "end": [index + 1, 1, 6, _TOKENS, 64]}
        return net.one("slice_by_index", x=parts, **ends, **masks)

    query = net.scaled(part(0), 0.125)
    key, value = part(1), part(2)
    scores = net.one("matmul", x=query, y=key, transpose_x=False, transpose_y=True)
    weights = net.one("softmax", x=scores, axis=-1)
    return net.one("matmul", x=weights, y=value, transpose_x=False, transpose_y=False)


def _depth(net: _Network, features: list[Value]) -> Value:
    levels = []
    for index, (x, channels) in enumerate(zip(features, (48, 96, 192, 384), strict=True)):
        plane = net.reshape(net.transpose(x, 0, 2, 1), 1, 384, _HEIGHT, _WIDTH)
        plane = net.conv(plane, channels, 1)
        if index in (0, 1):
            plane = _transposed(net, plane, (4, 2)[index])
        levels.append(net.conv(plane, channels, 3, stride=2) if index == 3 else plane)
    levels = [net.conv(level, 64, 3, bias=False) for level in levels]
    x = net.conv(net.up(_residual(net, levels[3]), 2.0, 2.0), 64, 1)
    for level in reversed(levels[:3]):
        x = _residual(net, net.pair("add", x, _residual(net, level)))
        x = net.conv(net.up(x, 2.0, 2.0), 64, 1)
    x = net.up(net.conv(x, 32, 3), 14 * _HEIGHT / 192, 14 * _WIDTH / 256)
    return net.one("identity", x=net.active(net.active(x, 32, 3), 1, 1))


def _transposed(net: _Network, x: Value, size: int) -> Value:
    channels = shape_of(x)[1]
    weights = {"weight": weight(channels, channels, size, size), "bias": weight(channels)}
    return net.one("conv_transpose", x=x, strides=[size, size], pad_type="valid", **weights)


def _residual(net: _Network, x: Value) -> Value:
    inner = net.conv(net.one("relu", x=x), 64, 3)
    return net.pair("add", net.conv(net.one("relu", x=inner), 64, 3), x)


# Published plans


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The published plans of a network.

    Attributes:
        name: Its name.
        build: Makes it.
        first: With all units, the number of operations at its beginning that are not on the Neural Engine.
        unit: Their unit.
        others: The places of further operations on that unit.
        on_cpu: Under `cpu_and_ne`, the number at the beginning that are not on the Neural Engine.
    """

    name: str
    build: Callable[[], Model]
    first: int
    unit: ComputeUnit
    others: tuple[int, ...] = ()
    on_cpu: int


_PLANS = (
    Plan(
        name="ZipDepth 384×384",
        build=lambda: zipdepth(384, 384),
        first=2,
        unit=CPU,
        on_cpu=2,
    ),
    Plan(name="ZipDepth 896×512", build=lambda: zipdepth(512, 896), first=2, unit=CPU, on_cpu=2),
    Plan(
        name="ZipDepth 1536×864",
        build=lambda: zipdepth(864, 1536),
        first=4,
        unit=GPU,
        others=(98, 99, 100, 101, 104),
        on_cpu=2,
    ),
    Plan(
        name="Depth Anything V2",
        build=lambda: depth_anything(fused=False),
        first=30,
        unit=GPU,
        on_cpu=5,
    ),
    Plan(
        name="Depth Anything V2, input in half precision",
        build=lambda: depth_anything(fused=False, half=True),
        first=29,
        unit=GPU,
        on_cpu=4,
    ),
    Plan(
        name="Depth Anything V2, attention as one operation",
        build=lambda: depth_anything(fused=True),
        first=28,
        unit=GPU,
        on_cpu=5,
    ),
)


def _sliced(shape: tuple[int, ...], end: list[int], end_mask: list[bool], **more: object) -> Example:
    ends = {"begin": [0] * len(shape), "end": end, "end_mask": end_mask}
    return Example("slice_by_index", {"x": fp16(*shape), **ends, **more})


def _joined(*shapes: tuple[int, ...]) -> Example:
    values = tuple(fp16(*shape) for shape in shapes)
    return Example("concat", {"values": values, "axis": -1, "interleave": False})


def _layer(rows: int, channels: int) -> Example:
    weights = {"weight": weight(channels, 384), "bias": weight(channels)}
    return Example("linear", {"x": fp16(1, rows, 384), **weights})


_ROTATED, _MAPS = (1, 6, 785, 32), (1, 392, 392, 2)
#: Operations of Depth Anything 3 (small, 392×392 and 518×518) of other shapes or forms.
_SINGLE: tuple[tuple[Example, Backend, float], ...] = (
    (Example("expand_dims", {"x": fp16(1, 3, 392, 392), "axes": [1]}), "mps_graph", 30.128645),
    (
        _sliced(
            (3, 1, 6, 785, 64),
            [1, 1, 6, 785, 64],
            [False, True, True, True, True],
            squeeze_mask=[True, False, False, False, False],
        ),
        "mps_graph",
        39.402624,
    ),
    (_sliced(_ROTATED, [1, 6, 785, 16], [True, True, True, False]), "ane", 7.3884271),
    (_sliced(_MAPS, [1, 392, 392, 1], [True, True, True, False]), "ane", 15.064878),
    (_joined((1, 6, 785, 16), (1, 6, 785, 16)), "ane", 3.0144),
    (_joined(_ROTATED, _ROTATED), "ane", 6.0288),
    (Example("mul", {"x": fp16(*_ROTATED), "y": weight(785, 32)}), "ane", 8.792),
    (Example("split", {"x": fp16(1, 6, 785, 64), "split_sizes": [32, 32], "axis": -1}), "ane", 14.775874),
    (Example("add", {"x": fp16(1, 32, 392, 392), "y": weight(1, 32, 392, 392)}), "ane", 655.63307),
    (Example("transpose", {"x": fp16(1, 2, 392, 392), "perm": [0, 2, 3, 1]}), "ane", 42.654608),
    (Example("exp", {"x": fp16(1, 392, 392, 1)}), "ane", 10.04286),
    (Example("squeeze", {"x": fp16(1, 392, 392, 1), "axes": [-1]}), "ane", 10.042925),
    (_layer(785, 384), "mps_graph", 63.93527),
    (_layer(785, 1152), "mps_graph", 35.052649),
    (_layer(1370, 384), "mps_graph", 61.1744),
    (_layer(1370, 1152), "mps_graph", 61.1744),
)


def compare_depth(rates: RateTable | None = None, remark: str = "") -> list[Agreement]:
    """Compares units under three settings, and costs of operations.

    Args:
        rates: The rates behind our costs; by default those of the chip.
        remark: Words for the headings.
    """
    used = rate_table(_DEVICE) if rates is None else rates
    costs = Agreement(f"M1 Max · planned cost of operations of networks for depth within 1 %{remark}")
    units = {
        setting: Agreement(f"M1 Max · unit of each operation, {setting}{remark}") for setting in _SETTINGS
    }
    possible = Counter[ComputeUnits]()
    for plan in _PLANS:
        placed = place_functions(plan.build(), _DEVICE, _SETTINGS, with_advice=False, rates=used)
        (function,) = placed.values()
        ops = [op for op in function.ops if not op.inserted]
        for setting, found in units.items():
            for place, unit in enumerate(_units(plan, setting, len(ops))):
                choice = ops[place].choices[setting]
                text = f"{plan.name}: {ops[place].type} {place}: {unit}, ours {choice.unit}"
                found.count(choice.unit == unit, text)
                possible[setting] += unit in (choice.unit, *choice.alternatives)
        _compare_costs(costs, plan, ops)
    for setting, found in units.items():
        found.notes.append(f"with open operations on either unit: {possible[setting]} of {found.total}")
    for example, backend, theirs_us in _SINGLE:
        ours_us = price(example_view(example), used)[backend].ms * 1e3
        _count(costs, f"Depth Anything 3: {example.type} on {backend}", ours_us, theirs_us)
    return [*units.values(), costs]


def _count(found: Agreement, text: str, ours_us: float, theirs_us: float) -> None:
    is_close = math.isclose(ours_us, theirs_us, rel_tol=_CLOSE)
    found.count(is_close, f"{text}: {theirs_us} µs, ours {ours_us:.6g} µs")


def _units(plan: Plan, setting: ComputeUnits, count: int) -> Iterator[ComputeUnit]:
    """Yields the published unit of each operation."""
    for place in range(count):
        if setting == "cpu_and_gpu":
            yield GPU
        elif setting == "cpu_and_ne":
            yield CPU if place < plan.on_cpu else NEURAL_ENGINE
        else:
            yield plan.unit if place < plan.first or place in plan.others else NEURAL_ENGINE


def _compare_costs(found: Agreement, plan: Plan, ops: Sequence[PlannedOp]) -> None:
    with _COSTS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["network"] == plan.name]
    for row in rows:
        op = ops[int(row["place"])]
        known = {backend: ms * 1e3 for backend, ms in op.cost_ms.items()}
        text = f"{plan.name}: {op.type} {row['place']} on {row['backend']}"
        _count(found, text, known.get(row["backend"], math.nan), float(row["cost_us"]))
