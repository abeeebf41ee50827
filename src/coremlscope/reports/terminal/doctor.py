"""Diagnoses for the console, and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coremlscope.base.site import page
from coremlscope.base.units import format_duration
from coremlscope.model.ir import kind_name
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural
from coremlscope.studies.doctor.costs import Costs
from coremlscope.studies.doctor.crash import Crash
from coremlscope.studies.doctor.log import LoggedFailure, LogReport, known_operations
from coremlscope.studies.doctor.machine import Check
from coremlscope.studies.doctor.model import ModelReport

__all__ = ["checks_to_json", "render_checks", "render_reports", "reports_to_json"]

_MARKS = {"ok": "✓", "missing": "–", "warning": "!", "broken": "✗"}
_STYLES = {"ok": "green", "missing": "dim", "warning": "yellow", "broken": "red"}
#: Frames of a crash that are shown.
_SHOWN_FRAMES = 8
#: Placement rules that are shown for a failure.
_SHOWN_RULES = 3
#: Operations with the longest planned times that are shown.
_SHOWN_COSTS = 5


def render_checks(checks: Sequence[Check], *, width: int, color: bool) -> str:
    """The checks of a machine, one paragraph each."""
    screen = Screen(width, color)
    screen.title("This machine")
    for check in checks:
        status = "" if check.status == "ok" else f"{check.status}; "
        text = f"{check.name}: {status}{check.text}"
        screen.bullet(_MARKS[check.status], text, check.fix, _STYLES[check.status])
    counts = {status: sum(check.status == status for check in checks) for status in _MARKS}
    screen.line()
    screen.line(", ".join(f"{count} {status}" for status, count in counts.items() if count), "dim")
    return screen.text


def render_reports(reports: Sequence[LogReport | ModelReport], *, width: int, color: bool) -> str:
    """Renders the reports on files, one after another."""
    screen = Screen(width, color)
    for index, report in enumerate(reports):
        if index:
            screen.line()
        if isinstance(report, LogReport):
            _show_log(screen, report)
        else:
            _show_model(screen, report)
    return screen.text


def _show_log(screen: Screen, report: LogReport) -> None:
    screen.title(_name(report.path), f"  {plural(report.lines, 'line')}, {_count(len(report.found))}")
    if report.crash is not None:
        _show_crash(screen, report.crash)
    for found in report.found:
        _show_found(screen, found)
    if report.costs is not None:
        _show_costs(screen, report.costs)
    if report.samples:
        screen.heading("Not explained", plural(report.unexplained, "further line"))
        for number, text in report.samples:
            screen.bullet("•", f"line {number}: {text}" if number else text)
    if not report.found:
        screen.line()
        screen.line("No known failure of Core ML was found.")
        screen.line(
            "Core ML writes most messages to the system log: record it with `log stream` "
            f"({page('guides/failures')})."
        )


def _show_crash(screen: Screen, crash: Crash) -> None:
    screen.heading("Crash")
    frames = [f"{index}  {frame}" for index, frame in enumerate(crash.frames[:_SHOWN_FRAMES])]
    hidden = len(crash.frames) - len(frames)
    screen.pairs(
        [
            ("process", crash.process),
            ("system", ", ".join(filter(None, (crash.system, crash.device)))),
            ("exception", crash.exception),
            ("reason", crash.reason),
            ("queue", crash.queue),
            ("message", "\n".join(crash.messages)),
            ("frames", "\n".join([*frames, *([f"and {hidden} more"] if hidden else [])])),
        ],
        indent=2,
    )


def _show_costs(screen: Screen, costs: Costs) -> None:
    screen.heading("Costs", f"planned by Core ML, {plural(costs.lines, 'line')}; not measured")
    columns = (
        Column("type", style="cyan"),
        Column("lines", is_number=True),
        Column("longest", is_number=True),
        Column("memory-bound", is_number=True),
        Column("compute-bound", is_number=True),
    )
    rows = [
        (
            one.type,
            str(one.lines),
            format_duration(one.longest_ms / 1e3),
            str(one.memory_bound),
            str(one.compute_bound),
        )
        for one in costs.types
    ]
    screen.table(columns, rows)
    named = ", ".join(
        f"{line.name} ({line.type}, {format_duration((line.runtime_ms or 0.0) / 1e3)})"
        for line in costs.slowest[:_SHOWN_COSTS]
    )
    if costs.are_private:
        named = "the system hides their names; analytics.mil has them (`coremlscope import`)"
    screen.line(f"longest: {named}", "dim", indent=2)
    screen.line("an operation has one line for each backend that was considered", "dim", indent=2)


def _show_found(screen: Screen, found: LoggedFailure) -> None:
    failure = found.failure
    place = f"line {found.first_line}" if found.first_line else ""
    more = f"{found.lines} lines" if found.lines > 1 else ""
    process = f"by {found.process}" if found.process else ""
    screen.heading(failure.id, ", ".join(filter(None, (place, more, process))))
    by_id = [f"`coremlscope rules {rule}`" for rule in [*found.rules][:_SHOWN_RULES]]
    by_op = [f"`coremlscope rules --op {op}`" for op in known_operations(found.ops)[:_SHOWN_RULES]]
    is_wrapped = found.reason and found.reason != found.text
    unknown = " (its cause is not known)" if failure.is_general else ""
    screen.pairs(
        [
            ("text", found.text),
            ("reason", found.reason + unknown if is_wrapped else ""),
            ("cause", failure.cause),
            ("details", "; ".join(f"{name} {value}" for name, value in found.details.items())),
            ("operations", ", ".join(found.ops)),
            ("rules", "; ".join(by_op or by_id)),
            ("try", failure.fix),
            ("source", f"{failure.source} ({failure.confidence})"),
        ],
        indent=2,
    )


def _show_model(screen: Screen, report: ModelReport) -> None:
    screen.title(_name(report.path), f"  {_count(len(report.problems), 'problem')}")
    screen.pairs([("kind", kind_name(report.kind)), ("needs", report.needs)])
    for problem in report.problems:
        screen.heading(problem.id, problem.effect)
        screen.line(problem.text, indent=2)
        if problem.fix:
            screen.line(f"try: {problem.fix}", "dim", indent=2)
    if not report.problems:
        screen.line("Nothing was found that keeps it from loading, or from running here.")
        if report.has_operations:
            screen.line("`coremlscope plan MODEL --device NAME` tells what runs on which unit.", "dim")


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


def _count(number: int, noun: str = "known failure") -> str:
    return plural(number, noun) if number else f"no {noun}"


def checks_to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """The checks as plain values."""
    fields = ("name", "status", "text", "fix")
    return {
        "schema": "coremlscope.doctor/1",
        "checks": [{field: getattr(check, field) for field in fields} for check in checks],
    }


def reports_to_json(reports: Sequence[LogReport | ModelReport]) -> dict[str, Any]:
    """The reports on files as plain values."""
    return {
        "schema": "coremlscope.doctor/1",
        "files": [
            _log_to_json(report) if isinstance(report, LogReport) else _model_to_json(report)
            for report in reports
        ],
    }


def _log_to_json(report: LogReport) -> dict[str, Any]:
    crash = report.crash
    return {
        "path": report.path,
        "type": "crash report" if crash else "log",
        "lines": report.lines,
        "crash": None
        if crash is None
        else {
            **{name: getattr(crash, name) for name in ("process", "system", "device", "exception", "reason")},
            "queue": crash.queue,
            "messages": list(crash.messages),
            "frames": list(crash.frames),
        },
        "costs": None if report.costs is None else msgspec.to_builtins(report.costs),
        "failures": [_found_to_json(found) for found in report.found],
        "unexplained": {
            "lines": report.unexplained,
            "samples": [{"line": number, "text": text} for number, text in report.samples],
        },
    }


def _found_to_json(found: LoggedFailure) -> dict[str, Any]:
    failure = found.failure
    return {
        "id": failure.id,
        "line": found.first_line,
        "lines": found.lines,
        "text": found.text,
        "reason": found.reason,
        "details": found.details,
        "process": found.process,
        "ops": list(found.ops),
        "rules": list(found.rules),
        **{name: getattr(failure, name) for name in ("cause", "fix", "source", "confidence")},
    }


def _model_to_json(report: ModelReport) -> dict[str, Any]:
    fields = ("id", "effect", "text", "fix", "ops")
    return {
        "path": report.path,
        "type": "model",
        "kind": report.kind,
        "needs": report.needs,
        "problems": [{field: getattr(problem, field) for field in fields} for problem in report.problems],
    }
