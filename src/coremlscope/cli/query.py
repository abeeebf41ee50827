"""`coremlscope query`: SQL over the results of sweeps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coremlscope.cli.command import Command, add_json, add_quiet, write_result
from coremlscope.cli.sweep import QUERY_SUFFIXES, add_results
from coremlscope.cli.terminal import has_color, print_note, print_result, terminal_width
from coremlscope.errors import UsageError
from coremlscope.writing import check_file

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMMAND"]

_EPILOG = """\
Without a query, the tables and their columns are shown, and files get all results. Queries are
run by DuckDB (pip install 'coremlscope[sweep]') and see the results of sweeps that are still running.

examples:
  coremlscope query
  coremlscope query "SELECT model, device, estimated_s * 1e3 AS ms FROM estimates ORDER BY ms"
  coremlscope query "SELECT * FROM results" -o all.parquet
  coremlscope query -o sweep.html -o sweep.csv
"""


def _target(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in QUERY_SUFFIXES:
        listed = ", ".join(QUERY_SUFFIXES)
        raise argparse.ArgumentTypeError(f"the suffix of {text} selects no format\nuse one of {listed}")
    check_file(path)
    return path


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sql", metavar="SQL", nargs="?", help="the query")
    add_results(parser, ("--from",), "read the results in this folder")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_target,
        action="append",
        default=[],
        help="write the rows; the suffix selects the format: .html, .csv, .json or .parquet (repeatable)",
    )
    add_json(parser, "the rows")
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.render.terminal.sweep import render_columns, render_tables
    from coremlscope.sweep.query import TABLES, query_results
    from coremlscope.sweep.rows import describe_columns
    from coremlscope.sweep.table import listed_columns, page_query

    if arguments.sql is None and arguments.output and not arguments.json:
        table = query_results(page_query(), arguments.results)
        _write_all(table, page_query(), arguments)
        return 0
    if arguments.sql is None:
        if arguments.json:
            raise UsageError("there is no query to print the rows of", "see `coremlscope query --help`")
        tables = [(name, text) for name, text, _ in TABLES]
        width, color = terminal_width(), has_color()
        print_result(render_tables(tables, describe_columns(), width=width, color=color))
        return 0
    table = query_results(arguments.sql, arguments.results)
    _write_all(table, arguments.sql, arguments)
    write_result(
        arguments,
        lambda: _json(table),
        lambda width, color: render_columns(listed_columns(table), width=width, color=color),
    )
    return 0


def _write_all(table: pa.Table, sql: str, arguments: argparse.Namespace) -> None:
    """Writes the rows of a query to each file of `-o`."""
    for path in arguments.output:
        _write(table, sql, path)
        if not arguments.quiet:
            print_note(f"wrote {path}")


def _write(table: pa.Table, sql: str, path: Path) -> None:
    from coremlscope.render.csv import render_columns
    from coremlscope.render.page import render_html_results
    from coremlscope.sweep.store import table_bytes
    from coremlscope.sweep.table import listed_columns, to_result_table
    from coremlscope.writing import write_file

    match path.suffix.lower():
        case ".html":
            write_file(path, render_html_results(to_result_table(table, sql)))
        case ".csv":
            write_file(path, render_columns(listed_columns(table)))
        case ".json":
            write_file(path, _json(table))
        case _:
            write_file(path, table_bytes(table))


def _json(table: pa.Table) -> str:
    import msgspec

    from coremlscope.sweep.table import listed_columns

    columns = listed_columns(table)
    rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    return msgspec.json.format(msgspec.json.encode(rows, enc_hook=str)).decode()


def _plain(value: object) -> object:
    """Returns a map of Arrow, which is a list of pairs, as a dictionary."""
    is_map = isinstance(value, list) and all(isinstance(one, tuple) and len(one) == 2 for one in value)
    return dict(cast("list[tuple[Any, Any]]", value)) if is_map else value


COMMAND = Command(
    name="query",
    doc="Run SQL over the results of sweeps.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
