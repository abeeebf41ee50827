"""Reads tables of measured predictions: text with a line for each, and the names of columns above."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import read_file
from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.interop.units import setting_of, unit_of

_LARGEST_BYTES = 16 * 1024 * 1024
_MOST_ROWS = 10_000
#: Accepted names of columns, the usual one first.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "network", "file"),
    "device": ("chip", "device"),
    "unit": ("unit", "compute_units", "units"),
    "ms": ("milliseconds", "ms", "latency_ms", "median_ms"),
    "os": ("os", "system"),
    "function": ("function",),
    "samples": ("predictions", "samples", "iterations"),
}
_REQUIRED = ("unit", "ms")
_HINT = "the first line names the columns: model, chip, unit, milliseconds"
#: A prediction takes longer than the shortest call, and less than an hour.
_SHORTEST_MS, _LONGEST_MS = 1e-3, 3.6e6


class SheetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table.

    Attributes:
        line: Its number in the file, from 1.
        model: The path of the model as written; empty where it is left out.
        device: The device or chip; empty where it is left out.
        unit: The compute unit, where the line names one; else None.
        setting: The setting of compute units, where the line names one; else None.
        seconds: The time of a prediction.
        os: The system; may be empty.
        function: The function; empty for the default one.
        samples: Number of timed predictions; 0 if it is unknown.
    """

    line: int
    model: str = ""
    device: str = ""
    unit: ComputeUnit | None = None
    setting: ComputeUnits | None = None
    seconds: float
    os: str = ""
    function: str = ""
    samples: int = 0


def read_sheet(path: Path) -> list[SheetRow]:
    """Reads a table whose columns are separated by commas, semicolons or tabs.

    Raises:
        UsageError: The file cannot be read, or a line is not a measurement.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{path} is too large for a table of measurements", _HINT)
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a table: it is not text in UTF-8", _HINT) from None
    if "\0" in text:
        raise UsageError(f"{path} is not a table: it contains zero bytes", _HINT)
    lines = text.splitlines()
    head = next((line for line in lines if line.strip()), "")
    separator = max(",;\t", key=head.count)
    try:
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error as error:
        raise UsageError(f"{path} is not a valid table: {error}", _HINT) from None
    return _rows(path, rows)


def _rows(path: Path, rows: list[list[str]]) -> list[SheetRow]:
    numbered = [(line, row) for line, row in enumerate(rows, 1) if any(cell.strip() for cell in row)]
    if not numbered:
        raise UsageError(f"{path} is empty", _HINT)
    columns = _columns(path, numbered[0][1])
    found = [_row(path, line, row, columns) for line, row in numbered[1:] if not row[0].startswith("#")]
    if not found:
        raise UsageError(f"{path} has no line below the names of its columns", _HINT)
    if len(found) > _MOST_ROWS:
        raise UsageError(f"{path} has {len(found)} lines, more than {_MOST_ROWS}", "split it")
    return found


def _columns(path: Path, head: list[str]) -> dict[str, int]:
    """The place of each column that is known, by what it holds."""
    names = [name.strip().casefold().replace(" ", "_") for name in head]
    columns = {
        what: next(names.index(name) for name in known if name in names)
        for what, known in _NAMES.items()
        if any(name in names for name in known)
    }
    missing = [_NAMES[what][0] for what in _REQUIRED if what not in columns]
    if missing:
        raise UsageError(f"{path} has no column {' and no column '.join(missing)}", _HINT)
    return columns


def _row(path: Path, line: int, row: list[str], columns: Mapping[str, int]) -> SheetRow:
    def cell(what: str) -> str:
        place = columns.get(what)
        return row[place].strip() if place is not None and place < len(row) else ""

    reported = cell("unit")
    unit, setting = unit_of(reported), setting_of(reported)
    if unit is None and setting is None:
        raise UsageError(
            f"{path}, line {line}: {reported!r} is no compute unit",
            "write cpu, gpu, neural_engine, or a setting: all, cpu_and_ne, cpu_and_gpu, cpu_only",
        )
    samples = cell("samples")
    return SheetRow(
        line=line,
        model=cell("model"),
        device=cell("device"),
        unit=None if setting else unit,
        setting=setting,
        seconds=_milliseconds(path, line, cell("ms")) * 1e-3,
        os=cell("os"),
        function=cell("function"),
        samples=int(samples) if samples.isdecimal() and len(samples) < 10 else 0,
    )


def _milliseconds(path: Path, line: int, reported: str) -> float:
    try:
        value = float(reported)
    except ValueError:
        raise UsageError(f"{path}, line {line}: {reported!r} is no number of milliseconds", _HINT) from None
    if not math.isfinite(value) or not _SHORTEST_MS <= value <= _LONGEST_MS:
        raise UsageError(
            f"{path}, line {line}: a prediction cannot take {reported} milliseconds", "check the unit of time"
        )
    return value
