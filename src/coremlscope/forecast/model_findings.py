"""What each finding on a model costs: its functions planned and estimated again without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from coremlscope.advice import Change, Remark
from coremlscope.cost.latency.geometry import geometry_of
from coremlscope.cost.latency.kernels import Kernel
from coremlscope.cost.latency.kinds import kind_of
from coremlscope.devices import SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.findings import Finding, Saving
from coremlscope.forecast.what_if import estimate_saving
from coremlscope.ops.view import OpView
from coremlscope.placement.backend import BACKENDS_OF, UNIT_OF, Backend, PlannedCost
from coremlscope.placement.eligibility import judge, judge_others
from coremlscope.placement.hypotheses import Planning, Replanned, plan_with_costs
from coremlscope.placement.replan import Costs
from coremlscope.placement.rules import GRAPH_RULES
from coremlscope.placement.search import TIE_MS
from coremlscope.results.estimate import Estimate

__all__ = ["Estimating", "Tally", "change_kernels", "describe_remark", "weigh_remarks"]

#: A saving below this share of the whole is none: estimates are known to some ten percent.
_LEAST_SHARE = 5e-3
_HALF_BYTES = 2
_OF_FUNCTIONS = frozenset(rule.id for rule in GRAPH_RULES)

#: Estimates a prediction with other kernels, with operations on other units, and with fewer converted bytes.
Estimating = Callable[[Sequence[Kernel], Mapping[str, ComputeUnit], int], Estimate]
#: What an operation costs on every backend.
Pricing = Callable[[OpView], Mapping[Backend, PlannedCost]]


class Tally:
    """Collects what remarks on functions save, device by device.

    Args:
        remarks: The remarks by function, in the order of the functions.
    """

    def __init__(self, remarks: Mapping[str, Sequence[Remark]]) -> None:
        self.remarks = remarks
        self._savings: dict[tuple[str, str], list[Saving]] = {
            (name, remark.rule.id): [] for name, several in remarks.items() for remark in several
        }

    def add(self, function: str, rule: str, saving: Saving) -> None:
        """Adds what a remark saves on a device."""
        self._savings[function, rule].append(saving)

    def findings(self) -> tuple[Finding, ...]:
        """Returns the remarks that save time or space as findings, the largest planned saving first."""
        found = []
        for name, several in self.remarks.items():
            where = f"{name.partition('/')[0]}: " if len(self.remarks) > 1 else ""
            for remark in several:
                savings = tuple(self._savings[name, remark.rule.id])
                if savings or remark.found.saved_bytes:
                    found.append(describe_remark(remark, savings, where))
        return tuple(sorted(found, key=lambda one: -max((s.saved_ms for s in one.savings), default=0.0)))


def describe_remark(remark: Remark, savings: tuple[Saving, ...] = (), where: str = "") -> Finding:
    """Returns a remark as a finding.

    Args:
        remark: The remark.
        savings: What the model costs less without what it is about.
        where: Precedes the text: the name of the function, where there are several.
    """
    rule, found = remark.rule, remark.found
    return Finding(
        id=rule.id,
        severity=rule.severity,
        text=where + found.text,
        hint=found.fix or rule.fix,
        ops=found.ops,
        confidence=rule.confidence,
        source=rule.source,
        savings=savings,
        saved_bytes=found.saved_bytes,
        transform=rule.transform,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The kernels of a prediction, and what estimates them under one setting."""

    fused: Sequence[Kernel]
    estimating: Estimating


def weigh_remarks(
    tally: Tally,
    planning: Planning,
    setting: ComputeUnits,
    pricing: Pricing,
    kernels: Kernels | None,
    function: str,
) -> None:
    """Adds what each remark on a function saves under a setting, where it saves anything.

    Args:
        tally: Collects it.
        planning: The function, planned for a device.
        setting: The setting.
        pricing: What other forms of operations cost.
        kernels: The kernels; None where no time is estimated.
        function: The function's name in plans.
    """
    remarks = tally.remarks.get(function, ())
    if not remarks:
        return
    changes = [remark.found.change for remark in remarks]
    planned = planning.placed.total_ms[setting]
    again = plan_with_costs(planning, setting, [_costs(planning, setting, one, pricing) for one in changes])
    before = None if kernels is None else kernels.estimating(kernels.fused, {}, 0)
    for remark, replanned in zip(remarks, again, strict=True):
        saving = Saving(
            device=planning.device.name,
            os=str(planning.device.os),
            compute_units=setting,
            planned_ms=replanned.total_ms,
            saved_ms=replanned.saved_ms,
        )
        if kernels is not None and before is not None:
            after, kept = _estimate(remark.found.change, planning, replanned, kernels)
            saving = replace(saving, saved_s=estimate_saving(before, after, kept))
        if _saves(saving, planned, before):
            tally.add(function, remark.rule.id, saving)


def _saves(saving: Saving, planned_ms: float, before: Estimate | None) -> bool:
    """True where a prediction is estimated to take visibly less; where none is estimated, planned to.

    Planned costs decide the placement. They are no times, so they count only where none is estimated.
    """
    if saving.saved_s is None or before is None:
        return saving.saved_ms > max(_LEAST_SHARE * planned_ms, TIE_MS)
    return saving.saved_s.value > _LEAST_SHARE * before.latency.value


