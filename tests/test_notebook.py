"""Cards in notebooks, and data frames."""

from __future__ import annotations

import dataclasses
import sys
import types
from html.parser import HTMLParser
from typing import Any

import pytest
from coremlscope.notebook import Grid, card, data_frame

from coremlscope.errors import MissingDependencyError
from tests.support.comparisons import small_comparison
from tests.support.matrices import host_matrix
from tests.support.plans import small_plan
from tests.support.profiles import small_profile

_RESULTS = {
    "profile": small_profile,
    "comparison": small_comparison,
    "matrix": host_matrix,
    "plan": lambda: small_plan(every=True),
}


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


@pytest.mark.parametrize("name", _RESULTS)
def test_results_show_themselves(name: str) -> None:
    reader = read(_RESULTS[name]()._repr_html_())
    assert reader.tags <= {"div", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert "measured" in reader.text


def test_a_card_says_where_numbers_come_from() -> None:
    text = read(small_plan()._repr_html_()).text
    assert "nothing was measured" in text
    assert "Planned and estimated, not measured" in read(host_matrix()._repr_html_()).text


def test_hostile_names_stay_text() -> None:
    evil = "<script>alert(1)</script>\x1b\u202e"
    profile = small_profile()
    named = dataclasses.replace(profile, ops=dataclasses.replace(profile.ops, name=(evil,) * 6))
    html = named._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html
    assert evil.split("\x1b")[0] in read(html).text


def test_bars_and_empty_tables() -> None:
    html = card("t", "r", [Grid("empty", ("a",), []), Grid("bars", ("a", "b>"), [("x", 0.5), ("y", 9.0)])])
    assert "empty" not in html
    assert "width:6.0em" in html
    assert "width:12.0em" in html


def test_pandas_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="needs pandas") as caught:
        small_profile().to_pandas()
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
    ops = profile.to_pandas()
    assert ops["id"][:6] == list(profile.ops.id)
    assert ops["status"][-1] == "engine"
    changes = small_comparison().to_pandas()
    assert set(changes["origin"]) == {"measured"}
    assert "slower" in changes["verdict"]
    figures = host_matrix().to_pandas()
    assert set(figures["origin"]) == {"measured", "planned", "estimated"}
    plan = small_plan(every=True).to_pandas()
    assert len(plan["id"]) == 7 * 4
    assert set(plan["unit"]) == {"cpu", "gpu", "neural_engine", None}
    assert data_frame({}) == {}


def test_with_pandas() -> None:
    pytest.importorskip("pandas")
    frame = small_profile().to_pandas()
    assert frame.loc[frame["id"] == "main/13", "group_measured_s"].item() == 0.0006
