"""Reads logs and crash reports of any size, and finds the known failures in them."""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from coremlscope.base.units import escape_controls
from coremlscope.formats.recordings.stacks import is_frame
from coremlscope.ops import OPS
from coremlscope.planning.hazards.lines import Failure
from coremlscope.studies.doctor.crash import LARGEST_REPORT, Crash, is_header, read_crash
from coremlscope.studies.doctor.explain import Hit, explain_line, explain_place
from coremlscope.studies.doctor.grid import Place
from coremlscope.studies.doctor.stacks import Stacks

# Where the installed coremltools writes a text: file, function and condition.

#: A string of a source file, and what stands for the values in it.
_STRING = re.compile(r"""(?<![\w])[rf]{0,2}(["'])((?:(?!\1)[^\\\n]|\\.){12,})\1""")
_VALUES = re.compile(r"\{[^{}]*\}|%[-\d.]*[sdrfi]|\\[nt\"']")
_WORD = re.compile(r"[A-Za-z_]+")
#: The shortest part of a text that counts, and the least that all parts of it hold.
_PART, _LEAST = 6, 16


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a text in the installed coremltools.

    Attributes:
        file: The file, below the package's folder.
        line: The line of the text.
        function: The function around it; empty at the top of a module.
        condition: The condition that leads to it; empty if there is none.
    """

    file: str
    line: int
    function: str = ""
    condition: str = ""

    def __str__(self) -> str:
        inside = f" in {self.function}" if self.function else ""
        condition = f", if {self.condition}" if self.condition else ""
        return f"coremltools/{self.file}:{self.line}{inside}{condition}"


def find_raised(text: str) -> Raised | None:
    """Returns where the installed coremltools writes a text; None if it is not installed or does not.

    Args:
        text: A line of a log.
    """
    best: tuple[int, Path, int] | None = None
    words = _WORD.findall(text)
    runs = [" ".join(run) for run in zip(words, words[1:], words[2:], strict=False)]
    for path in _sources():
        source = path.read_text(encoding="utf-8", errors="replace")
        if not any(run in source for run in runs):
            continue
        for match in _STRING.finditer(source):
            parts = [part.strip() for part in _VALUES.split(match[2]) if len(part.strip()) >= _PART]
            size = sum(map(len, parts))
            if size >= _LEAST and (best is None or size > best[0]) and all(part in text for part in parts):
                best = size, path, source.count("\n", 0, match.start()) + 1
    return None if best is None else _place(best[1], best[2])


@functools.cache
def _sources() -> Sequence[Path]:
    """The files of the installed coremltools, but its tests and generated code."""
    spec = importlib.util.find_spec("coremltools")
    if spec is None or spec.origin is None:
        return ()
    root = Path(spec.origin).parent
    files = sorted(root.rglob("*.py"))
    return tuple(p for p in files if "test" not in str(p.relative_to(root)) and "proto" not in p.parts)


def _place(path: Path, line: int) -> Raised:
    root = next(parent for parent in path.parents if parent.name == "coremltools")
    function = condition = ""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except SyntaxError:
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.FunctionDef):
            function, condition = node.name, ""
        elif isinstance(node, ast.If) and any(
            one.lineno <= line <= (one.end_lineno or one.lineno) for one in node.body
        ):
            condition = " ".join(ast.unparse(node.test).split())
        elif isinstance(node, ast.Assert):
            condition = f"not ({' '.join(ast.unparse(node.test).split())})"
    return Raised(file=path.relative_to(root).as_posix(), line=line, function=function, condition=condition)


# Splits a message into its layers: who reports it, and the reason that each passes on.
#
# ``Error compiling model: "Error reading protobuf spec. validator error: X"`` has three layers around X.

#: The beginnings of messages that pass another one on, as Core ML, its compilers, Foundation, Swift, Python
#: and ONNX Runtime write them. What follows, up to the next of them, is the reason.
_LAYERS = re.compile(
    r"""^\d{4}-\d\d-\d\d\ [\d:.+-]{8,32}\ (?:\w{1,2}\ {1,4})?[\w.()-]{1,60}\[\d{1,8}(?::\w{1,16})?\]
    |(?<!\w)\[(?:coreml|espresso|client|com\.apple\.[\w:.]{1,60})\]
    |Error\ Domain=[\w.]{1,80}\ Code=-?\d{1,12}\ ?
    |NSLocalizedDescription\ ?=
    |NSLocalizedFailureReason\ ?=
    |NSUnderlyingError\ ?=\ ?(?:0x[0-9a-f]{1,16})?
    |UserInfo\ ?=\ ?\{
    |Underlying\ exception\ message\ was:
    |\bcoremlc(?:ompiler)?:\ (?:warning|error):
    |Error\ compiling\ model:
    |compiler\ error:
    |Error\ reading\ protobuf\ spec\.
    |validator\ error:
    |Failed\ to\ parse\ the\ model\ specification\.(?:\ Error:)?
    |Unable\ to\ parse\ ML\ Program:(?:\ at\ unknown\ location:)?
    |Error\ parsing\ MIL\ model:
    |\bat\ [^\s:]{1,400}:\d{1,9}:\d{1,9}:
    |\[?Espresso::handle_ex\w{0,20}\]?\ exception=
    |Espresso\ exception:\ (?:"[^"]{1,60}":)?
    |Failure\ translating\ MIL->EIR\ network:
    |MIL->EIR\ translation\ error\ at\ [^\s:]{1,400}(?::\d{1,9}){0,2}:
    |E5RT\ encountered\ an\ STL\ exception\.\ msg\ =
    |\bE5RT:(?!:)
    |MILCompile\w{0,10}ANE\ error:
    |ANECF\ error:
    |\bError=(?:_ANECompiler\ :)?
    |_ANECompiler\ :
    |Non-zero\ status\ code\ returned\ while\ running\ [^\n']{1,200}Name:\s?'[^']{1,400}'\ Status\ Message:
    |Status\ Message:
    |Error\ (?:executing|creating)\ (?:ml)?model:?
    |\[[VIWEF]:onnxruntime:[^\]]{0,200}\]
    |\[ONNXRuntimeError\]\ :\ \d{1,4}\ :\ \w{1,40}\ :
    |load\ failed\ with\ error
    |unexpectedly\ raised\ an\ error:
    |terminating\ (?:with|due\ to)\ uncaught\ exception\ of\ type\ [\w:]{1,80}:
    |\buncaught\ exception\ '\w{1,80}',\ reason:
    |Failed\ to\ read\ model\ package\ at\ \S{1,400}\ Error:
    |\b(?:Runtime|Value|Type|Key)?(?:Error|Exception|Warning):(?=\s)
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: What surrounds a reason: quotation marks, brackets and separators of dictionaries.
_AROUND = " \t\\\"'{}();,>“”"
#: Other layers speak of the same error; the domain of the error below says more.
_BELOW = re.compile(r"NSUnderlyingError.{0,60}?Error Domain=", re.IGNORECASE | re.DOTALL)


def find_reason(text: str) -> str:
    """The innermost reason of a message: all of it if nothing surrounds it, "" if it names none."""
    below = [match.start() for match in _BELOW.finditer(text)]
    if below and (reasons := _reasons(text, below[-1])):
        return reasons[0]
    reasons = _reasons(text)
    return reasons[-1] if reasons else ""


def _reasons(text: str, start: int = 0) -> list[str]:
    matches = list(_LAYERS.finditer(text, start))
    if not matches:
        return [text.strip()]
    ends = [match.start() for match in matches[1:]] + [len(text)]
    found = (_bare(text[match.end() : end]) for match, end in zip(matches, ends, strict=True))
    return [reason for reason in found if reason not in ("", "null", ".")]


def _bare(reason: str) -> str:
    """A reason without the quotation marks, the brackets and the full stop of the sentence around it."""
    bare = re.sub(r"[\"”]\.$", "", reason.strip(_AROUND)).rstrip(_AROUND)
    return bare + ")" if bare.count("(") == bare.count(")") + 1 else bare


#: Longer lines are read in pieces of this many bytes.
_LONGEST_LINE = 1 << 16
#: Characters kept of a line, and lines in which a call stack is looked for.
_KEPT = 240
#: The most operations kept for one failure, and the most lines kept that no row explains.
_MOST_OPS, _MOST_UNEXPLAINED = 20, 5
#: Of a text of at most so many lines, those that no row explains are shown, whoever wrote them.
_EXCERPT = 3

#: A line of Core ML or of what it calls, and the words that make it worth a look.
_CORE_ML = re.compile(r"E5RT|\bANE|coreml|CoreML|Core ML|MPSGraph|Espresso|espresso|mlmodelc|aned\b")
_TROUBLE = (
    "error",
    "fail",
    "abort",
    "exception",
    "crash",
    "unsupported",
    "invalid",
    "timed out",
    "not supported",
    "unable",
    "cannot",
    "can't",
    "could not",
    "couldn",
    "not be",
    "must ",
    "should ",
    "missing",
    "not registered",
    "needs to",
    "refus",
    "denied",
    "only ",
)
#: An Objective-C method, whose name is no trouble: `-[MLModel predictionFromFeatures:options:error:]`.
_METHOD = re.compile(r"[-+]\[\w{1,100} [\w:]{1,300}\]")
#: The process in a line of `log stream --style compact` or of NSLog: `python[1656:43980]`.
_PROCESS = re.compile(r"(?:^|\s)([\w.()-]{1,60})\[(\d{1,8})(?::[0-9a-fx]{1,16})?\](?=[\s:]|$)")


@dataclass(slots=True, kw_only=True)
class LoggedFailure:
    """A known failure in a log.

    Attributes:
        failure: The row.
        first_line: The number of the first line that matches, from 1; 0 for a frame of a crash report.
        text: That line, shortened, with control characters escaped.
        process: The process that wrote it; empty if the line does not say.
        raised: Where the installed coremltools writes the text; None if it does not.
        place: The component of Core ML that wrote it, and when; None if its words do not tell.
        lines: How many lines match.
        reason: The innermost reason that the first line gives: that text without what surrounds it.
        details: Numbers, shapes and names in the first line, by what they are.
        rules: The placement rules that the lines are about.
        ops: The operations that the lines name, at most 20: types, or names where no type is given.
    """

    failure: Failure
    first_line: int
    text: str
    process: str = ""
    raised: Raised | None = None
    place: Place | None = None
    lines: int = 0
    reason: str = ""
    details: dict[str, str] = field(default_factory=dict)
    rules: dict[str, None] = field(default_factory=dict)
    ops: dict[str, None] = field(default_factory=dict)


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """Known failures and other findings in a log.

    Attributes:
        path: The log's path; `-` for standard input.
        lines: How many lines were read.
        found: Known failures in the order of their first lines; texts that only pass a reason on come last.
        unexplained: How many further lines of Core ML report trouble.
        samples: The number of the first of these lines, and the innermost reason that each gives.
        crash: The crash, if the file is a crash report.
        has_stacks: Whether it has call stacks, which `import` reads.
    """

    path: str
    lines: int
    found: Sequence[LoggedFailure]
    unexplained: int = 0
    samples: Sequence[tuple[int, str]] = ()
    crash: Crash | None = None
    has_stacks: bool = False


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


class _Scan:
    """Collects what the lines of one log say."""

    def __init__(self) -> None:
        self._found: dict[str, LoggedFailure] = {}
        self._unexplained = 0
        self._engine = -_EXCERPT - 1
        self._samples: list[tuple[int, str]] = []
        self._others: list[tuple[int, str, str]] = []
        self._stacks, self._has_stacks = Stacks(), False

    def add(self, number: int, line: str) -> None:
        """Adds a line."""
        event = _event(line)
        text = line if event is None else event[0]
        self._has_stacks |= 0 < number <= _KEPT and is_frame(text)
        if number and self._stacks.add(number, text):
            return
        hits = explain_line(text)
        is_trouble = _is_trouble(text)
        if not hits and is_trouble:
            hits = [one for one in (explain_place(text),) if one is not None]
        is_known, hits = bool(hits), self._within(number, hits)
        process = _process(line) if event is None else event[1]
        if 0 < number <= _EXCERPT and not is_known and text.strip():
            self._others.append((number, text, process))
        for hit in hits:
            self._note(number, text, hit, process)
        if not is_known and is_trouble and _CORE_ML.search(line):
            self._unexplained += 1
            if len(self._samples) < _MOST_UNEXPLAINED:
                self._samples.append((number, _shown(find_reason(text) or text)))

    def _within(self, number: int, hits: list[Hit]) -> list[Hit]:
        """Leaves out what a caller says around the Neural Engine's own error, in the lines next to it."""
        engine = any(hit.place and hit.place.component.startswith("Neural Engine") for hit in hits)
        if engine:
            self._engine = number
        elif number and 0 <= number - self._engine <= _EXCERPT:
            hits = [hit for hit in hits if not (hit.place and hit.place.component == "MPSGraph")]
        return hits

    def _note(self, number: int, text: str, hit: Hit, process: str) -> None:
        found = self._found.get(hit.failure.id)
        if found is None:
            found = self._found[hit.failure.id] = LoggedFailure(
                failure=hit.failure,
                first_line=number,
                text=_shown(text),
                process=escape_controls(process),
                raised=find_raised(text) if _is_converter(hit) else None,
                place=hit.place,
                reason=_shown(find_reason(text)),
                details={name: escape_controls(value) for name, value in hit.details.items()},
            )
        found.lines += 1
        found.rules.update(dict.fromkeys(hit.rules))
        named = escape_controls(hit.op or hit.name)
        if named and len(found.ops) < _MOST_OPS:
            found.ops[named] = None

    def _explain_excerpt(self) -> None:
        """Explains the lines of a short text by who wrote them, and shows those of others."""
        for number, text, process in self._others:
            hit = explain_place(text)
            if hit is not None:
                self._note(number, text, hit, process)
            else:
                self._unexplained += 1
                self._samples.append((number, _shown(find_reason(text) or text)))

    def report(self, path: str, lines: int, crash: Crash | None = None) -> LogReport:
        """Returns the findings so far."""
        for number, text, is_crash in self._stacks.lines(lines):
            for hit in explain_line(text):
                if is_crash or not hit.failure.is_general:
                    self._note(number, text, hit, "")
        if not self._found and not self._unexplained and crash is None and lines <= _EXCERPT:
            self._explain_excerpt()
        return LogReport(
            path=path,
            lines=lines,
            found=tuple(sorted(self._found.values(), key=lambda found: found.failure.is_general)),
            unexplained=self._unexplained,
            samples=tuple(self._samples),
            crash=crash,
            has_stacks=self._has_stacks,
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
    lowered = _METHOD.sub("", text).lower()
    return any(word in lowered for word in _TROUBLE)


def _is_converter(hit: Hit) -> bool:
    return hit.place is not None and hit.place.component == "converter" and hit.place.phase != "chatter"


def _shown(text: str) -> str:
    shown = escape_controls(text.strip()[: 2 * _KEPT])
    return shown if len(shown) <= _KEPT else shown[: _KEPT - 1] + "…"


def known_operations(ops: Iterable[str]) -> list[str]:
    """Those of the operations about which `coremlscope rules --op` can be asked."""
    return [op for op in ops if op in OPS]
