"""Imports the JSON of macmon (`macmon pipe`) and mactop (`mactop --headless --format json`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.formats.recordings.monitors import are_readings, read_samples
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.phases import imported_energy
from coremlscope.interop.source import SourceFile

_HINT = "record it again: `macmon pipe -s 20 -i 500 > power.jsonl`"


def matches(source: SourceFile) -> bool:
    """By the keys of the first sample."""
    if source.has_lines_of_json:
        return are_readings(_decoded(source.head.splitlines()[0]))
    if not source.looks_like_json:
        return False
    data = source.json
    return are_readings(data[0] if isinstance(data, list) and data else data)


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file; lines that are truncated are counted and left out.

    Raises:
        UsageError: No line can be read.
    """
    if source.has_lines_of_json:
        readings = read_samples(_lines(source.content))
    else:
        data = source.json
        readings = read_samples(data if isinstance(data, list) else [data])
    if not readings.listed:
        raise UsageError(f"{source.path} has no reading of power", _HINT)
    return imported_energy(origin, readings)


def _lines(content: bytes) -> Iterator[Any]:
    for line in content.splitlines():
        if line.strip():
            yield _decoded(line)


def _decoded(line: bytes) -> Any:
    """The value of a line; None if it is not valid JSON."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
