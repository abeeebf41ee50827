"""The page of results of sweeps in a browser without network access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coremlscope.reports.page import render_html_results
from coremlscope.results.sweep import ResultTable
from coremlscope.studies.sweep.rows import Row
from coremlscope.studies.sweep.store import ResultStore
from coremlscope.studies.sweep.table import by_time, to_result_table
from tests.support.browser import Drive

_SECONDS = {"small": 0.001, "large": 0.0042, "<b>medium</b>": 0.0021}


def _row(model: str, seconds: float, device: str, commit: int = 0) -> Row:
    return Row(
        key=f"{model} {device} {commit}",
        origin="estimated",
        model=f"zoo/{model}.mlpackage",
        device=device,
        compute_units="all",
        numbers={"accuracy": 60 + 1e3 * seconds},
        parameters=round(seconds * 1e9),
        estimated_s=seconds * (2 if device == "M1" else 1),
        estimated_low_s=seconds / 2,
        estimated_high_s=seconds * 3,
        basis="extrapolated",
        labels={"commit": f"c{commit}"},
        made_at=f"2026-01-{commit + 1:02}T12:00:00",
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ResultTable:
    """Three models on two devices, one of them with a hostile name."""
    store = ResultStore(tmp_path_factory.mktemp("results"))
    with store.open_writer() as writer:
        writer.add(
            _row(model, seconds, to) for model, seconds in _SECONDS.items() for to in ("M1", "iPhone 15 Pro")
        )
    return to_result_table(by_time(store.table()))


@pytest.fixture(scope="module")
def seen(drive: Drive, table: ResultTable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render_html_results(table), encoding="utf-8")
    found: dict[str, Any] = drive("results", path)
    return found


def test_the_leaderboard_has_the_numbers_of_the_query(seen: dict[str, Any], table: ResultTable) -> None:
    estimated = next(column.values for column in table.columns if column.name == "estimated_s")
    assert seen["rows"] == list(estimated) == [0.001, 0.002, 0.0021, 0.0042, 0.0042, 0.0084]
    assert seen["descending"] == list(reversed(estimated))
    assert [text.rstrip("↑") for text in seen["headings"]][:3] == ["model", "device", "latency"]


def test_a_pinned_row_is_what_others_are_compared_with(seen: dict[str, Any]) -> None:
    assert seen["pinned"][0] == "× 2"


def test_the_search_narrows_all_rows(seen: dict[str, Any]) -> None:
    assert sorted(seen["filtered"]) == [0.001, 0.0021, 0.0042]
    assert seen["status"] == ["3 of 6 results"]
    assert seen["cleared"] == 6


def test_the_line_joins_what_no_other_beats(seen: dict[str, Any]) -> None:
    shown = ["small.mlpackage: 1.00 ms", "b>.mlpackage: 2.10 ms", "large.mlpackage: 4.20 ms"]
    assert sorted(text.split(", accuracy")[0] for text in seen["points"]) == sorted(shown)
    assert len(seen["best"]) == 3
    assert seen["turned"] == ["small.mlpackage: 1.00 ms, accuracy 61"]


def test_the_page_is_accessible_and_fits_a_phone(seen: dict[str, Any]) -> None:
    assert seen["violations"] == {"light": [], "dark": []}
    assert seen["phoneOverflow"] == 0
    assert (seen["complaints"], seen["foreign"]) == ([], [])


def test_a_row_on_a_phone_has_its_texts_below_its_name(seen: dict[str, Any]) -> None:
    texts = seen["phoneRow"].split()
    assert "small.mlpackage" in texts
    assert " ".join(texts).endswith("iPhone 15 Pro 1.00 ms * 500 µs – 3.00 ms")
