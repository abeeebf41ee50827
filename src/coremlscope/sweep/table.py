"""Rows of queries as tables with descriptions of columns, for pages."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.errors import UsageError
from coremlscope.figures import Origin
from coremlscope.results.sweep import ColumnQuantity, ResultColumn, ResultTable
from coremlscope.sweep.rows import describe_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["listed_columns", "page_query", "to_result_table"]

_ALL = "* EXCLUDE (key, content, failure, hint, exit_code, labelled_at, work_s)"
#: Columns shown of very many results.
_FEW = (
    "model, function, shapes, variant, device, os, compute_units, labels, numbers, parameters, flops,"
    " size_bytes, measured_s, estimated_s, estimated_low_s, estimated_high_s, basis, made_at"
)
#: Values that a page may hold; a browser needs some seconds for them.
_MOST_VALUES = 1_000_000

#: Columns of a known origin whose names do not begin with it.
_ORIGINS: dict[str, Origin] = {
    **dict.fromkeys(("compile_s", "load_s", "iterations", "threads", "peak_bytes"), "measured"),
    **dict.fromkeys(("memory_bytes", "switches"), "estimated"),
    **dict.fromkeys(("neural_engine_share", "gpu_share", "cpu_share"), "estimated"),
    **dict.fromkeys(("neural_engine_operations", "gpu_operations", "cpu_operations"), "planned"),
    **dict.fromkeys(("parameters", "operations", "flops", "weights_bytes", "size_bytes"), "declared"),
}
_PREFIXES: dict[str, Origin] = {"measured_": "measured", "estimated_": "estimated", "planned_": "planned"}
_ENDINGS: tuple[tuple[str, ColumnQuantity], ...] = (
    ("_s", "seconds"),
    ("_ms", "milliseconds"),
    ("_bytes", "bytes"),
    ("_share", "share"),
)


def page_query(rows: int = 0, *, order: str = "estimated_s, measured_s, key") -> str:
    """Returns the query of a page for which there is none: all columns that describe results.

    Args:
        rows: About how many results there are; of very many, only what matters most is shown.
        order: The order of the rows.
    """
    columns = _ALL if rows * len(describe_columns()) <= _MOST_VALUES else _FEW
    return f"SELECT {columns} FROM results ORDER BY {order}"


def listed_columns(table: pa.Table) -> dict[str, list[Any]]:
    """Returns the values by column; columns of one name are numbered."""
    found: dict[str, list[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        found[name if name not in found else f"{name}_{len(found)}"] = column.to_pylist()
    return found


def to_result_table(table: pa.Table, sql: str) -> ResultTable:
    """Converts the rows of a query for a page.

    Args:
        table: The rows.
        sql: The query.

    Raises:
        UsageError: There are no rows, or more than a page can show.
    """
    if not table.num_rows:
        raise UsageError("the query found no rows to show", "try it without -o, or see `coremlscope query`")
    if table.num_rows * table.num_columns > _MOST_VALUES:
        raise UsageError(
            f"the query found {table.num_rows} rows of {table.num_columns} columns; a page shows at most"
            f" {_MOST_VALUES} values",
            "name the columns that you need instead of *, or add a condition (WHERE …) or LIMIT",
        )
    meanings = {name: meaning for name, _, meaning in describe_columns()}
    columns = tuple(
        _column(name, values, meanings.get(name, ""))
        for given, listed in listed_columns(table).items()
        for name, values in _without_maps(given, listed)
        if any(value not in (None, "", []) for value in values)
    )
    return ResultTable(sql=sql, rows=table.num_rows, columns=columns)


def _without_maps(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yields a column, or the columns of a map: one for each of its keys."""
    known = [value for value in values if value]
    if not known or not all(isinstance(value, list) and all(map(_is_pair, value)) for value in known):
        yield name, values
        return
    maps = [dict(value or ()) for value in values]
    for key in dict.fromkeys(key for one in maps for key in one):
        yield f"{name}.{key}", [one.get(key) for one in maps]


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _column(name: str, values: Sequence[Any], meaning: str) -> ResultColumn:
    converted = tuple(map(_value, values))
    if any(isinstance(value, str) for value in converted):
        texts = tuple(None if value is None else str(value) for value in converted)
        return ResultColumn(name=name, meaning=meaning, quantity="text", origin=None, values=texts)
    is_known = bool(meaning) or name.startswith(tuple(_PREFIXES))
    origin = next((one for prefix, one in _PREFIXES.items() if name.startswith(prefix)), _ORIGINS.get(name))
    return ResultColumn(
        name=name,
        meaning=meaning,
        quantity=_quantity(name, converted),
        origin=origin if is_known else None,
        values=converted,
    )


def _value(value: Any) -> str | float | None:
    """Returns a value of Arrow as a number or a text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _quantity(name: str, values: Sequence[float | str | None]) -> ColumnQuantity:
    """Returns the quantity of numbers, by the name of their column: `estimated_s`, `ms`."""
    if not name.startswith("numbers."):
        for ending, quantity in _ENDINGS:
            if name.endswith(ending) or name == ending[1:]:
                return quantity
        if all(value is None or isinstance(value, int) for value in values):
            return "count"
    return "number"
