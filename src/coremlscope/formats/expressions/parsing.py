"""Parses expressions such as `conv(dilations=1,2,4, kernel=1..31)`. Nothing is evaluated."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.units import shown

#: A value of an option: a number, a word, true or false, or sizes such as `1x64x56x56`.
OptionValue = bool | int | float | str | tuple[int, ...]

_LONGEST = 1000
#: The most layers that one expression may describe.
_MOST_LAYERS = 1000
_MOST_DIGITS = 12
_WHOLE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", re.ASCII | re.DOTALL)
_CALL = re.compile(r"\s*[A-Za-z_][\w-]*\s*\(.*\)\s*", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"\s*([A-Za-z_][\w-]*)\s*=(.*)", re.ASCII | re.DOTALL)
_VALUE = re.compile(
    r"""(?P<sizes>-?[0-9]+(?:x-?[0-9]+)+)
    | (?P<range>-?[0-9]+\.\.-?[0-9]+(?:\.\.[0-9]+)?)
    | (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-?[0-9]+)?)
    | (?P<word>[A-Za-z_][\w-]*)
    | (?P<text>'[^']*'|"[^"]*")""",
    re.ASCII | re.VERBOSE,
)
_WORDS: Mapping[str, bool] = {"true": True, "false": False, "yes": True, "no": False}
_FORM = "write it as KIND(OPTION=VALUE, …): conv(kernel=3, dilations=1,2,4)"


class Expression(msgspec.Struct, frozen=True):
    """A kind of layer and its options, each with one value or several.

    Attributes:
        kind: The kind of layer.
        options: The values of each option that was given.
    """

    kind: str
    options: Mapping[str, tuple[OptionValue, ...]]


def is_expression(path: Path) -> bool:
    """Returns whether the last part of a path is an expression, `KIND(…)`, and no name of a file."""
    return _CALL.fullmatch(path.name) is not None


def parse(text: str) -> Expression:
    """Parses a kind of layer with options.

    An option has a value (`kernel=3`), several (`dilations=1,2,4`), or all whole numbers of a range, with a
    step if there is a third number (`kernel=1..31`, `kernel=1..31..2`). Sizes are joined by `x`: `3x5`.

    Raises:
        UsageError: The text is not of that form, or describes too many layers.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"the expression has {len(text)} characters", f"{_LONGEST} at most; {_FORM}")
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise UsageError(f"{shown(text)!r} is not a kind of layer with options", _FORM)
    options: dict[str, list[OptionValue]] = {}
    pieces = (whole[2] or "").split(",")
    for piece in pieces if pieces[-1].strip() else pieces[:-1]:
        if option := _OPTION.fullmatch(piece):
            if option[1] in options:
                raise UsageError(f"the option {option[1]!r} is given twice", _FORM)
            options[option[1]] = []
        if not options:
            raise UsageError(f"{shown(text)!r}: {shown(piece.strip())!r} has no name", _FORM)
        options[[*options][-1]] += _values((option[2] if option else piece).strip())
    count = math.prod(map(len, options.values()))
    if count > _MOST_LAYERS:
        raise UsageError(f"these are {count} layers", f"{_MOST_LAYERS} at most: give fewer values")
    return Expression(whole[1], {name: tuple(values) for name, values in options.items()})


def combinations(expression: Expression) -> Iterator[dict[str, OptionValue]]:
    """Yields every combination of the values of options; the last option varies first."""
    for values in itertools.product(*expression.options.values()):
        yield dict(zip(expression.options, values, strict=True))


def describe_value(value: OptionValue) -> str:
    """Formats a value as in an expression."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _values(text: str) -> list[OptionValue]:
    """Returns a value, or those of a range."""
    match = _VALUE.fullmatch(text)
    kind = match.lastgroup if match else ""
    if kind == "word":
        return [_WORDS.get(text.lower(), text)]
    if kind == "text":
        return [text[1:-1]]
    if kind == "sizes":
        return [tuple(int(size) for size in text.split("x"))]
    if kind == "range":
        first, last, step = [*map(int, text.split("..")), 1][:3]
        if step and 0 <= (last - first) // step < _MOST_LAYERS:
            return [*range(first, last + 1, step)]
        raise UsageError(
            f"{shown(text)} is not a range of 1 to {_MOST_LAYERS} numbers", "write it as 1..31..2"
        )
    if kind == "number" and len(text) <= _MOST_DIGITS:
        return [float(text) if any(sign in text for sign in ".e") else int(text)]
    raise UsageError(f"{shown(text)!r} is not a value", _FORM)
