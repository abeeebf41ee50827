"""What a reason of a plan costs: the plan again, as if the reason were gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coremlscope.devices.unit import ComputeUnit
from coremlscope.figures import Figure
from coremlscope.findings import Confidence
from coremlscope.units import format_duration

__all__ = ["Confidence", "Hypothesis", "WhatIf", "describe_saving"]

#: Under what hypothesis the plan was made again:
#: `without`      the rule does not keep operations from the unit;
#: `without all`  no rule keeps operations from the unit;
#: `moved`        operations that the unit can run, and that would cost less there, run there;
#: `doubt`        a rule known by anecdote only, which plans do not apply, holds; or a unit does not run
#:                operations that only an anecdote puts there.
Hypothesis = Literal["without", "without all", "moved", "doubt"]

#: Planned costs in milliseconds that differ by less look the same: half a nanosecond.
_SHOWN_MS = 0.5e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
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


def describe_saving(saved_ms: float, planned_ms: float, saved_s: Figure | None) -> str:
    """Describes a saving, planned and estimated, or a loss: `planned 12.4 ms less (24.2 ms → 11.7 ms), …`.

    Args:
        saved_ms: Planned milliseconds saved.
        planned_ms: Planned milliseconds of the whole after that.
        saved_s: Estimated seconds saved.
    """
    if abs(saved_ms) < _SHOWN_MS:
        planned = "planned at the same cost"
    else:
        before, after = format_duration((planned_ms + saved_ms) / 1e3), format_duration(planned_ms / 1e3)
        more = f"planned {format_duration(abs(saved_ms) / 1e3)} {'less' if saved_ms > 0 else 'more'}"
        planned = more if before == after else f"{more} ({before} → {after})"
    return planned if saved_s is None else f"{planned}, {_describe_estimate(saved_s)}"


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
