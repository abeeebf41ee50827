"""Documents: every block in every writer, what goes on narrow terminals, and where figures come from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from coremlscope.reports import renderers
from coremlscope.reports.cards import write_card
from coremlscope.reports.document import (
    Block,
    Column,
    Conclusion,
    Document,
    Drawing,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
    join_equal,
    numbers,
)
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.plan import plan_document
from coremlscope.reports.renderers import Renderer, document_of
from coremlscope.reports.terminal.writer import write_terminal
from tests.support.comparisons import small_comparison
from tests.support.hostile import HOSTILE, UNSEEN
from tests.support.matrices import host_matrix
from tests.support.partial_profiles import PROFILES
from tests.support.plans import small_plan

_WRITERS: dict[str, Callable[[Document], str]] = {
    "terminal": write_terminal,
    "markdown": write_markdown,
    "card": write_card,
}


def every_block(text: str) -> list[Block]:
    table = Table((Column("a"), Column("b", is_code=True), Column("c")), [(text, text, 0.5)] * 3, 2)
    return [
        Title(text, text),
        Conclusion("doubt", text, text, text),
        Facts([(text, text), ("hidden fact", "")]),
        Heading(text, text),
        table,
        Text(text),
        Text(text, "warning"),
        Item(text, [text, text]),
        Drawing(lambda width: [text.replace("\n", " ")[:width]]),
        Folded(text, text, [table, Item(text)]),
        Hint(text),
    ]


def test_every_kind_of_block_is_tried() -> None:
    assert {type(block) for block in every_block("")} == set(get_args(Block))


@pytest.mark.parametrize("writer", _WRITERS)
def test_every_block_is_written_and_escaped(writer: str) -> None:
    write = _WRITERS[writer]
    for block in every_block("words"):
        assert ("words" in write([block])) == (writer == "terminal" or not isinstance(block, Hint))
        text = write([*every_block(HOSTILE)])
        assert not UNSEEN.search(text)
        assert "<script" not in text or writer == "terminal"
    assert "hidden fact" not in write(every_block("words"))


@pytest.mark.parametrize("writer", _WRITERS)
def test_rows_that_are_left_out_are_counted(writer: str) -> None:
    table = Table((Column("a"),), [(f"row{index}",) for index in range(300)], 2, "thing", others=700)
    text = _WRITERS[writer]([table])
    shown = len(re.findall(r"row\d", text))
    assert f"and {1000 - shown} more things" in text


def test_descriptive_columns_go_first() -> None:
    columns = (
        Column("name", most=40),
        Column("kind", most=30),
        *numbers("result", "other"),
        Column("note", most=30, rank=1),
        Column("extra", most=30, rank=3),
    )
    rows = [("n" * 30, "k" * 30, "1.00 ms", "2.00 ms", "t" * 30, "e" * 30)]
    titles = {
        width: write_terminal([Table(columns, rows)], width=width).splitlines()[0].split()
        for width in (200, 120, 80, 60, 44)
    }
    assert titles[200] == ["name", "kind", "result", "other", "note", "extra"]
    assert titles[120] == titles[80] == ["name", "kind", "result", "other", "note"]
    assert titles[60] == ["name", "kind", "result", "other"]
    assert titles[44] == ["name", "result", "other"]
    assert "left out at 44 columns: kind, note\n" in write_terminal([Table(columns, rows)], width=44)


@pytest.mark.parametrize("width", [60, 80])
def test_results_stay_on_narrow_terminals(width: int) -> None:
    plan = write_terminal(plan_document(small_plan(every=True)), width=width)
    assert re.search(r"CPU +GPU +NE .*planned cost\n", plan)
    assert re.search(r"CPU +GPU +NE +operation .*share", plan)
    compared = write_terminal(document_of(small_comparison()), width=width)
    for line in ("  predict ", "  conv + clip "):
        assert any(row.startswith(line) and row.endswith("  slower") for row in compared.splitlines())


def test_rows_that_differ_in_their_setting_are_one() -> None:
    rows = [("all", "1", "2"), ("cpu_only", "3", "4"), ("cpu_and_ne", "1", "2")]
    assert join_equal(rows) == [("all, cpu_and_ne", "1", "2"), ("cpu_only", "3", "4")]


@pytest.mark.parametrize("writer", _WRITERS)
@pytest.mark.parametrize("result", [*PROFILES, "comparison", "side by side"])
def test_figures_have_origins_and_planned_costs_no_unit_of_time(writer: str, result: str) -> None:
    others: dict[str, Any] = {"comparison": small_comparison(), "side by side": host_matrix()}
    found = others[result] if result in others else PROFILES[result]()
    text = _WRITERS[writer](document_of(found))
    assert re.search("measured|estimated|planned", text)
    assert not re.search(r"planned (at |cost:? )?\d[\d.]* (ns|µs|ms|s)\b", text)
    for profile in [found] if result in PROFILES else found.profiles if result == "comparison" else found:
        for measurement in profile.measurements:
            assert measurement.label in text
    if re.search(r"\d( ms| µs)?\\?\*", text):
        assert "extrapolated" in text
    if "†" in text:
        assert "calibrated on your" in text


_TABLES = {name: getattr(renderers, name) for name in renderers.__all__ if name.endswith("RENDERERS")}


@pytest.mark.parametrize("table", _TABLES)
def test_every_format_can_be_found(table: str) -> None:
    formats: tuple[Renderer, ...] = _TABLES[table]
    assert len({one.suffix for one in formats}) == len(formats)
    for one in formats:
        assert callable(renderers._find(one.function))
        assert not one.document or callable(renderers._find(one.document))
        assert one.suffix in renderers.list_formats(formats)
