"""What the rules say of one operation on one compute unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coremlscope.devices.unit import ComputeUnit

__all__ = ["CONFIDENCES", "Confidence", "Effect", "Reason", "Support", "Verdict"]

#: How a rule is known, best first. Where rules contradict each other the better known one counts.
Confidence = Literal["measured", "documented", "static analysis", "anecdotal"]

#: Best first.
CONFIDENCES: tuple[Confidence, ...] = ("measured", "documented", "static analysis", "anecdotal")

#: What a rule does where it applies:
#: `runs`      the unit runs this kind of operation, unless a rule rejects the form;
#: `confirms`  this very form was seen to run: rejections that are known less well do not count;
#: `rejects`   the unit does not run it;
#: `fails`     accepted by itself, but the compiler then refuses, and the whole function leaves the unit;
#: `advises`   it runs, but slowly, inexactly or at a risk: said to people, without effect on the placement.
Effect = Literal["runs", "confirms", "rejects", "fails", "advises"]

Support = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that applies to an operation.

    Attributes:
        unit: The unit that it speaks of.
        rule: The rule's id.
        text: What is wrong, for people, with the operation's own numbers where the rule gives them.
        fix: What to do about it; may be empty.
        confidence: How the rule is known.
        source: Where it is known from.
        effect: What it does.
        core_ml: The words that Core ML itself uses, where they were published; may be empty.
    """

    unit: ComputeUnit
    rule: str
    text: str
    fix: str
    confidence: Confidence
    source: str
    effect: Effect = "rejects"
    core_ml: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a unit can run an operation.

    Attributes:
        unit: The unit.
        supported: `unknown` where no rule speaks of the operation: such an operation is never placed on the
            unit, and is counted apart.
        reasons: Every rule that rejects it, in the table's order; empty where it is supported or unknown.
        advice: Rules that apply without an effect on the placement.
    """

    unit: ComputeUnit
    supported: Support
    reasons: tuple[Reason, ...] = ()
    advice: tuple[Reason, ...] = ()
