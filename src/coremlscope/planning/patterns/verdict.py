"""The verdict of the rules on one operation on one compute unit."""

from __future__ import annotations

import msgspec

from coremlscope.devices.unit import ComputeUnit
from coremlscope.results.plan import DEFECTS, Effect, Reason, Support

__all__ = ["DEFECTS", "SPREAD", "Effect", "Reason", "Support", "Verdict"]

#: Precedes the reason of one operation at the others that leave a unit with it.
SPREAD = "the compiler rejects the whole function because of "


class Verdict(msgspec.Struct, frozen=True):
    """Whether a unit can run an operation.

    Attributes:
        unit: The unit.
        supported: `unknown` where no rule covers the operation: such an operation is never placed on the
            unit, and is counted apart.
        reasons: Every rule that rejects it, in the table's order; empty where it is supported or unknown.
        advice: Rules that apply without an effect on the placement: advice and defects.
        doubts: Rules known by anecdote only that would change `supported`: rejections that are not applied,
            and rules that the operation runs, where no better-known rule says so.
    """

    unit: ComputeUnit
    supported: Support
    reasons: tuple[Reason, ...] = ()
    advice: tuple[Reason, ...] = ()
    doubts: tuple[Reason, ...] = ()
