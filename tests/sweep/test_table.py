"""Rows of queries for pages: their numbers are those of the query."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coremlscope.cli import main
from coremlscope.errors import UsageError
from coremlscope.results.sweep import SweepSummary
from coremlscope.sweep import table as table_module
from coremlscope.sweep.query import query_results
from coremlscope.sweep.table import page_query, to_result_table

_FROM_A_LIST = "FROM (VALUES {}) AS made(value)"


def _payload(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page.read_text())
    assert found
    result: dict[str, Any] = json.loads(found[1])["result"]
    return result


def test_a_page_has_the_numbers_of_the_query(swept: tuple[Path, SweepSummary], tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    assert main(["query", "--from", str(swept[0]), "-o", str(page), "--quiet"]) == 0
    shown = _payload(page)
    columns = {column["name"]: column["values"] for column in shown["columns"]}
    rows = query_results(page_query(), swept[0]).to_pylist()
    assert shown["rows"] == len(rows) == 10
    assert shown["sql"] == page_query()
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
    sql = "SELECT model, estimated_s, estimated_s * 1e3 AS ms, parameters, sum(1) OVER () AS n FROM estimates"
    made = to_result_table(query_results(sql, swept[0]), sql)
    found = {column.name: (column.quantity, column.origin) for column in made.columns}
    assert found == {
        "model": ("text", None),
        "estimated_s": ("seconds", "estimated"),
        "ms": ("milliseconds", None),
        "parameters": ("count", "declared"),
        "n": ("count", None),
    }
    assert made.columns[1].meaning == "Estimated time of a prediction."
    assert made.columns[2].meaning == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("(true), (false)", ("yes", "no")),
        ("(DATE '2026-01-31'), (NULL)", ("2026-01-31", None)),
        ("(1.5::DECIMAL(9, 3)), (2::DECIMAL(9, 3))", (1.5, 2)),
        ("([1, 2]), ([3])", ("[1, 2]", "[3]")),
        ("('<b>'), (NULL)", ("<b>", None)),
    ],
)
def test_values_of_every_type_become_numbers_or_texts(
    values: str, expected: tuple[object, ...], swept: tuple[Path, SweepSummary]
) -> None:
    sql = f"SELECT value {_FROM_A_LIST.format(values)}"
    assert to_result_table(query_results(sql, swept[0]), sql).columns[0].values == expected


def test_a_page_without_rows_or_with_too_many_is_rejected(
    swept: tuple[Path, SweepSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = query_results("SELECT * FROM results WHERE model = ''", swept[0])
    with pytest.raises(UsageError, match="no rows"):
        to_result_table(none, "")
    monkeypatch.setattr(table_module, "_MOST_VALUES", 100)
    page = tmp_path / "sweep.html"
    assert main(["query", "--from", str(swept[0]), "-o", str(page)]) == 2
    assert not page.exists()


def test_files_get_all_results_without_a_query(swept: tuple[Path, SweepSummary], tmp_path: Path) -> None:
    page, rows = tmp_path / "sweep.html", tmp_path / "rows.csv"
    assert main(["query", "--from", str(swept[0]), "-o", str(page), "-o", str(rows)]) == 0
    (counted,) = query_results("SELECT count(*) AS n FROM results", swept[0]).to_pylist()
    assert len(rows.read_text().splitlines()) == 1 + counted["n"]
    assert "coremlscope.results/1" in page.read_text()
    assert main(["query", "--from", str(swept[0]), "--json"]) == 2
