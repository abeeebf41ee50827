"""Plans: the placement of operations on a device's compute units, their planned costs and the reasons."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeVar

import msgspec
import msgspec.structs

from coremlscope.base.figures import Figure, Origin
from coremlscope.base.findings import Confidence
from coremlscope.base.units import format_cost, format_duration, short_repr
from coremlscope.devices.unit import SETTINGS, UNIT_WORDS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.left_out import LEFT_OUT_AT_MOST
from coremlscope.results.operations import OpTable

Key = TypeVar("Key")
Value = TypeVar("Value")

#: Whether a unit can run an operation; `unknown` where no rule covers it.
Support = Literal["yes", "no", "unknown"]

#: The effect of a rule on the operations to which it applies:
#: `runs`      the unit runs this kind of operation, unless a rule rejects the form;
#: `confirms`  this form was observed to run, which overrides rejections of lower confidence;
#: `rejects`   the unit does not run it;
#: `fails`     accepted alone, but rejected by the compiler, so that the whole function leaves the unit;
#: `advises`   it runs, but slowly, inaccurately or with a risk; no effect on the placement;
#: `corrupts`  it runs, with wrong values and no error; no effect on the placement;
#: `crashes`   it ends the app there; no effect on the placement;
#: `hangs`     loading it for the unit does not end; no effect on the placement.
Effect = Literal["runs", "confirms", "rejects", "fails", "advises", "corrupts", "crashes", "hangs"]

#: The effects of defects: Core ML plans the operation there, and what comes of it is wrong, or nothing.
DEFECTS: frozenset[Effect] = frozenset({"corrupts", "crashes", "hangs"})

#: Why the evidence does not decide between two units: the plan costs the same with both (`tie`), many plans
#: with rates drawn within their intervals go to the other one (`rates`), or both run it and how the framework
#: chooses is not published (`unpublished`).
Undecided = Literal["tie", "rates", "unpublished"]

#: The rule id of reasons due to costs: another unit could run it, but the plan would cost more.
COST_RULE = "plan-cost"
#: Costs of paths that differ by less, in milliseconds, are equal up to rounding: sums in another order.
TIE_MS = 1e-9
#: Planned costs of operations that differ by at most a nanosecond are shown as equal.
EQUAL_COST_MS = 1e-6
#: Texts of advice up to which each is listed.
_LISTED_FIXES = 3
#: The rule id of messages that Core ML itself wrote.
CORE_ML_RULE = "core-ml"
COST_SOURCE = "Core ML's cost model, as published plans show it"

#: Of several reasons why a unit is undecided, the first one counts.
_DECIDING: tuple[Undecided, ...] = ("unpublished", "rates", "tie")
_SUPPORT: Mapping[int, Support] = {1: "yes", 0: "no", -1: "unknown"}

#: Under what hypothesis the plan was made again:
#: `without`      the rule does not keep operations from the unit;
#: `without all`  no rule keeps operations from the unit;
#: `moved`        operations that the unit can run, and that would cost less there, run there;
#: `doubt`        a rule known by anecdote only, which plans do not apply, holds; or a unit does not run
#:                operations that only an anecdote puts there.
Hypothesis = Literal["without", "without all", "moved", "doubt"]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why an operation does not run on a unit, or what would make it faster there.

    Attributes:
        unit: The unit.
        rule: The rule's id.
        text: The reason, with the operation's own numbers if the rule has them.
        fix: Advice on how to avoid it; may be empty.
        core_ml: Core ML's own message, if published; may be empty.
        confidence: How the rule is known.
        source: The source of the rule.
        effect: The effect of the rule.
    """

    unit: ComputeUnit
    rule: str
    text: str
    fix: str = ""
    core_ml: str = ""
    confidence: Confidence = "measured"
    source: str = ""
    effect: Effect = "rejects"


class InsertedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that Core ML adds to those in the file.

    Attributes:
        id: Its id: `main/input`.
        type: Apple's name of the operation.
        function: The function that it belongs to, as in the op table.
        outputs: Types of its results.
        output_names: Names of its results.
        before: The row of the op table that it precedes.
    """

    id: str
    type: str
    function: str
    outputs: tuple[str, ...]
    before: int
    output_names: tuple[str, ...] = ()


class FunctionCost(msgspec.Struct, frozen=True):
    """The planned cost of one function under one setting.

    Attributes:
        total_ms: Cost of the cheapest path, including launches and switches.
        switches: Number of changes of the unit along the path.
        time_shares: The share of each unit in the estimated time of a prediction, without launches, changes
            of unit and conversions; `Estimate.placement` is their sum over the functions of a prediction.
            Empty where nothing is estimated.
    """

    total_ms: float
    switches: int
    time_shares: Mapping[ComputeUnit, float] = {}


class OtherPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the evidence does not tell from the one shown: too close to call.

    Attributes:
        units: Its operations by unit.
        moved: How many operations run on another unit than in the plan shown.
        latency: The estimate of a prediction that follows it; None where nothing is estimated.
        planned: That of the plan shown.
    """

    units: Mapping[ComputeUnit, int]
    moved: int
    latency: Figure | None = None
    planned: Figure | None = None


class SettingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan under one setting of compute units.

    Attributes:
        compute_units: The setting.
        functions: The cost of every function that was planned, by name; in a pipeline by `STAGE/FUNCTION`.
        backend: The backend of each operation, an index into the plan's `backends`; -1 if no unit is known to
            support it.
        detour_ms: For each unit, per operation: the additional cost of the cheapest plan that runs it there;
            None if it already runs there or cannot run there.
        weight: The share of each operation in the cost of its graph as reported by Core ML; empty if it
            follows from the costs.
        alternatives: For each unit, per operation: why it may run there as well although another unit was
            chosen; None where the evidence decides. Units without such operations are omitted.
        other_plan: Of the plans with rates at the ends of their intervals, the one that differs most; None
            where none of them differs by more than a few operations.
        what_ifs: What each reason costs, by function; the largest planned saving first. Empty for plans of
            Core ML, and where it was not asked for.
    """

    compute_units: ComputeUnits
    functions: Mapping[str, FunctionCost]
    backend: tuple[int, ...]
    detour_ms: Mapping[ComputeUnit, tuple[float | None, ...]] = msgspec.field(default_factory=dict)
    weight: tuple[float | None, ...] = ()
    alternatives: Mapping[ComputeUnit, tuple[Undecided | None, ...]] = msgspec.field(default_factory=dict)
    other_plan: OtherPlan | None = None
    what_ifs: tuple[WhatIf, ...] = ()

    @property
    def total_ms(self) -> float:
        """Planned cost of all functions that were planned."""
        return sum(cost.total_ms for cost in self.functions.values())

    @property
    def switches(self) -> int:
        """Number of changes of the unit along the paths."""
        return sum(cost.switches for cost in self.functions.values())


class Transitions(msgspec.Struct, frozen=True):
    """Costs of a plan besides its operations, in milliseconds.

    Attributes:
        launch_ms: For each backend: the cost of entering it.
        switch_ms: The cost of every change of backend.
        finish_ms: For each backend: the cost of ending on it.
    """

    launch_ms: Mapping[str, float]
    switch_ms: float
    finish_ms: Mapping[str, float]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The placement of every operation on the units of a device, with planned costs and reasons.

    Columns have one entry for each row of the profile's op table, then one for each of `inserted`.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        planner: The source of the plan: `rules` (coremlscope), `Core ML` or `Core AI`.
        cost_model: The published plans from which the costs were recovered; empty if the framework's costs
            are not published, as those of Core AI.
        notes: Further remarks.
        units: The compute units that columns refer to.
        backends: The implementations that Core ML chooses from, with the unit of each.
        inserted: Operations that Core ML adds.
        supported: For each unit, per operation: 1 if it can run there, 0 if it cannot, -1 if no rule covers
            it; None for operations that plans do not list, such as those known before run time.
        cost_ms: For each backend, per operation: its planned cost; None if it cannot run there.
        cost_basis: For each backend, per operation: how that cost is known, an index into `bases`; -1 for
            none. Empty in older profiles.
        bases: The bases of costs: `recovered`, `fitted`, `assumed`, …
        transitions: The costs of launches and changes of backend; None where they are not known, and in older
            profiles.
        reasons: The distinct reasons.
        why: Per operation: indices of the reasons why it cannot run on units.
        advice: Per operation: indices of advice that would make it faster on its unit.
        doubts: Per operation: indices of rules known by anecdote only that would take it from a unit. Plans
            do not apply them. Empty in older profiles.
        settings: All settings that were planned, the requested one first.
        left_out: The operations that planned costs do not include, because nothing is known of them.
        left_out_share: The share of the parameters that they read. Where it is above 0.2, there is no total.
        origin: `planned`.
    """

    device: str
    chip: str
    os: str
    planner: str = "rules"
    cost_model: str
    notes: tuple[str, ...] = ()
    units: tuple[ComputeUnit, ...] = UNITS
    backends: Mapping[str, ComputeUnit]
    inserted: tuple[InsertedOp, ...] = ()
    supported: Mapping[ComputeUnit, tuple[int | None, ...]]
    cost_ms: Mapping[str, tuple[float | None, ...]]
    cost_basis: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    bases: tuple[str, ...] = ()
    transitions: Transitions | None = None
    reasons: tuple[Reason, ...] = ()
    why: tuple[tuple[int, ...], ...] = ()
    advice: tuple[tuple[int, ...], ...] = ()
    doubts: tuple[tuple[int, ...], ...] = ()
    settings: tuple[SettingPlan, ...]
    left_out: str = ""
    left_out_share: float = 0.0
    origin: Origin = "planned"

    __repr__ = short_repr

    def total_ms(self, setting: SettingPlan) -> float | None:
        """Returns the planned cost of all functions under a setting; None if the planner gives no costs.

        Core ML gives none for layers of neural networks, nor where only shares are known; and there is none
        where too much is left out.
        """
        if self.left_out_share > LEFT_OUT_AT_MOST:
            return None
        has_costs = any(cost is not None for column in self.cost_ms.values() for cost in column)
        return setting.total_ms if setting.functions and (has_costs or setting.total_ms) else None

    def setting(self, compute_units: str) -> SettingPlan | None:
        """Returns the plan under one setting; None if it was not planned."""
        return next((s for s in self.settings if s.compute_units == compute_units), None)

    def under(self, settings: Sequence[str]) -> Plan:
        """Returns the plan under some of its settings alone."""
        return msgspec.structs.replace(
            self, settings=tuple(one for one in self.settings if one.compute_units in settings)
        )

    def view(self, ops: OpTable, setting: SettingPlan | None = None) -> PlanView:
        """Returns the plan under one setting, operation by operation.

        Args:
            ops: The op table of the profile.
            setting: The setting; None for the first.
        """
        return PlanView(self, ops, setting or self.settings[0])


