"""Results requested of the models of a sweep, and the files that list models with them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import read_file
from coremlscope.base.units import parse_bytes
from coremlscope.devices import ComputeUnits, expand_names
from coremlscope.devices.unit import choose_settings
from coremlscope.model.features.names import nearest
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.studies.sweep.jobs import Measuring

#: The name for all functions of a model.
EVERY = "every"
_EXAMPLE = 'write [[models]] with path = "*.mlpackage", and options above'


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The results requested of each model.

    Attributes:
        devices: Chips or devices to plan and estimate for.
        os: The version of their systems; None for the newest known one of each.
        compute_units: The settings.
        measuring: How each model is measured; None for no measurements.
        functions: The functions; an empty name for the default one, `every` for all.
        shapes: Sets of shapes of flexible inputs.
        variants: Transforms; an empty name for the model as it is.
        labels: Texts that are attached to results.
        numbers: Numbers that are attached to results.
    """

    devices: tuple[str, ...] = ()
    os: str | None = None
    compute_units: tuple[ComputeUnits, ...] = ("all",)
    measuring: Measuring | None = None
    functions: tuple[str, ...] = ("",)
    shapes: tuple[Mapping[str, tuple[int, ...]], ...] = (MappingProxyType({}),)
    variants: tuple[str, ...] = ("",)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    numbers: Mapping[str, float] = msgspec.field(default_factory=dict)


def read_zoo(path: Path, given: Wanted) -> Iterator[tuple[str, Wanted]]:
    """Yields the sources of a file and the results wanted of each; relative paths begin at its folder.

    Args:
        path: A TOML file: options, and tables `[[models]]` with a `path` and options of their own.
        given: What is wanted where the file does not say.

    Raises:
        UsageError: The file cannot be read, or an entry is wrong.
    """
    try:
        content = tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "check the path") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "correct the file") from None
    models = content.pop("models", [])
    if not isinstance(models, list) or not models:
        raise UsageError(f"{path} lists no models", _EXAMPLE)
    try:
        common = _with_options(given, content)
        for entry in models:
            if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
                raise UsageError("each of the models needs a path", _EXAMPLE)
            own = {key: value for key, value in entry.items() if key != "path"}
            yield str(path.parent / entry["path"]), _with_options(common, own)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None


def _with_options(known: Wanted, options: Mapping[str, Any]) -> Wanted:
    """Returns what is wanted with options of a file."""
    changes: dict[str, Any] = {}
    measuring: dict[str, Any] = {}
    for name, value in options.items():
        if name in _MEASURING:
            field_name, read = _MEASURING[name]
            measuring[field_name] = read(name, value)
        elif name in _OPTIONS:
            changes |= _OPTIONS[name](name, value, known)
        elif name != "measure":
            close = nearest(name, [*_OPTIONS, *_MEASURING, "measure"])
            raise UsageError(
                f"unknown option {name!r}",
                f"did you mean {close}?"
                if close
                else f"the options are {', '.join([*_OPTIONS, *_MEASURING])}",
            )
    is_measured = options.get("measure", known.measuring is not None)
    if not isinstance(is_measured, bool):
        raise UsageError("measure must be true or false")
    if is_measured:
        changes["measuring"] = msgspec.structs.replace(known.measuring or Measuring(), **measuring)
    else:
        changes["measuring"] = None
    return msgspec.structs.replace(known, **changes)


def _texts(name: str, value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name} must be a text or a list of texts", f'write {name} = ["…"]')
    return tuple(dict.fromkeys(cast("list[str]", found)))


def _devices(name: str, value: object, known: Wanted) -> dict[str, Any]:
    return {"devices": expand_names(_texts(name, value))}


def _system(name: str, value: object, known: Wanted) -> dict[str, Any]:
    return {"os": " ".join(_texts(name, value)) or None}


def _units(name: str, value: object, known: Wanted) -> dict[str, Any]:
    texts = _texts(name, value)
    return {"compute_units": choose_settings("every" if EVERY in texts else cast("Any", texts))}


def _functions(name: str, value: object, known: Wanted) -> dict[str, Any]:
    return {"functions": _texts(name, value)}


def _variants(name: str, value: object, known: Wanted) -> dict[str, Any]:
    texts = _texts(name, value)
    for text in filter(None, texts):
        parse_transform(text)
    return {"variants": texts}


def _shapes(name: str, value: object, known: Wanted) -> dict[str, Any]:
    sets = [value] if isinstance(value, dict) else value
    if not isinstance(sets, list) or not all(isinstance(one, dict) for one in sets):
        raise UsageError(f"{name} must be tables of shapes", f"write {name} = [{{ x = [1, 3, 8, 8] }}]")
    return {"shapes": tuple({key: _shape(key, shape) for key, shape in one.items()} for one in sets)}


def _shape(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(size) is int and size > 0 for size in value):
        raise UsageError(f"the shape of {name} must be a list of positive numbers", "write [1, 3, 8, 8]")
    return tuple(value)


def _labels(name: str, value: object, known: Wanted) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError("labels must be a table", 'write labels = { family = "vit", accuracy = 81.2 }')
    labels, numbers = dict(known.labels), dict(known.numbers)
    for key, one in value.items():
        if isinstance(one, str):
            labels[key] = one
        elif isinstance(one, (int, float)) and not isinstance(one, bool):
            numbers[key] = float(one)
        else:
            raise UsageError(f"the label {key!r} must be a text or a number")
    return {"labels": labels, "numbers": numbers}


_OPTIONS: Mapping[str, Callable[[str, object, Wanted], dict[str, Any]]] = {
    "devices": _devices,
    "os": _system,
    "compute-units": _units,
    "functions": _functions,
    "shapes": _shapes,
    "variants": _variants,
    "labels": _labels,
}


def _count(name: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise UsageError(f"{name} must be a whole number of at least 0")
    return value


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        raise UsageError(f"{name} must be a positive number of seconds")
    return float(value)


def _bytes(name: str, value: object) -> int:
    size = parse_bytes(value) if isinstance(value, str) else None
    if not size:
        raise UsageError(f"{name} must be a size", f'write {name} = "4GB"')
    return size


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false")
    return value


#: Options of measuring: the field, and what reads a value.
_MEASURING: Mapping[str, tuple[str, Callable[[str, object], Any]]] = {
    "iterations": ("iterations", _count),
    "threads": ("threads", _count),
    "cores": ("cores", _count),
    "seed": ("seed", _count),
    "random-weights": ("random_weights", _flag),
    "timeout": ("timeout_s", _seconds),
    "memory": ("memory_bytes", _bytes),
}
