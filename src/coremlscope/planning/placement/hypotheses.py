"""Cost of each reason: plans a function again without the reason, or with a doubtful rule applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from coremlscope.devices.chip import Device
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.planning.patterns.rule import ProgramFacts
from coremlscope.planning.patterns.verdict import Reason, Verdict
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend, PlannedCost, named
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.eligibility import Verdicts
from coremlscope.planning.placement.place import (
    PlacedFunction,
    count_switches,
    graphs_of,
    path_costs,
    units_under,
)
from coremlscope.planning.placement.replan import replan
from coremlscope.planning.placement.search import Costs, TransitionCosts
from coremlscope.results.plan import EQUAL_COST_MS, TIE_MS, Choice, Hypothesis, PlannedOp

#: Fastest first, as people look for them.
_ORDER: tuple[ComputeUnit, ...] = (NEURAL_ENGINE, GPU, CPU)


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """A planned function, with what its plan follows from.

    Attributes:
        device: Chip and system.
        facts: The program.
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        prices: What each operation costs on each backend.
        transition_costs: What else a path costs.
        placed: The plan.
        replanned: By setting: the plans under every hypothesis; empty where it was not asked for.
        notes: Notes on the plan.
    """

    device: Device
    facts: ProgramFacts
    graph: CoreMLGraph
    verdicts: Verdicts
    prices: Mapping[str, Mapping[Backend, PlannedCost]]
    transition_costs: TransitionCosts
    placed: PlacedFunction
    replanned: Mapping[ComputeUnits, Sequence[Replanned]] = {}
    notes: tuple[str, ...] = ()

    def under(self, setting: ComputeUnits) -> Mapping[str, ComputeUnit | None]:
        """Returns the units of operations under another setting; see `units_under`."""
        return units_under(self.graph, self.verdicts, self.prices, self.transition_costs, setting)


class _Group(msgspec.Struct, kw_only=True):
    """Operations that one reason keeps from a unit, and those that would be free to move without it."""

    hypothesis: Hypothesis
    unit: ComputeUnit
    reasons: dict[str, Reason] = msgspec.field(default_factory=dict)
    concerned: list[str] = msgspec.field(default_factory=list)
    changed: dict[str, Costs] = msgspec.field(default_factory=dict)
    gain_ms: float = 0.0


class Replanned(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a function under a hypothesis.

    Attributes:
        hypothesis: What is assumed.
        unit: The unit that the operations are kept from; for doubts, the one that they run on.
        reasons: By operation, in order: the reason; empty for costs and for all rules.
        ops: The operations concerned.
        free: How many of them the hypothesis allows elsewhere; the others are held by further rules.
        gain_ms: How much less they would cost on the unit by themselves, without launches.
        moved: The operations that change their unit, with the new one.
        units: The unit of each operation along the paths; None if no unit is known to run it.
        total_ms: The planned cost of the function.
        saved_ms: How much less that is than the plan.
        switches: Number of changes of unit.
    """

    hypothesis: Hypothesis
    unit: ComputeUnit
    reasons: Mapping[str, Reason]
    ops: tuple[str, ...]
    free: int
    gain_ms: float
    moved: Mapping[str, ComputeUnit]
    units: Mapping[str, ComputeUnit | None]
    total_ms: float
    saved_ms: float
    switches: int


def weigh_reasons(planning: Planning, setting: ComputeUnits) -> list[Replanned]:
    """Plans a function again under every hypothesis, the largest saving first.

    Args:
        planning: The function, planned.
        setting: The setting of compute units.
    """
    weighed = _plan_again(planning, setting, _groups(planning, setting))
    return sorted(weighed, key=lambda one: (-one.saved_ms, -len(one.ops)))


def force(planning: Planning, setting: ComputeUnits, op: str) -> list[Replanned]:
    """Plans a function again with one operation on each allowed unit, whether or not rules let it run there.

    Args:
        planning: The function, planned.
        setting: The setting of compute units.
        op: The operation's id.
    """
    prices = {backend: price.ms for backend, price in planning.prices[op].items()}
    groups = [
        _Group(
            hypothesis="moved",
            unit=unit,
            concerned=[op],
            changed={op: {backend: prices[backend] for backend in BACKENDS_OF[unit]}},
        )
        for unit in SETTINGS[setting]
    ]
    return _plan_again(planning, setting, groups)


def plan_with_costs(
    planning: Planning, setting: ComputeUnits, changes: Sequence[Mapping[str, Costs]]
) -> list[Replanned]:
    """Plans a function again with other costs of some operations.

    Args:
        planning: The function, planned.
        setting: The setting of compute units.
        changes: For each hypothesis, the costs on the backends that would run an operation, by id.
    """
    groups = [
        _Group(hypothesis="without", unit=CPU, concerned=list(costs), changed=dict(costs))
        for costs in changes
    ]
    return _plan_again(planning, setting, groups)


