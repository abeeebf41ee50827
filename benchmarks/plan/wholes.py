"""Compares our plans of whole networks with published ones, with and without what the evidence leaves open.

Published are units and costs of MobileNet operation by operation, and of four more networks the number of
operations on each unit. A network agrees if no unit has more or fewer operations than 5 % of all. Operations
that our evidence leaves open may count for either unit in the second figure.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.latency.planned import MODELS as TIMED
from benchmarks.plan.agreement import Agreement, compare_network
from benchmarks.plan.convnets import mobilenet, resnet50
from benchmarks.plan.counting import CountedNetworks
from benchmarks.plan.depth import compare_depth
from benchmarks.plan.encoders import compare_encoders
from benchmarks.plan.published import read_mobilenet, read_shapes, read_shares
from coremlscope.devices import (
    CPU,
    GPU,
    NEURAL_ENGINE,
    ComputeUnit,
    ComputeUnits,
    Device,
    find_device,
)
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.ops.view import OpView
from coremlscope.planning.cost.planned.prices import price
from coremlscope.planning.cost.planned.publications import publications
from coremlscope.planning.cost.planned.rates import RateTable, rate_table
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.patterns.rule import Example, example_view, fp16, weight
from coremlscope.planning.placement.backend import Backend
from coremlscope.results.plan import Choice, PlannedOp

__all__ = [
    "choices_on_one_unit",
    "compare_built",
    "compare_left_out",
    "compare_networks",
    "compare_shapes",
    "network_names",
    "read_network",
]

#: Models of the published networks that are not built in code.
MODELS = Path(__file__).parents[2].parent / "shared" / "knowledge" / "plan" / "models"
#: Networks that are built in code.
_BUILT: Mapping[str, Callable[[int], Model]] = {"mobilenet": mobilenet, "resnet50": resnet50}
_SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu")
#: The largest relative error of a cost.
_CLOSE_COSTS = 0.01
#: A system on which the boundary casts run on the Neural Engine, as on the published 26.5.1.
_M4_PRO = find_device("m4-pro", "27")


#: Networks that are planned on one unit of an M5 Max: erwinzhang7/coreml-compute-placement (batch 16, all),
#: and the comma scorers (batch 1, macOS 26.4: "ALL and CPU_AND_NE are the same placement for fp16").
_ON_ONE_UNIT: tuple[tuple[str, ComputeUnits, ComputeUnit], ...] = (
    *((f"{name}-b16", "all", GPU) for name in ("bert", "mobilenet", "resnet50", "siglip-vision", "whisper")),
    *((f"comma_{name}", "all", NEURAL_ENGINE) for name in ("posenet-192x256", "segnet-384x512")),
    *((f"comma_{name}", "cpu_and_ne", NEURAL_ENGINE) for name in ("posenet-192x256", "segnet-384x512")),
    *((f"comma_{name}-fp32", "cpu_and_ne", CPU) for name in ("posenet-192x256", "segnet-384x512")),
)


def compare_networks() -> list[Agreement]:
    """Compares whole networks: units and MobileNet's costs on an M4 Pro, units on an M5 Max."""
    of_m4_pro = rate_table(_M4_PRO)
    return [*_compare_shares(of_m4_pro, ""), *_compare_mobilenet(of_m4_pro), _compare_units()]


def compare_built() -> list[Agreement]:
    """Compares networks that are built in code: on an M4 Pro and an M5 Max, and MobileNet's costs."""
    of_m4_pro = rate_table(_M4_PRO)
    counts = Agreement("M4 Pro · operations of MobileNet and ResNet-50 on the published unit, three settings")
    for share in (one for one in read_shares() if _is_built(one.model)):
        units = [op.choices[share.setting].unit for op in _placed(share.model, _M4_PRO, of_m4_pro)]
        for unit, count in share.counts.items():
            same = min(units.count(unit), count)
            counts.right, counts.total = counts.right + same, counts.total + count
    m5_max = Agreement("M5 Max · operations of MobileNet and ResNet-50 on the published unit, all")
    for name, _, unit, choices in _on_one_unit():
        if _is_built(name):
            for choice in choices:
                m5_max.count(choice.unit == unit, name)
    return [counts, *_compare_mobilenet(of_m4_pro), m5_max]


