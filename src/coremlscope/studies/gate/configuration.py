"""Limits in `pyproject.toml`, under `[tool.coremlscope]`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import read_file
from coremlscope.base.units import shown
from coremlscope.devices import find_device
from coremlscope.devices.unit import SETTINGS
from coremlscope.model.features.names import nearest
from coremlscope.planning.onnxruntime.case import FORMATS
from coremlscope.results.gate import FigureKind
from coremlscope.studies.gate.limits import (
    GateLimits,
    parse_bytes_limit,
    parse_decibels,
    parse_seconds,
    parse_share,
)

_FILE, _TOOL = "pyproject.toml", "coremlscope"
_TABLE = f"[tool.{_TOOL}]"


class Configuration(msgspec.Struct, frozen=True):
    """The models of a project with their limits.

    Attributes:
        models: Each model with its limits.
        strict: Whether an uncertain limit counts as not kept.
    """

    models: tuple[tuple[Path, GateLimits], ...]
    strict: bool


def find_configuration(folder: Path) -> Path | None:
    """Returns the nearest `pyproject.toml` in a folder or above it that has our table; None if none has."""
    for place in (folder, *folder.parents):
        path = place / _FILE
        if path.is_file() and _table(path) is not None:
            return path
    return None


def read_configuration(path: Path, given: Mapping[str, Any] | None = None) -> Configuration:
    """Reads the models and limits of a file; paths in it are relative to its folder.

    Args:
        path: The file.
        given: Limits that replace those of the file, with paths relative to the current folder.

    Raises:
        UsageError: The file cannot be read, has no such table, or an entry is wrong.
    """
    table = _table(path)
    if table is None:
        raise UsageError(f"{path} has no table {_TABLE}", f"add {_TABLE} with models and limits")
    try:
        return _configuration(table, path.parent, given or {})
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from error


def _configuration(table: Mapping[str, Any], folder: Path, given: Mapping[str, Any]) -> Configuration:
    common = {key: value for key, value in table.items() if key not in _OTHERS}
    strict, entries = (table.get(name, default) for name, default in _OTHERS.items())
    if not isinstance(strict, bool):
        raise UsageError(f"strict is not {shown(str(strict))!r}", "write strict = true or strict = false")
    if not isinstance(entries, list):
        raise UsageError("models is not an array of tables", _EXAMPLE)
    _limits_of_file(common, folder, _OTHERS)
    models = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise UsageError("each of the models needs a path", _EXAMPLE)
        own = {key: value for key, value in entry.items() if key != "path"}
        _limits_of_file(own, folder, ("path",))
        # Latencies and shapes are of a device or an input each, and do not replace those of others.
        both = {name: {**common[name], **own[name]} for name in own if isinstance(common.get(name), dict)}
        limits = _replaced(limits_of({**common, **own, **both}, folder), given)
        models += [(found, limits) for found in _found(folder, entry["path"])]
    return Configuration(tuple(models), strict)


def _limits_of_file(values: Mapping[str, Any], folder: Path, others: Collection[str]) -> None:
    """Checks limits of a file on their own.

    Args:
        values: The limits by name.
        folder: The folder of the file.
        others: Names beside limits that may be meant.

    Raises:
        UsageError: A name is unknown, a value is wrong, or a latency is a number without a unit.
    """
    limits_of(values, folder, others)
    latencies = values.get("max-latency", values.get("max_latency", {}))
    number = next((limit for limit in latencies.values() if not isinstance(limit, str)), None)
    if number is not None:
        raise UsageError(f"the latency {number} has no unit", f'write it as "{number}ms"')


def _replaced(limits: GateLimits, given: Mapping[str, Any]) -> GateLimits:
    """Returns limits with those that are given in place of others."""
    others = limits_of(given, Path())
    fields = {_READERS[name.replace("_", "-")][0] for name in given}
    return replace(limits, **{field: getattr(others, field) for field in fields})


#: Entries of the table that are no limits, and what they are if they are absent.
_OTHERS: Mapping[str, Any] = {"strict": False, "models": []}
_EXAMPLE = 'write [[tool.coremlscope.models]] with path = "model.mlpackage" and limits'


def _table(path: Path) -> Mapping[str, Any] | None:
    try:
        content = tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "correct the file") from error
    tool = content.get("tool", {})
    table = tool.get(_TOOL) if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _found(folder: Path, pattern: str) -> list[Path]:
    """Returns the models that a path or a pattern names; a path that does not exist is reported later."""
    if not any(sign in pattern for sign in "*?["):
        return [folder / pattern]
    if Path(pattern).is_absolute():
        raise UsageError(f"the pattern {shown(pattern)!r} is absolute", f"write it relative to {folder}")
    try:
        found = sorted(folder.glob(pattern))
    except ValueError as error:
        raise UsageError(f"{shown(pattern)!r} is not a pattern: {error}", "correct the path") from error
    if not found:
        raise UsageError(f"no model matches {shown(pattern)!r} in {folder}", "correct the path")
    return found


def limits_of(values: Mapping[str, Any], folder: Path, others: Collection[str] = ()) -> GateLimits:
    """Returns limits from named values as they are written.

    Args:
        values: By the names of the options: `max-latency`, `min-neural-engine`, ….
        folder: The folder to which paths are relative.
        others: Names beside limits that an unknown one may mean.

    Raises:
        UsageError: A name is unknown, or a value is wrong.
    """
    read: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in _READERS:
            near = nearest(name, [*_READERS, *others])
            known = ", ".join(_READERS)
            raise UsageError(
                f"unknown limit {shown(key)!r}",
                f"did you mean {near}?" if near else f"the limits are {known}",
            )
        field, reader = _READERS[name]
        if field in read:
            raise UsageError(f"the limit {name} is given twice", "leave one of the two out")
        read[field] = reader(value)
    for field in ("reference", "baseline"):
        if read.get(field):
            read[field] = str(folder / read[field])
    return GateLimits(**read)


def _latencies(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise UsageError(
            "a limit of latency belongs to a device", 'write it as iphone-13=33ms, or {"iphone-13" = "33ms"}'
        )
    named = Counter(find_device(str(device)).name for device in value)
    device, count = named.most_common(1)[0]
    if count > 1:
        raise UsageError(f"{device} has {count} limits of latency", "leave one of them")
    return {str(device): parse_seconds(limit) for device, limit in value.items()}


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{shown(repr(value))} is not text", "write some in quotation marks")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{shown(str(value))} is not true or false", "write it without quotation marks")
    return value


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{shown(repr(value))} is not a list of names", 'write it as ["iphone-13", "m1"]')
    return tuple(names)


def _figures(value: object) -> tuple[FigureKind, ...]:
    known: tuple[FigureKind, ...] = get_args(FigureKind)
    names = [name for listed in _names(value) for name in listed.split(",")]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{shown(unknown)!r} is not a figure", f"use some of {', '.join(known)}")
    return tuple(kind for kind in known if kind in names)


def _shapes(value: object) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(shape, (list, tuple)) and all(isinstance(size, int) for size in shape)
        for shape in value.values()
    ):
        raise UsageError("shapes are lists of sizes by input", "write them as {x = [1, 3, 224, 224]}")
    return {str(name): tuple(shape) for name, shape in value.items()}


def _one_of(name: str, *words: str) -> Callable[[object], str]:
    """Returns what reads one of some words."""

    def read(value: object) -> str:
        if value in words:
            return str(value)
        raise UsageError(f"invalid {name} {shown(str(value))!r}", f"use one of {', '.join(words)}")

    return read


#: The field of each limit, and what reads its value.
_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "max-latency": ("latency_s", _latencies),
    "min-neural-engine": ("neural_engine", parse_share),
    "no-known-crash": ("no_known_crash", _truth),
    "max-size": ("size_bytes", parse_bytes_limit),
    "max-memory": ("memory_bytes", parse_bytes_limit),
    "min-psnr": ("psnr_db", parse_decibels),
    "reference": ("reference", _text),
    "baseline": ("baseline", _text),
    "tolerance": ("tolerance", parse_share),
    "device": ("devices", _names),
    "os": ("os", _text),
    "compute-units": ("compute_units", _one_of("compute units", *SETTINGS)),
    "shape": ("shapes", _shapes),
    "function": ("functions", _names),
    "only": ("only", _figures),
    "format": ("format", _one_of("format", *FORMATS)),
    "ort": ("ort", _text),
}