def _estimate(
    change: Change, planning: Planning, replanned: Replanned, kernels: Kernels
) -> tuple[Estimate, Sequence[int]]:
    """Estimates a prediction without what a remark is about."""
    found = change_kernels(kernels.fused, change, planning)
    moved = {id_: unit for id_, unit in replanned.moved.items() if id_ not in change.removed}
    after = kernels.estimating([kernel for _, kernel in found], moved, change.converted_bytes)
    return after, [index for index, _ in found]


def change_kernels(fused: Sequence[Kernel], change: Change, planning: Planning) -> list[tuple[int, Kernel]]:
    """Returns the kernels that are left, changed where their operations are, each with its present place.

    Operations are not fused anew: where that would save more, the saving is a lower bound.
    """
    views = {node.id: node.view for node in planning.graph.walk()} if change.removed else {}
    found = []
    for index, kernel in enumerate(fused):
        if change.removed.issuperset(kernel.ops):
            continue
        gone = [views[id_] for id_ in kernel.ops if id_ in change.removed and id_ in views]
        if gone:
            fewer = sum(_elements(view) for view in gone)
            kernel = replace(kernel, vector=max(kernel.vector - fewer, 0))
        others = [change.replaced[id_] for id_ in kernel.ops if id_ in change.replaced]
        if others:
            kernel = _changed(kernel, others)
        found.append((index, kernel))
    return found


def _elements(view: OpView) -> int:
    return sum(getattr(value.type, "elements", None) or 0 for value in view.outputs)


def _changed(kernel: Kernel, views: Sequence[OpView]) -> Kernel:
    """Returns a kernel whose head, or whose element type, is another one."""
    for view in views:
        geometry = geometry_of(view)
        kind = kind_of(view, geometry)
        if kernel.kind == "linear" and kind != kernel.kind and view.op.name == kernel.name:
            kernel = replace(kernel, kind=kind, geometry=geometry)
    is_halved = kernel.element_bytes > _HALF_BYTES and all(_is_half(view) for view in views)
    if not is_halved:
        return kernel
    # Weights that are packed stay as they are in the file.
    is_packed = kernel.weight_bytes < _HALF_BYTES * kernel.weights
    weight_bytes = kernel.weight_bytes if is_packed else kernel.weight_bytes / 2
    return replace(kernel, element_bytes=_HALF_BYTES, weight_bytes=weight_bytes)


def _is_half(view: OpView) -> bool:
    types = (getattr(value.type, "dtype", None) for value in view.outputs)
    return all(dtype is None or dtype.bits <= 8 * _HALF_BYTES for dtype in types)


def _costs(planning: Planning, setting: ComputeUnits, change: Change, pricing: Pricing) -> dict[str, Costs]:
    """Returns the costs of the operations that a change concerns."""
    units = SETTINGS[setting]
    verdicts = planning.verdicts
    if change.has_fixed_shapes:
        facts = replace(planning.facts, flexible_inputs={})
        verdicts = judge(planning.graph, planning.device, facts, with_advice=False)
    others = {id_: view for id_, view in change.replaced.items() if id_ in planning.prices}
    judged = judge_others(planning.graph, planning.device, planning.facts, others) if others else {}
    found: dict[str, Costs] = {}
    for id_, prices in planning.prices.items():
        if id_ in change.removed:
            found[id_] = {backend: 0.0 for unit in units for backend in BACKENDS_OF[unit]}
            continue
        allowed = {unit for unit in units if verdicts[id_][unit].supported == "yes"}
        if id_ in others:
            allowed = {
                unit
                for unit in units
                if judged[id_][unit].supported == "yes" and not _of_function(planning, id_, unit)
            }
            prices = pricing(others[id_])
        elif change.freed:
            allowed |= {unit for unit in units if _is_free(planning, id_, unit, change.freed)}
        elif not change.has_fixed_shapes:
            continue
        known = {backend: cost.ms for backend, cost in prices.items() if UNIT_OF[backend] in allowed}
        if known and (id_ in others or allowed != _allowed(planning, id_, setting)):
            found[id_] = known
    return found


def _allowed(planning: Planning, id_: str, setting: ComputeUnits) -> set[ComputeUnit]:
    return {unit for unit in SETTINGS[setting] if planning.verdicts[id_][unit].supported == "yes"}


def _of_function(planning: Planning, id_: str, unit: ComputeUnit) -> bool:
    """True where a rule about the whole function keeps an operation from a unit."""
    return any(reason.rule in _OF_FUNCTIONS for reason in planning.verdicts[id_][unit].reasons)


def _is_free(planning: Planning, id_: str, unit: ComputeUnit, rules: frozenset[str]) -> bool:
    """True where only these rules keep an operation from a unit."""
    reasons = planning.verdicts[id_][unit].reasons
    return bool(reasons) and rules.issuperset(reason.rule for reason in reasons)
