"""Places the operations of a function: where each goes under each setting of compute units, and its cost."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.devices.unit import SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.model.ir import describe_type
from coremlscope.planning.patterns.verdict import Verdict
from coremlscope.planning.placement.backend import BACKENDS, BACKENDS_OF, UNIT_OF, Backend, PlannedCost
from coremlscope.planning.placement.coreml_view import CoreMLGraph
from coremlscope.planning.placement.eligibility import Verdicts, only_fails
from coremlscope.planning.placement.rivals import Cell, find_rival, is_exact
from coremlscope.planning.placement.search import Route, TransitionCosts, search
from coremlscope.planning.placement.ties import settle
from coremlscope.results.plan import (
    TIE_MS,
    Choice,
    PlannedOp,
    Reason,
    Segment,
    Support,
    Undecided,
    find_segments,
)


class PlacedFunction(msgspec.Struct, frozen=True):
    """One function, placed.

    Attributes:
        name: The function.
        ops: Its operations in order, nested ones after their owner.
        total_ms: By setting: the planned cost of the cheapest path, launches and switches included.
        rivals: By setting: the unit of each operation, by id, in the other plan that is too close to call;
            empty where there is none.
    """

    name: str
    ops: tuple[PlannedOp, ...]
    total_ms: Mapping[ComputeUnits, float]
    rivals: Mapping[ComputeUnits, Mapping[str, ComputeUnit]] = {}

    def segments(self, setting: ComputeUnits) -> list[Segment]:
        """The segments of the plan, in order."""
        return find_segments((op.id, op.choices[setting].unit) for op in self.ops)

    def switches(self, setting: ComputeUnits) -> int:
        """How often the plan changes its compute unit."""
        return count_switches(op.choices[setting].unit for op in self.ops)


def count_switches(units: Iterable[ComputeUnit | None]) -> int:
    """Returns how often operations in order change their unit; see `find_segments`."""
    known = [unit for unit in units if unit is not None]
    return sum(map(operator.ne, known, known[1:]))


def place(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    settings: Sequence[ComputeUnits],
    name: str = "",
) -> PlacedFunction:
    """Plans a function.

    Args:
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        prices: What each operation costs on each backend, by id.
        transition_costs: What else a path costs.
        settings: For which settings of compute units.
        name: Its name in plans; empty for that of the graph.
    """
    choices: dict[str, dict[ComputeUnits, Choice]] = {node.id: {} for node in graph.walk()}
    totals = dict.fromkeys(settings, 0.0)
    rivals: dict[ComputeUnits, dict[str, ComputeUnit]] = {setting: {} for setting in settings}
    for inner in graphs_of(graph):
        cells = [_cells(inner, verdicts, prices, setting) for setting in settings]
        routes = search([[cell.costs_ms for cell in of] for of in cells], transition_costs)
        for setting, of_setting, route in zip(settings, cells, routes, strict=True):
            settled = _settled(route, of_setting, transition_costs, setting)
            path = _follow(inner, verdicts, prices, transition_costs, setting, of_setting, settled)
            totals[setting] += path.total_ms
            rivals[setting].update(path.rivals)
            for node, choice in zip(inner.nodes, path.choices, strict=True):
                choices[node.id][setting] = choice
    name = name or graph.name
    return PlacedFunction(
        name=name,
        ops=tuple(list_ops(graph, name, verdicts, prices, choices)),
        total_ms=totals,
        rivals=rivals,
    )


_PLACES = {backend: place for place, backend in enumerate(BACKENDS)}
#: The setting that uses a unit most: the CPU is always allowed.
_EAGER: dict[ComputeUnit, ComputeUnits] = {"neural_engine": "cpu_and_ne", "gpu": "cpu_and_gpu"}


def reached(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    unit: ComputeUnit,
) -> frozenset[str]:
    """The operations that the cheapest path puts on a unit if it runs those that fail in its compiler.

    The path is that of the setting which allows this unit and the CPU.

    Args:
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        prices: What each operation costs on each backend, by id.
        transition_costs: What else a path costs.
        unit: The unit.
    """
    if unit not in _EAGER:
        return frozenset(verdicts)
    tried = {
        id_: {**by_unit, unit: Verdict(unit, "yes")} if only_fails(by_unit[unit]) else by_unit
        for id_, by_unit in verdicts.items()
    }
    placed = units_under(graph, tried, prices, transition_costs, _EAGER[unit])
    return frozenset(id_ for id_, one in placed.items() if one == unit)


def units_under(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    setting: ComputeUnits,
) -> dict[str, ComputeUnit | None]:
    """Plans a function under one setting, for the units alone: a tenth of the time of `place`.

    Args:
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        prices: What each operation costs on each backend, by id.
        transition_costs: What else a path costs.
        setting: The setting of compute units.

    Returns:
        The unit of each operation by id, in order; None where no unit is known to run it. What follows
        others is left out.
    """
    found: dict[str, ComputeUnit | None] = {node.id: None for node in graph.walk() if not node.follows}
    for one in graphs_of(graph):
        cells = _cells(one, verdicts, prices, setting)
        (cheapest,) = search([[cell.costs_ms for cell in cells]], transition_costs)
        route = _settled(cheapest, cells, transition_costs, setting)
        units = iter(
            UNIT_OF[backend] if cell.allowed else None
            for cell, backend in zip(cells, route.backends, strict=True)
        )
        found.update((node.id, next(units)) for node in one.nodes if not node.follows)
    return found


def graphs_of(graph: CoreMLGraph) -> list[CoreMLGraph]:
    """The graph and all nested ones; each has a path of its own."""
    return [graph, *(inner for node in graph.nodes for block in node.blocks for inner in graphs_of(block))]


def _cells(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    setting: ComputeUnits,
) -> list[Cell]:
    """The costs of a graph's operations, without those that follow others; equal ones are one object."""
    cells: dict[object, Cell] = {}
    # Most equal operations share their verdicts.
    of_verdicts: dict[tuple[int, int], Cell] = {}
    found = []
    for node in graph.nodes:
        if node.follows:
            continue
        of_node, by_unit = prices[node.id], verdicts[node.id]
        both = id(of_node), id(by_unit)
        cell = of_verdicts.get(both)
        if cell is None:
            allowed = _allowed(by_unit, setting)
            cell = cells.get((id(of_node), allowed))
            if cell is None:
                costs = {backend: of_node[backend].ms for backend in allowed}
                costs = costs or dict.fromkeys(BACKENDS_OF["cpu"], 0.0)
                cell = cells[id(of_node), allowed] = Cell(node.view.op.type, allowed, of_node, costs)
            of_verdicts[both] = cell
        found.append(cell)
    return found


