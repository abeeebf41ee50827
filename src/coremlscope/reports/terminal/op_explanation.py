"""Explanations of operations for the console."""

from __future__ import annotations

from coremlscope.reports.explanation import (
    chosen_line,
    cost_rows,
    forced_lines,
    left_out_line,
    path_text,
    rule_details,
    rule_line,
    unknown_line,
)
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import NO_COSTS, compact_type, model_name
from coremlscope.results.explanation import Explanation, Explanations

__all__ = ["render_explanations"]


def render_explanations(found: Explanations, *, width: int = 100, color: bool = False) -> str:
    """Explanations of operations as text.

    Args:
        found: The explanations.
        width: Columns.
        color: Whether to use ANSI colours.
    """
    screen = Screen(width, color)
    screen.title(model_name(found.path))
    screen.pairs(
        [
            ("device", f"{found.device}, {found.os}"),
            ("compute units", found.compute_units),
            ("figures", f"{found.cost_model or NO_COSTS}; planned, nothing was measured"),
        ]
    )
    for note in found.notes:
        screen.bullet("•", note)
    told: set[str] = set()
    for explained in found.ops:
        _show(screen, explained, told)
    more = left_out_line(found)
    if more:
        screen.line()
        screen.line(more, "dim")
    return screen.text


def _show(screen: Screen, explained: Explanation, told: set[str]) -> None:
    screen.line()
    screen.title(explained.name, f"  {explained.type}, {explained.id}")
    types = ", ".join(map(compact_type, explained.outputs))
    screen.line(f"{types}; {chosen_line(explained)}" if types else chosen_line(explained), indent=2)
    screen.line(f"path: {path_text(explained.path)}", indent=2)
    _show_costs(screen, explained)
    others = list(forced_lines(explained))
    if others:
        screen.heading("If it had to run elsewhere", "planned and estimated")
        for outcome, path in others:
            screen.bullet("•", outcome, path)
    unknown = unknown_line(explained)
    if explained.rules or unknown:
        screen.heading("Rules that apply", "with their sources")
    for rule in explained.rules:
        details = "\n".join(rule_details(rule, told))
        screen.bullet("•" if rule.counts else "◦", rule_line(rule), details)
    if unknown:
        screen.bullet("?", unknown)


def _show_costs(screen: Screen, explained: Explanation) -> None:
    are_supported = all(cost.is_supported for cost in explained.costs)
    screen.heading(
        "Planned cost", "" if are_supported else "(in parentheses: the unit is not known to run it)"
    )
    rows = cost_rows(explained)
    has_intervals = any(row[3] for row in rows)
    columns = [
        Column("backend", style="cyan", most=11),
        Column("unit"),
        Column("planned", is_number=True),
        *([Column("interval", is_number=True)] if has_intervals else []),
        Column("known"),
    ]
    kept = [(*row[:3], *(row[3:4] if has_intervals else ()), row[4]) for row in rows]
    screen.table(columns, kept)
    for text in dict.fromkeys(row[5] for row in rows if row[5]):
        names = ", ".join(row[0] for row in rows if row[5] == text)
        screen.bullet("·", f"{names}: {text}")
