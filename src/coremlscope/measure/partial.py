"""Partial measurements: results kept when measuring ends early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from coremlscope.base.errors import INTERRUPTED_EXIT, EngineError, LimitError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.results.measurement import EarlyEnd, Measurement


def explain_partial(
    error: EngineError | KeyboardInterrupt, phase: str, seconds: Mapping[str, Sequence[float]] | None = None
) -> tuple[EarlyEnd, Finding]:
    """Returns why a measurement is partial, and the finding that reports it.

    Args:
        error: What ended it.
        phase: The phase that was being repeated; empty if none was.
        seconds: The repetitions of each phase; those of warm-ups are shown nowhere else.
    """
    where = f" (phase: {phase})" if phase else ""
    known = (seconds or {}).get(phase, ()) if phase == "warm-up" else ()
    took = f" after {len(known)} warm-ups of {format_duration(median(known))} in the median" if known else ""
    if isinstance(error, EngineError):
        text = error.message.removesuffix(where) + where + took
        partial = EarlyEnd("limit" if isinstance(error, LimitError) else "failed", phase, text)
        hint, code = error.hint, error.exit_code
    else:
        partial = EarlyEnd("interrupted", phase, f"interrupted{where}{took}")
        hint, code = "", INTERRUPTED_EXIT
    finding = Finding(
        id="partial",
        severity="warning" if partial.cause == "interrupted" else "error",
        text=f"The measurement is partial: {partial.text}. What was measured before is kept.",
        hint=hint,
        exit_code=code,
    )
    return partial, finding


def interrupted(what: str) -> Finding:
    """Returns the finding on work after the timing of phases that the user ended.

    Args:
        what: The work, as the beginning of a sentence: `Core ML's plan under all`.
    """
    text = f"{what} was interrupted. What was measured before is kept."
    return Finding(id="interrupted", severity="warning", text=text, exit_code=INTERRUPTED_EXIT)


def ends_work(finding: Finding) -> bool:
    """Returns whether a finding says that the user interrupted, and so wants nothing else."""
    return finding.exit_code == INTERRUPTED_EXIT


def is_interrupted(measurement: Measurement) -> bool:
    """Returns whether the user ended a measurement, and so wants no other."""
    is_partial = measurement.partial is not None and measurement.partial.cause == "interrupted"
    return is_partial or any(map(ends_work, measurement.findings))
