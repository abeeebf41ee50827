"""The request to the runner: `Payload/request.json` and the models beside it.

`sources/Request.swift` reads it.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from coremlscope.base.errors import (
    EngineError,
    MissingWeightsError,
    OutputError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.units import shown
from coremlscope.base.version import __version__
from coremlscope.base.writing import write_draft
from coremlscope.describe.loading import check_weights
from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.measure.coreml.files import readable_by_core_ml
from coremlscope.model.features import dummy_values
from coremlscope.model.features.limits import index_limits
from coremlscope.model.ir import (
    ArrayFeature,
    Feature,
    Function,
    FunctionDescription,
    ImageFeature,
    Model,
)
from coremlscope.results.runner_record import model_name
from coremlscope.runtime.execution.wiring import input_functions, interface_of

_SCHEMA = "coremlscope.runner-request/1"
#: The name that means all functions of a model.
EVERY_FUNCTION = "every"
#: `current` is the mode in which the device is; `both` waits until the user has changed it.
PowerMode = Literal["current", "normal", "low power", "both"]
POWER_MODES: Mapping[PowerMode, tuple[str, ...]] = {
    "current": (),
    "normal": ("normal",),
    "low power": ("low power",),
    "both": ("normal", "low power"),
}


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Measurement settings for every model.

    Attributes:
        compute_units: The settings of compute units.
        function: The function; empty for the default one, `every` for all.
        power_mode: The power modes.
        power_wait_s: Seconds until a mode that the user does not set is given up.
        iterations: Timed predictions of each kind.
        warmups: Predictions before them.
        compiles: Timed compilations of each model.
        loads: Timed loads after the first.
        in_flight: Predictions that are in flight at the same time when throughput is measured; 1 for none.
        seed: Seed of synthetic inputs.
        shapes: Shapes of inputs that differ from the defaults, by name.
    """

    compute_units: tuple[ComputeUnits, ...] = tuple(SETTINGS)
    function: str = ""
    power_mode: PowerMode = "current"
    power_wait_s: float = 600.0
    iterations: int = 50
    warmups: int = 5
    compiles: int = 3
    loads: int = 5
    in_flight: int = 4
    seed: int = 0
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)


def write_payload(folder: Path, models: Sequence[Model], settings: RunnerSettings) -> str:
    """Writes the request and copies the models next to it.

    Args:
        folder: The folder `Payload`, which does not exist yet.
        models: The models, each from a file.
        settings: What is measured.

    Returns:
        The id of the request.

    Raises:
        EngineError: A model is only in memory.
        InputError: A shape is not allowed.
        UnsupportedModelError: A model is one of Core AI.
        ModelError: Weights are missing, truncated or of another model.
        UsageError: A model has no such function, or no model is given.
        OutputError: The folder cannot be written.
    """
    if not models:
        raise UsageError("no model is named", "name the models to measure")
    for model in models:
        if model.content.is_core_ai:
            raise UnsupportedModelError(
                f"the runner measures Core ML, and {model.source or 'a model'} is a Core AI model",
                "give the Core ML model of the same program",
            )
        _check_weights(model)
    named = list(zip(names_of(models), models, strict=True))
    entries = [_entry(number, name, model, settings) for number, (name, model) in enumerate(named)]
    try:
        for entry, model in zip(entries, models, strict=True):
            _copy(model, folder, entry)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written: {error.strerror or error}", "choose another folder"
        ) from error
    id_ = secrets.token_hex(8)
    write_draft(folder / "request.json", json.dumps(_request(id_, entries, settings), indent=1))
    return id_


def _check_weights(model: Model) -> None:
    absent = [shown(file.name) for file in model.weight_files if file.size is None]
    if absent:
        raise MissingWeightsError(
            f"no device can load {model.source or 'a model'}: {', '.join(absent)} is missing",
            "copy the whole package; with Git LFS run `git lfs pull`",
        )
    check_weights(model)


