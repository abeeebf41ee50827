"""The smallest part of a model with a property, for the console: the tests, and what they found."""

from __future__ import annotations

from coremlscope.render.terminal.screen import Column, Screen
from coremlscope.render.words import model_name, plural
from coremlscope.results.isolation import Bisection
from coremlscope.units import format_duration

__all__ = ["render_bisection"]

_MOST_UNITS = 20


def render_bisection(bisection: Bisection, *, width: int = 100, color: bool = False) -> str:
    """A bisection as text.

    Args:
        bisection: The result.
        width: Columns.
        color: Whether to use ANSI colours.
    """
    screen = Screen(width, color)
    screen.title(model_name(bisection.source), f"  the smallest part that {bisection.question}")
    count = plural(len(bisection.tests), "test")
    screen.heading("Tests", f"{count} of at most {bisection.limit} for {bisection.count} operations")
    columns = [
        Column("", is_number=True),
        Column("from"),
        Column("to"),
        Column("operations", is_number=True),
        Column("", style="cyan"),
        Column("took", is_number=True),
        Column("because"),
    ]
    rows = [
        (
            str(index),
            test.first,
            test.last,
            str(test.units),
            test.verdict,
            format_duration(test.seconds),
            test.note,
        )
        for index, test in enumerate(bisection.tests, 1)
    ]
    screen.table(columns, rows)
    screen.heading("Found", plural(len(bisection.units), "operation"))
    units = [(unit.id, unit.type, unit.name) for unit in bisection.units]
    screen.table([Column("id"), Column("type"), Column("name", style="cyan", most=60)], units[:_MOST_UNITS])
    if len(units) > _MOST_UNITS:
        screen.line(f"and {len(units) - _MOST_UNITS} more: --json lists all", "dim", indent=2)
    if bisection.note:
        screen.line(bisection.note, indent=2)
    if not bisection.is_smallest:
        screen.line(
            "the limit on tests was reached: a smaller part may do; allow more with --most-tests",
            "yellow",
            indent=2,
        )
    if bisection.files:
        screen.line(f"written: {', '.join(bisection.files)}", indent=2)
    return screen.text
