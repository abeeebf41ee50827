"""Results for pages: their numbers are those of the rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.results.sweep import SweepSummary
from coremlscope.studies.sweep import table as table_module
from coremlscope.studies.sweep.store import ResultStore
from coremlscope.studies.sweep.table import PAGE, by_time, to_result_table, write_tables


def _payload(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page.read_text())
    assert found
    result: dict[str, Any] = json.loads(found[1])["result"]
    return result


def test_a_page_has_the_numbers_of_the_results(swept: tuple[Path, SweepSummary]) -> None:
    shown = _payload(swept[0] / PAGE)
    columns = {column["name"]: column["values"] for column in shown["columns"]}
    rows = [row for row in by_time(ResultStore(swept[0]).table()).to_pylist() if not row["failure"]]
    assert shown["rows"] == len(rows) == 10
    compared = 0
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in columns and any(isinstance(value, (int, float)) for value in values):
            expected = [("no", "yes")[value] if isinstance(value, bool) else value for value in values]
            assert columns[name] == expected, name
            compared += 1
    assert compared > 15
    assert columns["numbers.accuracy"] == [71.5] * 10
    assert columns["labels.family"] == ["mobilenet"] * 10
    assert "compile_s" in columns or "load_s" in columns
    assert "left_out" not in columns or any(columns["left_out"])


def test_columns_say_what_they_hold(swept: tuple[Path, SweepSummary]) -> None:
    made = to_result_table(ResultStore(swept[0]).table())
    found = {column.name: (column.quantity, column.origin) for column in made.columns}
    assert found["model"] == ("text", None)
    assert found["estimated_s"] == ("seconds", "estimated")
    assert found["planned_ms"] == ("milliseconds", "planned")
    assert found["parameters"] == ("count", "declared")
    assert found["numbers.accuracy"] == ("number", None)
    meanings = {column.name: column.meaning for column in made.columns}
    assert meanings["estimated_s"] == "Estimated time of a prediction."


def test_a_page_without_results_or_with_too_many_is_not_written(
    swept: tuple[Path, SweepSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path)
    with pytest.raises(UsageError, match="no results"):
        to_result_table(store.table())
    write_tables(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "estimates.parquet",
        "plans.parquet",
        "times.parquet",
    ]
    table = ResultStore(swept[0]).table()
    monkeypatch.setattr(table_module, "_MOST_VALUES", 200)
    assert {"estimated_s", "measured_s"} <= {column.name for column in to_result_table(table).columns}
    monkeypatch.setattr(table_module, "_MOST_VALUES", 100)
    with pytest.raises(UsageError, match="at most 100 values"):
        to_result_table(table)