def path_costs(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    setting: ComputeUnits,
) -> list[Mapping[Backend, float]]:
    """The costs of a graph's operations on the backends that may run them, without those that follow."""
    return [cell.costs_ms for cell in _cells(graph, verdicts, prices, setting)]


class _Path(msgspec.Struct, frozen=True):
    """The plan of one graph under one setting: by node, and the units of a plan too close to call, by id."""

    choices: Sequence[Choice]
    total_ms: float
    rivals: Mapping[str, ComputeUnit]


def _follow(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    setting: ComputeUnits,
    cells: Sequence[Cell],
    route: Route,
) -> _Path:
    """One graph's cheapest path under a setting; operations that follow others go where these go."""
    rival = find_rival(cells, route.backends, transition_costs, setting)
    allowed = [cell.allowed for cell in cells]
    rows = zip(route.backends, allowed, _detours(route, allowed), rival or [None] * len(cells), strict=True)
    placed: list[tuple[Backend | None, Mapping[ComputeUnit, float], ComputeUnit | None]] = []
    for node in graph.nodes:
        if node.follows:
            backend, _, other = placed[-1] if placed else (None, {}, None)
            placed.append((backend, {}, other))
            continue
        chosen, backends, detour, other = next(rows)
        placed.append((chosen, detour, other) if backends else (None, {}, None))
    spent = [
        prices[node.id][backend].ms
        if backend is not None and verdicts[node.id][UNIT_OF[backend]].supported == "yes"
        else None
        for node, (backend, *_) in zip(graph.nodes, placed, strict=True)
    ]
    total = sum(ms or 0.0 for ms in spent)
    return _Path(
        choices=[
            Choice(
                backend=backend,
                unit=None if backend is None else UNIT_OF[backend],
                planned_ms=ms,
                weight=(ms or 0.0) / total if total else 0.0,
                detour_ms=detour,
                alternatives={} if node.follows else _alternatives(backend, detour, other),
            )
            for node, (backend, detour, other), ms in zip(graph.nodes, placed, spent, strict=True)
        ],
        total_ms=route.total_ms,
        rivals={
            node.id: other for node, (*_, other) in zip(graph.nodes, placed, strict=True) if other is not None
        },
    )


