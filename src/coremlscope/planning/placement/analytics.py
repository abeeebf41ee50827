"""Reads `analytics.mil`: the plan that Core ML writes beside a program when it compiles it on a Mac.

The file is MIL text with one operation per line, annotated with the answer of every backend. Apple does not
document it; this reader follows published files of macOS 14.5 and 27 (M1, M4). There, costs are in
milliseconds, decimal, in scientific notation, as integers or as hexadecimal floats; `BackendSupport` names
the backends that accept an operation and says `unsupported` in place of the others; constants are arguments.
The header of a function gives the cost of launching each backend and of switching between two.

Each line is read on its own, not by the parser of `formats.miltext`, which rejects a text with any error: of
a file of a newer Core ML, the lines that are understood must be kept, although they use values of the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.miltext.literals import unescape
from coremlscope.planning.placement.backend import BACKENDS, Backend

#: Blocks that are distinguished; deeper ones are treated as these.
_DEEPEST = 32
#: "MEM_OPT" in hexadecimal: Core ML appends it to names of values that it stores elsewhere.
_SUFFIX = "_4D454D5F4F5054"

_ATTRIBUTES = re.compile(r"\[BackendSupport = ")
_SUPPORT = re.compile(r"BackendSupport = list<string, \d+>\(\[(.*?)\]\)")
_NAME = re.compile(r' name = string\("((?:[^"\\]|\\.)*)"\)')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
#: A string, which may lack its end.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)')
_VERSION = re.compile(r"\s*program\(([^)\n]{1,40})\)")
_BUILD_INFO = re.compile(r"buildInfo = dict<string, string>\(\{(.*?)\}\)\]")
_TRANSITION = re.compile(r"(?:Launch_(\w{1,40}?)|Src_(\w{1,40}?)_Dest_(\w{1,40}?))_ms = fp64\(([^)]*)\)")
_SELECTED = re.compile(r'SelectedBackend = string\("([^"]*)"\)')
_RUNTIME = re.compile(r"EstimatedRuntime = dict<string, fp64>\(\{(.*?)\}\)")
_MESSAGES = re.compile(r"ValidationMessage = dict<string, string>\(\{(.*?)\}\)(?=[,\]])")
_NUMBER_PAIR = re.compile(r'\{"([^"]*)", ([^}]*)\}')
_TEXT_PAIR = re.compile(r'\{"([^"]*)", "((?:[^"\\]|\\.)*)"\}')
_FUNCTION = re.compile(r"\s*func ([A-Za-z_]\w*)(?:<(\w+)>)?[<(]")


class AnalysedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as Core ML analysed it.

    Attributes:
        function: Its function.
        type: Its type without the opset.
        outputs: Names of its results in the model's file.
        selected: The backend that Core ML selected; None for an unknown backend.
        estimated_ms: Core ML's estimates of the run time, by backend that runs it.
        messages: Why other backends do not run it, by backend.
        types: Types of its results, as the file writes them: `tensor<fp16, [1, 64, 32, 32]>`.
        supported: The backends that accept it, without unknown ones.
        selected_name: What the file names as the selected backend; empty where it names none.
        name: The author's name; empty where the file has none.
        place: Where it is: its number in the function, and in nested blocks the number of the operation that
            holds the block, the block's number, and its number there: (7, 0, 3).
    """

    function: str
    type: str
    outputs: tuple[str, ...]
    selected: Backend | None
    estimated_ms: Mapping[Backend, float]
    messages: Mapping[Backend, str]
    types: tuple[str, ...] = ()
    supported: tuple[Backend, ...] = ()
    selected_name: str = ""
    name: str = ""
    place: tuple[int, ...] = ()


class AnalysedFunction(msgspec.Struct, frozen=True):
    """The header of a function.

    Attributes:
        name: Its name.
        opset: Its operation set: `ios18`; empty where the file has none.
        launch_ms: The cost of launching each backend, by the file's names of them.
        switch_ms: The cost of switching from one backend to another.
    """

    name: str
    opset: str = ""
    launch_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    switch_ms: Mapping[tuple[str, str], float] = msgspec.field(default_factory=dict)


