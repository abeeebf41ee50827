"""Every format shows texts of strangers as text: one hostile result in all of them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from coremlscope import api
from coremlscope.base.escaping import csv_cell, markdown_text
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.reports.json import render_json
from coremlscope.reports.renderers import (
    COMPARISON_RENDERERS,
    EXPLANATION_RENDERERS,
    PROFILES_RENDERERS,
    RENDERERS,
    SUMMARY_RENDERERS,
    TRACE_RENDERERS,
    Renderer,
    notebook_card,
    write_report,
)
from coremlscope.results.profile import Profile
from tests.support.comparisons import small_comparison
from tests.support.explanations import EXPLANATIONS
from tests.support.hostile import HARMLESS, HOSTILE, UNSEEN, with_text
from tests.support.matrices import host_matrix
from tests.support.partial_profiles import PROFILES
from tests.support.profiles import small_profile, small_summary
from tests.support.traces import recorded_program

_RESULTS: dict[str, Callable[[str], Any]] = {
    "profile": lambda text: with_text(PROFILES["every field"](), text),
    "measurement": lambda text: with_text(small_profile(), text),
    "several": lambda text: with_text(PROFILES["three measurements and two plans"](), text),
    "summary": lambda text: with_text(small_summary(list_ops=True), text),
    "comparison": lambda text: with_text(small_comparison(), text),
    "explanation": lambda text: with_text(EXPLANATIONS, text),
    "program": lambda text: with_text(recorded_program(3), text),
    "matrix": lambda text: tuple(with_text(profile, text) for profile in host_matrix()),
    "layers": lambda text: tuple(with_text(profile, text) for profile in host_matrix()),
}
_FORMULA = re.compile(r"\s*[=+\-@]")


@cache
def _result(name: str, text: str) -> Any:
    return _RESULTS[name](text)


_CASES = [
    pytest.param(name, renderer, id=f"{name}{renderer.suffix}")
    for name, renderers in {
        **dict.fromkeys(("profile", "measurement", "several"), RENDERERS),
        "summary": SUMMARY_RENDERERS,
        "comparison": COMPARISON_RENDERERS,
        "explanation": EXPLANATION_RENDERERS,
        "program": TRACE_RENDERERS,
        "matrix": PROFILES_RENDERERS,
    }.items()
    for renderer in renderers
]


class _Tags(HTMLParser):
    """Lists tags and their attributes, without what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, ...]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(attrs if tag != "span" else ())))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("/", tag))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment",))


def _tags(html: str) -> list[tuple[Any, ...]]:
    tags = _Tags()
    tags.feed(html)
    tags.close()
    return tags.found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _check_markdown(text: str, harmless: str) -> None:
    """The hostile report has the elements of a harmless one, and no others."""
    assert not UNSEEN.search(text)
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    assert _tags(parser.render(text)) == _tags(parser.render(harmless))


def _check_csv(text: str, harmless: str) -> None:
    rows, others = (list(csv.reader(io.StringIO(each))) for each in (text, harmless))
    assert not UNSEEN.search(text)
    assert [len(row) for row in rows] == [len(row) for row in others]
    cells = [cell for row in rows for cell in row]
    assert any("1+1" in cell for cell in cells)
    parts = [part for cell in cells for part in cell.split(";")]
    wrong = [part for part in parts if _FORMULA.match(part) and not re.fullmatch(r"-?[\d.e+-]+", part)]
    assert wrong == []


def _check_page(text: str, harmless: str) -> None:
    if "<script" not in harmless:  # A document as a page.
        assert not UNSEEN.search(text)
        assert _tags(text) == _tags(harmless)
        return
    assert text.count("<script") == text.count("</script") == 2
    assert "<!--" not in text
    (payload,) = re.findall(r'id="payload">(.*?)</script>', text, re.DOTALL)
    assert [shown for shown in _texts(json.loads(payload)) if UNSEEN.search(shown)] == []


def _check_trace(text: str, _: str) -> None:
    assert not UNSEEN.search(text)
    assert [shown for shown in _texts(json.loads(text)) if UNSEEN.search(shown)] == []


def _check_console(text: str, _: str) -> None:
    assert not UNSEEN.search(text)


_CHECKS: dict[str, Callable[[str, str], None]] = {
    ".html": _check_page,
    ".md": _check_markdown,
    ".csv": _check_csv,
    ".trace.json": _check_trace,
    ".txt": _check_console,
    ".json": _check_console,
}


@pytest.mark.parametrize(("name", "renderer"), _CASES)
def test_a_format_shows_hostile_texts_as_text(name: str, renderer: Renderer) -> None:
    text, harmless = (renderer.render(_result(name, words)) for words in (HOSTILE, HARMLESS))
    assert "1+1" in text
    _CHECKS[renderer.suffix](text, harmless)


@pytest.mark.parametrize("name", [name for name in _RESULTS if name != "explanation"])
def test_cards_show_hostile_texts_as_text(name: str) -> None:
    text, harmless = (notebook_card(_result(name, words)) for words in (HOSTILE, HARMLESS))
    assert not UNSEEN.search(text)
    assert _tags(text) == _tags(harmless)


@pytest.mark.parametrize("name", ["profile", "measurement", "several"])
def test_json_keeps_every_character(name: str) -> None:
    profile = _result(name, HOSTILE)
    assert Profile.from_json(json.loads(render_json(profile))) == profile


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a_b, snake_case_name", "a_b, snake_case_name"),
        ("_b_ *c* `d` ~~e~~", "\\_b\\_ \\*c\\* \\`d\\` \\~~e\\~~"),
        ("[a](b) fp32[1, 2]", "[a]\\(b) fp32[1, 2]"),
        ("# title", "\\# title"),
        ("-3 and #3", "-3 and #3"),
        ("1. one", "1\\. one"),
        ("a < b &amp; c & d", "a &lt; b &amp;amp; c & d"),
        ("x|y\nz", "x\\|y z"),
    ],
)
def test_markdown_is_escaped_where_it_has_a_meaning(text: str, escaped: str) -> None:
    assert markdown_text(text) == escaped


def test_cells_of_csv() -> None:
    cells = ["=1", "-1", " +x", "＝1", "a;=1", "\t@x", -1, 2.5, None, "a-b", "–"]
    assert [csv_cell(cell) for cell in cells] == [
        *("'=1", "'-1", "' +x", "'＝1", "a;'=1", "' @x"),
        *(-1, 2.5, None, "a-b", "–"),
    ]


def test_a_name_that_is_not_utf8_has_a_text(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("other systems allow no such names")
    package = tmp_path / os.fsdecode(b"\xff.mlpackage")
    write_mlpackage(sample_model(size=32, width=0.25, classes=2), package)
    summary = api.inspect(package)
    assert summary.path.endswith("/\\xff.mlpackage")
    for renderer in SUMMARY_RENDERERS:
        write_report(summary, tmp_path / f"r{renderer.suffix}")
    api.compile(package, package.with_suffix(".mlmodelc"))