class PlannedOp(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a plan under one setting.

    Attributes:
        id: Its id.
        type: Apple's name of the operation.
        name: The author's name; the type if Core ML inserted it.
        function: Its function.
        outputs: Types of its results.
        output_names: Names of its results.
        inserted: True if it is not in the file.
        depth: Number of operations with nested graphs that contain it.
        graph: The graph that it belongs to; nested graphs are planned separately.
        unit: Its unit; None if no unit is known to support it.
        backend: The implementation; None if no unit is known to support it.
        planned_ms: Its planned cost there; None if unknown.
        weight: Its share in the planned cost of its graph, as in MLComputePlan.
        supported: Whether it can run, by unit.
        cost_ms: Its planned cost, by backend that supports it.
        cost_basis: How each of these costs is known.
        detour_ms: As in `SettingPlan`, by unit; so are the next two.
        alternatives: Why it may run on other units as well.
        why: Reasons why it cannot run on units.
        advice: Advice that would make it faster on its unit.
        doubts: Rules known by anecdote only that would take it from a unit.
    """

    id: str
    type: str
    name: str
    function: str
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]
    inserted: bool
    depth: int
    graph: str
    unit: ComputeUnit | None
    backend: str | None
    planned_ms: float | None
    weight: float
    supported: Mapping[ComputeUnit, Support]
    cost_ms: Mapping[str, float]
    cost_basis: Mapping[str, str]
    detour_ms: Mapping[ComputeUnit, float]
    alternatives: Mapping[ComputeUnit, Undecided]
    why: tuple[Reason, ...]
    advice: tuple[Reason, ...]
    doubts: tuple[Reason, ...]


class PlanView:
    """A plan under one setting, operation by operation.

    Args:
        plan: The plan.
        ops: The op table that its columns refer to.
        setting: One of the plan's settings.
    """

    def __init__(self, plan: Plan, ops: OpTable, setting: SettingPlan) -> None:
        self.plan, self.setting = plan, setting
        self._table = ops

    @property
    def compute_units(self) -> ComputeUnits:
        """The setting."""
        return self.setting.compute_units

    @cached_property
    def ops(self) -> tuple[PlannedOp, ...]:
        """The operations of the plan in program order, including those that Core ML inserts."""
        return tuple(self._rows())

    def functions(self) -> dict[str, tuple[PlannedOp, ...]]:
        """Returns the operations by function, in the order of the plan.

        In profiles of older versions, the setting has one cost for all stages of a pipeline, so the functions
        are taken from the operations.
        """
        found: dict[str, list[PlannedOp]] = {name: [] for name in self.setting.functions}
        for op in self.ops:
            found.setdefault(op.function, []).append(op)
        return {name: tuple(ops) for name, ops in found.items() if ops}

    def at(self, columns: Iterable[int]) -> tuple[PlannedOp, ...]:
        """Returns the operations of some columns of the plan."""
        ids = (*self._table.id, *(op.id for op in self.plan.inserted))
        return tuple(self._by_id[ids[column]] for column in columns if ids[column] in self._by_id)

    @cached_property
    def _by_id(self) -> dict[str, PlannedOp]:
        return {op.id: op for op in self.ops}

    def reasons(self, op: PlannedOp) -> list[Reason]:
        """Returns why an operation does not run on units that the setting allows but that were not chosen."""
        found: list[Reason] = []
        for unit in UNITS:
            if unit not in SETTINGS[self.compute_units] or unit == op.unit:
                continue
            found.extend(reason for reason in op.why if reason.unit == unit)
            if unit in op.detour_ms and op.backend is not None:
                there = [ms for backend, ms in op.cost_ms.items() if self.plan.backends[backend] == unit]
                if there:
                    found.append(_cost_reason(unit, min(there), op.planned_ms or 0.0, op.detour_ms[unit]))
        return found

    def _order(self) -> Iterator[int]:
        """Columns in program order: rows of the table with the inserted operations between them."""
        rows = len(self._table)
        waiting = sorted(range(len(self.plan.inserted)), key=lambda i: self.plan.inserted[i].before)
        for row in range(rows + 1):
            while waiting and self.plan.inserted[waiting[0]].before <= row:
                yield rows + waiting.pop(0)
            if row < rows:
                yield row

    def _rows(self) -> Iterator[PlannedOp]:
        columns = [
            column
            for column in self._order()
            if any(supported[column] is not None for supported in self.plan.supported.values())
        ]
        weights = self._weights(columns)
        return (self._op(column, weights[column]) for column in columns)

    def _graph(self, column: int) -> str:
        rows = len(self._table)
        if column >= rows:
            return self.plan.inserted[column - rows].function
        return self._table.id[column].rpartition("/")[0]

    def _spent(self, column: int) -> float:
        place = self.setting.backend[column]
        if place < 0:
            return 0.0
        return self.plan.cost_ms[list(self.plan.backends)[place]][column] or 0.0

    def _weights(self, columns: list[int]) -> dict[int, float]:
        if self.setting.weight:
            return {column: self.setting.weight[column] or 0.0 for column in columns}
        sums: dict[str, float] = {}
        for column in columns:
            graph = self._graph(column)
            sums[graph] = sums.get(graph, 0.0) + self._spent(column)
        return {
            column: self._spent(column) / total if (total := sums[self._graph(column)]) else 0.0
            for column in columns
        }

    def _op(self, column: int, weight: float) -> PlannedOp:
        plan, setting, rows, table = self.plan, self.setting, len(self._table), self._table
        place = setting.backend[column]
        backend = list(plan.backends)[place] if place >= 0 else None
        inserted = plan.inserted[column - rows] if column >= rows else None
        id_ = inserted.id if inserted else table.id[column]
        function = inserted.function if inserted else table.function[column]
        costs = _known(plan.cost_ms, column)
        return PlannedOp(
            id=id_,
            type=inserted.type if inserted else table.type[column],
            name=inserted.type if inserted else table.name[column],
            function=function,
            outputs=inserted.outputs if inserted else table.outputs[column],
            output_names=inserted.output_names if inserted else table.output_names[column],
            inserted=inserted is not None,
            depth=0 if inserted else id_.removeprefix(f"{function}/").count("/") // 2,
            graph=self._graph(column),
            unit=None if backend is None else plan.backends[backend],
            backend=backend,
            planned_ms=None if backend is None else plan.cost_ms[backend][column],
            weight=weight,
            supported={unit: _SUPPORT[code] for unit, code in _known(plan.supported, column).items()},
            cost_ms=costs,
            cost_basis={
                name: plan.bases[basis]
                for name, basis in _known(plan.cost_basis, column).items()
                if basis >= 0 and name in costs
            },
            detour_ms=_known(setting.detour_ms, column),
            alternatives=_known(setting.alternatives, column),
            why=self._reasons(plan.why, column),
            advice=self._reasons(plan.advice, column),
            doubts=self._reasons(plan.doubts, column),
        )

    def _reasons(self, column: tuple[tuple[int, ...], ...], row: int) -> tuple[Reason, ...]:
        return tuple(self.plan.reasons[index] for index in column[row]) if column else ()


def _known(columns: Mapping[Key, Sequence[Value | None]], row: int) -> dict[Key, Value]:
    """Returns what columns hold for an operation, without those that hold nothing."""
    return {key: value for key, column in columns.items() if (value := column[row]) is not None}


def unit_counts(ops: tuple[PlannedOp, ...]) -> Counter[ComputeUnit | None]:
    """Counts the operations on each unit, and under None those without a unit."""
    return Counter(op.unit for op in ops)


def undecided_counts(ops: Iterable[PlannedOp]) -> Counter[Undecided]:
    """Counts the operations that may run on another unit as well, by why the evidence does not decide."""
    kinds = (op.alternatives.values() for op in ops if op.alternatives)
    return Counter(next(kind for kind in _DECIDING if kind in found) for found in kinds)


def unit_costs_ms(ops: tuple[PlannedOp, ...], setting: ComputeUnits) -> dict[ComputeUnit, float]:
    """Returns the planned cost of the operations on each unit, without launches and switches."""
    costs: dict[ComputeUnit, float] = dict.fromkeys(SETTINGS[setting], 0.0)
    for op in ops:
        if op.unit is not None:
            costs[op.unit] = costs.get(op.unit, 0.0) + (op.planned_ms or 0.0)
    return costs


def segments(ops: tuple[PlannedOp, ...]) -> list[tuple[str | None, tuple[PlannedOp, ...]]]:
    """Returns runs of operations on one backend; those of nested graphs follow their owner."""
    return [(backend, tuple(run)) for backend, run in itertools.groupby(ops, key=lambda op: op.backend)]


def _cost_reason(unit: ComputeUnit, there_ms: float, here_ms: float, more_ms: float) -> Reason:
    costs = f"at a planned cost of {format_cost(there_ms)} against {format_cost(here_ms)} where it is"
    if abs(there_ms - here_ms) < TIE_MS:
        costs = "at the same planned cost"
    more = f"the whole plan would cost {format_cost(more_ms)} more, changes of unit included"
    if more_ms < TIE_MS:
        text = f"{UNIT_WORDS[unit]} can run it, {costs}: the whole plan would cost the same"
    elif there_ms > here_ms + TIE_MS:
        text = f"{UNIT_WORDS[unit]} can run it, but costs more: {costs}"
    else:
        text = f"{UNIT_WORDS[unit]} can run it, {costs}, but {more}"
    return Reason(unit=unit, rule=COST_RULE, text=text, source=COST_SOURCE)


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The plan again under a hypothesis about operations that are not on the fastest unit.

    Attributes:
        hypothesis: What is assumed.
        unit: The unit from which the operations are kept; for doubts the one that they run on.
        function: The function.
        rule: The rule's id; `plan-cost` for operations that launches keep from the unit; empty for all rules.
        reason: The reason, with the numbers of the first operation.
        fix: How to avoid it; may be empty.
        confidence: How the rule is known.
        source: The source of the rule.
        varies: True where the reasons of other operations have other numbers.
        ops: The operations that the reason concerns, as columns of the plan.
        moved: How many operations move to each unit; those that only follow others included.
        planned_ms: The planned cost of the function, launches and changes of unit included.
        saved_ms: How much less that is than the plan; negative where it is more.
        switches: Number of changes of unit.
        saved_s: The estimated time that a prediction takes less, in seconds, with an 80 % interval; None
            where nothing moves or no time is estimated.
        effect: All of this as a sentence.
    """

    hypothesis: Hypothesis
    unit: ComputeUnit
    function: str
    rule: str
    reason: str
    fix: str = ""
    confidence: Confidence = "measured"
    source: str = ""
    varies: bool = False
    ops: tuple[int, ...]
    moved: Mapping[ComputeUnit, int]
    planned_ms: float
    saved_ms: float
    switches: int
    saved_s: Figure | None = None
    effect: str = ""


def join_fixes(fixes: Iterable[str]) -> str:
    """Joins the advice on operations: that on most of them first, with their numbers where it differs."""
    counts = Counter(filter(None, fixes)).most_common()
    if len(counts) == 1:
        return counts[0][0]
    listed = [f"for {number} of them, {fix}" for fix, number in counts[:_LISTED_FIXES]]
    more = len(counts) - len(listed)
    return "; ".join([*listed, "--explain shows the others"] if more else listed)


def describe_saving(saved_ms: float, planned_ms: float, saved_s: Figure | None) -> str:
    """Describes a saving or a loss: `estimated 3.1 ms less (2.0 to 4.2 ms)`, else `planned cost 51 % less`.

    Args:
        saved_ms: The planned cost saved.
        planned_ms: The planned cost of the whole after that.
        saved_s: Estimated seconds saved; None if there is no estimate.
    """
    if saved_s is not None:
        return _describe_estimate(saved_s)
    if abs(saved_ms) < TIE_MS:
        return "planned cost unchanged"
    whole = planned_ms + saved_ms
    share = abs(saved_ms) / whole if whole > 0 else 1.0
    much = f"{share * 100:.0f} %" if share >= 0.01 else "under 1 %"
    return f"planned cost {much} {'less' if saved_ms > 0 else 'more'}"


def _describe_estimate(saved: Figure) -> str:
    """Describes an estimated saving: `estimated 3.1 ms less (2.0 ms to 4.2 ms)`."""
    if saved.low == saved.high == 0:
        return "estimated to take as long as before"
    if saved.low < 0 < saved.high:
        slower, faster = format_duration(-saved.low), format_duration(saved.high)
        return f"estimated without a clear difference ({slower} more to {faster} less)"
    low, high = sorted((abs(saved.low), abs(saved.high)))
    word = "less" if saved.value > 0 else "more"
    limits = f"{format_duration(low)} to {format_duration(high)}"
    return f"estimated {format_duration(abs(saved.value))} {word} ({limits})"
