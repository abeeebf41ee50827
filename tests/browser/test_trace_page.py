"""The page of a recorded program in a browser without network access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.units import format_bytes, format_duration, format_share
from coremlscope.reports.page import render_html_trace
from coremlscope.results.aggregate import Aggregate, aggregate
from tests.support.browser import Drive
from tests.support.traces import recorded_program

HOSTILE = "</script><script>globalThis.hostile=1</script><img src=x onerror='globalThis.hostile=2'>"


@pytest.fixture(scope="module")
def seen(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    page = tmp_path_factory.mktemp("page") / "trace.html"
    page.write_text(render_html_trace(recorded_program(1000, name=HOSTILE)), encoding="utf-8")
    return dict(drive("trace", page))


def test_totals_are_those_of_the_recording(seen: dict[str, Any]) -> None:
    assert seen["totals"] == [_cells(row) for row in aggregate(recorded_program(1000, name=HOSTILE))]
    assert seen["mistakes"] == 1


def test_a_selected_span_recomputes_the_totals(seen: dict[str, Any]) -> None:
    before = {row[1]: int(row[2].replace(",", "")) for row in seen["totals"]}
    selected = {row[1]: int(row[2].replace(",", "")) for row in seen["selected"]}
    assert selected["load"] == 1
    assert 0.4 * before["predict"] < selected["predict"] < 0.6 * before["predict"]
    assert "selected" in seen["note"]
    assert seen["cleared"] == seen["totals"]


def test_the_page_is_safe_accessible_and_fits_a_phone(seen: dict[str, Any]) -> None:
    assert seen["flag"] is None
    assert seen["complaints"] == seen["foreign"] == []
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["phoneOverflow"] <= 0


@pytest.mark.long
def test_a_million_events_open_quickly_and_stay_small(drive: Drive, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    page.write_text(render_html_trace(recorded_program(250_000)), encoding="utf-8")
    found = drive("trace", page, "speed")
    assert found["opened"] < 3
    assert found["heap"] + page.stat().st_size < 300e6


def _cells(row: Aggregate) -> list[str]:
    total, share = format_duration(row.total_s), format_share(row.share)
    times = (row.mean_s, row.min_s, row.median_s, row.p95_s, row.p99_s, row.max_s)
    size = format_bytes(row.bytes) if row.bytes else ""
    return [row.model, row.kind, f"{row.count:,}", total, share, *map(format_duration, times), size]
