"""Formatting of numbers and untrusted text for display. Values are in SI units everywhere else."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

#: Maximum number of items that are written out at an interactive prompt.
_MAX_ITEMS = 4
#: Maximum length of a displayed name.
_MAX_LENGTH = 300
#: Terminal control characters, and characters that change the direction of text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb]")


def escape_controls(text: str, *, keep: str = "") -> str:
    """Escapes control characters, so that text from a model file is safe to print: ESC becomes `\\x1b`.

    Args:
        text: Any text. Tabs and line breaks become spaces.
        keep: Control characters that are kept.
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        if character in "\t\n\r":
            return " "
        return character.encode("unicode_escape").decode("ascii")

    return _CONTROLS.sub(escape, text)


def _three_digits(value: float) -> str:
    """Formats `value` (below 1000) with three significant digits and without an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def format_duration(seconds: float) -> str:
    """Formats a duration with three significant digits: `<1 ns`, `850 ns`, `1.23 ms`, `4.50 s`."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= factor * 0.9995:
            return f"{_three_digits(seconds / factor)} {unit}"
    rounded = f"{seconds * 1e9:.0f} ns"
    return "<1 ns" if seconds and rounded in ("0 ns", "-0 ns") else rounded


def format_cost(planned_ms: float | None) -> str:
    """Formats a cost of Core ML's model, which ranks units, without a unit of time: `2.27`, `0`, `–`."""
    if planned_ms is None:
        return "–"
    if abs(planned_ms) >= 99.95:
        return f"{planned_ms:,.0f}"
    if not planned_ms or abs(planned_ms) >= 1e-4:
        return f"{planned_ms:.3g}"
    return f"{planned_ms:.7f}".rstrip("0") if abs(planned_ms) >= 1e-7 else "<0.0000001"


def format_bytes(count: float) -> str:
    """Formats a size in SI units: `512 B`, `3.41 kB`, `14.0 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor * 0.9995:
            return f"{_three_digits(count / factor)} {unit}"
    return f"{count / 1e3:.2f} kB"


def parse_bytes(text: str) -> int | None:
    """Returns the bytes of a size such as `500MB` or `4 GB`; None if it is not one."""
    parsed = re.fullmatch(r"([0-9]{1,15}) *([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if parsed is None:
        return None
    power = "KMGT".index(parsed[2].upper()) + 1 if parsed[2] else 0
    return int(parsed[1]) * int(1000**power)


def format_count(count: float) -> str:
    """Formats a count with an SI prefix: `512`, `3.50 M`, `4.12 G`."""
    if count < 1000:
        return f"{count:.0f}"
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= factor * 0.9995:
            return f"{_three_digits(count / factor)} {unit}"
    return f"{count / 1e3:.2f} k"


def format_energy(joules: float) -> str:
    """Formats an energy with three significant digits: `1.25 J`, `3.20 mJ`."""
    for factor, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")):
        if joules >= factor * 0.9995:
            return f"{_three_digits(joules / factor)} {unit}" if joules < 1000 else f"{joules:.0f} J"
    return f"{joules * 1e9:.0f} nJ" if joules else "0 J"


def format_power(watts: float) -> str:
    """Formats a power with three significant digits: `1.25 W`, `320 mW`."""
    return f"{_three_digits(watts)} W" if watts >= 0.9995 else f"{_three_digits(watts * 1e3)} mW"


def format_per_second(rate: float) -> str:
    """Formats how many there are in a second: `0.53`, `96.2`, `15894`."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def format_rate(seconds: float) -> str:
    """Formats the rate that a shown duration amounts to: `45.2`, `1230`, each second.

    Three digits of the duration count, as people see it beside the rate.

    Args:
        seconds: The duration, above 0.
    """
    rate = float(f"{1 / float(f'{seconds:.3g}'):.3g}")
    if rate >= 1000:
        return f"{rate:.0f}"
    return _three_digits(rate) if rate >= 1 else f"{rate:.3g}"


def format_share(share: float) -> str:
    """Formats a fraction as a percentage with one decimal: `12.3 %`."""
    return f"{share * 100:.1f} %"


def shown(name: str) -> str:
    """Makes a name from a model file safe to display: unprintable names are escaped, long ones truncated."""
    text = name if name.isprintable() else ascii(name)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


def short_repr(value: Any) -> str:
    """Returns the fields of a dataclass in one line, with long ones counted: at a prompt they fill pages.

    For use as its `__repr__`.
    """
    fields = ((field, getattr(value, field)) for field in value.__struct_fields__)
    return f"<{type(value).__name__}: {', '.join(f'{name}: {_short(part)}' for name, part in fields)}>"


def _short(part: object) -> str:
    """Returns a field; of one that holds others only its type or size, as to write it may take seconds."""
    if isinstance(part, (list, tuple, set, frozenset, dict)):
        items = part.values() if isinstance(part, dict) else part
        return (
            shown(repr(part))
            if len(part) <= _MAX_ITEMS and all(map(_is_plain, items))
            else f"{len(part)} items"
        )
    if isinstance(part, msgspec.Struct):
        names = list(part.__struct_fields__)
        is_plain = len(names) <= _MAX_ITEMS and all(_is_plain(getattr(part, name)) for name in names)
        return repr(part) if is_plain else type(part).__name__
    return shown(repr(part)) if _is_plain(part) else type(part).__name__


def _is_plain(part: object) -> bool:
    return part is None or isinstance(part, (str, int, float, Path))


def format_ratio(ratio: float | None) -> str:
    """Formats a relative change: `+5.0 %`, `−27.3 %`, or `×3.2` for more than a factor of two."""
    if ratio is None:
        return "–"
    if math.isinf(ratio):
        return "× ∞"
    if ratio >= 2:
        return f"×{ratio:.3g}"
    percent = f"{abs(ratio - 1) * 100:.1f}"
    sign = "±" if percent == "0.0" else "+" if ratio > 1 else "−"
    return f"{sign}{percent} %"