def names_of(models: Sequence[Model]) -> list[str]:
    """Returns the names of models in results: those of their files, with numbers where they are equal."""
    found: list[str] = []
    for model in models:
        stem = model_name(model.source)
        number, name = 2, stem
        while name in found:
            number, name = number + 1, f"{stem}-{number}"
        found.append(name)
    return found


def _entry(number: int, name: str, model: Model, settings: RunnerSettings) -> dict[str, Any]:
    """A model in the request; its file lies in a folder of its own, whose name is the number."""
    if model.source is None:
        raise EngineError("the runner measures models from files, and this one is in memory", "give its path")
    functions = _functions(model, settings.function)
    inputs = _inputs(model, functions[0], settings)
    return {"name": name, "path": str(number), "functions": functions, "inputs": inputs}


def _copy(model: Model, folder: Path, entry: dict[str, Any]) -> None:
    """Copies a model to its place, and completes the path of its entry; archives are unpacked."""
    target = folder / entry["path"]
    target.mkdir(parents=True)
    with scratch_folder() as unpacked:
        source = readable_by_core_ml(model.source, Path(unpacked))
        copied = target / source.name
        if source.is_dir():
            shutil.copytree(source, copied)
        else:
            shutil.copyfile(source, copied)
    entry["path"] = copied.relative_to(folder).as_posix()


def _functions(model: Model, wanted: str) -> list[str]:
    """The functions to measure; a model with a single one is asked for no function by name."""
    known = list(model.description.functions)
    if wanted == EVERY_FUNCTION:
        return known if len(known) > 1 else [""]
    chosen, *_ = _described(model, wanted)
    return [chosen if len(known) > 1 and wanted else ""]


def _described(model: Model, function: str) -> tuple[str, FunctionDescription, list[Function]]:
    """The name and the interface of a function, and what takes its inputs.

    Nothing is known to take the inputs of a model that only Apple's runtime can run, such as a text
    classifier; Core ML's own description says what they are.
    """
    try:
        name, interface = interface_of(model, function or None)
        return name, interface, input_functions(model, function or None)
    except UnsupportedModelError:
        return model.description.default, model.description.main, []


def _inputs(model: Model, function: str, settings: RunnerSettings) -> dict[str, dict[str, Any]]:
    """Returns facts about inputs beyond Core ML's description: shapes, sizes of indexed tables, words."""
    _, interface, bodies = _described(model, function)
    limits = {name: limit for body in bodies for name, limit in index_limits(body).items()}
    values = dummy_values(interface, *bodies, seed=settings.seed, shapes=settings.shapes)
    known: dict[str, dict[str, Any]] = {}
    for feature in interface.inputs:
        found = _value(values.get(feature.name))
        if feature.name in limits:
            found["limit"] = limits[feature.name]
        if _needs_shape(feature, settings):
            found["shape"] = _shape(values[feature.name])
        if found:
            known[feature.name] = found
    return known


def _needs_shape(feature: Feature, settings: RunnerSettings) -> bool:
    """Whether the shape of an input is part of the request: that of an image only where it was asked for."""
    if isinstance(feature.type, ImageFeature):
        return feature.name in settings.shapes
    return isinstance(feature.type, ArrayFeature)


def _shape(value: Any) -> list[int]:
    """The shape of an array; height and width of an image."""
    return list(value.shape) if isinstance(value, np.ndarray) else [value.height, value.width]


def _value(value: Any) -> dict[str, Any]:
    """The value of an input that is neither an array nor an image nor a number."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, dict):
        return {"dictionary": {str(key): float(number) for key, number in value.items()}}
    if isinstance(value, list):
        return {"strings" if value and isinstance(value[0], str) else "integers": value}
    return {}


def _request(id_: str, entries: Sequence[Mapping[str, Any]], settings: RunnerSettings) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "id": id_,
        "version": __version__,
        "models": entries,
        "compute_units": settings.compute_units,
        "power_modes": POWER_MODES[settings.power_mode],
        "power_wait_s": settings.power_wait_s,
        "compiles": settings.compiles,
        "loads": settings.loads,
        "warmups": settings.warmups,
        "iterations": settings.iterations,
        "in_flight": settings.in_flight,
        "seed": settings.seed,
    }