def choices_on_one_unit(rates: RateTable) -> Iterator[tuple[Choice, ComputeUnit]]:
    """Yields our choices for networks that an M4 Pro plans on one unit, and this unit.

    Args:
        rates: The rates behind our costs.
    """
    for share in read_shares():
        if len(share.counts) == 1 and _is_there(share.model):
            (unit,) = share.counts
            yield from ((op.choices[share.setting], unit) for op in _placed(share.model, _M4_PRO, rates))


def choices_on_m5_max() -> Iterator[tuple[Choice, ComputeUnit]]:
    """Yields our choices for networks that an M5 Max plans on one unit, and this unit."""
    for _, _, unit, choices in _on_one_unit():
        yield from ((choice, unit) for choice in choices)


def _on_one_unit() -> Iterator[tuple[str, ComputeUnits, ComputeUnit, list[Choice]]]:
    """Yields the networks of `_ON_ONE_UNIT` with our choices."""
    device = find_device("m5-max", "26.4")
    for name, setting, unit in _ON_ONE_UNIT:
        path = (MODELS if name.endswith("-b16") else TIMED) / f"{name}.mlpackage"
        if not _is_built(name) and not path.exists():
            continue
        model = read_network(path.name) if name.endswith("-b16") else container.read(path)
        (function,) = place_functions(model, device, [setting], with_advice=False).values()
        yield name, setting, unit, [op.choices[setting] for op in function.ops if not op.inserted]


def _compare_units() -> Agreement:
    """Compares networks that an M5 Max plans on one unit; PoseNet's structure is partly guessed."""
    found = CountedNetworks("M5 Max · networks within 5 % of their operations on the published unit")
    for name, setting, unit, choices in _on_one_unit():
        found.compare(f"{name}, {setting}", {unit: len(choices)}, choices)
    return found.finished()


def _compare_shares(rates: RateTable, remark: str) -> Iterator[Agreement]:
    shares = read_shares()
    for setting in _SETTINGS:
        found = CountedNetworks(f"M4 Pro · networks within 5 % of their operations, {setting}{remark}")
        for share in (one for one in shares if one.setting == setting and _is_there(one.model)):
            ops = _placed(share.model, _M4_PRO, rates)
            found.compare(share.model, share.counts, [op.choices[setting] for op in ops])
        yield found.finished()


def _compare_mobilenet(rates: RateTable) -> list[Agreement]:
    units = Agreement("M4 Pro · MobileNet, unit of each operation, all")
    costs = Agreement("M4 Pro · MobileNet, planned cost within 1 %")
    ops = _placed("mobilenet-b16.mlpackage", _M4_PRO, rates)
    total = sum(op.choices["all"].planned_ms or 0.0 for op in ops)
    for op, (type_, unit, share) in zip(ops, read_mobilenet(), strict=True):
        assert op.type == type_
        ours = (op.choices["all"].planned_ms or 0.0) / total
        units.count(op.choices["all"].unit == unit, f"{op.name}: {unit}, ours {op.choices['all'].unit}")
        costs.count(abs(ours - share) <= _CLOSE_COSTS * share, f"{op.name}: {share:.6f}, ours {ours:.6f}")
    return [units, costs]


def _is_built(name: str) -> bool:
    return name.partition("-")[0] in _BUILT


def _is_there(name: str) -> bool:
    return _is_built(name) or (MODELS / name).exists()


def network_names() -> list[str]:
    """Returns the names of the networks with published shares of units."""
    return sorted({share.model for share in read_shares() if _is_there(share.model)})


@functools.cache
def read_network(name: str) -> Model:
    """Returns a network with published shares of units, built in code where it can be."""
    built = _BUILT.get(name.partition("-")[0])
    return container.read(MODELS / name) if built is None else built(16)


def _placed(name: str, device: Device, rates: RateTable) -> list[PlannedOp]:
    """The operations that published plans count: not the buffers of inputs and outputs."""
    placed = place_functions(read_network(name), device, _SETTINGS, with_advice=False, rates=rates)
    (function,) = placed.values()
    return [op for op in function.ops if not op.type.endswith(("_to_tensor", "_to_tensor_buffer"))]


# Operations with known shapes


_Build = Callable[[list[int]], Example]


