"""The tables, the queries of the documentation, and the verb."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coremlscope.cli import main
from coremlscope.results.sweep import SweepSummary
from coremlscope.studies.sweep.rows import Row, arrow_schema, column_meanings
from coremlscope.studies.sweep.table import TABLES

_PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "sweep.md").read_text(encoding="utf-8")
_QUERIES = re.findall(r"^```sql\n(.*?)^```$", _PAGE, re.M | re.S)


def test_columns_are_those_of_a_row() -> None:
    assert list(column_meanings()) == list(arrow_schema().names) == list(Row.__struct_fields__)


def test_a_sweep_writes_a_table_of_each_origin_without_doubles_and_failures(
    swept: tuple[Path, SweepSummary],
) -> None:
    folder, _ = swept
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in TABLES}
    assert {name: table.num_rows for name, table in tables.items()} == {
        "estimates": 8,
        "plans": 8,
        "times": 2,
    }
    for name, column in (("estimates", "estimated_s"), ("plans", "planned_ms"), ("times", "measured_s")):
        assert None not in tables[name][column].to_pylist()
        assert len(set(tables[name]["key"].to_pylist())) == tables[name].num_rows
    assert "estimated_s" not in tables["times"].column_names


@pytest.mark.parametrize("sql", _QUERIES, ids=[sql.splitlines()[0][:40] for sql in _QUERIES])
def test_queries_of_the_page_run(
    sql: str, swept: tuple[Path, SweepSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(swept[0].parent)
    assert duckdb.sql(sql.replace("sweep-results/", f"{swept[0].name}/")).fetchall()


def test_saved_profiles_are_imported_once_and_exported(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, results = tmp_path / "p.json", tmp_path / "results"
    path = zoo / "small.mlpackage"
    assert main(["estimate", str(path), "--device", "m1,m4", "-o", str(saved), "--quiet"]) == 0
    for expected in ("2 results of saved profiles", "0 results"):
        assert main(["sweep", str(saved), "-o", str(results), "--label", "commit=4f2a"]) == 0
        assert expected in capsys.readouterr().out
    found = pq.read_table(results / "estimates.parquet").to_pylist()
    assert sorted((row["device"], *row["labels"]) for row in found) == [
        ("M1", ("commit", "4f2a")),
        ("M4", ("commit", "4f2a")),
    ]
    assert main(["export", str(saved), str(tmp_path / "p.parquet")]) == 0
    assert pq.read_table(tmp_path / "p.parquet").schema.equals(arrow_schema())
    assert main(["export", str(path), str(tmp_path / "m.parquet")]) == 2


def test_the_verb_says_what_it_did(
    zoo: Path, swept: tuple[Path, SweepSummary], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", str(zoo), "--device", "m1", "-o", str(swept[0])]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "2 results, not made again" in shown
    assert "1 result, not tried again" in shown
    assert main([*command, "--json", "-"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["made"], summary["known"], summary["known_failures"]) == (0, 2, 1)
