"""Limits in `pyproject.toml`, under `[tool.coremlscope]`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coremlscope.devices.unit import choose_settings
from coremlscope.errors import UsageError
from coremlscope.features.names import nearest
from coremlscope.gate.limits import GateLimits, parse_bytes_limit, parse_decibels, parse_seconds, parse_share

__all__ = ["Configuration", "find_configuration", "limits_of", "read_configuration"]

_FILE, _TOOL = "pyproject.toml", "coremlscope"
_TABLE = f"[tool.{_TOOL}]"


@dataclass(frozen=True, slots=True)
class Configuration:
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
    common = {key: value for key, value in table.items() if key not in ("models", "strict")}
    strict = table.get("strict", False)
    entries = table.get("models", [])
    if not isinstance(strict, bool) or not isinstance(entries, list):
        raise UsageError(f"{path}: strict is a boolean, and models is an array of tables", _EXAMPLE)
    models = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise UsageError(f"{path}: each of the models needs a path", _EXAMPLE)
        own = {key: value for key, value in entry.items() if key != "path"}
        limits = _replaced(limits_of({**common, **own}, path.parent), given or {})
        models += [(found, limits) for found in _found(path.parent, entry["path"])]
    return Configuration(tuple(models), strict)


def _replaced(limits: GateLimits, given: Mapping[str, Any]) -> GateLimits:
    """Returns limits with those that are given in place of others."""
    others = limits_of(given, Path())
    fields = {_READERS[name.replace("_", "-")][0] for name in given}
    return replace(limits, **{field: getattr(others, field) for field in fields})


_EXAMPLE = 'write [[tool.coremlscope.models]] with path = "model.mlpackage" and limits'


def _table(path: Path) -> Mapping[str, Any] | None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "correct the file") from error
    tool = content.get("tool", {})
    table = tool.get(_TOOL) if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _found(folder: Path, pattern: str) -> list[Path]:
    """Returns the models that a path or a pattern names; a path that does not exist is reported later."""
    if not any(sign in pattern for sign in "*?["):
        return [folder / pattern]
    found = sorted(folder.glob(pattern))
    if not found:
        raise UsageError(f"no model matches {pattern!r} in {folder}", "correct the path")
    return found


def limits_of(values: Mapping[str, Any], folder: Path) -> GateLimits:
    """Returns limits from named values as they are written.

    Args:
        values: By the names of the options: `max-latency`, `min-neural-engine`, ….
        folder: The folder to which paths are relative.

    Raises:
        UsageError: A name is unknown, or a value is wrong.
    """
    read: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in _READERS:
            near = nearest(name, _READERS)
            known = ", ".join(_READERS)
            raise UsageError(
                f"unknown limit {key!r}", f"did you mean {near}?" if near else f"the limits are {known}"
            )
        field, reader = _READERS[name]
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
    return {str(device): parse_seconds(limit) for device, limit in value.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{value!r} is not a path", "write it in quotation marks")
    return value


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise UsageError("devices are names", 'write them as ["iphone-13", "m1"]')
    return tuple(names)


def _shapes(value: object) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(shape, (list, tuple)) for shape in value.values()
    ):
        raise UsageError("shapes are lists of sizes by input", "write them as {x = [1, 3, 224, 224]}")
    return {str(name): tuple(int(size) for size in shape) for name, shape in value.items()}


#: The field of each limit, and what reads its value.
_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "max-latency": ("latency_s", _latencies),
    "min-neural-engine": ("neural_engine", parse_share),
    "max-size": ("size_bytes", parse_bytes_limit),
    "max-memory": ("memory_bytes", parse_bytes_limit),
    "min-psnr": ("psnr_db", parse_decibels),
    "reference": ("reference", _text),
    "baseline": ("baseline", _text),
    "tolerance": ("tolerance", parse_share),
    "device": ("devices", _names),
    "os": ("os", _text),
    "compute-units": ("compute_units", lambda value: choose_settings(value)[0]),
    "shape": ("shapes", _shapes),
}
