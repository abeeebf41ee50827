"""Findings: remarks about a result that do not stop the work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from coremlscope.base.figures import Figure

Severity = Literal["info", "warning", "error"]
#: How a rule is known, best first. Where rules contradict each other the better known one counts.
#: `by analogy` is what was measured on other operations of a kind, or with another framework.
Confidence = Literal["measured", "documented", "static analysis", "by analogy", "anecdotal"]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)


def least_known(known: Iterable[Confidence]) -> Confidence:
    """Returns how well a rule is known for all of several operations."""
    return max(known, key=CONFIDENCES.index)


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The cost that a model saves on a device once a finding is fixed.

    Attributes:
        device: The device.
        os: Its system.
        compute_units: The setting.
        planned_ms: The planned cost without it, launches and changes of unit included.
        saved_ms: How much less that is than the plan.
        saved_s: The estimated time that a prediction takes less, in seconds, with an 80 % interval; None
            where no time is estimated.
    """

    device: str
    os: str
    compute_units: str
    planned_ms: float
    saved_ms: float
    saved_s: Figure | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One remark about a model or a measurement.

    Attributes:
        id: A stable identifier in kebab case, for filters and CI.
        severity: `info`, `warning`, or `error` for a part of the work that failed.
        text: One sentence for the user.
        hint: A suggested action; may be empty.
        ops: The ids of the affected operations; may be empty.
        exit_code: The exit code of the error, where the severity is `error`.
        confidence: How the rule of a finding on the model is known; empty for other findings.
        source: Who published it.
        savings: What the model costs less without it, by device and setting where it saves anything.
        saved_bytes: How much smaller its files are without it.
        transform: The transform of `what-if` that applies the suggested action; empty if there is none.
    """

    id: str
    severity: Severity
    text: str
    hint: str = ""
    ops: tuple[str, ...] = ()
    exit_code: int = 0
    confidence: Confidence | Literal[""] = ""
    source: str = ""
    savings: tuple[Saving, ...] = ()
    saved_bytes: int = 0
    transform: str = ""
