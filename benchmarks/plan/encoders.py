"""Compares plans of encoders whose structure is published by the number of operations of each type.

AirRunner/laya-apple publishes where an M4 Max with macOS 26.6.2 plans two encoders at several lengths, under
all units (`research/phase-0-feasibility/raw/profile/plan-*-ane-all-*.json`): 22 or 28 layers in the layout
(1, channels, 1, length), each head apart, with rotary positions and gates, and two layers without either. The
networks here have the published number of operations of each type; the order of the last twelve is not
published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.plan.agreement import Agreement
from benchmarks.plan.builder import Builder, shape_of
from coremlscope.cost.planned.rates import RateTable, rate_table
from coremlscope.devices import GPU, NEURAL_ENGINE, UNITS, ComputeUnit, find_device
from coremlscope.forecast.planner import place_functions
from coremlscope.ir import DType, Model, Value, constant
from coremlscope.placement.place import PlacedOp
from coremlscope.placement.rules.rule import fp16, weight

__all__ = ["compare_encoders", "encoder"]

_DEVICE = find_device("m4-max", "26")
_CLOSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of an encoder.

    Attributes:
        layers: Layers with rotary positions and gates.
        width: Channels.
        heads: Heads of 64 channels.
        gated: Channels of a gated layer.
        plain: Channels of the hidden layer of the two layers at the end.
    """

    layers: int
    width: int
    heads: int
    gated: int
    plain: int


_LARGE = Shape(layers=28, width=1024, heads=16, gated=2624, plain=4096)
_BASE = Shape(layers=22, width=768, heads=12, gated=1152, plain=3072)


@dataclass(frozen=True)
class Plan:
    """A published plan: the operations on each unit.

    Attributes:
        shape: The encoder.
        length: Its length.
        counts: Operations by unit.
    """

    shape: Shape
    length: int
    counts: Mapping[ComputeUnit, int]


_PUBLISHED = (
    *(Plan(_LARGE, length, {NEURAL_ENGINE: 10_594}) for length in (64, 96, 128, 256)),
    Plan(_LARGE, 512, {GPU: 10_466, NEURAL_ENGINE: 128}),
    Plan(_LARGE, 1024, {GPU: 10_535, NEURAL_ENGINE: 59}),
    *(Plan(_BASE, length, {NEURAL_ENGINE: 6_390}) for length in (64, 96, 128, 256)),
    Plan(_BASE, 512, {GPU: 6_390}),
    Plan(_BASE, 1024, {GPU: 6_374, NEURAL_ENGINE: 16}),
)


def _conv(builder: Builder, x: Value, channels: int) -> Value:
    return builder.one("conv", x=x, weight=weight(channels, shape_of(x)[1], 1, 1), pad_type="valid")


def _split(builder: Builder, x: Value, count: int) -> tuple[Value, ...]:
    return builder.add("split", count, x=x, num_splits=count, axis=1)


def encoder(shape: Shape, length: int) -> Model:
    """Returns an encoder.

    Args:
        shape: Its sizes.
        length: Number of positions.
    """
    builder = Builder()
    names = {
        "x": fp16(1, shape.width, 1, length),
        "mask": fp16(1, length, 1, length),
        "cos": fp16(1, 32, 1, length),
        "sin": fp16(1, 32, 1, length),
        "choice": fp16(1, length, 1, 32),
    }
    given = {name: Value(name, type_) for name, type_ in names.items()}
    x = _norm(builder, given["x"])
    for index in range(shape.layers):
        inner = _norm(builder, x) if index else x
        x = builder.one("add", x=x, y=_attention(builder, shape, inner, given, rotary=True))
        gate, value = _split(builder, _conv(builder, _norm(builder, x), 2 * shape.gated), 2)
        gated = builder.one("mul", x=builder.one("gelu", x=gate, mode="EXACT"), y=value)
        x = builder.one("add", x=x, y=_conv(builder, gated, shape.width))
    x = _norm(builder, x)
    for _ in range(2):
        inner = _scaled_norm(builder, x)
        x = builder.one("add", x=x, y=_attention(builder, shape, inner, given, rotary=False))
        hidden = builder.one("relu", x=_conv(builder, _scaled_norm(builder, x), shape.plain))
        x = builder.one("add", x=x, y=_conv(builder, hidden, shape.width))
    chosen = builder.one("einsum", values=(x, given["choice"]), equation="bchk,bkhq->bchq")
    first = builder.one("slice_by_index", x=x, begin=[0, 0, 0, 0], end=[1, shape.width, 1, 1])
    chosen = _scaled_norm(builder, builder.one("add", x=chosen, y=first))
    last = _conv(builder, builder.one("gelu", x=_conv(builder, chosen, shape.width), mode="EXACT"), 1)
    return builder.model(tuple(given.values()), last)


