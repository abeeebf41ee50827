"""Plans: the placement of operations on a device's compute units, their planned costs and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, overload

import msgspec
import msgspec.structs

from coremlscope.base.figures import Figure, Origin
from coremlscope.base.findings import Confidence
from coremlscope.base.units import format_cost, format_duration, short_repr
from coremlscope.devices.unit import SETTINGS, UNIT_WORDS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.left_out import LEFT_OUT_AT_MOST
from coremlscope.results.operations import OpRow, OpTable

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


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Where one operation goes under one setting of compute units.

    Attributes:
        backend: The implementation; None where no unit is known to run it.
        unit: Its compute unit.
        planned_ms: The planned cost there; None where it is not known.
        weight: The share in the planned cost of its graph, as in MLComputePlan.
        detour_ms: By unit on which it may run but does not: the additional cost of the cheapest plan that
            runs it there.
        alternatives: By unit: why it may run there as well although another one was chosen.
    """

    backend: str | None = None
    unit: ComputeUnit | None = None
    planned_ms: float | None = None
    weight: float = 0.0
    detour_ms: Mapping[ComputeUnit, float] = msgspec.field(default_factory=dict)
    alternatives: Mapping[ComputeUnit, Undecided] = msgspec.field(default_factory=dict)


class PlannedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, what each compute unit makes of it, and where it goes.

    Attributes:
        id: As in the op table; `main/input` and the like where Core ML adds it to those of the file.
        type: Apple's name of the operation.
        name: The author's name; the type if Core ML inserted it.
        function: Its function; in a pipeline `STAGE/FUNCTION`.
        outputs: Types of its results, as MIL text writes them.
        output_names: Names of its results.
        inserted: True if it is not in the file.
        supported: Whether a unit can run it.
        cost_ms: Its planned cost, by backend that runs it.
        cost_basis: How each of these costs is known: `recovered`, `fitted`, `assumed`, …
        why: Reasons why it cannot run on units.
        advice: Advice that would make it faster on its unit.
        doubts: Rules known by anecdote only that would take it from a unit. Plans do not apply them.
        choices: Where it goes, by setting.
    """

    id: str
    type: str
    name: str
    function: str
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]
    inserted: bool = False
    supported: Mapping[ComputeUnit, Support] = msgspec.field(default_factory=dict)
    cost_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    cost_basis: Mapping[str, str] = msgspec.field(default_factory=dict)
    why: tuple[Reason, ...] = ()
    advice: tuple[Reason, ...] = ()
    doubts: tuple[Reason, ...] = ()
    choices: Mapping[ComputeUnits, Choice]

    @classmethod
    def of(cls, row: OpRow, choices: Mapping[ComputeUnits, Choice]) -> PlannedOp:
        """Returns an operation of an op table of which nothing is known but where it goes."""
        return cls(
            id=row.id,
            type=row.type,
            name=row.name,
            function=row.function,
            outputs=row.outputs,
            output_names=row.output_names,
            choices=choices,
        )

    @property
    def graph(self) -> str:
        """The graph that it belongs to; nested graphs are planned separately."""
        return self.function if self.inserted else self.id.rpartition("/")[0]

    @property
    def depth(self) -> int:
        """Number of operations with nested graphs that contain it."""
        return 0 if self.inserted else self.id.removeprefix(f"{self.function}/").count("/") // 2


class PlannedOps(Sequence[PlannedOp]):
    """The operations of a plan in program order: rows in memory, columns in JSON.

    Args:
        rows: The operations.
        read: Makes them of what was decoded and of the op table, which `over` has.
    """

    __slots__ = ("_by_id", "_read", "_rows")

    def __init__(
        self,
        rows: Iterable[PlannedOp] = (),
        read: Callable[[OpTable], Iterable[PlannedOp]] | None = None,
    ) -> None:
        self._rows = tuple(rows)
        self._read = read
        self._by_id: dict[str, PlannedOp] = {}

    def over(self, table: OpTable) -> None:
        """Makes the rows of a plan that was decoded, and checks that they are those of a table.

        Raises:
            ValueError: The plan has an operation that is not in the table.
        """
        if self._read is not None:
            self._rows, self._read = tuple(self._read(table)), None
        ids = {*table.id}
        for op in self._rows:
            if not op.inserted and op.id not in ids:
                raise ValueError(f"a plan has the operation {op.id}, which is not in the op table")

    def under(self, settings: Collection[ComputeUnits]) -> PlannedOps:
        """Returns the operations with where they go under some settings alone."""
        if not self._rows or self._rows[0].choices.keys() <= set(settings):
            return self
        return PlannedOps(
            msgspec.structs.replace(
                op, choices={name: op.choices[name] for name in op.choices if name in settings}
            )
            for op in self._rows
        )

    def get(self, id_: str) -> PlannedOp | None:
        """Returns an operation by its id; None where plans do not list it."""
        if not self._by_id:
            self._by_id = {op.id: op for op in self._rows}
        return self._by_id.get(id_)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[PlannedOp]:
        return iter(self._rows)

    @overload
    def __getitem__(self, index: int) -> PlannedOp: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PlannedOp, ...]: ...
    def __getitem__(self, index: int | slice) -> PlannedOp | tuple[PlannedOp, ...]:
        return self._rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedOps) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(tuple(op.id for op in self._rows))


class Segment(msgspec.Struct, frozen=True):
    """Operations in a row on one compute unit, between two changes of unit.

    Attributes:
        unit: The unit.
        ops: Their ids, in order.
    """

    unit: ComputeUnit
    ops: tuple[str, ...]


def find_segments(walk: Iterable[tuple[str, ComputeUnit | None]]) -> list[Segment]:
    """Returns the segments of operations in order: one more than there are changes of unit.

    Args:
        walk: The operations, nested ones after their owner: the id of each and its unit. Those without a
            unit change none; they belong to no segment.
    """
    runs: list[tuple[ComputeUnit, list[str]]] = []
    for id_, unit in walk:
        if unit is None:
            continue
        if not runs or runs[-1][0] != unit:
            runs.append((unit, []))
        runs[-1][1].append(id_)
    return [Segment(unit, tuple(ops)) for unit, ops in runs]


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
        other_plan: Of the plans with rates at the ends of their intervals, the one that differs most; None
            where none of them differs by more than a few operations.
        what_ifs: What each reason costs, by function; the largest planned saving first. Empty for plans of
            Core ML, and where it was not asked for.
    """

    compute_units: ComputeUnits
    functions: Mapping[str, FunctionCost]
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

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        planner: The source of the plan: `rules` (coremlscope), `Core ML` or `Core AI`.
        cost_model: The published plans from which the costs were recovered; empty if the framework's costs
            are not published, as those of Core AI.
        notes: Further remarks.
        units: The compute units that the framework chooses from.
        backends: The implementations that it chooses from, with the unit of each.
        ops: The operations in program order, those that Core ML inserts included.
        transitions: The costs of launches and changes of backend; None where they are not known.
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
    ops: PlannedOps
    transitions: Transitions | None = None
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
        has_costs = any(op.cost_ms for op in self.ops)
        return setting.total_ms if setting.functions and (has_costs or setting.total_ms) else None

    def setting(self, compute_units: str) -> SettingPlan | None:
        """Returns the plan under one setting; None if it was not planned."""
        return next((s for s in self.settings if s.compute_units == compute_units), None)

    def under(self, settings: Sequence[str]) -> Plan:
        """Returns the plan under some of its settings alone."""
        kept = tuple(one for one in self.settings if one.compute_units in settings)
        names = {one.compute_units for one in kept}
        return msgspec.structs.replace(self, settings=kept, ops=self.ops.under(names))

    def view(self, setting: SettingPlan | None = None) -> PlanView:
        """Returns the plan under one setting; None for the first."""
        return PlanView(self, setting or self.settings[0])

    def functions(self) -> dict[str, tuple[PlannedOp, ...]]:
        """Returns the operations by function, in the order of the plan."""
        listed: dict[str, list[PlannedOp]] = {name: [] for name in self.settings[0].functions}
        for op in self.ops:
            listed.setdefault(op.function, []).append(op)
        return {name: tuple(ops) for name, ops in listed.items() if ops}

    def reasons(self, op: PlannedOp, setting: ComputeUnits) -> list[Reason]:
        """Returns why an operation does not run on units that a setting allows but that were not chosen."""
        chosen = op.choices[setting]
        listed: list[Reason] = []
        for unit in UNITS:
            if unit not in SETTINGS[setting] or unit == chosen.unit:
                continue
            listed.extend(reason for reason in op.why if reason.unit == unit)
            if unit in chosen.detour_ms and chosen.backend is not None:
                there = [ms for backend, ms in op.cost_ms.items() if self.backends[backend] == unit]
                if there:
                    more_ms = chosen.detour_ms[unit]
                    listed.append(_cost_reason(unit, min(there), chosen.planned_ms or 0.0, more_ms))
        return listed


