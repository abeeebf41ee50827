"""Rules of placement and operations, for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.site import rule_page
from coremlscope.base.units import format_bytes, format_count
from coremlscope.planning.placement.catalog import CatalogEntry, OpCard
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural

__all__ = ["render_op", "render_ops", "render_rule", "render_rules"]

_UNITS = {"neural_engine": "Neural Engine", "gpu": "GPU", "cpu": "CPU"}
_EFFECTS = {
    "rejects": "does not run",
    "fails": "fails to compile, for the whole function",
    "advises": "runs, but",
    "corrupts": "returns wrong values",
    "crashes": "ends the app",
    "runs": "runs",
    "confirms": "was seen to run",
    "note": "notes",
}
_COLUMNS = (Column("rule"), Column("statement"), Column("scope"), Column("confidence"))


def render_rules(entries: Sequence[CatalogEntry], *, width: int, color: bool) -> str:
    """Renders rules as tables, grouped by compute unit and effect."""
    screen = Screen(width, color)
    screen.title(plural(len(entries), "rule"))
    _show_groups(screen, entries)
    if entries:
        screen.line()
        screen.line("`coremlscope rules RULE` shows the fix, the source and examples.", "dim")
    return screen.text


def render_rule(entry: CatalogEntry, *, width: int, color: bool) -> str:
    """Renders all details of one rule."""
    screen = Screen(width, color)
    screen.title(entry.id)
    screen.pairs(
        [
            ("unit", _UNITS[entry.unit]),
            ("effect", _EFFECTS[entry.effect]),
            ("operations", _ops(entry.ops)),
            ("statement", entry.text),
            ("fix", entry.fix),
            ("Core ML says", entry.core_ml),
            ("scope", entry.scope or "everywhere"),
            ("confidence", _confidence(entry)),
            ("source", entry.source),
            ("page", rule_page(entry.id)),
        ]
    )
    if entry.applies_to:
        screen.heading("Applies to")
        for operation, says in entry.applies_to:
            screen.bullet("✗" if entry.effect in ("rejects", "fails") else "•", operation, says)
    if entry.negative_examples:
        screen.heading("Does not apply to")
        for operation in entry.negative_examples:
            screen.bullet("•", operation)
    return screen.text


def _confidence(entry: CatalogEntry) -> str:
    """How a rule is known, and that anecdotes alone move nothing."""
    if entry.confidence == "anecdotal" and entry.effect in ("rejects", "fails"):
        return "anecdotal: listed as a doubt, not applied where a better-known rule lets the unit run it"
    return entry.confidence


def render_op(card: OpCard, *, width: int, color: bool) -> str:
    """Renders all details of one operation."""
    screen = Screen(width, color)
    screen.title(card.name)
    screen.line(card.doc)
    example = card.example
    moved = example and (
        f"{format_count(example.flops)} FLOPs, {format_bytes(example.read_bytes)} read"
        f" (weights: {format_bytes(example.weight_bytes)}), {format_bytes(example.written_bytes)} written"
    )
    screen.pairs(
        [
            ("traits", ", ".join(card.traits)),
            ("ONNX", ", ".join(card.onnx) or "none: nothing is computed at run time"),
            ("work", card.work),
            ("such as", example.operation if example else ""),
            ("", moved or ""),
        ]
    )
    _show_groups(screen, [entry for entry in card.rules if entry.ops != ("*",)])
    general = [entry for entry in card.rules if entry.ops == ("*",)]
    if general:
        screen.heading("Any operation", plural(len(general), "rule"))
        screen.table(_COLUMNS, [_row(entry) for entry in general])
    return screen.text


def render_ops(docs: Sequence[tuple[str, str]], *, width: int, color: bool) -> str:
    """Renders a table of all operations."""
    screen = Screen(width, color)
    screen.title(plural(len(docs), "operation"))
    screen.table((Column("operation"), Column("what it computes")), docs)
    return screen.text


def _show_groups(screen: Screen, entries: Sequence[CatalogEntry]) -> None:
    for unit, unit_name in _UNITS.items():
        for effect, effect_name in _EFFECTS.items():
            group = [entry for entry in entries if (entry.unit, entry.effect) == (unit, effect)]
            if group:
                screen.heading(f"{unit_name}: {effect_name}", plural(len(group), "rule"))
                screen.table(_COLUMNS, [_row(entry) for entry in group])


def _row(entry: CatalogEntry) -> tuple[str, str, str, str]:
    return entry.id, entry.text, entry.scope, entry.confidence


def _ops(ops: Sequence[str]) -> str:
    if ops == ("*",):
        return "any"
    return ", ".join(ops) or "whole models"
