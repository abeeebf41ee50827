"""The tables of a folder of results: a Parquet file for each origin, and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Origin
from coremlscope.base.writing import write_file
from coremlscope.results.sweep import ColumnQuantity, ResultColumn, ResultTable
from coremlscope.studies.sweep.rows import column_meanings
from coremlscope.studies.sweep.store import ResultStore, table_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_OF_ALL = (
    *("key", "model", "content", "function", "shapes", "variant", "labels", "numbers", "kind", "parameters"),
    *("operations", "flops", "weights_bytes", "size_bytes", "device", "chip", "os", "compute_units"),
    *("made_at", "version", "host"),
)
_UNITS = ("neural_engine", "gpu", "cpu")
#: The Parquet files, each with the columns that it has besides those of all.
TABLES: Mapping[str, tuple[str, ...]] = {
    "estimates": (
        *("estimated_s", "estimated_low_s", "estimated_high_s", "basis", "bound"),
        *(f"{unit}_share" for unit in _UNITS),
        *("switches", "memory_bytes", "left_out"),
    ),
    "plans": ("planned_ms", *(f"{unit}_operations" for unit in _UNITS)),
    "times": (
        *("measured_s", "measured_mean_s", "measured_p95_s", "measured_low_s", "measured_high_s"),
        *("compile_s", "load_s", "iterations", "threads", "peak_bytes", "runtime", "is_partial"),
    ),
}
PAGE = "results.html"
#: Columns that pages leave out.
_HIDDEN = ("key", "content", "failure", "hint", "exit_code", "labelled_at", "work_s")
#: Columns of pages of very many results.
_FEW = (
    *("model", "function", "shapes", "variant", "device", "os", "compute_units", "labels", "numbers"),
    *("parameters", "flops", "size_bytes", "measured_s", "estimated_s", "estimated_low_s"),
    *("estimated_high_s", "basis", "made_at", "report"),
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


def write_tables(store: ResultStore) -> None:
    """Writes the results of a folder as one file for each table, and as a page if it can show them.

    Raises:
        UsageError: A file is damaged.
        OutputError: A file cannot be written.
    """
    import pyarrow.compute as pc

    results = _without_failures(store.table())
    measured = pc.equal(results["origin"], "measured")
    for name, columns in TABLES.items():
        rows = results.filter(measured if name == "times" else pc.invert(measured))
        write_file(store.folder / f"{name}.parquet", table_bytes(rows.select([*_OF_ALL, *columns])))
    try:
        shown = to_result_table(by_time(results))
    except UsageError:  # there are none, or too many
        return
    shown.write(store.folder / PAGE)


def by_time(table: pa.Table) -> pa.Table:
    """Returns rows in the order of a page: the fastest first."""
    return table.sort_by([(name, "ascending") for name in ("estimated_s", "measured_s", "key")])


def _without_failures(table: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["failure"], ""))


def to_result_table(table: pa.Table) -> ResultTable:
    """Converts results for a page; of very many, only what matters most is shown.

    Args:
        table: The rows of a folder; failures are left out.

    Raises:
        UsageError: There are no results, or more than a page can show.
    """
    table = _without_failures(table)
    if not table.num_rows:
        raise UsageError("there are no results to show", "`coremlscope sweep` lists what failed")
    names = [name for name in table.column_names if name not in _HIDDEN]
    if table.num_rows * len(names) > _MOST_VALUES:
        names = [name for name in names if name in _FEW]
    if table.num_rows * len(names) > _MOST_VALUES:
        raise UsageError(
            f"a page shows at most {_MOST_VALUES} values, and these are {table.num_rows} results",
            f"read the tables instead: {', '.join(f'{name}.parquet' for name in TABLES)}",
        )
    meanings = column_meanings()
    columns = tuple(
        _column(name, values, meanings.get(name, ""))
        for given in names
        for name, values in _without_maps(given, table[given].to_pylist())
        if any(value not in (None, "", []) for value in values)
    )
    return ResultTable(rows=table.num_rows, columns=columns)


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
    return value  # type: ignore[no-any-return]


def _quantity(name: str, values: Sequence[float | str | None]) -> ColumnQuantity:
    """Returns the quantity of numbers, by the name of their column: `estimated_s`, `ms`."""
    if not name.startswith("numbers."):
        for ending, quantity in _ENDINGS:
            if name.endswith(ending) or name == ending[1:]:
                return quantity
        if all(value is None or isinstance(value, int) for value in values):
            return "count"
    return "number"
