"""Explains single operations of a plan: costs, rules, and the plan with an operation on each unit."""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.base.figures import Figure
from coremlscope.base.units import shown
from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, find_device
from coremlscope.devices.unit import SETTINGS
from coremlscope.formats.container import read
from coremlscope.model.ir import Graph, Model
from coremlscope.model.ir.rewriting import names_read
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.forecast.assumptions import shape_notes, system_notes, weight_notes
from coremlscope.planning.forecast.functions import planned_functions
from coremlscope.planning.forecast.planner import plan_functions
from coremlscope.planning.forecast.what_if import Estimator, estimate_saving
from coremlscope.planning.placement.backend import BACKENDS_OF, Backend, PlannedCost, named
from coremlscope.planning.placement.coreml_view import Node
from coremlscope.planning.placement.eligibility import list_reasons
from coremlscope.planning.placement.hypotheses import Planning, Replanned, force
from coremlscope.planning.placement.place import graphs_of
from coremlscope.results.explanation import (
    AppliedRule,
    BackendCost,
    Explanation,
    Explanations,
    Forced,
    PathStep,
)
from coremlscope.results.plan import DEFECTS, PlannedOp
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.runtime.execution.wiring import bind_functions

#: Operations that are explained where a name selects more.
_MOST = 5
_SUGGESTED = 3

#: A function, its plan, a planned operation, and the name of an operation of the file that is part of it.
_Found = tuple[str, Planning, PlannedOp, str]
#: The same with the type and the names by which it is selected.
_Named = tuple[_Found, str, tuple[str, ...]]


