"""Places the operations of a function: where each goes under each setting of compute units, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.devices.unit import SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.model.ir import describe_type
from coremlscope.planning.patterns.verdict import Support, Verdict
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend, PlannedCost
from coremlscope.planning.placement.coreml_view import CoreMLGraph
from coremlscope.planning.placement.eligibility import Verdicts, only_fails
from coremlscope.planning.placement.rivals import Cell, find_rival, is_exact
from coremlscope.planning.placement.search import Route, TransitionCosts, search
from coremlscope.planning.placement.segments import Segment, find_segments
from coremlscope.planning.placement.ties import settle
from coremlscope.results.plan import TIE_MS, Undecided


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Where one operation goes under one setting of compute units.

    Attributes:
        backend: The backend; None where no unit is known to run it.
        weight: Its planned cost over the sum of its graph's, as MLComputePlan gives it.
        detour_ms: As in `SettingPlan`, by unit; so is the next one.
        alternatives: Why it may go to other units as well.
        rival: Its unit in the other plan that is too close to call; None where there is none.
    """

    backend: Backend | None
    weight: float = 0.0
    detour_ms: Mapping[ComputeUnit, float] = msgspec.field(default_factory=dict)
    alternatives: Mapping[ComputeUnit, Undecided] = msgspec.field(default_factory=dict)
    rival: ComputeUnit | None = None

    @property
    def unit(self) -> ComputeUnit | None:
        """The compute unit."""
        return None if self.backend is None else UNIT_OF[self.backend]


class PlacedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation and where it goes.

    Attributes:
        id: As in the file; see `coreml_view` for those that Core ML inserts.
        name: The author's name.
        type: Apple's name of the operation.
        outputs: Names of its results.
        types: Types of its results, as MIL text writes them.
        inserted: True where the file does not hold it.
        follows: True where it runs where its input is computed.
        depth: How many operations with nested graphs it lies within.
        costs: By backend that may run it.
        verdicts: By unit.
        choices: By setting.
    """

    id: str
    name: str
    type: str
    outputs: tuple[str, ...]
    types: tuple[str, ...]
    inserted: bool
    follows: bool
    depth: int
    costs: Mapping[Backend, PlannedCost]
    verdicts: Mapping[ComputeUnit, Verdict]
    choices: Mapping[ComputeUnits, Choice]

    def supported(self, unit: ComputeUnit) -> Support:
        """Returns True if a unit can run it."""
        return self.verdicts[unit].supported

    def cost_ms(self, setting: ComputeUnits) -> float | None:
        """Its planned cost where it goes; None where it goes nowhere or that is not known."""
        backend = self.choices[setting].backend
        cost = self.costs.get(backend) if backend is not None else None
        return None if cost is None else cost.ms


class PlacedFunction(msgspec.Struct, frozen=True):
    """One function, placed.

    Attributes:
        name: The function.
        ops: Its operations in order, nested ones after their owner.
        total_ms: By setting: the planned cost of the cheapest path, launches and switches included.
    """

    name: str
    ops: tuple[PlacedOp, ...]
    total_ms: Mapping[ComputeUnits, float]

    def segments(self, setting: ComputeUnits) -> list[Segment]:
        """The segments of the plan, in order."""
        return find_segments((op.id, op.choices[setting].unit) for op in self.ops)

    def switches(self, setting: ComputeUnits) -> int:
        """How often the plan changes its compute unit."""
        return max(len(self.segments(setting)) - 1, 0)


def place(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    settings: Sequence[ComputeUnits],
) -> PlacedFunction:
    """Plans a function.

    Args:
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        prices: What each operation costs on each backend, by id.
        transition_costs: What else a path costs.
        settings: For which settings of compute units.
    """
    choices: dict[str, dict[ComputeUnits, Choice]] = {node.id: {} for node in graph.walk()}
    totals = dict.fromkeys(settings, 0.0)
    for one in graphs_of(graph):
        for setting, (placed, total_ms) in _route(one, verdicts, prices, transition_costs, settings).items():
            for node, choice in zip(one.nodes, placed, strict=True):
                choices[node.id][setting] = choice
            totals[setting] += total_ms
    return PlacedFunction(
        name=graph.name,
        ops=tuple(list_ops(graph, verdicts, prices, choices)),
        total_ms=totals,
    )


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
    found: set[str] = set()
    for one in graphs_of(graph):
        cells = _cells(one, tried, prices, _EAGER[unit])
        route = _search(cells, transition_costs, _EAGER[unit])
        units = iter(
            UNIT_OF[backend] if cell.allowed else None
            for cell, backend in zip(cells, route.backends, strict=True)
        )
        last: ComputeUnit | None = None
        for node in one.nodes:
            last = last if node.follows else next(units)
            if last == unit:
                found.add(node.id)
    return frozenset(found)


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
    found = []
    for node in graph.nodes:
        if node.follows:
            continue
        of_node, by_unit = prices[node.id], verdicts[node.id]
        key = id(of_node), *[by_unit[unit].supported for unit in SETTINGS[setting]]
        cell = cells.get(key)
        if cell is None:
            allowed = _allowed(by_unit, setting)
            costs = {backend: of_node[backend].ms for backend in allowed}
            cell = Cell(node.view.op.type, allowed, of_node, costs or dict.fromkeys(BACKENDS_OF["cpu"], 0.0))
            cells[key] = cell
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


def _route(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    transition_costs: TransitionCosts,
    settings: Sequence[ComputeUnits],
) -> dict[ComputeUnits, tuple[list[Choice], float]]:
    """One graph's cheapest path under each setting, and its cost in milliseconds."""
    cells = {setting: _cells(graph, verdicts, prices, setting) for setting in settings}
    routes = {setting: _search(cells[setting], transition_costs, setting) for setting in settings}
    found = {}
    for setting, route in routes.items():
        rival = find_rival(cells[setting], route.backends, transition_costs, setting)
        of_ops = iter(_choices(route, [cell.allowed for cell in cells[setting]], rival))
        placed: list[Choice] = []
        for node in graph.nodes:
            last = placed[-1] if placed else Choice(backend=None)
            before = Choice(backend=last.backend, rival=last.rival)
            placed.append(before if node.follows else next(of_ops))
        found[setting] = _weighted(graph, prices, placed), route.total_ms
    return found


