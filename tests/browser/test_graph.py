"""The graph and the timeline of the report page in a browser."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coremlscope.base.units import format_bytes, format_count, format_duration, format_share
from coremlscope.reports.page import render_html
from coremlscope.results.operations import OpDetails
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


def test_the_graph_opens_with_texts_that_can_be_read(seen: dict[str, Any]) -> None:
    assert "240 operations" in seen["opened"]
    assert seen["boxes"] > 5
    assert min(seen["sizes"]) >= 11
    assert seen["nodes"][0][0].startswith("conv")


def test_the_graph_says_where_the_unit_changes_and_what_that_costs(seen: dict[str, Any]) -> None:
    (estimate, *_) = layered_profile(240).estimates
    units = [unit for seconds, unit in zip(estimate.kernel_s, estimate.kernel_unit, strict=True) if seconds]
    names = ["CPU", "GPU", "NE"]
    expected = [f"{names[a]} → {names[b]}" for a, b in itertools.pairwise(units) if a != b]
    assert seen["changes"] == expected
    assert set(seen["breaks"]) <= set(expected)
    assert seen["switches"] > 0
    assert "(main/" in seen["change"]


def test_the_slowest_parts_are_those_of_the_data(seen: dict[str, Any]) -> None:
    (estimate, *_) = layered_profile(240).estimates
    dearest = sorted(estimate.kernel_s, reverse=True)[:10]
    total = estimate.latency.value
    assert [re.sub(r"^.*block\.\d+?(?=\d\.\d\d )", "", text) for text in seen["slowest"]] == [
        f"{format_duration(one)} {format_share(one / total)}" for one in dearest
    ]


def sums(profile: Profile) -> str:
    """What the page says of all operations."""
    ops, (estimate, *_) = profile.ops, profile.estimates
    moved = sum(one or 0 for one in [*ops.read_bytes, *ops.written_bytes])
    return (
        f"Selected {len(ops)} operations: {format_duration(sum(estimate.kernel_s))} estimated in"
        f" {len(estimate.kernel_s)} groups, {format_count(sum(filter(None, ops.flops)))} FLOPs,"
        f" {format_bytes(moved)} read and written"
    )


def test_sums_of_a_selection_equal_the_data(seen: dict[str, Any]) -> None:
    assert seen["selected"] == sums(layered_profile(240))


def test_equal_blocks_are_drawn_once_with_their_sum(drive: Drive, tmp_path: Path) -> None:
    """Twenty-four blocks of ten operations: five types, the first of ten on another unit."""
    profile = large_profile(240, name="op{index}")
    types = tuple(("conv", "relu", "add", "mul", "softmax")[i % 5] for i in range(240))
    outputs = (("tensor<fp16, [1, 8, 64]>",),) * 240
    profile = replace(profile, ops=replace(profile.ops, type=types, outputs=outputs, details=OpDetails()))
    seen = drive("graph", write(tmp_path, profile), "op33")
    (estimate, *_) = profile.estimates
    whole = sum(estimate.kernel_s)
    assert seen["boxes"] == 10
    part = format_share(whole / estimate.latency.value)
    assert seen["frames"] == [f"Fold 24 × block⊟ 24 × block · {format_duration(whole)} · {part}"]
    first = sum(estimate.kernel_s[0::5])
    assert seen["nodes"][0][-1] == f"24 × {format_duration(first / 24)}"
    assert seen["selected"] == sums(profile)


def test_search_keys_and_folds(seen: dict[str, Any]) -> None:
    assert "model.layers.1.block.33 (main/33)" in seen["foundWords"]
    assert "(main/34)" in seen["below"]
    assert "(main/33)" in seen["back"]
    # The layer runs on several units, and stays open.
    assert seen["folded"] == seen["opened"]


def test_the_critical_path_says_what_it_is_of(seen: dict[str, Any]) -> None:
    (estimate, *_) = layered_profile(240).estimates
    assert "by estimated time" in seen["path"]
    assert f"of {format_duration(sum(estimate.kernel_s))} (" in seen["path"]
    # The branches of attention wait for each other; one of two is on the path.
    assert int(seen["path"].split(" operations,")[0].split()[-1]) == 196
    assert seen["critical"] > 0


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
    """The estimate of this profile is 2 ms, of which its kernels are 591 µs."""
    profile = layered_profile(240)
    seen = drive("timeline", write(tmp_path, profile))
    assert seen["complaints"] == seen["foreign"] == []
    # From 2 % to 10 % of the whole; zooming out shows 1.4 times as much.
    assert (seen["dragged"], seen["zoomedOut"]) == ("160 µs of 2.00 ms shown", "224 µs of 2.00 ms shown")
    assert seen["all"] == seen["whole"]
    assert "model.layers.2.block.66" in seen["tip"]
    assert "main/66" in seen["tip"]
    assert seen["module"].startswith("model/layers")
    assert "591 µs" in seen["module"]
    assert "not known by kernel" in seen["caption"]
    assert {tuple(row[:5]) for row in seen["sums"]} >= set(kinds(profile, 0, math.inf))
    # Where a drag begins and ends, it may touch a kernel or not.
    assert {row[0] for row in seen["sumsDragged"]} == {row[0] for row in kinds(profile, 40e-6, 200e-6)}


def kinds(profile: Profile, begin: float, end: float) -> Iterator[tuple[str, ...]]:
    """What the page says of the kernels that run in a part of a prediction, by their types and unit."""
    estimate, ops, now = profile.estimates[0], profile.ops, 0.0
    found: dict[tuple[str, str], list[float]] = {}
    for kernel, seconds, unit in zip(profile.kernels, estimate.kernel_s, estimate.kernel_unit, strict=True):
        if now < end and now + seconds > begin:
            label = " + ".join(ops.type[row] for row in kernel.ops)
            found.setdefault((label, ("CPU", "GPU", "Neural Engine")[unit]), []).append(seconds)
        now += seconds
    for (label, unit), times in found.items():
        total = format_duration(sum(times))
        yield label, unit, str(len(times)), total, format_duration(sum(times) / len(times))
