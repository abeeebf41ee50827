"""Cards in notebooks, and data frames."""

from __future__ import annotations

import sys
import types
from html.parser import HTMLParser
from typing import Any

import msgspec.structs
import pytest

from coremlscope.base.errors import MissingDependencyError
from coremlscope.reports.cards import write_card
from coremlscope.reports.columns import data_frame
from coremlscope.reports.document import Column, Table
from coremlscope.reports.renderers import notebook_card, to_dataframe
from tests.support.comparisons import small_comparison
from tests.support.matrices import host_matrix
from tests.support.partial_profiles import PROFILES
from tests.support.planned_profiles import planned_profile
from tests.support.plans import small_plan
from tests.support.profiles import small_profile, small_summary


class Reader(HTMLParser):
    """Holds that tags are closed in order, and collects them and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "scope"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def check_tags(html: str) -> str:
    """The text of a card, whose tags are those of tables, sections and drawings."""
    reader = read(html)
    assert reader.tags <= {
        *("div", "span", "table", "thead", "tbody", "tr", "th", "td"),
        *("details", "summary", "pre"),
    }
    return reader.text


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_of_every_kind_show_themselves(name: str) -> None:
    assert "measured" in check_tags(PROFILES[name]()._repr_html_())


def test_other_results_show_themselves() -> None:
    assert "measured" in check_tags(small_comparison()._repr_html_())
    assert "measured" in check_tags(notebook_card(host_matrix()))
    assert "Parameters" in check_tags(notebook_card(small_summary()))


def test_a_card_says_where_numbers_come_from() -> None:
    text = read(small_plan()._repr_html_()).text
    assert "nothing was measured" in text
    assert "nothing of it was measured" in read(notebook_card(host_matrix())).text
    several = PROFILES["several measurements"]()
    text = read(several._repr_html_()).text
    assert "4 measurements, each with its own table" in text
    assert all(f"measured by {m.label}" in text for m in several.measurements if m.phases)


def test_hostile_names_stay_text() -> None:
    evil = "<script>alert(1)</script>\x1b\u202e"
    profile = small_profile()
    named = msgspec.structs.replace(profile, ops=msgspec.structs.replace(profile.ops, name=(evil,) * 6))
    html = named._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html
    assert evil.split("\x1b")[0] in read(html).text


def test_bars_and_empty_tables() -> None:
    columns = (Column("a"), Column("bars"))
    html = write_card([Table((Column("empty"),), []), Table(columns, [("x", 0.5), ("y", 9.0)])])
    assert "empty" not in html
    assert "width:6.0em" in html
    assert "width:12.0em" in html


def test_pandas_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="needs pandas") as caught:
        small_profile().to_dataframe()
    assert caught.value.hint == "pip install pandas"


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that takes columns as pandas does."""

    def frame(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        assert len({len(values) for values in columns.values()}) <= 1
        return columns

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=frame))


@pytest.mark.usefixtures("pandas")
def test_frames() -> None:
    profile = small_profile()
    ops = profile.to_dataframe()
    assert ops["id"][:6] == list(profile.ops.id)
    assert ops["status"][-1] == "engine"
    changes = small_comparison().to_dataframe()
    assert set(changes["origin"]) == {"measured"}
    assert "slower" in changes["verdict"]
    figures = to_dataframe(host_matrix())
    assert set(figures["origin"]) == {"measured", "estimated"}
    plan = small_plan(every=True).to_dataframe()
    assert len(plan["id"]) == 7
    assert plan["status"] == [None] * 6 + ["inserted"]
    assert set(plan["m1.all.unit"]) == {"cpu", "neural_engine", None}
    assert set(plan["m1.cpu_only.unit"]) == {"cpu", None}
    assert set(planned_profile().to_dataframe()["m1.all.kernel"]) == {0, 1, 2, None}
    assert to_dataframe(small_summary(list_ops=True))["id"][0] == "main/1"
    assert data_frame({}) == {}


def test_with_pandas() -> None:
    pytest.importorskip("pandas")
    frame = small_profile().to_dataframe()
    assert frame.loc[frame["id"] == "main/13", "group_measured_s"].item() == 0.0006
