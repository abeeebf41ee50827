"""Checks what would keep a model from loading or running, in Core ML and here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from coremlscope.base.errors import (
    CoremlscopeError,
    MissingWeightsError,
    ModelError,
    UnsupportedOpError,
    UsageError,
)
from coremlscope.base.escaping import path_text
from coremlscope.base.units import shown
from coremlscope.describe.loading import check_weights, find_load_problem
from coremlscope.describe.stages import why_absent
from coremlscope.devices.release import OSRelease, parse_release, platform_named
from coremlscope.formats import container
from coremlscope.formats.platforms import describe_platforms
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    ImageFeature,
    Model,
    kind_name,
    kind_with_article,
)
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.hazards.find import describe_hazard, find_in_model
from coremlscope.results.hazard import Hazard
from coremlscope.runtime.execution.custom_layers import CustomLayer, custom_layers, replace_custom_layers
from coremlscope.runtime.execution.lowering import lower_function
from coremlscope.runtime.execution.wiring import StageFunction, bind_functions, wire

#: Scope of a problem: everything, Core ML alone, running it here alone, or only a part of the work.
Effect = Literal["nothing works", "not in Core ML", "not here", "needs care"]

#: The most names in one sentence.
_MOST_NAMES = 8


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps a model from loading or running.

    Attributes:
        id: A stable identifier in kebab case.
        effect: What it prevents.
        text: One sentence.
        fix: What to do.
        ops: The affected operations, `type (id)`; may be empty.
    """

    id: str
    effect: Effect
    text: str
    fix: str = ""
    ops: tuple[str, ...] = ()


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """Problems that keep a model from loading or running.

    Attributes:
        path: The model's path.
        kind: Apple's name of the model type; empty if the model cannot be read.
        needs: The oldest systems that read it; empty if the model cannot be read.
        problems: The problems; empty if none was found.
        has_operations: It contains operations that a plan places, so it is not a classical model.
    """

    path: str
    kind: str
    needs: str
    problems: Sequence[Problem]
    has_operations: bool = False


def parse_systems(text: str) -> tuple[OSRelease, ...]:
    """Parses systems that a model has to load on: `iOS 16,macOS 13`.

    Raises:
        UsageError: A system is not named or not known.
    """
    systems = []
    for part in text.split(","):
        match = re.match(r"\s*(ios|ipados|macos|visionos)", part, re.IGNORECASE)
        if match is None:
            raise UsageError(
                f"{part.strip()!r} does not name a system", "write for instance iOS 17 or macOS 14"
            )
        systems.append(parse_release(part, platform_named(match[1])))
    return tuple(systems)


def examine_model(path: Path, systems: Sequence[OSRelease] = ()) -> ModelReport:
    """Checks a model without running it.

    Args:
        path: The model.
        systems: Systems that it has to load on.
    """
    try:
        model = container.read(path)
    except CoremlscopeError as error:
        problem = Problem(id="not-readable", effect="not here", text=error.message, fix=error.hint)
        return ModelReport(path=path_text(path), kind="", needs="", problems=(problem,))
    return ModelReport(
        path=path_text(path),
        kind=model.kind,
        needs=describe_platforms(model.spec_version),
        problems=tuple(find_problems(model, systems)),
        has_operations=_has_operations(model),
    )


def _has_operations(model: Model) -> bool:
    return bool(model.content.functions) or any(map(_has_operations, model.content.models))


def find_problems(model: Model, systems: Sequence[OSRelease] = ()) -> list[Problem]:
    """Returns the problems that keep a model from loading or running.

    Args:
        model: The model. Weights may be absent.
        systems: Systems that it has to load on.
    """
    problems = [*_check_version(model, systems)]
    hazards: Sequence[Hazard] = ()
    try:
        hazards = find_hazards(model, systems=systems)
    except CoremlscopeError as error:
        problems.append(_damage(error))
        with suppress(CoremlscopeError):
            hazards = tuple(find_in_model(model))
    problems += map(_problem, hazards)
    for check in (_check_interface, _check_weights, _check_stages, _check_operations):
        try:
            problems += check(model)
        except CoremlscopeError as error:
            problems.append(_damage(error))
    return list(dict.fromkeys(problems))


def _problem(hazard: Hazard) -> Problem:
    finding = describe_hazard(hazard)
    effect: Effect = "not in Core ML" if hazard.kind == "refused" and not hazard.units else "needs care"
    return Problem(id=hazard.id, effect=effect, text=finding.text, fix=hazard.fix, ops=finding.ops)


def _damage(error: CoremlscopeError) -> Problem:
    return Problem(id="damaged", effect="nothing works", text=error.message, fix=error.hint)


