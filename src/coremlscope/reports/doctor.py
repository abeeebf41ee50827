"""Diagnoses of this machine, of logs and of models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from coremlscope.base.site import page
from coremlscope.model.ir import kind_name
from coremlscope.reports.document import (
    Block,
    Facts,
    Heading,
    Hint,
    Item,
    Style,
    Text,
    Title,
)
from coremlscope.reports.json import render_values
from coremlscope.reports.words import plural
from coremlscope.studies.doctor.crash import Crash
from coremlscope.studies.doctor.log import LoggedFailure, LogReport, known_operations
from coremlscope.studies.doctor.machine import Check
from coremlscope.studies.doctor.model import ModelReport

_MARKS: dict[str, tuple[str, Style]] = {
    "ok": ("✓", "good"),
    "missing": ("–", "quiet"),
    "warning": ("!", "warning"),
    "broken": ("✗", "error"),
}
_SCHEMA = "coremlscope.doctor/1"
#: Frames of a crash that are shown.
_SHOWN_FRAMES = 8
#: Placement rules that are shown for a failure.
_SHOWN_RULES = 3


def doctor_document(found: Sequence[Check] | Sequence[LogReport | ModelReport]) -> Iterator[Block]:
    """Yields the checks of a machine, or the reports on files."""
    checks = [one for one in found if isinstance(one, Check)]
    return checks_document(checks) if checks else reports_document(_reports(found))


def render_doctor_json(found: Sequence[Check] | Sequence[LogReport | ModelReport]) -> str:
    """Renders the checks of a machine, or the reports on files, as JSON text."""
    checks = [one for one in found if isinstance(one, Check)]
    return render_values(_checks_to_json(checks) if checks else reports_to_json(_reports(found)))


def _reports(found: Sequence[Any]) -> list[LogReport | ModelReport]:
    return [one for one in found if not isinstance(one, Check)]


def checks_document(checks: Sequence[Check]) -> Iterator[Block]:
    """Yields whether what coremlscope needs works, then the checks of a machine, one paragraph each."""
    broken = [check.name for check in checks if check.status == "broken"]
    verdict = f"broken: {', '.join(broken)}" if broken else "everything that coremlscope needs works"
    yield Title("This machine", verdict)
    for check in checks:
        status = "" if check.status == "ok" else f"{check.status}; "
        yield Item(f"{check.name}: {status}{check.text}", check.fix, *_MARKS[check.status])
    counts = {status: sum(check.status == status for check in checks) for status in _MARKS}
    yield Hint(", ".join(f"{count} {status}" for status, count in counts.items() if count))


def reports_document(reports: Sequence[LogReport | ModelReport]) -> Iterator[Block]:
    """Yields the reports on files, one after another."""
    for report in reports:
        yield from _log(report) if isinstance(report, LogReport) else _model(report)


def _log(report: LogReport) -> Iterator[Block]:
    yield Title(_name(report.path), f"{plural(report.lines, 'line')}, {_count(len(report.found))}")
    if report.crash is not None:
        yield from _crash(report.crash)
    for found in report.found:
        yield from _found(found)
    if report.samples:
        yield Heading("Not explained", plural(report.unexplained, "further line"))
    yield from (Item(f"line {number}: {text}" if number else text) for number, text in report.samples)
    if report.has_stacks:
        yield Text("`coremlscope import FILE` tells its call stacks by layer and by unit.", "", 0)
    elif not report.found:
        yield Text("No known failure of Core ML was found.", "", 0)
        yield Text(
            "Core ML writes most messages to the system log: record it with `log stream` "
            f"({page('guides/failures')}).",
            "",
            0,
        )


def _crash(crash: Crash) -> Iterator[Block]:
    frames = [f"{index}  {frame}" for index, frame in enumerate(crash.frames[:_SHOWN_FRAMES])]
    hidden = len(crash.frames) - len(frames)
    yield Heading("Crash")
    yield Facts(
        [
            ("process", crash.process),
            ("system", ", ".join(filter(None, (crash.system, crash.device)))),
            ("exception", crash.exception),
            ("reason", crash.reason),
            ("queue", crash.queue),
            ("message", "\n".join(crash.messages)),
            ("frames", "\n".join([*frames, *([f"and {hidden} more"] if hidden else [])])),
        ],
        2,
    )


def _found(found: LoggedFailure) -> Iterator[Block]:
    failure = found.failure
    place = f"line {found.first_line}" if found.first_line else ""
    more = f"{found.lines} lines" if found.lines > 1 else ""
    process = f"by {found.process}" if found.process else ""
    yield Heading(failure.id, ", ".join(filter(None, (place, more, process))))
    by_id = [f"`coremlscope rules {rule}`" for rule in [*found.rules][:_SHOWN_RULES]]
    by_op = [f"`coremlscope rules --op {op}`" for op in known_operations(found.ops)[:_SHOWN_RULES]]
    is_wrapped = found.reason and found.reason != found.text
    cell = None if found.place is None else found.place.cell
    yield Facts(
        [
            ("text", found.text),
            ("reason", found.reason if is_wrapped else ""),
            ("written by", str(found.place or "")),
            ("raised at", str(found.raised or "")),
            ("cause", failure.cause),
            ("details", "; ".join(f"{name} {value}" for name, value in found.details.items())),
            ("operations", ", ".join(found.ops)),
            ("rules", "; ".join(by_op or by_id)),
            ("try", failure.fix),
            ("look for", "" if cell is None else cell.next_line),
            ("then", "" if cell is None else cell.verb),
            ("source", f"{failure.source} ({failure.confidence})"),
        ],
        2,
    )


def _model(report: ModelReport) -> Iterator[Block]:
    yield Title(_name(report.path), _count(len(report.problems), "problem"))
    yield Facts([("kind", kind_name(report.kind)), ("needs", report.needs)])
    for problem in report.problems:
        yield Heading(problem.id, problem.effect)
        yield Text(problem.text, "")
        if problem.fix:
            yield Text(f"try: {problem.fix}")
    if not report.problems:
        yield Text("Nothing was found that keeps it from loading, or from running here.", "", 0)
        if report.has_operations:
            yield Hint("`coremlscope plan MODEL --device NAME` tells what runs on which unit.")


def _name(path: str) -> str:
    return "standard input" if path == "-" else PurePath(path).name or path


def _count(number: int, noun: str = "known failure") -> str:
    return plural(number, noun) if number else f"no {noun}"


def _checks_to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """The checks as plain values."""
    return {"schema": _SCHEMA, "checks": msgspec.to_builtins(checks)}


def reports_to_json(reports: Sequence[LogReport | ModelReport]) -> dict[str, Any]:
    """The reports on files as plain values."""
    files = (
        _log_to_json(report)
        if isinstance(report, LogReport)
        else {"type": "model", **msgspec.to_builtins(report)}
        for report in reports
    )
    return {"schema": _SCHEMA, "files": list(files)}


def _log_to_json(report: LogReport) -> dict[str, Any]:
    return {
        "path": report.path,
        "type": "crash report" if report.crash else "log",
        "lines": report.lines,
        "crash": msgspec.to_builtins(report.crash),
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
        "component": "" if found.place is None else found.place.component,
        "phase": "" if found.place is None else found.place.phase,
        "raised_at": str(found.raised or ""),
        "look_for": "" if found.place is None else found.place.cell.next_line,
        "then": "" if found.place is None else found.place.cell.verb,
        "ops": list(found.ops),
        "rules": list(found.rules),
        **{name: getattr(failure, name) for name in ("cause", "fix", "source", "confidence")},
    }