class Analytics(msgspec.Struct, frozen=True, kw_only=True):
    """A file.

    Attributes:
        version: The version of the text form: `1.3`; empty where the file does not begin as one.
        build_info: What compiled the model, by component.
        functions: By name.
        ops: The operations in order.
        is_complete: Whether every block that the file opens is closed; False for a truncated file.
    """

    version: str
    build_info: Mapping[str, str]
    functions: Mapping[str, AnalysedFunction]
    ops: tuple[AnalysedOp, ...]
    is_complete: bool


def parse_analytics(text: str) -> list[AnalysedOp]:
    """The operations of a file in order. Other lines are ignored.

    Raises:
        CorruptModelError: A cost is not a number.
    """
    return list(read_analytics(text).ops)


def read_analytics(text: str) -> Analytics:
    """All that a file says. Lines that are not understood are ignored.

    Raises:
        CorruptModelError: A cost is not a number.
    """
    version = _VERSION.match(text)
    functions: dict[str, AnalysedFunction] = {}
    found: list[AnalysedOp] = []
    build_info: dict[str, str] = {}
    blocks = _Blocks()
    function = ""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            opening = _FUNCTION.match(line)
            if opening:
                function = opening.group(1)
                functions[function] = _function(line, opening)
                blocks.enter_function(line)
                continue
            built = _first(_BUILD_INFO, "buildInfo = ", line) if not found else None
            if built:
                build_info.update(_pairs_of_text(built.group(1)))
            op = _operation(function, line.strip(), blocks)
        except ValueError as error:
            raise CorruptModelError(
                f"line {number} of analytics.mil is damaged: {error}", "copy the file from the Mac again"
            ) from error
        if op is not None:
            found.append(op)
        blocks.follow(line)
    return Analytics(
        version=version.group(1) if version else "",
        build_info=build_info,
        functions=functions,
        ops=tuple(found),
        is_complete=blocks.depth == 0,
    )


class _Blocks:
    """Counts operations in the blocks that are open."""

    def __init__(self) -> None:
        self.depth = 0
        self._base = 0
        self._places: list[list[int]] = [[-1, -1]]

    def enter_function(self, line: str) -> None:
        """Starts counting again at the line that opens a function."""
        self.depth += _braces(line)
        self._base = self.depth
        self._places = [[-1, -1]]

    def next_place(self) -> tuple[int, ...]:
        """The place of the next operation: operation, then block and operation of each nesting."""
        self._places[-1][0] += 1
        self._places[-1][1] = -1
        path: list[int] = []
        for index, (op, block) in enumerate(self._places):
            path += [op, block] if index < len(self._places) - 1 else [op]
        return tuple(path)

    def follow(self, line: str) -> None:
        """Opens and closes blocks at the end of a line."""
        if "{" not in line and "}" not in line:
            return
        self.depth += _braces(line)
        nested = min(max(self.depth - self._base, 0), _DEEPEST)
        while len(self._places) - 1 > nested:
            self._places.pop()
        while len(self._places) - 1 < nested:
            self._places[-1][0] = max(self._places[-1][0], 0)
            self._places[-1][1] += 1
            self._places.append([-1, -1])


def _braces(line: str) -> int:
    """How many more braces a line opens than it closes, outside of strings."""
    bare = _STRING.sub("", line)
    return bare.count("{") - bare.count("}")


def _function(line: str, opening: re.Match[str]) -> AnalysedFunction:
    launch: dict[str, float] = {}
    switch: dict[tuple[str, str], float] = {}
    for backend, source, target, value in _TRANSITION.findall(line):
        if backend:
            launch[backend] = _number(value)
        else:
            switch[source, target] = _number(value)
    return AnalysedFunction(opening.group(1), opening.group(2) or "", launch, switch)


