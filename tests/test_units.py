from __future__ import annotations

import msgspec
import pytest

from coremlscope.base.units import format_duration, short_repr


def test_a_short_repr_counts_what_is_long() -> None:
    class Inner(msgspec.Struct, frozen=True):
        value: float

    class Outer(msgspec.Struct, frozen=True):
        name: str
        rows: tuple[int, ...]
        inner: Inner
        deep: tuple[Inner, ...]

        __repr__ = short_repr

    shown = repr(Outer("a\x1b[31m", tuple(range(300)), Inner(0.5), (Inner(1.0),)))
    inner = "Inner(value=0.5)"
    assert shown == f"<Outer: name: 'a\\x1b[31m', rows: 300 items, inner: {inner}, deep: 1 items>"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ns"), (2e-10, "<1 ns"), (6e-10, "1 ns"), (8.5e-7, "850 ns"), (1.234e-3, "1.23 ms")],
)
def test_durations_are_zero_only_where_nothing_is_spent(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