def _plan_again(planning: Planning, setting: ComputeUnits, groups: Sequence[_Group]) -> list[Replanned]:
    """The plans under some hypotheses, in their order."""
    if not groups:
        return []
    ops = {op.id: op for op in planning.placed.ops}
    paths: list[dict[str, ComputeUnit | None]] = [{} for _ in groups]
    totals = [0.0] * len(groups)
    planned = 0.0
    for one in graphs_of(planning.graph):
        costs = path_costs(one, planning.verdicts, planning.prices, setting)
        ids = [node.id for node in one.nodes if not node.follows]
        known = [named(ops[id_].choices[setting].backend) for id_ in ids]
        chosen = [backend or min(cost) for backend, cost in zip(known, costs, strict=True)]
        changes = [_changes(group, ids) for group in groups]
        base, *found = replan(costs, [{}, *changes], chosen, planning.transition_costs)
        planned += base[1]
        for index, (path, total) in enumerate(found):
            totals[index] += total
            paths[index].update(
                (id_, UNIT_OF[backend] if before or id_ in groups[index].changed else None)
                for id_, backend, before in zip(ids, path, known, strict=True)
            )
    return [
        _replanned(group, path, total, planned, ops, setting)
        for group, path, total in zip(groups, paths, totals, strict=True)
    ]


def _groups(planning: Planning, setting: ComputeUnits) -> list[_Group]:
    """The hypotheses about a function, with the operations that each of them concerns."""
    ops = {op.id: op for op in planning.placed.ops}
    found: dict[tuple[str, ComputeUnit, str], _Group] = {}
    # Equal operations share their prices.
    spent = {id(one): {b: price.ms for b, price in one.items()} for one in planning.prices.values()}
    for node in planning.graph.walk():
        if node.follows:
            continue
        prices, planned = spent[id(planning.prices[node.id])], ops[node.id].choices[setting]
        for one in _assume(node, planned, prices, planning.verdicts[node.id], setting):
            key = one.hypothesis, one.unit, one.rule
            group = found.setdefault(key, _Group(hypothesis=one.hypothesis, unit=one.unit))
            group.concerned.append(node.id)
            group.gain_ms += one.gain_ms
            if one.reason is not None:
                group.reasons[node.id] = one.reason
            if one.costs is not None:
                group.changed[node.id] = one.costs
    rules_of = {unit: sum(key[:2] == ("without", unit) for key in found) for unit in _ORDER}
    return [one for key, one in found.items() if key[0] != "without all" or rules_of[key[1]] > 1]


class _Assumption(NamedTuple):
    """A hypothesis that concerns an operation, with the costs that it would have; None for its own."""

    hypothesis: Hypothesis
    unit: ComputeUnit
    rule: str
    reason: Reason | None
    costs: Costs | None
    gain_ms: float = 0.0


def _assume(
    node: Node,
    planned: Choice,
    prices: Mapping[Backend, float],
    verdicts: Mapping[ComputeUnit, Verdict],
    setting: ComputeUnits,
) -> Iterator[_Assumption]:
    """Yields the hypotheses that concern an operation."""
    runs = [unit for unit in SETTINGS[setting] if verdicts[unit].supported == "yes"]
    allowed = {backend: prices[backend] for unit in runs for backend in BACKENDS_OF[unit]}
    for unit in SETTINGS[setting]:
        verdict = verdicts[unit]
        there = {backend: prices[backend] for backend in BACKENDS_OF[unit]}
        if planned.unit == unit:
            others = {backend: ms for backend, ms in allowed.items() if UNIT_OF[backend] != unit}
            yield from _doubt(unit, verdict.doubts, others)
            continue
        if unit in runs and unit != CPU and not node.inserted and planned.planned_ms is not None:
            gain = planned.planned_ms - min(there.values())
            if gain > EQUAL_COST_MS:
                yield _Assumption("moved", unit, "", None, there, gain)
        if not _is_faster(unit, planned.unit):
            continue
        rules = {reason.rule: reason for reason in verdict.reasons}
        for rule, reason in rules.items():
            yield _Assumption("without", unit, rule, reason, allowed | there if len(rules) == 1 else None)
        if rules:
            yield _Assumption("without all", unit, "", None, allowed | there)


def _doubt(unit: ComputeUnit, doubts: Sequence[Reason], others: Costs) -> Iterator[_Assumption]:
    # What no unit is known to run costs nothing, on the backends of the CPU.
    costs = others or dict.fromkeys(BACKENDS_OF[CPU], 0.0)
    for reason in doubts:
        yield _Assumption("doubt", unit, reason.rule, reason, costs)


def _is_faster(unit: ComputeUnit, chosen: ComputeUnit | None) -> bool:
    return chosen is None or _ORDER.index(unit) < _ORDER.index(chosen)


def _changes(group: _Group, ids: Sequence[str]) -> dict[int, Costs]:
    return {index: group.changed[id_] for index, id_ in enumerate(ids) if id_ in group.changed}


def _replanned(
    group: _Group,
    path: Mapping[str, ComputeUnit | None],
    total_ms: float,
    planned_ms: float,
    ops: Mapping[str, PlannedOp],
    setting: ComputeUnits,
) -> Replanned:
    moved = {
        id_: unit for id_, unit in path.items() if unit is not None and unit != ops[id_].choices[setting].unit
    }
    saved = planned_ms - total_ms
    return Replanned(
        hypothesis=group.hypothesis,
        unit=group.unit,
        reasons=group.reasons,
        ops=tuple(group.concerned),
        free=len(group.changed),
        gain_ms=group.gain_ms,
        moved=moved,
        units=path,
        total_ms=total_ms,
        saved_ms=saved if abs(saved) > TIE_MS else 0.0,
        switches=count_switches(map(path.get, ops)),
    )
