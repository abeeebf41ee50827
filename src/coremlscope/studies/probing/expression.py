"""Parses what to probe: `conv(dilations=1,2,4, kernel=1..31)`. Nothing is evaluated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.units import shown

__all__ = ["OptionValue", "Probe", "combinations", "describe_value", "parse_probe"]

#: A value of an option: a number, a word, true or false, or sizes such as `1x64x56x56`.
OptionValue = bool | int | float | str | tuple[int, ...]

_LONGEST = 1000
#: The most layers that one expression may describe.
_MOST_LAYERS = 1000
_MOST_DIGITS = 12
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<sizes>-?[0-9]+(?:x-?[0-9]+)+(?![\w.]))
    | (?P<number>-?(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:e-?[0-9]+)?(?![a-zA-Z_]))
    | (?P<word>[A-Za-z_][\w\-]*)
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<dots>\.\.)
    | (?P<mark>[(),=\[\]])
    )""",
    re.VERBOSE,
)
_WORDS: Mapping[str, bool] = {"true": True, "false": False, "yes": True, "no": False}
_FORM = "write it as KIND(OPTION=VALUE, …): conv(kernel=3, dilations=1,2,4)"


class Probe(msgspec.Struct, frozen=True):
    """A kind of layer and its options, each with one value or several.

    Attributes:
        kind: The kind of layer.
        options: The values of each option that was given.
    """

    kind: str
    options: Mapping[str, tuple[OptionValue, ...]]


def parse_probe(text: str) -> Probe:
    """Parses a kind of layer with options.

    An option has a value (`kernel=3`), several (`dilations=1,2,4`), or all whole numbers of a range, with a
    step if there is a third number (`kernel=1..31`, `kernel=1..31..2`). Sizes are joined by `x`: `3x5`.

    Raises:
        UsageError: The text is not of that form, or describes too many layers.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"what to probe has {len(text)} characters", f"{_LONGEST} at most; {_FORM}")
    found = _Parser(text).parse()
    count = 1
    for values in found.options.values():
        count *= len(values)
    if count > _MOST_LAYERS:
        raise UsageError(f"these are {count} layers", f"{_MOST_LAYERS} at most: sweep fewer options")
    return found


def combinations(probe: Probe) -> Iterator[dict[str, OptionValue]]:
    """Yields every combination of the values of options; the last option varies first."""
    for values in itertools.product(*probe.options.values()):
        yield dict(zip(probe.options, values, strict=True))


def describe_value(value: OptionValue) -> str:
    """Formats a value as in an expression."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0

    def parse(self) -> Probe:
        kind = self._take("word", "the name of a kind of layer")
        options: dict[str, tuple[OptionValue, ...]] = {}
        if self._next < len(self._tokens):
            self._mark("(")
            while not self._is_mark(")"):
                name = self._take("word", "the name of an option")
                self._mark("=")
                if name in options:
                    raise UsageError(f"the option {name!r} is given twice", _FORM)
                options[name] = self._values()
            self._mark(")")
        if self._next < len(self._tokens):
            raise self._wrong("the end")
        return Probe(kind, options)

    def _values(self) -> tuple[OptionValue, ...]:
        """Parses values up to the next option or the end."""
        closes = self._is_mark("[")
        self._next += closes
        found = [*self._value()]
        while self._is_mark(","):
            self._next += 1
            if self._is_option() or self._is_mark(")"):
                break
            found += self._value()
        if closes:
            self._mark("]")
            self._next += self._is_mark(",")
        return tuple(dict.fromkeys(found)) if not any(isinstance(v, bool) for v in found) else tuple(found)

    def _value(self) -> tuple[OptionValue, ...]:
        kind, text = self._peek()
        self._next += 1
        match kind:
            case "word":
                return (_WORDS.get(text.lower(), text),)
            case "text":
                return (text[1:-1],)
            case "sizes":
                return (tuple(int(size) for size in text.split("x")),)
            case "number":
                return self._range(text)
        self._next -= 1
        raise self._wrong("a value")

    def _range(self, text: str) -> tuple[OptionValue, ...]:
        numbers = [_number(text)]
        while self._peek()[0] == "dots":
            self._next += 1
            numbers.append(_number(self._take("number", "the end of a range")))
        if len(numbers) == 1:
            return (numbers[0],)
        first, last, step = (*numbers, 1)[:3]
        if not all(isinstance(n, int) for n in numbers) or len(numbers) > 3 or step <= 0 or last < first:
            raise UsageError(
                f"{'..'.join(map(str, numbers))} is not a range of whole numbers",
                "write it as 1..31 or 1..31..2",
            )
        assert isinstance(first, int)
        assert isinstance(last, int)
        assert isinstance(step, int)
        if (last - first) // step >= _MOST_LAYERS:
            raise UsageError(f"{first}..{last} are too many values", f"{_MOST_LAYERS} at most")
        return tuple(range(first, last + 1, step))

    def _is_option(self) -> bool:
        """True if a name and `=` follow."""
        two = self._tokens[self._next : self._next + 2]
        return len(two) == 2 and two[0][0] == "word" and two[1][1] == "="

    def _is_mark(self, mark: str) -> bool:
        return self._peek() == ("mark", mark)

    def _mark(self, mark: str) -> None:
        if not self._is_mark(mark):
            raise self._wrong(f"'{mark}'")
        self._next += 1

    def _take(self, kind: str, what: str) -> str:
        found, text = self._peek()
        if found != kind:
            raise self._wrong(what)
        self._next += 1
        return text

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")

    def _wrong(self, expected: str) -> UsageError:
        text = self._peek()[1]
        place = f"before {shown(text)!r}" if text else "at the end"
        return UsageError(f"{shown(self._text)!r}: {expected} is missing {place}", _FORM)

    def _split(self) -> Iterator[tuple[str, str]]:
        place = 0
        text = self._text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise UsageError(
                    f"{shown(text)!r} cannot be read from {shown(text[place:].strip())!r} on", _FORM
                )
            assert match.lastgroup is not None
            yield match.lastgroup, match[match.lastgroup]
            place = match.end()


def _number(text: str) -> int | float:
    if len(text) > _MOST_DIGITS:
        raise UsageError(f"the number {shown(text)} is too long", f"{_MOST_DIGITS} characters at most")
    return float(text) if any(c in text for c in ".e") else int(text)
