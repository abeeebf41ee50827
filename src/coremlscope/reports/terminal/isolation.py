"""A part of a model for the console: what it consists of, its values, and its own profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coremlscope.base.units import format_duration
from coremlscope.reports.terminal.report import render_console
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import histogram, model_name, plural
from coremlscope.results.isolation import Isolation, PartSearch, PartTensor

__all__ = ["render_isolation"]

#: The name of the embedded engine in differences.
_HERE = "here"
_MOST_TENSORS, _MOST_UNITS = 12, 20


def render_isolation(isolation: Isolation, *, width: int = 100, color: bool = False) -> str:
    """A part and its profile as text.

    Args:
        isolation: The part.
        width: Columns.
        color: Whether to use ANSI colours.
    """
    screen = Screen(width, color)
    if isolation.search is not None:
        _show_search(screen, isolation, isolation.search)
    if isolation.profile is None:
        return screen.text
    if isolation.search is not None:
        screen.line()
    _show_part(screen, isolation)
    return f"{screen.text}\n{render_console(isolation.profile, width=width, color=color)}"


def _show_search(screen: Screen, isolation: Isolation, search: PartSearch) -> None:
    screen.title(model_name(isolation.source), f"  the smallest part that {search.question}")
    tests = plural(len(search.tests), "test")
    screen.heading("Tests", f"{tests} of at most {search.limit} for {search.count} operations")
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
        for index, test in enumerate(search.tests, 1)
    ]
    screen.table(columns, rows)
    screen.heading("Found", plural(len(isolation.units), "operation"))
    units = [(unit.id, unit.type, unit.name) for unit in isolation.units]
    screen.table([Column("id"), Column("type"), Column("name", style="cyan", most=60)], units[:_MOST_UNITS])
    if len(units) > _MOST_UNITS:
        screen.line(f"and {len(units) - _MOST_UNITS} more: --json lists all", "dim", indent=2)
    if search.note:
        screen.line(search.note, indent=2)
    if not search.is_smallest:
        text = "the limit on tests was reached: a smaller part may do; allow more with --most-tests"
        screen.line(text, "yellow", indent=2)


def _show_part(screen: Screen, isolation: Isolation) -> None:
    first, last = isolation.units[0], isolation.units[-1]
    count = plural(len(isolation.units), "operation")
    screen.title(model_name(isolation.path), f"  {count} of {model_name(isolation.source)}")
    weights = "weights of the file are absent: they are synthetic" if isolation.random_weights else ""
    screen.pairs(
        [
            ("from", f"{first.id} {first.name}"),
            ("to", f"{last.id} {last.name}" if len(isolation.units) > 1 else ""),
            ("operations", histogram(Counter(unit.type for unit in isolation.units))),
            ("values", f"computed by running the whole model{_rounded(isolation)}"),
            ("weights", weights),
            ("files", ", ".join(isolation.files)),
        ]
    )
    for title, tensors in (
        ("Inputs", isolation.inputs),
        ("States", isolation.states),
        ("Outputs", isolation.outputs),
    ):
        if tensors:
            _show(screen, title, tensors)


def _rounded(isolation: Isolation) -> str:
    return ", every fp16 result rounded to fp16" if isolation.precision == "fp16" else " in float32"


def _show(screen: Screen, title: str, tensors: Sequence[PartTensor]) -> None:
    screen.heading(title)
    runtimes = list(dict.fromkeys(runtime for tensor in tensors for runtime in tensor.difference))
    columns = [
        Column("name", style="cyan", most=40),
        Column("type"),
        Column("from", is_number=True),
        Column("to", is_number=True),
        Column("inf, NaN", is_number=True),
        *(Column(_title(runtime), is_number=True) for runtime in runtimes),
    ]
    rows = [(*_cells(tensor), *(_difference(tensor, r) for r in runtimes)) for tensor in tensors]
    screen.table(columns, rows[:_MOST_TENSORS])
    if len(rows) > _MOST_TENSORS:
        screen.line(f"and {len(rows) - _MOST_TENSORS} more: --json lists all", "dim", indent=2)


def _title(runtime: str) -> str:
    return "from the whole model" if runtime == _HERE else f"Core ML, {runtime}"


def _cells(tensor: PartTensor) -> tuple[str, ...]:
    count = str(tensor.not_finite) if tensor.not_finite else ""
    return tensor.name, tensor.type, _number(tensor.smallest), _number(tensor.largest), count


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _difference(tensor: PartTensor, runtime: str) -> str:
    if runtime not in tensor.difference:
        return "–"
    found = tensor.difference[runtime]
    if found is None:
        return "inf or NaN"
    return "equal" if found == 0 else f"{found:.1e}"