def _check_version(model: Model, systems: Sequence[OSRelease]) -> Iterator[Problem]:
    for system in systems:
        found = find_load_problem(model, system)
        if found is not None and found.needed is None:
            yield Problem(
                id="unknown-version",
                effect="not in Core ML",
                text=f"{found.text[0].upper()}{found.text[1:]}.",
                fix="convert the model again for the systems it has to load on",
            )
            return
        if found is not None:
            yield Problem(
                id="newer-than-system",
                effect="not in Core ML",
                text=f"{found.text[0].upper()}{found.text[1:]}; {system} is older.",
                fix=f"convert again with minimum_deployment_target for {system}",
            )


def _check_interface(model: Model) -> Iterator[Problem]:
    """Inputs of which not all combinations run."""
    for function in model.description.functions.values():
        enumerated = [
            shown(feature.name)
            for feature in function.inputs
            if isinstance(feature.type, (ArrayFeature, ImageFeature))
            and isinstance(feature.type.flexibility, EnumeratedShapes)
            and len(feature.type.flexibility.shapes) > 1
        ]
        if model.content.is_typed and len(enumerated) > 1:
            yield Problem(
                id="enumerated-inputs",
                effect="needs care",
                text=f"Several inputs have enumerated shapes ({_listed(enumerated)}): Core ML takes them"
                f" together"
                " only where all have the shape of the same position in their lists.",
                fix="make one model, or one function of it, for each other combination",
            )
            return


def _check_weights(model: Model) -> Iterator[Problem]:
    missing = [shown(file.name) for file in model.weight_files if file.size is None]
    if missing:
        yield Problem(
            id="missing-weights",
            effect="nothing works",
            text=f"Its package is missing: this is the specification of an ML Program alone, and its weights"
            f" ({_listed(missing)}) are files of the .mlpackage."
            if model.container == "mlmodel"
            else f"Weight files are missing: {_listed(missing)}.",
            fix="copy the whole .mlpackage; with Git LFS run `git lfs pull`;"
            " `coremlscope profile --random-weights` times the structure",
        )
    try:
        check_weights(model)
    except ModelError as error:
        yield Problem(id="damaged-weights", effect="nothing works", text=error.message, fix=error.hint)


def _check_stages(model: Model) -> Iterator[Problem]:
    """Stages, or the model itself, whose computation is not in the file."""
    for stage in wire(model).stages:
        absent = why_absent(stage.model)
        if absent:
            name = (
                f"The stage {shown(stage.name)} ({kind_name(stage.model.kind)})"
                if stage.name
                else f"A{kind_with_article(stage.model.kind)[1:]}"
            )
            elsewhere = "; `coremlscope profile` times the other stages" if stage.name else ""
            in_app = stage.model.kind in ("customModel", "linkedModel")
            yield Problem(
                id="outside-the-file",
                effect="needs care" if in_app else "not here",
                text=f"{name} cannot be run here: {absent}.",
                fix="add its class or model to every app that loads this model"
                if in_app
                else f"run it on a Mac or a device{elsewhere}",
            )


def _check_operations(model: Model) -> Iterator[Problem]:
    """Custom layers, and operations that cannot be lowered, in every function of every stage."""
    replaced = replace_custom_layers(model)
    layers: list[CustomLayer] = []
    ops: dict[str, None] = {}
    reasons: list[str] = []
    for one in bind_functions(replaced, every=True):
        if one.bound is None:
            continue
        layers += custom_layers(one.bound.function)
        for op_type, op_id, reason in _unsupported(one):
            ops[f"{shown(op_type)} ({shown(op_id)})"] = None
            reasons.append(f"{shown(op_type)}: {shown(reason)}" if reason else shown(op_type))
    if layers:
        classes = dict.fromkeys(shown(layer.class_name or layer.name) for layer in layers)
        yield Problem(
            id="custom-layers",
            effect="not here",
            text=f"Layers are implemented by classes of an app: {_listed(list(classes))}.",
            fix="every app that loads the model needs these classes;"
            " `coremlscope profile` times the other layers",
            ops=tuple(f"custom ({shown(layer.id)})" for layer in layers),
        )
    if ops:
        yield Problem(
            id="unsupported-operations",
            effect="not here",
            text=f"Operations cannot be run here: {_listed(list(dict.fromkeys(reasons)))}.",
            fix="`coremlscope inspect` and `plan` still work;"
            " replace them before conversion to run the model here",
            ops=tuple(ops),
        )


def _unsupported(one: StageFunction) -> Sequence[tuple[str, str, str]]:
    try:
        lower_function(one.stage.model, one.name, one.shapes, random_weights=0)
    except UnsupportedOpError as error:
        return error.ops
    except MissingWeightsError:
        return ()
    return ()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