def _operation(function: str, line: str, blocks: _Blocks) -> AnalysedOp | None:
    starts = list(_ATTRIBUTES.finditer(line))
    if not starts:
        return None
    body, attributes = line[: starts[-1].start()], line[starts[-1].start() :]
    left, right = _assignment(body)
    kind = re.match(r"\s*(?:ios\d+\.)?([A-Za-z_]\w*)", right)
    if kind is None:
        return None
    selected = _first(_SELECTED, "SelectedBackend = ", attributes)
    support = _first(_SUPPORT, "BackendSupport = ", attributes)
    name = _first(_NAME, " name = ", attributes)
    results = list(_results(left))
    accepted = {_backend(quoted) for quoted in _QUOTED.findall(support.group(1))} if support else set()
    return AnalysedOp(
        function=function,
        type=kind.group(1),
        outputs=tuple(result for _, result in results),
        selected=_backend(selected.group(1)) if selected else None,
        estimated_ms=_numbers(attributes),
        messages=_texts(attributes),
        types=tuple(type_ for type_, _ in results),
        supported=tuple(backend for backend in BACKENDS if backend in accepted),
        selected_name=selected.group(1) if selected else "",
        name=unescape(name.group(1)) if name else "",
        place=blocks.next_place(),
    )


def _first(pattern: re.Pattern[str], start: str, text: str) -> re.Match[str] | None:
    """A match at the first occurrence of its start only, so that a long line takes linear time."""
    place = text.find(start)
    return pattern.match(text, place) if place >= 0 else None


def _backend(name: str) -> Backend | None:
    return next((backend for backend in BACKENDS if backend == name), None)


def _numbers(attributes: str) -> dict[Backend, float]:
    whole = _first(_RUNTIME, "EstimatedRuntime = ", attributes)
    if whole is None:
        return {}
    pairs = ((_backend(name), value) for name, value in _NUMBER_PAIR.findall(whole.group(1) + "}"))
    return {backend: _number(value) for backend, value in pairs if backend is not None}


def _number(text: str) -> float:
    """A cost.

    Raises:
        ValueError: The text is not a finite number that is at least 0.
    """
    try:
        value = float.fromhex(text) if text.strip().startswith(("0x", "-0x")) else float(text)
    except (OverflowError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{text[:40]!r} is not a cost")
    return value


def _texts(attributes: str) -> dict[Backend, str]:
    whole = _first(_MESSAGES, "ValidationMessage = ", attributes)
    if whole is None:
        return {}
    pairs = ((_backend(name), value) for name, value in _pairs_of_text(whole.group(1)))
    return {backend: value for backend, value in pairs if backend is not None}


def _pairs_of_text(inside: str) -> list[tuple[str, str]]:
    return [(name, unescape(value)) for name, value in _TEXT_PAIR.findall(inside + "}")]


def _assignment(body: str) -> tuple[str, str]:
    """The text left and right of the first `=` outside of brackets; an empty left side without one."""
    for index, depth, character in _depths(body):
        if character == "=" and depth == 0:
            return body[:index], body[index + 1 :]
    return "", body


def _results(left: str) -> Iterator[tuple[str, str]]:
    """Type and name of each result; the name is the last word of a part between commas outside brackets."""
    start = 0
    cuts = [index for index, depth, character in _depths(left) if character == "," and depth == 0]
    for cut in (*cuts, len(left)):
        type_, _, name = left[start:cut].strip().rpartition(" ")
        if name:
            yield type_.strip(), name.removesuffix(_SUFFIX)
        start = cut + 1


def _depths(text: str) -> Iterator[tuple[int, int, str]]:
    """Each character outside of strings, with the number of open brackets around it."""
    depth, is_quoted, is_escaped = 0, False, False
    for index, character in enumerate(text):
        if is_quoted:
            is_quoted = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
            continue
        if character == '"':
            is_quoted = True
            continue
        if character in ")]}>":
            depth -= 1
        yield index, depth, character
        if character in "([{<":
            depth += 1