def _example(row: Mapping[str, str]) -> OpView | None:
    """The operation of a row whose shapes are stated in full; None for others."""
    type_ = row["op_type"].rpartition(".")[2]
    numbers = [int(text) for text in re.findall(r"\d+", row["shapes_params"])]
    built = _BUILDERS.get(type_)
    return None if built is None else example_view(built(numbers))


def _conv(n: list[int]) -> Example:
    kernel, inner, outer, height, width = n
    return Example(
        "conv",
        {
            "x": fp16(1, inner, height, width),
            "weight": weight(outer, inner, kernel, kernel),
            "bias": weight(outer),
            "pad_type": "same",
        },
    )


def _linear(n: list[int]) -> Example:
    rows, inner, outer = n
    arguments = {"x": fp16(1, rows, inner), "weight": weight(outer, inner), "bias": weight(outer)}
    return Example("linear", arguments)


def _twice(n: list[int]) -> Example:
    channels, height, width = n[:3]
    arguments = {"scale_factor_height": 2.0, "scale_factor_width": 2.0, "align_corners": False}
    return Example("upsample_bilinear", {"x": fp16(1, channels, height, width), **arguments})


def _norm(n: list[int]) -> Example:
    arguments = {"axes": [-1], "gamma": weight(n[-1]), "beta": weight(n[-1])}
    return Example("layer_norm", {"x": fp16(*n), **arguments})


def _attention(n: list[int]) -> Example:
    heads = dict.fromkeys(("query", "key", "value"), fp16(1, *n))
    return Example("scaled_dot_product_attention", heads)


_BUILDERS: Mapping[str, _Build] = {
    "conv": _conv,
    "linear": _linear,
    "relu": lambda n: Example("relu", {"x": fp16(1, *n)}),
    "gelu": lambda n: Example("gelu", {"x": fp16(*n), "mode": "EXACT"}),
    "add": lambda n: Example("add", {"x": fp16(*n), "y": fp16(*n)}),
    "layer_norm": _norm,
    "transpose": lambda n: Example("transpose", {"x": fp16(*n), "perm": list(range(len(n)))}),
    "scaled_dot_product_attention": _attention,
    "upsample_bilinear": _twice,
}
#: Shapes with these words are not those of one argument.
_UNREADABLE = ("pos-embed", "perm", "]->[")
_COLUMNS: Mapping[str, Backend] = {"gpu_cost_us": "mps_graph", "ne_cost_us": "ane"}


def compare_shapes() -> list[Agreement]:
    """Compares costs of single operations of an M1 Max, whose shapes are stated."""
    device = find_device("m1-max", "27")
    return [_compare_shapes(rate_table(device), "")]


def _compare_shapes(rates: RateTable, remark: str) -> Agreement:
    found = Agreement(f"M1 Max · planned cost of operations of stated shapes within 1 %{remark}")
    for row in read_shapes("M1 Max"):
        try:
            view = _example(row)
        except (TypeError, ValueError):
            continue
        if view is None or any(word in row["shapes_params"] for word in _UNREADABLE):
            continue
        for column, backend in _COLUMNS.items():
            if row[column]:
                ours, theirs = price(view, rates)[backend].ms * 1e3, float(row[column])
                text = (
                    f"{row['op_type']} {row['shapes_params']} on {backend}: {theirs} µs, ours {ours:.4f} µs"
                )
                found.count(math.isclose(ours, theirs, rel_tol=_CLOSE_COSTS), text)
    return found


# Without the publication of the chip itself


def without(device: Device) -> RateTable:
    """Returns the rates of a device from the publications of other chips."""
    return rate_table(device, [one for one in publications() if one.chip.id != device.chip.id])


def compare_left_out() -> list[Agreement]:
    """Compares with the rates of a chip transferred from the other publications only."""
    remark = ", its rates from other chips"

    m1, m1_max, m4_max = (
        find_device(chip, os) for chip, os in (("m1", "14.5"), ("m1-max", "27"), ("m4-max", "26"))
    )
    found = list(_compare_shares(without(_M4_PRO), remark))
    selections = compare_network(without(m1))[0]
    selections.name += remark
    found += compare_encoders(without(m4_max), remark)
    *units, _ = compare_depth(without(m1_max), remark)
    return [*found, selections, _compare_shapes(without(m1_max), remark), *units]
