from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.reports.columns import op_columns
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import (
    COMPARISON_RENDERERS,
    PROFILES_RENDERERS,
    RENDERERS,
    SUMMARY_RENDERERS,
    Renderer,
    document_of,
    find_renderer,
    write_report,
)
from coremlscope.reports.words import compact_type, plural, shorten
from coremlscope.results.encoding import decode
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile, read_profiles
from tests.support import golden
from tests.support.comparisons import small_comparison
from tests.support.partial_profiles import PROFILES
from tests.support.profiles import small_profile, small_summary


@pytest.mark.parametrize("renderer", SUMMARY_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_summaries(renderer: Renderer) -> None:
    text = renderer.render(small_summary(list_ops=True))
    assert text.endswith("\n")
    assert "main/542" in text
    assert renderer.render(ModelSummary(path="unread")).endswith("\n")


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_profiles(renderer: Renderer) -> None:
    text = renderer.render(small_profile())
    assert text.endswith("\n")
    assert "main/542" in text
    assert find_renderer(Path(f"out{renderer.suffix.upper()}")) is renderer


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_profiles_of_every_kind_in_every_format(renderer: Renderer, name: str) -> None:
    profile = PROFILES[name]()
    text = renderer.render(profile)
    assert text.endswith("\n")
    if renderer.suffix == ".json":
        assert Profile.from_json(json.loads(text)) == profile
    if renderer.suffix in (".html", ".json", ".md", ".txt"):
        for measurement in profile.measurements:
            assert measurement.label in text


@pytest.mark.parametrize("renderer", COMPARISON_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_renderer_of_comparisons(renderer: Renderer) -> None:
    text = renderer.render(small_comparison())
    assert text.endswith("\n")
    expected = {".md": "new added", ".txt": "new added", ".csv": "sample.mlpackage,measured"}
    assert expected.get(renderer.suffix, "main/600") in text
    assert find_renderer(Path(f"out{renderer.suffix.upper()}"), COMPARISON_RENDERERS) is renderer


def test_suffixes() -> None:
    for renderers in (RENDERERS, COMPARISON_RENDERERS, PROFILES_RENDERERS):
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
    golden.check("compare.md", write_markdown(comparison_document(small_comparison())))


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
    assert decode(json.loads(render(summary)), ModelSummary) == summary


def test_columns_of_several_measurements() -> None:
    columns = op_columns(PROFILES["several measurements"]())
    count = len(columns["id"])
    assert {len(values) for values in columns.values()} == {count}
    first, second = (f"scripted-1-0-on-example-9000-{threads}-threads" for threads in (2, 4))
    assert columns[f"{first}.group"][:6] == columns[f"{second}.group"][:6] == [0, None, 1, 1, 3, None]
    assert [columns[f"{name}.status"][-3:] for name in (first, second)] == [
        ["engine", None, None],
        [None, "engine", None],
    ]
    assert columns[f"{second}.fp16_largest"][:6] == [1.5] * 6
    assert columns["core-ml-on-apple-m2-cpu-only.measured_by"] == [None] * count
    assert columns["status"] == [None] * (count - 1) + ["inserted"]
    assert columns["m1.core-ml.all.unit"][4] == "neural_engine"
    assert columns["m1.all.unit"][4] == "cpu"
    assert columns["m1.reasons"][0] == "neural_engine: too odd"
    assert columns["m1.supported"][2] == "cpu; neural_engine"


def test_columns_of_estimates_without_plans() -> None:
    columns = op_columns(PROFILES["estimates"]())
    assert columns["m1.all.kernel"] == [0, None, 1, 1, 2, None]
    assert columns["m1.all.kernel_bound"][3] == "weights"
    assert "status" not in columns


def test_reports_are_written(tmp_path: Path) -> None:
    small_profile().write(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == small_profile()
    write_report([small_profile(), small_profile()], tmp_path / "several.json")
    assert read_profiles(tmp_path / "several.json") == (small_profile(),) * 2
    write_report(small_summary(), str(tmp_path / "s.md"))
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == write_markdown(document_of(small_summary()))
    small_comparison().write(tmp_path / "c.txt")
    with pytest.raises(UsageError, match="no report format has the suffix"):
        small_comparison().write(tmp_path / "c.sarif")
    with pytest.raises(OutputError):
        small_profile().write(tmp_path / "absent" / "p.md")


def test_words() -> None:
    assert [shorten("abcdefgh", width) for width in (8, 7, 5, 2)] == ["abcdefgh", "abc…fgh", "ab…gh", "ab"]
    assert compact_type("tensor<fp16, [1, ?, 3]>") == "fp16 1×?×3"
    assert compact_type("state<tensor<fp16, [8]>>") == "state<fp16 8>"
    assert compact_type("tensor<bool, []>") == "bool"
    assert [plural(n, noun) for n, noun in ((1, "class"), (2, "class"), (0, "input"))] == [
        "1 class",
        "2 classes",
        "0 inputs",
    ]
