"""A gate's result for the console."""

from __future__ import annotations

from coremlscope.base.units import format_bytes
from coremlscope.reports.gate import MARKS, verdict_word
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.words import model_name, plural
from coremlscope.results.gate import GateReport, Verdict

__all__ = ["gate_summary", "render_gate"]

_STYLES: dict[Verdict, str] = {"pass": "green", "uncertain": "yellow", "fail": "red", "unknown": "red"}


def render_gate(report: GateReport, *, width: int = 100, color: bool = False) -> str:
    """Renders a gate's result: the limits of each model with marks, and a sentence.

    Args:
        report: The result.
        width: Columns.
        color: Whether to use ANSI colours.
    """
    screen = Screen(width, color)
    for model in report.models:
        size = "" if model.size_bytes is None else f"  {format_bytes(model.size_bytes)}"
        screen.title(model_name(model.path), size)
        if model.failure:
            screen.bullet("✗", model.failure, model.hint, "red")
        for check in model.checks:
            word = verdict_word(check, report.strict)
            screen.bullet(MARKS[check.verdict], f"{word}: {check.text}", check.hint, _STYLES[check.verdict])
        screen.line()
    screen.line(gate_summary(report))
    return screen.text


def gate_summary(report: GateReport) -> str:
    """Counts the limits: `5 limits, 1 not kept, 2 uncertain`."""
    checks = [check for model in report.models for check in model.checks]
    unread = sum(bool(model.failure) for model in report.models)
    parts = [f"{plural(unread, 'model')} not checked"] if unread else []
    if checks or not unread:
        parts.append(plural(len(checks), "limit"))
        parts.append(f"{len(report.failed)} not kept" if report.failed else "all kept")
    uncertain = sum(check.verdict == "uncertain" for check in checks)
    if uncertain:
        why = (
            "counted as not kept (--strict)" if report.strict else "kept by the estimate, not by its interval"
        )
        parts.append(f"{uncertain} uncertain: {why}")
    return ", ".join(parts)
