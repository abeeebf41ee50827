"""What each reason costs: plans a function again as if the reason were gone, or a doubtful rule held."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.placement.backend import BACKENDS_OF, UNIT_OF
from coremlscope.placement.coreml_view import CoreMLGraph, Node
from coremlscope.placement.eligibility import Verdicts
from coremlscope.placement.place import PlacedFunction, PlacedOp, Pricing, graphs_of, path_costs
from coremlscope.placement.replan import Costs, replan
from coremlscope.placement.search import TransitionCosts
from coremlscope.placement.verdict import Reason
from coremlscope.results.what_if import Hypothesis

__all__ = ["Replanned", "weigh_reasons"]

#: Fastest first, as people look for them.
_ORDER: tuple[ComputeUnit, ...] = (NEURAL_ENGINE, GPU, CPU)
#: Planned costs in milliseconds that differ by less are equal up to rounding.
_TIE_MS = 1e-9


@dataclass(slots=True, kw_only=True)
class _Group:
    """Operations that one reason keeps from a unit, and those that would be free to move without it."""

    hypothesis: Hypothesis
    unit: ComputeUnit
    reasons: dict[str, Reason] = field(default_factory=dict)
    concerned: list[str] = field(default_factory=list)
    changed: dict[str, Costs] = field(default_factory=dict)
    gain_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """The plan of a function under a hypothesis.

    Attributes:
        hypothesis: What is assumed.
        unit: The unit that the operations are kept from; for doubts, the one that they run on.
        reasons: By operation, in order: the reason; empty for costs and for all rules.
        ops: The operations concerned.
        free: How many of them the hypothesis allows elsewhere; the others are held by further rules.
        gain_ms: How much less they would cost on the unit by themselves, without launches.
        moved: The operations that change their unit, with the new one.
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
    total_ms: float
    saved_ms: float
    switches: int


def weigh_reasons(
    graph: CoreMLGraph,
    verdicts: Verdicts,
    pricing: Pricing,
    transition_costs: TransitionCosts,
    placed: PlacedFunction,
    setting: ComputeUnits,
) -> list[Replanned]:
    """Plans a function again under every hypothesis, the largest saving first.

    Args:
        graph: The function as Core ML plans it.
        verdicts: Which units run each operation.
        pricing: What each operation costs.
        transition_costs: What else a path costs.
        placed: The function as planned.
        setting: The setting of compute units.
    """
    ops = {op.id: op for op in placed.ops}
    nodes = [node for node in graph.walk() if not node.follows]
    groups = _groups(nodes, verdicts, pricing, ops, setting)
    if not groups:
        return []
    paths: list[dict[str, ComputeUnit | None]] = [{} for _ in groups]
    totals = [0.0] * len(groups)
    planned = 0.0
    for one in graphs_of(graph):
        costs = path_costs(one, verdicts, {node.id: pricing(node) for node in one.nodes}, setting)
        ids = [node.id for node in one.nodes if not node.follows]
        known = [ops[id_].choices[setting].backend for id_ in ids]
        chosen = [backend or min(cost) for backend, cost in zip(known, costs, strict=True)]
        changes = [_changes(group, ids) for group in groups]
        base, *found = replan(costs, [{}, *changes], chosen, transition_costs)
        planned += base[1]
        for place, (path, total) in enumerate(found):
            totals[place] += total
            paths[place].update(
                (id_, UNIT_OF[backend] if before or id_ in groups[place].changed else None)
                for id_, backend, before in zip(ids, path, known, strict=True)
            )
    weighed = [
        _replanned(group, path, total, planned, ops, setting)
        for group, path, total in zip(groups, paths, totals, strict=True)
    ]
    return sorted(weighed, key=lambda one: (-one.saved_ms, -len(one.ops)))


def _groups(
    nodes: Sequence[Node],
    verdicts: Verdicts,
    pricing: Pricing,
    ops: Mapping[str, PlacedOp],
    setting: ComputeUnits,
) -> list[_Group]:
    """The hypotheses about a function, with the operations that each of them concerns."""
    found: dict[tuple[str, ComputeUnit, str], _Group] = {}

    def group(hypothesis: Hypothesis, unit: ComputeUnit, rule: str) -> _Group:
        return found.setdefault((hypothesis, unit, rule), _Group(hypothesis=hypothesis, unit=unit))

    for node in nodes:
        prices = {backend: price.ms for backend, price in pricing(node).items()}
        planned = ops[node.id].choices[setting]
        allowed = {
            backend: prices[backend]
            for unit in SETTINGS[setting]
            if verdicts[node.id][unit].supported == "yes"
            for backend in BACKENDS_OF[unit]
        }
        for unit in SETTINGS[setting]:
            verdict = verdicts[node.id][unit]
            there = {backend: prices[backend] for backend in BACKENDS_OF[unit]}
            if planned.unit == unit:
                without = {b: ms for b, ms in allowed.items() if UNIT_OF[b] != unit}
                for reason in verdict.doubts:
                    _add(group("doubt", unit, reason.rule), node.id, reason, without or _nowhere())
            if not _is_faster(unit, planned.unit):
                continue
            rules = {reason.rule: reason for reason in verdict.reasons}
            for rule, reason in rules.items():
                free = allowed | there if len(rules) == 1 else None
                _add(group("without", unit, rule), node.id, reason, free)
            if rules:
                _add(group("without all", unit, ""), node.id, None, allowed | there)
            elif verdict.supported == "yes" and planned.unit == CPU and planned.backend and not node.inserted:
                gain = prices[planned.backend] - min(there.values())
                if gain > _TIE_MS:
                    moved = group("moved", unit, "")
                    _add(moved, node.id, None, there)
                    moved.gain_ms += gain
    rules_of = {unit: sum(key[:2] == ("without", unit) for key in found) for unit in _ORDER}
    return [one for key, one in found.items() if key[0] != "without all" or rules_of[key[1]] > 1]


def _nowhere() -> Costs:
    """An operation that no unit is known to run: it passes where the CPU would, for nothing."""
    return dict.fromkeys(BACKENDS_OF[CPU], 0.0)


def _add(group: _Group, id_: str, reason: Reason | None, costs: Costs | None) -> None:
    group.concerned.append(id_)
    if reason is not None:
        group.reasons[id_] = reason
    if costs is not None:
        group.changed[id_] = costs


def _is_faster(unit: ComputeUnit, chosen: ComputeUnit | None) -> bool:
    return chosen is None or _ORDER.index(unit) < _ORDER.index(chosen)


def _changes(group: _Group, ids: Sequence[str]) -> dict[int, Costs]:
    return {index: group.changed[id_] for index, id_ in enumerate(ids) if id_ in group.changed}


def _replanned(
    group: _Group,
    path: Mapping[str, ComputeUnit | None],
    total_ms: float,
    planned_ms: float,
    ops: Mapping[str, PlacedOp],
    setting: ComputeUnits,
) -> Replanned:
    moved = {
        id_: unit for id_, unit in path.items() if unit is not None and unit != ops[id_].choices[setting].unit
    }
    saved = planned_ms - total_ms
    units = [unit for unit in path.values() if unit is not None]
    return Replanned(
        hypothesis=group.hypothesis,
        unit=group.unit,
        reasons=group.reasons,
        ops=tuple(group.concerned),
        free=len(group.changed),
        gain_ms=group.gain_ms,
        moved=moved,
        total_ms=total_ms,
        saved_ms=saved if abs(saved) > _TIE_MS else 0.0,
        switches=sum(a != b for a, b in itertools.pairwise(units)),
    )
