"""The tables, the queries of the documentation, and the verbs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coremlscope.cli import main
from coremlscope.errors import UsageError
from coremlscope.results.sweep import SweepSummary
from coremlscope.sweep.query import TABLES, query_results
from coremlscope.sweep.rows import Row, arrow_schema, describe_columns

_PAGE = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text(encoding="utf-8")
_QUERIES = re.findall(r"^```sql\n(.*?)^```$", _PAGE, re.M | re.S)


@pytest.mark.parametrize("sql", _QUERIES, ids=[sql.splitlines()[0][:40] for sql in _QUERIES])
def test_queries_of_the_page_run(sql: str, swept: tuple[Path, SweepSummary]) -> None:
    found = query_results(sql, swept[0])
    empty = ("neural_engine_share < 0.5", "other.variant <> ''")
    assert found.num_rows > 0 or any(text in sql for text in empty)


def test_the_page_names_every_table() -> None:
    assert len(_QUERIES) > 5
    for name, *_ in TABLES:
        assert f"| `{name}` |" in _PAGE


def test_columns_are_described_as_they_are(swept: tuple[Path, SweepSummary]) -> None:
    described = query_results("DESCRIBE results", swept[0]).to_pylist()
    found = {str(one["column_name"]): str(one["column_type"]) for one in described}
    assert found == {name: type_ for name, type_, _ in describe_columns()}
    assert list(arrow_schema().names) == list(Row.__dataclass_fields__)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "query failed: .*syntax error"),
        ("SELECT nothing FROM results", 'query failed: .*"nothing" not found'),
        ("SELECT * FROM other", "query failed: .*other does not exist"),
        ("SELECT * FROM read_parquet('https://example.invalid/x.parquet')", "query failed"),
    ],
)
def test_a_wrong_query_is_one_sentence(sql: str, message: str, swept: tuple[Path, SweepSummary]) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        query_results(sql, swept[0])
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_query_writes_rows(
    swept: tuple[Path, SweepSummary], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"rows{suffix}" for suffix in (".csv", ".json", ".parquet")]
    outputs = [argument for file in files for argument in ("-o", str(file))]
    sql = "SELECT model, device, numbers, made_at FROM estimates ORDER BY model, device"
    assert main(["query", sql, "--from", str(swept[0]), *outputs]) == 0
    shown = capsys.readouterr()
    assert "accuracy=71.5" in shown.out
    assert "8 rows" in shown.out
    assert len(files[0].read_text().splitlines()) == 9
    assert json.loads(files[1].read_text())[0]["numbers"] == {"accuracy": 71.5}
    assert pq.read_table(files[2]).num_rows == 8
    assert main(["query", sql, "--from", str(swept[0]), "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 8


def test_query_without_a_query_shows_tables_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("failures", "planned_ms", "MAP(VARCHAR, DOUBLE)"))
    assert main(["query", "--json", "-"]) == 2


def test_a_folder_without_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1", "--from", str(tmp_path)]) == 2
    assert "contains no results of sweeps" in capsys.readouterr().err


def test_saved_profiles_are_imported_once_and_exported(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, results = tmp_path / "p.json", tmp_path / "results"
    path = zoo / "small.mlpackage"
    assert main(["estimate", str(path), "--device", "m1,m4", "-o", str(saved), "--quiet"]) == 0
    for expected in ("2 results of saved profiles", "0 results"):
        assert main(["sweep", str(saved), "-o", str(results), "--label", "commit=4f2a"]) == 0
        assert expected in capsys.readouterr().out
    found = query_results("SELECT device, labels['commit'] AS c FROM estimates ORDER BY 1", results)
    assert found.to_pylist() == [{"device": "M1", "c": "4f2a"}, {"device": "M4", "c": "4f2a"}]
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
