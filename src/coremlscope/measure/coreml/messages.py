"""What Core ML says in an error, from the form in which coremltools passes it on.

coremltools raises RuntimeError with the description of the error's `userInfo`, a dictionary in Apple's old
property-list form over several lines (`Utils::handleError` in its `coremlpython/Utils.mm`). Errors of the
compiler and of coremltools itself are plain sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from coremlscope.base.processes.endings import end_with

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
#: A key of the dictionary and its value, which has quotes unless it is one word.
_PAIR = re.compile(rf"(NS\w+|\w+)\s*=\s*(?:{_QUOTED}|([^\s;{{(]+))\s*;", re.DOTALL)
#: An error within an error: `Error Domain=com.apple.CoreML Code=0 "text" UserInfo={…}`.
_INNER = re.compile(rf"Error Domain=(\S+) Code=(-?\d+)(?: {_QUOTED})?", re.DOTALL)
#: In the order of a sentence. What is to be done (NSLocalizedRecoverySuggestion) is rarely there.
_TEXTS = ("NSLocalizedDescription", "NSLocalizedFailureReason", "NSDebugDescription")
_NO_TEXT = {"", "(null)"}


def read_message(text: str) -> str:
    """Returns the description of an error, then those of the errors below it, as one line.

    Args:
        text: The text of the exception.
    """
    said: list[str] = []
    if re.match(r"\s*\{\s*(\}|[\w\"].*=)", text, re.DOTALL):
        values = [(key, _unescaped(quoted or bare)) for key, quoted, bare in _PAIR.findall(text)]
        said += [value for key in _TEXTS for found, value in values if found == key]
        said += [part for key, value in values if "UnderlyingError" in key for part in _inner(value)]
        # Several underlying errors are a list, whose elements are no pairs.
        said += [part for part in _inner(_unescaped(text)) if "NSMultipleUnderlyingErrors" in text]
    elif "Error Domain=" in text:
        said += [text.partition("Error Domain=")[0].rstrip(" :({"), *_inner(text)]
    kept: list[str] = []
    for one in (_line(part) for part in said):
        if re.search(r"\w", one) and not any(one in other for other in kept):
            kept.append(one)
    plain = _line(text)
    return ": ".join(kept) or (plain if re.search(r"\w", plain) else "Core ML gave no message")


def end_with_error(error: Exception) -> NoReturn:
    """Ends this process, a child, with what an exception says, and its type if it is no RuntimeError."""
    if isinstance(error, RuntimeError):
        end_with(read_message(str(error)))
    end_with(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _inner(text: str) -> Iterator[str]:
    """The errors in a text, the outermost first, each with its domain and code."""
    for domain, code, quoted in _INNER.findall(text):
        described = _unescaped(quoted)
        where = f"{domain.rstrip(':')} {code}"
        yield where if described in _NO_TEXT else f"{described.rstrip('.')} ({where})"
    for quoted in re.findall(rf"NSLocalizedDescription=({_QUOTED}|[^,}}]+)", text):
        yield _unescaped(quoted[1] or quoted[0]).removeprefix('"').removesuffix('"')


def _unescaped(text: str) -> str:
    r"""Undoes the escapes of a property list: `\"`, `\n`, `\U2019`."""
    text = re.sub(r"\\U([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(
        r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text, flags=re.DOTALL
    )


def _line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
