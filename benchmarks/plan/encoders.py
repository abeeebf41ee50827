"""Compares plans of encoders whose code is published, and the number of operations of each type.

AirRunner/laya-apple publishes where an M4 Max with macOS 26.6.2 plans two encoders at several lengths
(`research/phase-0-feasibility/raw/profile/plan-*.json`), in two forms: with convolutions in the layout
(1, channels, 1, length), each head apart, and with linear layers and attention operations (`transformers`).
Shares of cost by operation and unit of eleven plans are in `encoder_shares.csv`.
"""

from __future__ import annotations

import csv
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plan.agreement import Agreement
from benchmarks.plan.builder import Builder, shape_of
from benchmarks.plan.counting import CountedNetworks
from benchmarks.plan.transformers import BASE, LARGE, Shape, transformer
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, find_device
from coremlscope.model.ir import DType, Model, Value, constant
from coremlscope.planning.cost.planned.rates import RateTable, rate_table
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.patterns.rule import fp16, weight
from coremlscope.results.plan import Choice, PlannedOp

__all__ = ["choices_on_one_unit", "compare_encoders", "encoder"]

_DEVICE = find_device("m4-max", "26")
_CLOSE_SHARES = 1e-3
#: The share of a network's operations that makes its plan one of a single unit.
_NEARLY_ALL = 0.985
_SHARES = Path(__file__).with_name("encoder_shares.csv")
_ENCODERS: Mapping[str, Shape] = {"large": LARGE, "base": BASE}


def encoder(shape: Shape, length: int) -> Model:
    """Returns an encoder with convolutions.

    Args:
        shape: Its sizes.
        length: Number of positions.
    """
    builder = Builder()
    names = {
        "x": fp16(1, shape.width, 1, length),
        "mask": fp16(1, length, 1, length),
        "window": fp16(1, length, 1, length),
        "kind": fp16(1, shape.width, 1, 1),
        "choice": fp16(1, length, 1, 32),
    }
    given = {name: Value(name, type_) for name, type_ in names.items()}
    x = _norm(builder, given["x"])
    for index in range(shape.layers):
        inner = _norm(builder, x) if index else x
        mask = given["window" if index % 3 else "mask"]
        x = builder.one("add", x=x, y=_attention(builder, shape, inner, mask, rotary=True))
        gate, value = _split(builder, builder.conv(_norm(builder, x), 2 * shape.gated), 2)
        gated = builder.one("mul", x=builder.one("gelu", x=gate, mode="EXACT"), y=value)
        x = builder.one("add", x=x, y=builder.conv(gated, shape.width))
    x = builder.one("add", x=_norm(builder, x), y=given["kind"])
    for _ in range(2):
        inner = _scaled_norm(builder, x)
        x = builder.one("add", x=x, y=_attention(builder, shape, inner, given["mask"], rotary=False))
        hidden = builder.one("relu", x=builder.conv(_scaled_norm(builder, x), shape.plain))
        x = builder.one("add", x=x, y=builder.conv(hidden, shape.width))
    chosen = builder.one("einsum", values=(given["choice"], x), equation="bkhq,bchk->bchq")
    hidden = builder.conv(_scaled_norm(builder, chosen), shape.width)
    scores = builder.conv(builder.one("gelu", x=hidden, mode="EXACT"), 1)
    first = builder.one("slice_by_index", x=x, begin=[0, 0, 0, 0], end=[1, shape.width, 1, 1])
    return builder.model(tuple(given.values()), scores, first)


