from __future__ import annotations

from dataclasses import dataclass

from coremlscope.units import short_repr


def test_a_short_repr_counts_what_is_long() -> None:
    @dataclass(frozen=True)
    class Inner:
        value: float

    @dataclass(frozen=True)
    class Outer:
        name: str
        rows: tuple[int, ...]
        inner: Inner
        deep: tuple[Inner, ...]

        __repr__ = short_repr

    shown = repr(Outer("a\x1b[31m", tuple(range(300)), Inner(0.5), (Inner(1.0),)))
    inner = f"{Inner.__qualname__}(value=0.5)"
    assert shown == f"<Outer: name: 'a\\x1b[31m', rows: 300 items, inner: {inner}, deep: 1 items>"
