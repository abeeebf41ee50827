"""Cost of each finding on a model: its functions are planned and estimated again without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.findings import Finding, Saving
from coremlscope.devices import SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.ops.view import OpView
from coremlscope.planning.advice import Change, Remark
from coremlscope.planning.cost.latency.geometry import geometry_of
from coremlscope.planning.cost.latency.kernels import Kernel, takes_activations
from coremlscope.planning.cost.latency.kinds import kind_of
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.forecast.kernels import Prediction
from coremlscope.planning.forecast.placed import KindPrices
from coremlscope.planning.forecast.what_if import estimate_saving
from coremlscope.planning.patterns.verdict import Verdict
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF
from coremlscope.planning.placement.eligibility import judge, judge_others
from coremlscope.planning.placement.hypotheses import Planning, Replanned, plan_with_costs
from coremlscope.planning.placement.rules import GRAPH_RULES
from coremlscope.planning.placement.search import Costs
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import TIE_MS

#: A saving below this share of the whole is none: estimates are known to some ten percent.
_LEAST_SHARE = 5e-3
_HALF_BYTES = 2
#: Kinds of kernels whose head can have another form or another width.
_WEIGHTED = frozenset({"linear", "conv", "pointwise"})
#: The id of the finding on what the others save together.
TOGETHER = "findings-together"
_OF_FUNCTIONS = frozenset(rule.id for rule in GRAPH_RULES)


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What a function costs less without what a rule found, on one device under one setting.

    Attributes:
        function: The function's name in plans.
        rule: The rule's id; `TOGETHER` for all that save anything.
        saving: How much less.
    """

    function: str
    rule: str
    saving: Saving


def describe_remarks(remarks: Mapping[str, Sequence[Remark]], saved: Iterable[Saved]) -> tuple[Finding, ...]:
    """Returns the remarks that save time or space as findings, the largest planned saving first.

    The last ones tell what those of a function save together.

    Args:
        remarks: The remarks by function, in the order of the functions.
        saved: What they save.
    """
    known: dict[tuple[str, str], list[Saving]] = defaultdict(list)
    for one in saved:
        known[one.function, one.rule].append(one.saving)
    found, together = [], []
    for name, several in remarks.items():
        where = f"{name.partition('/')[0]}: " if len(remarks) > 1 else ""
        for remark in several:
            savings = tuple(known[name, remark.rule.id])
            if savings or remark.found.saved_bytes:
                found.append(describe_remark(remark, savings, where))
        if known[name, TOGETHER]:
            together.append(_describe_together(tuple(known[name, TOGETHER]), where))
    found.sort(key=lambda one: -max((s.saved_ms for s in one.savings), default=0.0))
    return (*found, *together)


def _describe_together(savings: tuple[Saving, ...], where: str) -> Finding:
    return Finding(
        id=TOGETHER,
        severity="info",
        text=f"{where}What the findings on operations save together. They overlap, so this is not their sum.",
        hint="fix those first that save most",
        confidence="static analysis",
        source="planned and estimated once with all of their changes",
        savings=savings,
    )


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
        transform=remark.transform,
    )


def weigh_remarks(
    remarks: Sequence[Remark],
    planning: Planning,
    setting: ComputeUnits,
    prediction: Prediction | None,
    function: str,
) -> Iterator[Saved]:
    """Yields what each remark on a function saves under a setting, where it saves anything.

    Args:
        remarks: The remarks.
        planning: The function, planned for a device.
        setting: The setting.
        prediction: The prediction that runs it; None where no time is estimated.
        function: The function's name in plans.
    """
    if not remarks:
        return
    weighing = _Weighing(planning, setting, prediction)
    found = weighing.weigh([remark.found.change for remark in remarks])
    saving = [(remark, one) for remark, one in zip(remarks, found, strict=True) if weighing.is_visible(one)]
    for remark, one in saving:
        yield Saved(function=function, rule=remark.rule.id, saving=one)
    if len(saving) > 1:
        both = Change.of_all(remark.found.change for remark, _ in saving)
        yield Saved(function=function, rule=TOGETHER, saving=weighing.weigh([both])[0])


class _Weighing:
    """Plans and estimates a function with changes, on one device under one setting; see `weigh_remarks`."""

    def __init__(self, planning: Planning, setting: ComputeUnits, prediction: Prediction | None) -> None:
        self.planning, self.setting, self.prediction = planning, setting, prediction
        self.before = None if prediction is None else prediction.estimate()

    def weigh(self, changes: Sequence[Change]) -> list[Saving]:
        """Returns what each change saves."""
        costs = [_costs(self.planning, self.setting, one) for one in changes]
        again = plan_with_costs(self.planning, self.setting, costs)
        return [self._saving(change, one) for change, one in zip(changes, again, strict=True)]

    def _saving(self, change: Change, replanned: Replanned) -> Saving:
        saving = Saving(
            device=self.planning.device.name,
            os=str(self.planning.device.os),
            compute_units=self.setting,
            planned_ms=replanned.total_ms,
            saved_ms=replanned.saved_ms,
        )
        if self.prediction is None or self.before is None:
            return saving
        found = change_kernels(self.prediction.kernels.fused, change, self.planning)
        moved = {**replanned.moved, **dict.fromkeys(change.removed)}
        after = self.prediction.estimate(moved, [kernel for _, kernel in found], change.converted_bytes)
        return replace(saving, saved_s=estimate_saving(self.before, after, [index for index, _ in found]))

    def is_visible(self, saving: Saving) -> bool:
        """Returns whether a saving is more than a trace."""
        return _saves(saving, self.planning.placed.total_ms[self.setting], self.before)