def _alternatives(
    backend: Backend | None, detour_ms: Mapping[ComputeUnit, float], rival: ComputeUnit | None
) -> dict[ComputeUnit, Undecided]:
    """The other units where an operation may go as well, and why."""
    others: dict[ComputeUnit, Undecided] = {}
    if backend is not None and rival is not None and rival != UNIT_OF[backend]:
        others[rival] = "rates"
    for unit, more in detour_ms.items():
        if more < TIE_MS:
            others[unit] = "tie"
    return others


def _settled(
    route: Route, cells: Sequence[Cell], transition_costs: TransitionCosts, setting: ComputeUnits
) -> Route:
    """The route; where all costs are known, sums are those of Core ML to the last bit, which decides ties."""
    if not is_exact(cells, transition_costs, setting):
        return route
    return replace(route, backends=settle([cell.costs_ms for cell in cells], transition_costs, route))


def _allowed(verdicts: Mapping[ComputeUnit, Verdict], setting: ComputeUnits) -> tuple[Backend, ...]:
    return tuple(
        backend
        for unit in SETTINGS[setting]
        if verdicts[unit].supported == "yes"
        for backend in BACKENDS_OF[unit]
    )


def _detours(route: Route, allowed: Sequence[tuple[Backend, ...]]) -> list[dict[ComputeUnit, float]]:
    """For each operation and unit that was not chosen: how much more the path costs through it."""
    detours = []
    for chosen, best, backends in zip(route.backends, route.best_ms, allowed, strict=True):
        extra: dict[ComputeUnit, float] = {}
        for backend in backends:
            unit = UNIT_OF[backend]
            if unit != UNIT_OF[chosen]:
                more = max(best[_PLACES[backend]] - route.total_ms, 0.0)
                extra[unit] = min(extra.get(unit, more), more)
        detours.append(extra)
    return detours


def list_ops(
    graph: CoreMLGraph,
    function: str,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    choices: Mapping[str, Mapping[ComputeUnits, Choice]],
) -> Iterator[PlannedOp]:
    """Yields the operations of a graph in order, nested ones after their owner.

    Args:
        graph: The function.
        function: Its name in plans.
        verdicts: Which units run each operation.
        prices: What each operation costs, by id; empty where costs are not known.
        choices: Where each operation goes, by id and setting.
    """
    shared: dict[object, _Facts] = {}
    for node in graph.walk():
        op, by_unit, costs = node.view.op, verdicts[node.id], prices.get(node.id, {})
        key = id(costs), id(by_unit)
        facts = shared.get(key)
        if facts is None:
            facts = shared[key] = _facts(by_unit, costs)
        yield PlannedOp(
            id=node.id,
            name=op.type if node.inserted else op.name,
            type=op.type,
            function=function,
            output_names=tuple(value.name for value in op.outputs),
            outputs=tuple(describe_type(value.type) for value in node.view.outputs),
            inserted=node.inserted,
            supported=facts.supported,
            cost_ms=facts.cost_ms,
            cost_basis=facts.cost_basis,
            why=facts.why,
            advice=facts.advice,
            doubts=facts.doubts,
            choices=choices[node.id],
        )


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What equal operations share; see `PlannedOp`."""

    supported: Mapping[ComputeUnit, Support]
    cost_ms: Mapping[str, float]
    cost_basis: Mapping[str, str]
    why: tuple[Reason, ...]
    advice: tuple[Reason, ...]
    doubts: tuple[Reason, ...]


def _facts(by_unit: Mapping[ComputeUnit, Verdict], costs: Mapping[Backend, PlannedCost]) -> _Facts:
    verdicts = by_unit.values()
    runs = {b: cost for b, cost in costs.items() if by_unit[UNIT_OF[b]].supported == "yes"}
    return _Facts(
        supported={unit: verdict.supported for unit, verdict in by_unit.items()},
        cost_ms={str(backend): cost.ms for backend, cost in runs.items()},
        cost_basis={str(backend): cost.basis for backend, cost in runs.items()},
        why=tuple(reason for verdict in verdicts for reason in verdict.reasons),
        advice=tuple(reason for verdict in verdicts for reason in verdict.advice),
        doubts=tuple(reason for verdict in verdicts for reason in verdict.doubts),
    )