def _search(cells: Sequence[Cell], transition_costs: TransitionCosts, setting: ComputeUnits) -> Route:
    costs = [cell.costs_ms for cell in cells]
    route = search(costs, transition_costs)
    # Sums of costs that are all known are those of Core ML to the last bit.
    if is_exact(cells, transition_costs, setting):
        return replace(route, backends=settle(costs, transition_costs, route))
    return route


def _weighted(
    graph: CoreMLGraph, prices: Mapping[str, Mapping[Backend, PlannedCost]], placed: Sequence[Choice]
) -> list[Choice]:
    """The choices with their weights."""
    spent = [
        0.0 if choice.backend is None else prices[node.id][choice.backend].ms
        for node, choice in zip(graph.nodes, placed, strict=True)
    ]
    total = sum(spent)
    return [
        replace(choice, weight=ms / total if total else 0.0) for choice, ms in zip(placed, spent, strict=True)
    ]


def _choices(
    route: Route, allowed: Sequence[tuple[Backend, ...]], rival: Sequence[ComputeUnit]
) -> Iterator[Choice]:
    """Yields where each operation goes, and the other units where it may go as well; without weights."""
    rivals: Sequence[ComputeUnit | None] = rival or [None] * len(allowed)
    for backend, backends, detour, other in zip(
        route.backends, allowed, _detours(route, allowed), rivals, strict=True
    ):
        if not backends:
            yield Choice(backend=None)
            continue
        others: dict[ComputeUnit, Undecided] = {}
        if other is not None and other != UNIT_OF[backend]:
            others[other] = "rates"
        others |= {unit: "tie" for unit, more in detour.items() if more < TIE_MS}
        yield Choice(backend=backend, detour_ms=detour, alternatives=others, rival=other)


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
                more = max(best[backend] - route.total_ms, 0.0)
                extra[unit] = min(extra.get(unit, more), more)
        detours.append(extra)
    return detours


def list_ops(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    prices: Mapping[str, Mapping[Backend, PlannedCost]],
    choices: Mapping[str, Mapping[ComputeUnits, Choice]],
    depth: int = 0,
) -> list[PlacedOp]:
    """Returns the operations of a graph in order, nested ones after their owner.

    Args:
        graph: The function.
        verdicts: Which units run each operation.
        prices: What each operation costs, by id; empty where costs are not known.
        choices: Where each operation goes, by id and setting.
        depth: How many operations with nested graphs it lies within.
    """
    found = []
    for node in graph.nodes:
        op, known = node.view.op, verdicts[node.id]
        costs = prices.get(node.id, {})
        if any(known[UNIT_OF[backend]].supported != "yes" for backend in costs):
            costs = {b: cost for b, cost in costs.items() if known[UNIT_OF[b]].supported == "yes"}
        types = tuple(describe_type(value.type) for value in node.view.outputs)
        names = tuple(value.name for value in op.outputs)
        name = op.type if node.inserted else op.name
        found.append(
            PlacedOp(
                id=node.id,
                name=name,
                type=op.type,
                outputs=names,
                types=types,
                inserted=node.inserted,
                follows=node.follows,
                depth=depth,
                costs=costs,
                verdicts=known,
                choices=choices[node.id],
            )
        )
        for block in node.blocks:
            found.extend(list_ops(block, verdicts, prices, choices, depth + 1))
    return found