def _saves(saving: Saving, planned_ms: float, before: Estimate | None) -> bool:
    """True where a prediction is estimated to take visibly less; where none is estimated, planned to.

    Planned costs decide the placement. They are no times, so they count only where none is estimated.
    """
    if saving.saved_s is None or before is None:
        return saving.saved_ms > max(_LEAST_SHARE * planned_ms, TIE_MS)
    return saving.saved_s.value > _LEAST_SHARE * before.latency.value


def change_kernels(fused: Sequence[Kernel], change: Change, planning: Planning) -> list[tuple[int, Kernel]]:
    """Returns the kernels that are left, changed where their operations are, each with its present place.

    Only activations that a layer could end with are fused again: where others could be, the saving is a lower
    bound.
    """
    views = {node.id: node.view for node in planning.graph.walk()} if change.removed else {}
    joining = _joining(fused, change)
    joined = {id_ for several in joining.values() for id_ in several}
    found = []
    for index, kernel in enumerate(fused):
        if (change.removed | joined).issuperset(kernel.ops):
            continue
        more = sum(_elements(views[id_]) for id_ in joining.get(index, ()) if id_ in views)
        if more:
            kernel = replace(kernel, vector=kernel.vector + more)
        gone = [views[id_] for id_ in kernel.ops if id_ in change.removed and id_ in views]
        if gone:
            fewer = sum(_elements(view) for view in gone)
            kernel = replace(kernel, vector=max(kernel.vector - fewer, 0))
        others = [change.replaced[id_] for id_ in kernel.ops if id_ in change.replaced]
        if others:
            kernel = _changed(kernel, others)
        found.append((index, kernel))
    return found


def _joining(fused: Sequence[Kernel], change: Change) -> dict[int, list[str]]:
    """Returns the operations that a kernel would end with, by its place: nothing else is left of theirs."""
    homes = {id_: index for index, kernel in enumerate(fused) for id_ in kernel.ops}
    found: dict[int, list[str]] = {}
    for id_, head in change.fused.items():
        home, target = homes.get(id_), homes.get(head)
        if home is None or target is None or home == target or not takes_activations(fused[target]):
            continue
        if fused[target].ops[-1] == head and (change.removed | {id_}).issuperset(fused[home].ops):
            found.setdefault(target, []).append(id_)
    return found


def _elements(view: OpView) -> int:
    return sum(getattr(value.type, "elements", None) or 0 for value in view.outputs)


def _changed(kernel: Kernel, views: Sequence[OpView]) -> Kernel:
    """Returns a kernel whose head, or whose element type, is another one."""
    for view in views:
        geometry = geometry_of(view)
        kind = kind_of(view, geometry)
        if view.op.name == kernel.name and kernel.kind in _WEIGHTED:
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


def _costs(planning: Planning, setting: ComputeUnits, change: Change) -> dict[str, Costs]:
    """Returns the costs of the operations that a change concerns."""
    units, verdicts = SETTINGS[setting], planning.verdicts
    kinds, known_prices = planning.graph.kinds, KindPrices.of(planning.graph, rate_table(planning.device))
    if change.has_fixed_shapes:
        facts = replace(planning.facts, flexible_inputs={})
        verdicts = judge(planning.graph, planning.device, facts, with_advice=False)
    others = {id_: view for id_, view in change.replaced.items() if id_ in planning.prices}
    judged = judge_others(planning.graph, planning.device, planning.facts, others) if others else {}
    concerns_all = change.has_fixed_shapes or change.freed
    found: dict[str, Costs] = {}
    for id_, prices in planning.prices.items():
        if id_ in change.removed:
            found[id_] = {backend: 0.0 for unit in units for backend in BACKENDS_OF[unit]}
            continue
        if id_ in others:
            prices = known_prices.price(kinds.number(others[id_]), others[id_])
            allowed = _allowed(judged[id_], units) - _kept_by_function(planning, id_)
        elif concerns_all:
            freed = {unit for unit in units if _is_free(planning, id_, unit, change.freed)}
            allowed = _allowed(verdicts[id_], units) | freed
        else:
            continue
        known = {backend: cost.ms for backend, cost in prices.items() if UNIT_OF[backend] in allowed}
        if known and (id_ in others or allowed != _allowed(planning.verdicts[id_], units)):
            found[id_] = known
    return found


def _allowed(verdicts: Mapping[ComputeUnit, Verdict], units: Iterable[ComputeUnit]) -> set[ComputeUnit]:
    return {unit for unit in units if verdicts[unit].supported == "yes"}


def _kept_by_function(planning: Planning, id_: str) -> set[ComputeUnit]:
    """Returns the units from which rules about the whole function keep an operation."""
    verdicts = planning.verdicts[id_].items()
    return {unit for unit, one in verdicts if any(reason.rule in _OF_FUNCTIONS for reason in one.reasons)}


def _is_free(planning: Planning, id_: str, unit: ComputeUnit, rules: frozenset[str]) -> bool:
    """True where only these rules keep an operation from a unit."""
    reasons = planning.verdicts[id_][unit].reasons
    return bool(reasons) and rules.issuperset(reason.rule for reason in reasons)
