"""Reads logs and crash reports of any size, and finds the known failures in them."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from coremlscope.doctor.costs import Costs, CostTable, parse_cost
from coremlscope.doctor.crash import LARGEST_REPORT, Crash, is_header, read_crash
from coremlscope.doctor.failures import FAILURES, Failure
from coremlscope.ops import OPS
from coremlscope.units import escape_controls

__all__ = ["LogReport", "LoggedFailure", "examine_log", "explain_line", "known_operations"]

#: Longer lines are read in pieces of this many bytes.
_LONGEST_LINE = 1 << 16
#: Characters kept of a line.
_KEPT = 240
#: The most operations kept for one failure, and the most lines kept that no row explains.
_MOST_OPS, _MOST_UNEXPLAINED = 20, 5

#: A line of Core ML or of what it calls, and the words that make it worth a look.
_CORE_ML = re.compile(r"E5RT|\bANE|coreml|CoreML|Core ML|MPSGraph|Espresso|espresso|mlmodelc|aned\b")
_TROUBLE = ("error", "fail", "abort", "exception", "crash", "unsupported")
#: Every text with the index of its row. Lines are searched for texts first: most contain none.
_TEXTS = tuple((text, index) for index, failure in enumerate(FAILURES) for text in failure.texts)
#: The process in a line of `log stream --style compact` or of NSLog: `python[1656:43980]`.
_PROCESS = re.compile(r"(?:^|\s)([\w.()-]{1,60})\[(\d{1,8})(?::[0-9a-fx]{1,16})?\]")
#: An operation with its operation set: `ios17.conv`.
_OPERATION = re.compile(r"\bios\d\d\.([a-z]\w{1,60})")


@dataclass(frozen=True, slots=True)
class _Hit:
    """One row that matches a line: the operation's type and name, if the line names them."""

    failure: Failure
    op: str
    name: str


@dataclass(slots=True, kw_only=True)
class LoggedFailure:
    """A known failure in a log.

    Attributes:
        failure: The row.
        first_line: The number of the first line that matches, from 1; 0 for a frame of a crash report.
        text: That line, shortened, with control characters escaped.
        process: The process that wrote it; empty if the line does not say.
        lines: How many lines match.
        ops: The operations that the lines name, at most 20: types, or names where no type is given.
    """

    failure: Failure
    first_line: int
    text: str
    process: str = ""
    lines: int = 0
    ops: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """Known failures and other findings in a log.

    Attributes:
        path: The log's path; `-` for standard input.
        lines: How many lines were read.
        found: Known failures in the order of their first lines.
        unexplained: How many further lines of Core ML report trouble.
        samples: The number and text of the first of these lines.
        crash: The crash, if the file is a crash report.
        costs: What lines of Core ML's cost model say; None if there are none.
    """

    path: str
    lines: int
    found: Sequence[LoggedFailure]
    unexplained: int = 0
    samples: Sequence[tuple[int, str]] = ()
    crash: Crash | None = None
    costs: Costs | None = None


def examine_log(stream: BinaryIO, path: str) -> LogReport:
    """Finds known failures in a log or a crash report (`.ips`); memory does not grow with the log.

    Args:
        stream: The bytes. Those that are not UTF-8 are escaped.
        path: Its path, for the report.

    Raises:
        OSError: The stream cannot be read.
    """
    first = stream.readline(_LONGEST_LINE)
    rest: Iterable[bytes] = iter(functools.partial(stream.readline, _LONGEST_LINE), b"")
    if is_header(first):
        body = stream.read(LARGEST_REPORT)
        crash = read_crash(first, body)
        if crash is not None:
            scan = _Scan()
            for line in crash.lines:
                scan.add(0, line)
            return scan.report(path, 1 + body.count(b"\n"), crash)
        rest = itertools.chain(_split(body), rest)
    scan, number = _Scan(), 1
    for piece in itertools.chain((first,), rest):
        if piece:
            scan.add(number, piece.decode("utf-8", "backslashreplace").rstrip("\r\n"))
            number += piece.endswith(b"\n")
        last = piece
    return scan.report(path, number - (not last or last.endswith(b"\n")))