def _norm(builder: Builder, x: Value) -> Value:
    normed = builder.one("layer_norm", x=x, axes=[1], epsilon=1e-5)
    return builder.one("mul", x=normed, y=weight(1, shape_of(x)[1], 1, 1))


def _scaled_norm(builder: Builder, x: Value) -> Value:
    vectors = {name: weight(shape_of(x)[1]) for name in ("mean", "variance", "gamma", "beta")}
    return builder.one("batch_norm", x=builder.one("layer_norm", x=x, axes=[1], epsilon=1e-5), **vectors)


def _attention(builder: Builder, shape: Shape, x: Value, given: Mapping[str, Value], rotary: bool) -> Value:
    thirds = _split(builder, _conv(builder, x, 3 * shape.width), 3)
    heads = []
    for query, key, value in zip(*(_split(builder, third, shape.heads) for third in thirds), strict=True):
        if rotary:
            query, key = _rotated(builder, query, given), _rotated(builder, key, given)
        turned = builder.one("transpose", x=key, perm=[0, 3, 2, 1])
        scores = builder.one("einsum", values=(query, turned), equation="bchq,bkhc->bkhq")
        scores = builder.one("mul", x=scores, y=constant(0.125, DType.FP16))
        scores = builder.one("add", x=scores, y=given["mask"])
        weights = builder.one("softmax", x=scores, axis=1)
        heads.append(builder.one("einsum", values=(weights, value), equation="bkhq,bchk->bchq"))
    return _conv(builder, builder.one("concat", values=tuple(heads), axis=1, interleave=False), shape.width)


def _rotated(builder: Builder, x: Value, given: Mapping[str, Value]) -> Value:
    left, right = _split(builder, x, 2)
    products = [
        [builder.one("mul", x=half, y=given[name]) for half, name in pairs]
        for pairs in (((left, "cos"), (right, "sin")), ((right, "cos"), (left, "sin")))
    ]
    halves = (
        builder.one("sub", x=products[0][0], y=products[0][1]),
        builder.one("add", x=products[1][0], y=products[1][1]),
    )
    return builder.one("concat", values=halves, axis=1, interleave=False)


def compare_encoders(rates: RateTable | None = None, remark: str = "") -> list[Agreement]:
    """Compares the units of all operations of the published plans on an M4 Max.

    Args:
        rates: The rates behind our costs; by default those of the chip.
        remark: Words for the heading.
    """
    used = rate_table(_DEVICE) if rates is None else rates
    networks = Agreement(f"M4 Max · encoders within 5 % of their operations, all{remark}")
    same = total = open_ = 0
    for plan in _PUBLISHED:
        counts, doubtful = _counts(plan, used)
        wanted = sum(plan.counts.values())
        missing = sum(max(plan.counts.get(unit, 0) - counts.get(unit, 0), 0) for unit in UNITS)
        same, total, open_ = same + wanted - missing, total + wanted, open_ + doubtful
        text = f"{plan.shape.layers} layers, length {plan.length}"
        networks.count(missing <= _CLOSE * wanted, f"{text}: {dict(plan.counts)}, ours {counts}")
    networks.notes.append(f"operations on the same unit by counts: {same} of {total} ({same / total:.1%})")
    networks.notes.append(f"open operations: {open_ / total:.1%}")
    return [networks]


def _counts(plan: Plan, rates: RateTable) -> tuple[dict[ComputeUnit, int], int]:
    model = encoder(plan.shape, plan.length)
    (function,) = place_functions(model, _DEVICE, ["all"], with_advice=False, rates=rates).values()
    ops: list[PlacedOp] = [op for op in function.ops if not op.inserted]
    counts: dict[ComputeUnit, int] = {}
    for op in ops:
        unit = op.choices["all"].unit
        if unit is not None:
            counts[unit] = counts.get(unit, 0) + 1
    return counts, sum(bool(op.choices["all"].alternatives) for op in ops)
