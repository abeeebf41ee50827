"""Reads `analytics.mil`: the plan that Core ML writes beside a program when it compiles it on a Mac.

The file is MIL text with one operation per line, annotated with the answer of every backend. Apple does not
document it; this reader follows published files of macOS 14.5 and 27.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coremlscope.placement.backend import BACKENDS, Backend

__all__ = ["AnalysedOp", "parse_analytics"]

#: "MEM_OPT" in hexadecimal: Core ML appends it to names of values that it stores elsewhere.
_SUFFIX = "_4D454D5F4F5054"

_ATTRIBUTES = re.compile(r"\[BackendSupport = ")
_SELECTED = re.compile(r'SelectedBackend = string\("([^"]*)"\)')
_RUNTIME = re.compile(r"EstimatedRuntime = dict<string, fp64>\(\{(.*?)\}\)")
_MESSAGES = re.compile(r"ValidationMessage = dict<string, string>\(\{(.*?)\}\)(?=[,\]])")
_NUMBER_PAIR = re.compile(r'\{"([^"]*)", ([^}]*)\}')
_TEXT_PAIR = re.compile(r'\{"([^"]*)", "((?:[^"\\]|\\.)*)"\}')
_FUNCTION = re.compile(r"\s*func ([A-Za-z_]\w*)[<(]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedOp:
    """An operation as Core ML analysed it.

    Attributes:
        function: Its function.
        type: Its type without the opset.
        outputs: Names of its results in the model's file.
        selected: The backend that Core ML selected; None for an unknown backend.
        estimated_ms: Core ML's estimates of the run time, by backend that runs it.
        messages: Why other backends do not run it, by backend.
    """

    function: str
    type: str
    outputs: tuple[str, ...]
    selected: Backend | None
    estimated_ms: Mapping[Backend, float]
    messages: Mapping[Backend, str]


def parse_analytics(text: str) -> list[AnalysedOp]:
    """The operations of a file in order. Other lines are ignored."""
    found = []
    function = ""
    for line in text.splitlines():
        opening = _FUNCTION.match(line)
        if opening:
            function = opening.group(1)
            continue
        op = _operation(function, line.strip())
        if op is not None:
            found.append(op)
    return found


def _operation(function: str, line: str) -> AnalysedOp | None:
    starts = list(_ATTRIBUTES.finditer(line))
    if not starts:
        return None
    body, attributes = line[: starts[-1].start()], line[starts[-1].start() :]
    left, right = _assignment(body)
    kind = re.match(r"\s*(?:ios\d+\.)?([A-Za-z_]\w*)", right)
    if kind is None:
        return None
    selected = _SELECTED.search(attributes)
    return AnalysedOp(
        function=function,
        type=kind.group(1),
        outputs=tuple(_names(left)),
        selected=_backend(selected.group(1)) if selected else None,
        estimated_ms=_numbers(attributes),
        messages=_texts(attributes),
    )


def _backend(name: str) -> Backend | None:
    return next((backend for backend in BACKENDS if backend == name), None)


def _numbers(attributes: str) -> dict[Backend, float]:
    whole = _RUNTIME.search(attributes)
    if whole is None:
        return {}
    pairs = ((_backend(name), value) for name, value in _NUMBER_PAIR.findall(whole.group(1) + "}"))
    return {backend: _number(value) for backend, value in pairs if backend is not None}


def _number(text: str) -> float:
    return float.fromhex(text) if text.strip().startswith(("0x", "-0x")) else float(text)


def _texts(attributes: str) -> dict[Backend, str]:
    whole = _MESSAGES.search(attributes)
    if whole is None:
        return {}
    pairs = ((_backend(name), value) for name, value in _TEXT_PAIR.findall(whole.group(1) + "}"))
    return {backend: re.sub(r"\\(.)", r"\1", value) for backend, value in pairs if backend is not None}


def _assignment(body: str) -> tuple[str, str]:
    """The text left and right of the first `=` outside of brackets; an empty left side without one."""
    for index, depth, character in _depths(body):
        if character == "=" and depth == 0:
            return body[:index], body[index + 1 :]
    return "", body


def _names(left: str) -> Iterator[str]:
    """The names of the results: the last word of each part between commas outside of brackets."""
    start = 0
    cuts = [index for index, depth, character in _depths(left) if character == "," and depth == 0]
    for cut in (*cuts, len(left)):
        words = left[start:cut].split()
        if words:
            yield words[-1].removesuffix(_SUFFIX)
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