class PlanView(NamedTuple):
    """A plan under one of its settings."""

    plan: Plan
    setting: SettingPlan

    @property
    def compute_units(self) -> ComputeUnits:
        """The setting."""
        return self.setting.compute_units


def unit_counts(ops: Iterable[PlannedOp], setting: ComputeUnits) -> Counter[ComputeUnit | None]:
    """Counts the operations on each unit, and under None those without a unit."""
    return Counter(op.choices[setting].unit for op in ops)


def undecided_counts(ops: Iterable[PlannedOp], setting: ComputeUnits) -> Counter[Undecided]:
    """Counts the operations that may run on another unit as well, by why the evidence does not decide."""
    kinds = (others.values() for op in ops if (others := op.choices[setting].alternatives))
    return Counter(next(kind for kind in _DECIDING if kind in known) for known in kinds)


def unit_costs_ms(ops: Iterable[PlannedOp], setting: ComputeUnits) -> dict[ComputeUnit, float]:
    """Returns the planned cost of the operations on each unit, without launches and switches."""
    costs: dict[ComputeUnit, float] = dict.fromkeys(SETTINGS[setting], 0.0)
    for op in ops:
        chosen = op.choices[setting]
        if chosen.unit is not None:
            costs[chosen.unit] = costs.get(chosen.unit, 0.0) + (chosen.planned_ms or 0.0)
    return costs


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
        ops: The operations that the reason concerns, by their place in the plan.
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
