"""A function placed on one device: by the costs of Core ML, or by the preferences of Core AI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from coremlscope.base.units import format_duration
from coremlscope.devices import ComputeUnit, ComputeUnits, Device
from coremlscope.ops.view import OpView
from coremlscope.planning.cost.latency.core_ai import CROSSING_S
from coremlscope.planning.cost.planned.prices import PlannedCosts, price
from coremlscope.planning.cost.planned.rates import RateTable, rate_table
from coremlscope.planning.forecast.functions import ModelFunction
from coremlscope.planning.forecast.kernels import as_core_ai
from coremlscope.planning.placement.core_ai import PREFERENCES, crossings, place_by_preference
from coremlscope.planning.placement.coreml_view import CoreMLGraph
from coremlscope.planning.placement.eligibility import Verdicts, judge
from coremlscope.planning.placement.hypotheses import Planning, weigh_reasons
from coremlscope.planning.placement.place import place, reached, units_under
from coremlscope.runtime.execution.binding import share


def place_function(
    function: ModelFunction,
    device: Device,
    settings: Sequence[ComputeUnits],
    advised: Sequence[ComputeUnits] | None,
    *,
    rates: RateTable | None = None,
) -> Planning:
    """Places a function on the units of a device.

    Args:
        function: The function.
        device: The chip and system.
        settings: The settings of compute units, the requested one first.
        advised: The settings under which it is planned again without each reason; None for all. Without any,
            no advice is looked for.
        rates: The rates behind planned costs; by default those of the device.
    """
    if function.model.content.is_core_ai:
        return _place_for_core_ai(function, device, settings, settings if advised is None else advised)
    again = tuple(settings if advised is None else advised)
    make = partial(_place, function, device, settings, rates or rate_table(device), again)
    key = (function, device.chip.id, device.os, tuple(settings), again)
    return make() if rates else share(function.model, key, make)


def _place(
    function: ModelFunction,
    device: Device,
    settings: Sequence[ComputeUnits],
    table: RateTable,
    advised: Sequence[ComputeUnits],
) -> Planning:
    graph, transitions = function.graph_on(device.os), table.transition_costs
    prices, verdicts = _weighed(function, device, table, with_advice=bool(advised))
    planning = Planning(
        device=device,
        facts=function.facts,
        graph=graph,
        verdicts=verdicts,
        prices=prices,
        transition_costs=transitions,
        placed=place(graph, verdicts, prices, transitions, settings, function.key),
    )
    return replace(planning, replanned={one: weigh_reasons(planning, one) for one in advised})


def place_units(
    function: ModelFunction, device: Device, setting: ComputeUnits, *, with_advice: bool
) -> Mapping[str, ComputeUnit | None]:
    """Returns the unit of each operation of a function, as `place_function` places them; see `units_under`.

    Args:
        function: The function.
        device: The chip and system.
        setting: The setting of compute units.
        with_advice: Whether other functions are placed with advice: what is known of their operations serves.
    """
    if function.model.content.is_core_ai:
        placed = _place_for_core_ai(function, device, (setting,), ()).placed
        return {op.id: op.choices[setting].unit for op in placed.ops}
    table = rate_table(device)
    prices, verdicts = _weighed(function, device, table, with_advice=with_advice)
    return units_under(function.graph_on(device.os), verdicts, prices, table.transition_costs, setting)


def _weighed(
    function: ModelFunction, device: Device, table: RateTable, *, with_advice: bool
) -> tuple[dict[str, PlannedCosts], Verdicts]:
    """Returns what each operation of a function costs on each backend, and which units run it."""
    graph, transitions = function.graph_on(device.os), table.transition_costs
    prices = _priced(graph, table)

    def reach(unit: ComputeUnit, known: Verdicts) -> frozenset[str]:
        return reached(graph, known, prices, transitions, unit)

    return prices, judge(graph, device, function.facts, with_advice=with_advice, reach=reach)


def _priced(graph: CoreMLGraph, rates: RateTable) -> dict[str, PlannedCosts]:
    """Returns the costs of all operations by id; equal ones share one mapping, which saves memory."""
    prices = KindPrices.of(graph, rates)
    return {node.id: prices.price(node.kind, node.view) for node in graph.walk()}


class KindPrices:
    """Planned costs of kinds of operations; equal ones are one mapping.

    Args:
        rates: The rates behind them.
    """

    def __init__(self, rates: RateTable) -> None:
        self._rates = rates
        self._of_kinds: dict[int, PlannedCosts] = {}
        self._kept: dict[object, PlannedCosts] = {}

    @classmethod
    def of(cls, graph: CoreMLGraph, rates: RateTable) -> KindPrices:
        """Returns what is known of the kinds of a graph. It keeps the rates, and so their address."""
        return graph.kinds.remember((cls, id(rates)), lambda: cls(rates))

    def price(self, kind: int | None, view: OpView) -> PlannedCosts:
        """Returns what an operation of a kind costs on each backend; None for one of its own."""
        known = None if kind is None else self._of_kinds.get(kind)
        if known is not None:
            return known
        costs = price(view, self._rates)
        key = tuple(
            (backend, one.ms, one.basis, one.is_complete, one.bounds_ms, one.is_open, id(one.rate))
            for backend, one in costs.items()
        )
        costs = self._kept.setdefault(key, costs)
        if kind is not None:
            self._of_kinds[kind] = costs
        return costs


def _place_for_core_ai(
    function: ModelFunction,
    device: Device,
    settings: Sequence[ComputeUnits],
    advised: Sequence[ComputeUnits],
) -> Planning:
    graph = function.graph_on(device.os)
    verdicts = judge(graph, device, function.facts, with_advice=bool(advised))
    preferences, note = _default_preference(function, device, graph, verdicts)
    return Planning(
        device=device,
        facts=function.facts,
        graph=graph,
        verdicts=verdicts,
        prices={},
        transition_costs=rate_table(device).transition_costs,
        placed=place_by_preference(graph, verdicts, settings, preferences, function.key),
        notes=(note,) if note and "all" in (advised or settings) else (),
    )


def _default_preference(
    function: ModelFunction, device: Device, graph: CoreMLGraph, verdicts: Verdicts
) -> tuple[Mapping[ComputeUnits, tuple[ComputeUnit, ...]], str]:
    """Returns the preferences, and why the GPU is the first one of the default options; empty if it is not.

    The default options choose the units that minimise latency, as Apple documents. So the Neural Engine is
    left where the crossings to other units make a prediction longer than it is on the GPU.
    """
    both: tuple[ComputeUnits, ...] = ("all", "cpu_and_gpu")
    placed = place_by_preference(graph, verdicts, both)
    count = crossings(placed, "all")
    if not count:
        return PREFERENCES, ""
    predictions = function.kernels.on(device, both, [placed])
    engine_s, gpu_s = (as_core_ai(predictions[one].estimate(), [placed]).latency.value for one in both)
    if engine_s <= gpu_s:
        return PREFERENCES, ""
    note = (
        f"{function.key} under all: the default options minimise latency. With the Neural Engine, values"
        f" would cross {count} times, a way and back as one, and a prediction is estimated at"
        f" {format_duration(engine_s)}; on the GPU alone at {format_duration(gpu_s)}, so the GPU is chosen"
    )
    return {**PREFERENCES, "all": PREFERENCES["cpu_and_gpu"]}, note


def crossing_notes(functions: Mapping[str, Planning], setting: ComputeUnits) -> Iterator[str]:
    """Yields how often programs of Core AI leave the Neural Engine, and what that costs."""
    for name, one in functions.items():
        count = 0 if one.prices else crossings(one.placed, setting)
        if count:
            least, _, most = (seconds * 1e3 for seconds in CROSSING_S)
            yield (
                f"{name} under {setting}: values cross from or to the Neural Engine"
                f" {'once' if count == 1 else f'{count} times'}, a way and back as one; each cost"
                f" {least:g} to {most:g} ms where it was measured, whatever the size"
            )