def _split(builder: Builder, x: Value, count: int) -> tuple[Value, ...]:
    return builder.add("split", count, x=x, split_sizes=[shape_of(x)[1] // count] * count, axis=1)


def _norm(builder: Builder, x: Value) -> Value:
    normed = builder.one("layer_norm", x=x, axes=[1], epsilon=1e-5)
    return builder.one("mul", x=normed, y=weight(1, shape_of(x)[1], 1, 1))


def _scaled_norm(builder: Builder, x: Value) -> Value:
    vectors = {name: weight(shape_of(x)[1]) for name in ("mean", "variance", "gamma", "beta")}
    return builder.one("batch_norm", x=builder.one("layer_norm", x=x, axes=[1], epsilon=1e-5), **vectors)


def _attention(builder: Builder, shape: Shape, x: Value, mask: Value, rotary: bool) -> Value:
    thirds = _split(builder, builder.conv(x, 3 * shape.width), 3)
    parts = (_split(builder, third, shape.heads) for third in thirds)
    heads = []
    for query, key, value in zip(*parts, strict=True):
        if rotary:
            query, key = _rotated(builder, query), _rotated(builder, key)
        turned = builder.one("transpose", x=key, perm=[0, 3, 2, 1])
        scores = builder.one("einsum", values=(query, turned), equation="bchq,bkhc->bkhq")
        scores = builder.one("mul", x=scores, y=constant(0.125, DType.FP16))
        scores = builder.one("add", x=scores, y=mask)
        weights = builder.one("softmax", x=scores, axis=1)
        heads.append(builder.one("einsum", values=(weights, value), equation="bkhq,bchk->bchq"))
    return builder.conv(builder.one("concat", values=tuple(heads), axis=1, interleave=False), shape.width)


def _rotated(builder: Builder, x: Value) -> Value:
    left, right = _split(builder, x, 2)
    cosine, sine = (weight(1, 32, 1, shape_of(x)[3]) for _ in range(2))
    products = [
        [builder.one("mul", x=half, y=table) for half, table in pairs]
        for pairs in (((left, cosine), (right, sine)), ((right, cosine), (left, sine)))
    ]
    halves = (
        builder.one("sub", x=products[0][0], y=products[0][1]),
        builder.one("add", x=products[1][0], y=products[1][1]),
    )
    return builder.one("concat", values=halves, axis=1, interleave=False)


@dataclass(frozen=True)
class Plan:
    """A published plan: the operations on each unit.

    Attributes:
        form: With convolutions or with linear layers: builds the network.
        name: `large` or `base`.
        length: Its length.
        counts: Operations by unit.
        setting: The units allowed.
    """

    form: Callable[[Shape, int], Model]
    name: str
    length: int
    counts: Mapping[ComputeUnit, int]
    setting: ComputeUnits = "all"


_PUBLISHED = (
    *(Plan(encoder, "large", length, {NEURAL_ENGINE: 10_594}) for length in (64, 96, 128, 256)),
    Plan(encoder, "large", 512, {GPU: 10_466, NEURAL_ENGINE: 128}),
    Plan(encoder, "large", 1024, {GPU: 10_535, NEURAL_ENGINE: 59}),
    *(Plan(encoder, "base", length, {NEURAL_ENGINE: 6_390}) for length in (64, 96, 128, 256)),
    Plan(encoder, "base", 512, {GPU: 6_390}),
    Plan(encoder, "base", 1024, {GPU: 6_374, NEURAL_ENGINE: 16}),
    *(
        Plan(transformer, "large", length, {CPU: 13, NEURAL_ENGINE: 1_076, GPU: 37})
        for length in (64, 96, 128)
    ),
    *(Plan(transformer, "base", length, {CPU: 1, NEURAL_ENGINE: 834, GPU: 69}) for length in (64, 96)),
    Plan(encoder, "large", 1024, {NEURAL_ENGINE: 10_594}, "cpu_and_ne"),
    *(
        Plan(transformer, "large", length, {CPU: 42, NEURAL_ENGINE: 1_084}, "cpu_and_ne")
        for length in (64, 96, 128, 256, 512)
    ),
    *(
        Plan(transformer, "base", length, {CPU: 42, NEURAL_ENGINE: 862}, "cpu_and_ne")
        for length in (64, 128, 1024)
    ),
)


def compare_encoders(rates: RateTable | None = None, remark: str = "") -> list[Agreement]:
    """Compares the units of all operations of the published plans on an M4 Max, and the shares of cost.

    Args:
        rates: The rates behind our costs, to compare units only; by default those of the chip.
        remark: Words for the heading.
    """
    used = rate_table(_DEVICE) if rates is None else rates
    settings: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne")
    found = [_compare_units(setting, used, remark) for setting in settings]
    return found if rates is not None else [*found, _compare_shares(used)]


def _compare_units(setting: ComputeUnits, rates: RateTable, remark: str) -> Agreement:
    networks = CountedNetworks(f"M4 Max · encoders within 5 % of their operations, {setting}{remark}")
    for plan in (plan for plan in _PUBLISHED if plan.setting == setting):
        ops = _placed(plan.form, plan.name, plan.length, setting, rates)
        name = f"{plan.form.__name__} {plan.name}, length {plan.length}"
        networks.compare(name, plan.counts, [op.choices[setting] for op in ops])
    return networks.finished()


def choices_on_one_unit(rates: RateTable) -> Iterator[tuple[Choice, ComputeUnit]]:
    """Yields our choices for encoders that are published on one unit but for few operations, and the unit."""
    for plan in _PUBLISHED:
        (unit, most), *_ = Counter(plan.counts).most_common()
        if most >= _NEARLY_ALL * sum(plan.counts.values()):
            ops = _placed(plan.form, plan.name, plan.length, plan.setting, rates)
            yield from ((op.choices[plan.setting], unit) for op in ops)


def _placed(
    form: Callable[[Shape, int], Model], name: str, length: int, setting: ComputeUnits, rates: RateTable
) -> list[PlannedOp]:
    model = _built(form, name, length)
    (function,) = place_functions(model, _DEVICE, [setting], with_advice=False, rates=rates).values()
    return [op for op in function.ops if not op.inserted]


@functools.lru_cache(maxsize=32)
def _built(form: Callable[[Shape, int], Model], name: str, length: int) -> Model:
    return form(_ENCODERS[name], length)


def _compare_shares(rates: RateTable) -> Agreement:
    """Compares the share of the cost of all operations of a type on a unit, where our plan has them there."""
    found = Agreement("M4 Max · share of planned cost by operation and unit within 0.1 %")
    with _SHARES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for key in sorted({(row["encoder"], row["setting"], row["length"]) for row in rows}):
        name, setting, length = key
        shares = _shares(name, setting, int(length), rates)
        for row in rows:
            if (row["encoder"], row["setting"], row["length"]) == key:
                ours, theirs = shares.get((row["type"], row["unit"]), math.nan), float(row["share"])
                text = f"{' '.join(key)}, {row['type']} on {row['unit']}: {theirs:.6g}, ours {ours:.6g}"
                found.count(math.isclose(ours, theirs, rel_tol=_CLOSE_SHARES), text)
    return found


def _shares(name: str, setting: str, length: int, rates: RateTable) -> dict[tuple[str, str], float]:
    chosen: ComputeUnits = "all" if setting == "all" else "cpu_and_ne"
    costs: dict[tuple[str, str], float] = {}
    for op in _placed(transformer, name, length, chosen, rates):
        choice = op.choices[chosen]
        if choice.unit is not None and choice.backend is not None:
            key = op.type, str(choice.unit)
            costs[key] = costs.get(key, 0.0) + (choice.planned_ms or 0.0)
    total = sum(costs.values())
    return {key: cost / total for key, cost in costs.items()}
