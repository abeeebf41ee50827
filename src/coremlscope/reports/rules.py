"""Rules of placement, and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.site import rule_page
from coremlscope.base.units import format_bytes, format_count
from coremlscope.planning.placement.catalog import CatalogEntry, OpCard
from coremlscope.reports.document import Block, Column, Facts, Heading, Hint, Item, Table, Text, Title
from coremlscope.reports.words import plural

_UNITS = {"neural_engine": "Neural Engine", "gpu": "GPU", "cpu": "CPU"}
_EFFECTS = {
    "rejects": "does not run",
    "fails": "fails to compile, for the whole function",
    "advises": "runs, but",
    "corrupts": "returns wrong values",
    "crashes": "ends the app",
    "hangs": "never ends to load",
    "runs": "runs",
    "confirms": "was seen to run",
}
_COLUMNS = (Column("rule"), Column("statement"), Column("scope"), Column("confidence"))


def rules_document(entries: Sequence[CatalogEntry]) -> Iterator[Block]:
    """Yields rules as tables, grouped by compute unit and effect."""
    yield Title(plural(len(entries), "rule"))
    yield from _groups(entries)
    if entries:
        yield Hint("`coremlscope rules RULE` shows the fix, the source and examples.")


def rule_document(entry: CatalogEntry) -> Iterator[Block]:
    """Yields all details of one rule."""
    yield Title(entry.id)
    yield Facts(
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
        yield Heading("Applies to")
        mark = "✗" if entry.effect in ("rejects", "fails") else "•"
        yield from (Item(operation, says, mark) for operation, says in entry.applies_to)
    if entry.negative_examples:
        yield Heading("Does not apply to")
        yield from map(Item, entry.negative_examples)


def _confidence(entry: CatalogEntry) -> str:
    """How a rule is known, and that anecdotes alone move nothing."""
    if entry.confidence == "anecdotal" and entry.effect in ("rejects", "fails"):
        return "anecdotal: listed as a doubt, not applied where a better-known rule lets the unit run it"
    return entry.evidence


def op_document(card: OpCard) -> Iterator[Block]:
    """Yields all details of one operation."""
    yield Title(card.name)
    yield Text(card.doc, "", 0)
    example = card.example
    moved = example and (
        f"{format_count(example.flops)} FLOPs, {format_bytes(example.read_bytes)} read"
        f" (weights: {format_bytes(example.weight_bytes)}), {format_bytes(example.written_bytes)} written"
    )
    yield Facts(
        [
            ("traits", ", ".join(card.traits)),
            ("ONNX", ", ".join(card.onnx) or "none: nothing is computed at run time"),
            ("work", card.work),
            ("such as", example.operation if example else ""),
            ("", moved or ""),
        ]
    )
    yield from _groups([entry for entry in card.rules if entry.ops != ("*",)])
    general = [entry for entry in card.rules if entry.ops == ("*",)]
    if general:
        yield Heading("Any operation", plural(len(general), "rule"))
        yield Table(_COLUMNS, [_row(entry) for entry in general])


def ops_document(docs: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """Yields a table of all operations."""
    yield Title(plural(len(docs), "operation"))
    yield Table((Column("operation"), Column("what it computes")), docs)


def _groups(entries: Sequence[CatalogEntry]) -> Iterator[Block]:
    for unit, unit_name in _UNITS.items():
        for effect, effect_name in _EFFECTS.items():
            group = [entry for entry in entries if (entry.unit, entry.effect) == (unit, effect)]
            if group:
                yield Heading(f"{unit_name}: {effect_name}", plural(len(group), "rule"))
                yield Table(_COLUMNS, [_row(entry) for entry in group])


def _row(entry: CatalogEntry) -> tuple[str, str, str, str]:
    return entry.id, entry.text, entry.scope, entry.confidence


def _ops(ops: Sequence[str]) -> str:
    if ops == ("*",):
        return "any"
    return ", ".join(ops) or "whole models"
