"""Explanations of single operations of a plan: costs, rules, and the plan with an operation on each unit."""

from __future__ import annotations

from typing import Any

import msgspec

from coremlscope.base.figures import Figure, Origin
from coremlscope.base.units import short_repr
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.encoding import plain
from coremlscope.results.plan import Reason, Support, Undecided

#: Name and version of the form.
SCHEMA = "coremlscope.explanation/1"


class BackendCost(msgspec.Struct, frozen=True, kw_only=True):
    """The planned cost of an operation on one backend.

    Attributes:
        backend: The backend.
        unit: Its unit.
        is_supported: Whether rules let the unit run it; the cost is that of the formula in any case.
        planned_ms: The planned cost.
        low_ms: The lower end of its interval; `planned_ms` where there is none.
        high_ms: The upper end.
        basis: How it is known.
        rate: The rate behind it: `73.0 G bytes a second`.
        rate_source: The plans that the rate comes from, and how it was transferred.
    """

    backend: str
    unit: ComputeUnit
    is_supported: bool
    planned_ms: float
    low_ms: float
    high_ms: float
    basis: str
    rate: str
    rate_source: str


class PathStep(msgspec.Struct, frozen=True):
    """Operations in a row on one unit.

    Attributes:
        unit: The unit; None if no unit is known to run them.
        count: How many they are.
        holds_it: Whether the explained operation is one of them.
    """

    unit: ComputeUnit | None
    count: int
    holds_it: bool


class Forced(msgspec.Struct, frozen=True, kw_only=True):
    """The plan if the operation had to run on one unit.

    Attributes:
        unit: The unit.
        is_chosen: Whether that is the plan as it is.
        is_supported: Whether rules let the unit run it; if not, the plan is as if they did.
        is_allowed: Whether the setting allows the unit; nothing else is known where it does not.
        planned_ms: The planned cost of the function.
        more_ms: How much more that is than the plan.
        more_s: The estimated time that a prediction takes more, in seconds, with an 80 % interval.
        moved: How many operations run elsewhere than planned.
        path: The path of the function.
    """

    unit: ComputeUnit
    is_chosen: bool
    is_supported: bool
    is_allowed: bool
    planned_ms: float = 0.0
    more_ms: float = 0.0
    more_s: Figure | None = None
    moved: int = 0
    path: tuple[PathStep, ...] = ()


class AppliedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that applies to the operation.

    Attributes:
        reason: The rule, with the operation's numbers.
        counts: Whether it decides: rules known by anecdote only, and those that a better-known rule
            overrides, do not.
    """

    reason: Reason
    counts: bool


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why one operation runs where it does.

    Attributes:
        id: Its id.
        name: The author's name; the type if Core ML inserted it.
        type: Apple's name of the operation.
        function: Its function.
        outputs: Types of its results.
        output_names: Names of its results.
        unit: Its unit; None if no unit is known to run it.
        backend: Its backend.
        alternatives: The other units where it may go as well, because the evidence does not decide.
        planned_ms: The planned cost of the function, launches and changes of unit included.
        supported: Whether each unit can run it.
        costs: Its planned cost on each backend.
        path: The path of the function.
        forced: The plan if it had to run on each unit.
        rules: The rules that apply to it, by unit.
        part: The operation of the file that was asked for, where it is not planned itself but is part of this
            one: folded into it, or computed before run time for it.
    """

    id: str
    name: str
    type: str
    function: str
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]
    unit: ComputeUnit | None
    backend: str | None
    alternatives: dict[ComputeUnit, Undecided]
    planned_ms: float
    supported: dict[ComputeUnit, Support]
    costs: tuple[BackendCost, ...]
    path: tuple[PathStep, ...]
    forced: tuple[Forced, ...]
    rules: tuple[AppliedRule, ...]
    part: str = ""


class Explanations(msgspec.Struct, frozen=True, kw_only=True):
    """Explanations of the operations that a name selects, on one device under one setting.

    Attributes:
        path: The path of the model.
        device: The device, or its chip.
        os: The system.
        compute_units: The setting.
        cost_model: Where the rates behind the planned costs come from.
        wanted: The name: an id, the name of an operation or of a result, or the beginning of a type.
        ops: The explanations, costliest first.
        left_out: How many more operations the name selects.
        origin: `planned`.
        notes: What the plan assumes: shapes of flexible inputs, a system that loads the model, weights.
    """

    path: str
    device: str
    os: str
    compute_units: ComputeUnits
    cost_model: str
    wanted: str
    ops: tuple[Explanation, ...]
    left_out: int = 0
    origin: Origin = "planned"
    notes: tuple[str, ...] = ()

    __repr__ = short_repr

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, with the schema's name."""
        return {"schema": SCHEMA, **plain(self)}
