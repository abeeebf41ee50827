"""The graph and the timeline of the report page in a browser."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.units import format_duration
from coremlscope.reports.page import render_html
from coremlscope.results.profile import Profile
from tests.support.browser import Drive
from tests.support.large_profiles import large_profile, layered_profile


def write(folder: Path, profile: Profile) -> Path:
    path = folder / "page.html"
    path.write_text(render_html(profile), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def seen(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = drive(
        "graph", write(tmp_path_factory.mktemp("graph"), layered_profile(240)), "block.33"
    )
    return found


def test_the_graph_is_laid_out_in_a_worker_of_the_page(seen: dict[str, Any]) -> None:
    assert seen["complaints"] == seen["foreign"] == []
    assert seen["workers"] == 1


def test_the_graph_opens_folded_and_fitted(seen: dict[str, Any]) -> None:
    assert "240 operations" in seen["opened"]
    assert 5 < seen["boxes"] < 100
    assert seen["fit"]["over"] <= 1
    assert seen["shapes"]
    assert seen["far"]  # unfolded: small boxes are few paths


def test_search_keys_and_folds(seen: dict[str, Any]) -> None:
    assert "model.layers.1.block.33 (main/33)" in seen["foundWords"]
    assert "(main/34)" in seen["below"]
    assert "(main/33)" in seen["back"]
    assert "240 operations, 217 parts shown" in seen["folded"]


def test_the_critical_path_says_what_it_is_of(seen: dict[str, Any]) -> None:
    plan = layered_profile(240).plans[0]
    names = list(plan.backends)
    total = sum(plan.cost_ms[names[b]][i] or 0.0 for i, b in enumerate(plan.settings[0].backend))
    assert "by planned cost" in seen["path"]
    assert f"of {format_duration(total / 1e3)} (" in seen["path"]
    # The branches of attention wait for each other; one of two is on the path.
    assert int(seen["path"].split(" operations,")[0].split()[-1]) == 192
    assert seen["critical"] > 0


def test_changes_of_unit_are_marked(seen: dict[str, Any]) -> None:
    assert seen["switches"] > 0
    assert "(main/" in seen["change"]


@pytest.mark.long
@pytest.mark.parametrize(("count", "profile"), [(3000, layered_profile), (10_000, large_profile)])
def test_large_graphs_are_quick(drive: Drive, tmp_path: Path, count: int, profile: Any) -> None:
    """On an idle machine; the median of three, as a browser's first second varies."""
    page = write(tmp_path, profile(count))
    seen = [drive("graph", page, "block.1234") for _ in range(3)]
    assert statistics.median(one["drawnSeconds"] for one in seen) < 1
    if count <= 3000:
        assert statistics.median(one["unfolded"]["seconds"] for one in seen) < 4
        assert statistics.median(one["unfolded"]["longestFrameMs"] for one in seen) < 300


def test_the_timeline_zooms_to_what_is_dragged_over(drive: Drive, tmp_path: Path) -> None:
    """The plan of this profile totals 10 ms, of which its operations are 1.34 ms."""
    seen = drive("timeline", write(tmp_path, layered_profile(240)))
    assert seen["complaints"] == seen["foreign"] == []
    # From 2 % to 10 % of the whole; zooming out shows 1.4 times as much.
    assert (seen["dragged"], seen["zoomedOut"]) == ("800 µs of 10.0 ms shown", "1.12 ms of 10.0 ms shown")
    assert seen["all"] == seen["whole"]
    assert "model.layers.5.block.142" in seen["tip"]
    assert "main/142" in seen["tip"]
    assert seen["module"].startswith("model/layers")
    assert "1.34 ms" in seen["module"]
    assert "whose place is not known" in seen["caption"]
