from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from coremlscope.comparison.profiles import Comparison
from coremlscope.describe.model import ModelSummary
from coremlscope.errors import UsageError
from coremlscope.render import COMPARISON_RENDERERS, RENDERERS, SUMMARY_RENDERERS, Renderer, find_renderer
from coremlscope.render.markdown.comparison import render_markdown_comparison
from coremlscope.render.words import compact_type, plural, shorten
from coremlscope.results.profile import Profile
from tests.support import golden
from tests.support.comparisons import small_comparison
from tests.support.profiles import small_profile, small_summary


@pytest.mark.parametrize("renderer", SUMMARY_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_summaries(renderer: Renderer[Profile | ModelSummary]) -> None:
    text = renderer.render(small_summary(list_ops=True))
    assert text.endswith("\n")
    assert "main/542" in text
    assert renderer in RENDERERS


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_profiles(renderer: Renderer[Profile]) -> None:
    text = renderer.render(small_profile())
    assert text.endswith("\n")
    assert "main/542" in text
    assert find_renderer(Path(f"out{renderer.suffix.upper()}")) is renderer


@pytest.mark.parametrize("renderer", COMPARISON_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_comparisons(renderer: Renderer[Comparison]) -> None:
    text = renderer.render(small_comparison())
    assert text.endswith("\n")
    assert "main/600" in text
    assert find_renderer(Path(f"out{renderer.suffix.upper()}"), COMPARISON_RENDERERS) is renderer


def test_suffixes() -> None:
    for renderers in (RENDERERS, COMPARISON_RENDERERS):
        assert len({renderer.suffix for renderer in renderers}) == len(renderers)
    suffixes = {
        name: find_renderer(Path(name)).suffix for name in ("trace.json", "a.Trace.JSON", "my-trace.json")
    }
    assert list(suffixes.values()) == [".trace.json", ".trace.json", ".json"]
    with pytest.raises(UsageError) as caught:
        find_renderer(Path("report.jsn"))
    assert caught.value.hint == "did you mean report.json?"
    with pytest.raises(UsageError, match="has no suffix"):
        find_renderer(Path("report"))


def test_markdown() -> None:
    golden.check("profile.md", find_renderer(Path("x.md")).render(small_profile()))


def test_markdown_of_a_comparison() -> None:
    golden.check("compare.md", render_markdown_comparison(small_comparison()))


def test_csv() -> None:
    text = find_renderer(Path("x.csv")).render(small_profile())
    golden.check("profile.csv", text)
    rows = list(csv.DictReader(io.StringIO(text)))
    fused = [row for row in rows if row["group"] == "1"]
    # The time of a group is repeated, not split.
    assert [(row["id"], row["group_ops"], row["group_measured_s"]) for row in fused] == [
        ("main/13", "2", "0.0006"),
        ("main/16", "2", "0.0006"),
    ]
    assert [row["name"] for row in rows if row["status"] == "engine"] == ["reorder"]


def test_json_reads_back() -> None:
    render = find_renderer(Path("x.json")).render
    assert Profile.from_json(json.loads(render(small_profile()))) == small_profile()
    summary = small_summary(list_ops=True)
    assert ModelSummary.from_json(json.loads(render(summary))) == summary


def test_words() -> None:
    assert [shorten("abcdefgh", width) for width in (8, 7, 5, 2)] == ["abcdefgh", "abc…fgh", "ab…gh", "ab"]
    assert compact_type("tensor<fp16, [1, ?, 3]>") == "fp16 1×?×3"
    assert compact_type("state<tensor<fp16, [8]>>") == "state<fp16 8>"
    assert compact_type("tensor<bool, []>") == "bool"
    assert [plural(n, noun) for n, noun in ((1, "class"), (2, "class"), (0, "input"))] == [
        "1 class", "2 classes", "0 inputs",
    ]  # fmt: skip
