"""SQL over the results of sweeps, by DuckDB."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.errors import MissingDependencyError, UsageError
from coremlscope.sweep.rows import arrow_schema
from coremlscope.sweep.store import ResultStore

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RESULTS", "TABLES", "query_results"]

#: The folder of results where none is named.
RESULTS = "sweep-results"

#: Each table: what it holds, and how it is made of `everything`, which has one row for each key.
TABLES: tuple[tuple[str, str, str], ...] = (
    ("results", "every result, without failures", "SELECT * FROM everything WHERE failure = ''"),
    ("measurements", "results that were measured", "SELECT * FROM results WHERE origin = 'measured'"),
    ("estimates", "estimates with their plans", "SELECT * FROM results WHERE origin = 'estimated'"),
    ("failures", "what has no result, and why", "SELECT * FROM everything WHERE failure <> ''"),
    (
        "models",
        "one row for each model, function, shape and variant, with its size",
        "SELECT model, content, function, shapes, variant, any_value(labels) AS labels,"
        " any_value(numbers) AS numbers, any_value(kind) AS kind, max(parameters) AS parameters,"
        " max(operations) AS operations, max(flops) AS flops, max(weights_bytes) AS weights_bytes,"
        " max(size_bytes) AS size_bytes, count(*) AS results"
        " FROM results GROUP BY model, content, function, shapes, variant",
    ),
)
#: Failures give way to results, older rows to newer ones.
_ONE_OF_EACH = (
    "SELECT * REPLACE (try_cast(made_at AS TIMESTAMP) AS made_at,"
    " try_cast(labelled_at AS TIMESTAMP) AS labelled_at) FROM ({rows}) QUALIFY row_number() OVER"
    " (PARTITION BY key ORDER BY (failure = '') DESC, made_at DESC, labelled_at DESC NULLS LAST) = 1"
)


def query_results(sql: str, folder: str | os.PathLike[str] = RESULTS) -> pa.Table:
    """Runs a query over the results in a folder, those of sweeps at work included.

    Results are not changed, and DuckDB loads no extensions, so that it reads nothing from the network.

    Args:
        sql: A query of the tables `results`, `measurements`, `estimates`, `failures` and `models`.
        folder: The folder that sweeps write.

    Returns:
        A table of Arrow, with `to_pandas()`; Polars takes it as it is.

    Raises:
        UsageError: The folder has no results, a file is damaged, or the query is wrong.
        MissingDependencyError: DuckDB or pyarrow is not installed.
    """
    store = ResultStore(Path(folder))
    parts, journals = store.parts(), store.journals()
    if not parts and not journals:
        raise UsageError(
            f"{folder} contains no results of sweeps",
            "name the folder that a sweep wrote: `coremlscope query SQL --from FOLDER`",
        )
    duckdb = _require_duckdb()
    connection = duckdb.connect(
        ":memory:",
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"},
    )
    try:
        connection.register("journalled", store.journalled())
        connection.register("no_rows", arrow_schema().empty_table())
        files = f" UNION ALL BY NAME SELECT * FROM read_parquet({_listed(parts)}, union_by_name = true)"
        rows = "SELECT * FROM no_rows UNION ALL BY NAME SELECT * FROM journalled" + files * bool(parts)
        connection.execute(f"CREATE VIEW everything AS {_ONE_OF_EACH.format(rows=rows)}")
        for name, _, made in TABLES:
            connection.execute(f"CREATE VIEW {name} AS {made}")
        found = connection.sql(sql)
        return arrow_schema().empty_table() if found is None else found.to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(*_explained(str(error))) from None
    finally:
        connection.close()


def _require_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingDependencyError(
            "queries are run by DuckDB, which is not installed", "pip install 'coremlscope[sweep]'"
        ) from None
    return duckdb


def _listed(paths: list[Path]) -> str:
    """Returns paths as a list of SQL texts."""
    quoted = ("'" + os.fspath(path).replace("'", "''") + "'" for path in paths)
    return f"[{', '.join(quoted)}]"


def _explained(text: str) -> tuple[str, str]:
    """Returns DuckDB's message in one line, and its own hint or ours."""
    first, *others = (line.strip() for line in text.splitlines() if line.strip())
    hints = [line for line in others if line.startswith(("Did you mean", "Candidate"))]
    tables = ", ".join(name for name, *_ in TABLES)
    return f"the query failed: {first}", hints[0] if hints else f"the tables are {tables}"