def explain(
    source: str | os.PathLike[str] | bytes | Model,
    op: str,
    device: str,
    *,
    os: str | None = None,
    compute_units: ComputeUnits = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Explanations:
    """Explains why operations run where they do: costs and rates, rules, and the plan if they ran elsewhere.

    Args:
        source: The model: a path, its bytes, or as read. Weights may be absent.
        op: An id, the name of an operation or of a result, or the beginning of a type.
        device: The chip or device: `m1`, `iphone-15-pro`.
        os: The version of its system; the newest known one by default.
        compute_units: What an app allows.
        shapes: Shapes of flexible inputs of the default function, instead of the defaults.

    Returns:
        An explanation of each operation that `op` selects; of more than five, those that cost most.

    Raises:
        ModelError: The model cannot be read, or has no operations to plan.
        InputError: A shape is not allowed.
        UsageError: The device or setting is unknown, or `op` selects nothing.
    """
    model, chosen = source if isinstance(source, Model) else read(source), find_device(device, os)
    if compute_units not in SETTINGS:
        raise UsageError(f"invalid compute units {compute_units!r}", f"use one of {', '.join(SETTINGS)}")
    lengths = choose_lengths(model, model.description.default, shapes or {})
    functions = planned_functions(bind_functions(model, None, lengths, every=True))
    planned, estimators = plan_functions(functions, chosen, compute_units)
    found = _select(planned, {one.key: one.bound.function.graph for one in functions}, op)
    found.sort(key=lambda one: -(one[2].choices[compute_units].planned_ms or 0.0))
    return Explanations(
        path=str(model.source or ""),
        device=chosen.name,
        os=str(chosen.os),
        compute_units=compute_units,
        cost_model=rate_table(chosen).name if any(one.prices for one in planned.values()) else "",
        wanted=op,
        ops=tuple(
            _explain(name, planning, one, part, compute_units, estimators.get(name))
            for name, planning, one, part in found[:_MOST]
        ),
        left_out=max(len(found) - _MOST, 0),
        notes=(*system_notes(model, chosen.os), *weight_notes(model), *shape_notes(model, None, lengths)),
    )


def _select(planned: Mapping[str, Planning], graphs: Mapping[str, Graph], wanted: str) -> list[_Found]:
    """The operations that a name selects: by id or name, else by the beginning of the type."""
    ops = [one for name, planning in planned.items() for one in _planned(name, planning)]
    every = [
        *ops,
        *(one for name, planning in planned.items() for one in _parts(name, planning, graphs[name])),
    ]
    exact = {(found[0], found[2].id): found for found, _, names in every if wanted in names}
    if exact:
        return list(exact.values())
    for among in (ops, every) if wanted else ():
        of_type = {(one[0], one[2].id): one for one, type_, _ in among if type_.startswith(wanted)}
        if of_type:
            return list(of_type.values())
    if not ops:
        raise UnsupportedModelError(
            "the model has no operations to plan", "`coremlscope plan MODEL --device NAME` says what runs it"
        )
    known = dict.fromkeys(name for _, type_, names in every for name in (type_, *names))
    near = difflib.get_close_matches(wanted, known, n=_SUGGESTED)
    raise UsageError(
        f"no planned operation has the id, name or type {shown(wanted)!r}",
        f"did you mean {' or '.join(map(shown, near))}?"
        if near
        else "`coremlscope plan MODEL --ops` lists them",
    )


def _planned(name: str, planning: Planning) -> Iterator[_Named]:
    """Yields the planned operations of a function."""
    for op in planning.placed.ops:
        yield (name, planning, op, ""), op.type, (op.name, op.id, *op.output_names)


def _parts(name: str, planning: Planning, graph: Graph) -> Iterator[_Named]:
    """Yields the operations of a file, each with the planned one that it is or that it is part of.

    The latter has its result, else it is the first one that reads the result, perhaps through others.
    """
    known = {op.id: op for op in planning.placed.ops}
    makers = {made: op for op in planning.placed.ops if not op.inserted for made in op.output_names}
    hosts: dict[str, PlannedOp] = {}
    for op in reversed(list(graph.walk())):
        results = tuple(value.name for value in op.outputs)
        hosting = (at[result] for at in (makers, hosts) for result in results if result in at)
        host = known.get(op.id) or next(hosting, None)
        if host is not None:
            hosts.update(dict.fromkeys(names_read(op), host))
            part = "" if op.id == host.id else op.name
            yield (name, planning, host, part), op.type, (op.name, op.id, *results)


def _explain(
    function: str,
    planning: Planning,
    op: PlannedOp,
    part: str,
    setting: ComputeUnits,
    estimator: Estimator | None,
) -> Explanation:
    choice = op.choices[setting]
    can_move = choice.backend is not None and op.id in planning.prices
    again = {} if not can_move else {one.unit: one for one in force(planning, setting, op.id)}
    chosen = {one.id: one.choices[setting].unit for one in planning.placed.ops}
    return Explanation(
        id=op.id,
        name=op.name,
        type=op.type,
        function=function,
        part=part,
        outputs=op.outputs,
        output_names=op.output_names,
        unit=choice.unit,
        backend=named(choice.backend),
        alternatives=dict(choice.alternatives),
        planned_ms=planning.placed.total_ms[setting],
        supported=dict(op.supported),
        costs=tuple(_costs(planning, op)),
        path=_path(_in_order(planning, chosen), op.id),
        forced=tuple(_forced(unit, op, again.get(unit), planning, setting, estimator) for unit in UNITS),
        rules=tuple(_rules(planning, op)),
    )


def _costs(planning: Planning, op: PlannedOp) -> Iterator[BackendCost]:
    if op.id not in planning.prices:
        return
    for unit in UNITS:
        for backend in BACKENDS_OF[unit]:
            yield _cost(backend, unit, planning.prices[op.id][backend], op.supported[unit] == "yes")


def _cost(backend: Backend, unit: ComputeUnit, cost: PlannedCost, is_supported: bool) -> BackendCost:
    rate = cost.rate
    source = ""
    if rate is not None:
        law = f", transferred by {rate.law}" if rate.law else ""
        source = f"plans on {rate.publication}{law}" + (f" ({rate.note})" if rate.note else "")
    return BackendCost(
        backend=backend,
        unit=unit,
        is_supported=is_supported,
        planned_ms=cost.ms,
        low_ms=cost.low,
        high_ms=cost.high,
        basis=cost.basis,
        rate="" if rate is None else f"{_four_digits(rate.value)} G {rate.counts} a second ({rate.name})",
        rate_source=source,
    )


def _four_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _path(units: Mapping[str, ComputeUnit | None], op: str) -> tuple[PathStep, ...]:
    """The path as runs of operations on one unit."""
    steps = []
    for unit, run in itertools.groupby(units.items(), key=lambda item: item[1]):
        ids = [id_ for id_, _ in run]
        steps.append(PathStep(unit, len(ids), op in ids))
    return tuple(steps)


def _forced(
    unit: ComputeUnit,
    op: PlannedOp,
    again: Replanned | None,
    planning: Planning,
    setting: ComputeUnits,
    estimator: Estimator | None,
) -> Forced:
    known = Forced(
        unit=unit,
        is_chosen=op.choices[setting].unit == unit,
        is_supported=op.supported[unit] == "yes",
        is_allowed=unit in SETTINGS[setting],
    )
    if again is None or known.is_chosen:
        return known
    saved = None
    if estimator is not None and again.moved:
        saved = estimate_saving(estimator({}), estimator(again.moved))
    return replace(
        known,
        planned_ms=again.total_ms,
        more_ms=-again.saved_ms,
        more_s=None if saved is None else Figure(-saved.value, -saved.high, -saved.low, saved.origin),
        moved=len(again.moved),
        path=_path(_in_order(planning, again.units), op.id),
    )


def _in_order(planning: Planning, units: Mapping[str, ComputeUnit | None]) -> dict[str, ComputeUnit | None]:
    """Returns the units of a plan's operations in the order of its paths.

    Paths of costs leave out the operations that run where their input is computed.
    """
    whole: dict[str, ComputeUnit | None] = {}
    for graph in graphs_of(planning.graph):
        unit: ComputeUnit | None = None
        for node in graph.nodes:
            unit = whole[node.id] = units.get(node.id, unit)
    return whole


def _rules(planning: Planning, op: PlannedOp) -> Iterator[AppliedRule]:
    """The rules that apply to an operation: those about single operations, then those about the function."""
    decided = {
        (unit, reason.rule)
        for unit, verdict in planning.verdicts[op.id].items()
        for reason in (*verdict.reasons, *verdict.advice)
    }
    listed = set()
    for reason in list_reasons(planning.graph, planning.device, planning.facts, _node(planning, op)):
        listed.add((reason.unit, reason.rule))
        runs = reason.effect in ("runs", "confirms") and op.supported[reason.unit] == "yes"
        counts = runs or reason.effect in ("advises", *DEFECTS) or (reason.unit, reason.rule) in decided
        yield AppliedRule(reason=reason, counts=counts)
    for unit, verdict in planning.verdicts[op.id].items():
        for reason in (*verdict.reasons, *verdict.advice, *verdict.doubts):
            if (unit, reason.rule) not in listed:
                yield AppliedRule(reason=reason, counts=(unit, reason.rule) in decided)


def _node(planning: Planning, op: PlannedOp) -> Node:
    return next(node for node in planning.graph.walk() if node.id == op.id)