def _split(body: bytes) -> Iterator[bytes]:
    for line in body.splitlines(keepends=True):
        yield from (line[start : start + _LONGEST_LINE] for start in range(0, len(line), _LONGEST_LINE))


def explain_line(text: str) -> list[Failure]:
    """The rows that match one line; general rows only where no other one does."""
    return [hit.failure for hit in _hits(text)]


def _hits(text: str) -> list[_Hit]:
    rows = sorted({index for part, index in _TEXTS if part in text})
    hits = [hit for index in rows if (hit := _match(FAILURES[index], text)) is not None]
    special = [hit for hit in hits if not hit.failure.is_general]
    return special or hits[:1]


def _match(failure: Failure, text: str) -> _Hit | None:
    groups: dict[str, str | None] = {}
    if failure.pattern:
        match = _compiled(failure.pattern).search(text)
        if match is None:
            return None
        groups = match.groupdict()
    if not _lasts(failure, groups):
        return None
    op = failure.op or (groups.get("op") or "").lower()
    if not op and (named := _OPERATION.search(text)):
        op = named[1]
    return _Hit(failure, op, groups.get("where") or "")


def _lasts(failure: Failure, groups: dict[str, str | None]) -> bool:
    """False if the line states a duration that is too short for the row."""
    seconds, minutes = groups.get("seconds"), groups.get("minutes")
    if seconds is None and minutes is None:
        return True
    return float(seconds or 0) + 60 * float(minutes or 0) >= failure.least_seconds


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class _Scan:
    """Collects what the lines of one log say."""

    def __init__(self) -> None:
        self._found: dict[str, LoggedFailure] = {}
        self._unexplained = 0
        self._samples: list[tuple[int, str]] = []
        self._costs = CostTable()

    def add(self, number: int, line: str) -> None:
        """Adds a line."""
        event = _event(line)
        text = line if event is None else event[0]
        cost = parse_cost(text)
        if cost is not None:
            self._costs.add(cost)
            return
        hits = _hits(text)
        for hit in hits:
            found = self._found.get(hit.failure.id)
            if found is None:
                process = escape_controls(_process(line) if event is None else event[1])
                found = LoggedFailure(
                    failure=hit.failure, first_line=number, text=_shown(text), process=process
                )
                self._found[hit.failure.id] = found
            found.lines += 1
            named = escape_controls(hit.op or hit.name)
            if named and len(found.ops) < _MOST_OPS:
                found.ops[named] = None
        if not hits and _is_trouble(text) and _CORE_ML.search(line):
            self._unexplained += 1
            if len(self._samples) < _MOST_UNEXPLAINED:
                self._samples.append((number, _shown(text)))

    def report(self, path: str, lines: int, crash: Crash | None = None) -> LogReport:
        """Returns the findings so far."""
        return LogReport(
            path=path,
            lines=lines,
            found=tuple(self._found.values()),
            unexplained=self._unexplained,
            samples=tuple(self._samples),
            crash=crash,
            costs=self._costs.costs(),
        )


def _event(line: str) -> tuple[str, str] | None:
    """Message and process of a line of `log stream --style ndjson`; None for lines in other styles."""
    if not line.startswith("{") or '"eventMessage"' not in line:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message, process = event.get("eventMessage"), event.get("processImagePath")
    if not isinstance(message, str):
        return None
    return message, process.rpartition("/")[2] if isinstance(process, str) else ""


def _process(line: str) -> str:
    match = _PROCESS.search(line[:_KEPT])
    return match[1] if match else ""


def _is_trouble(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _TROUBLE)


def _shown(text: str) -> str:
    shown = escape_controls(text.strip()[: 2 * _KEPT])
    return shown if len(shown) <= _KEPT else shown[: _KEPT - 1] + "…"


def known_operations(ops: Iterable[str]) -> list[str]:
    """Those of the operations about which `coremlscope rules --op` can be asked."""
    return [op for op in ops if op in OPS]
