"""Notes on what a plan assumes: the shapes of flexible inputs, and a system that loads the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from coremlscope.base.errors import ModelError
from coremlscope.base.findings import Finding
from coremlscope.base.units import shown
from coremlscope.describe.loading import check_weights, find_load_problem
from coremlscope.devices.release import OSRelease
from coremlscope.model.features import bind_shapes
from coremlscope.model.features.description import describe_flexibility, describe_shape
from coremlscope.model.ir import ArrayFeature, Feature, FunctionDescription, ImageFeature, Model
from coremlscope.runtime.execution.binding import share

#: Inputs up to which each is listed.
_LISTED = 4
#: Apple's documentation of entitlements: the versions of visionOS on which apps need one.
_ENTITLEMENT = "com.apple.developer.coreml.neural-engine-access"
_FIRST_ENTITLED, _LAST_ENTITLED = 2, 26
#: The first iOS with states and with several functions.
_FIRST_WITH_STATES = 18
#: The oldest iOS for which coremltools converts.
_FIRST_TARGET = 13
_HINT = "--shape NAME=1x128 sets another shape"


def shape_notes(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[str]:
    """Yields the shapes of flexible inputs for which a model is planned.

    Args:
        model: The model.
        function: The function that takes them; None for the default one.
        shapes: The requested shapes, by name.
    """
    for text in _flexible_shapes(model, function, shapes):
        yield f"{text}; {_HINT}"


def _flexible_shapes(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[str]:
    interface, asked = _interface(model, function), shapes or {}
    bound = bind_shapes(interface, asked)
    flexible = [one for one in interface.inputs if _allowed(one) and one.name in bound]
    if not flexible:
        return
    listed = ", ".join(
        f"{shown(one.name)} {describe_shape(_sizes(one, bound[one.name]))} of {_allowed(one)}"
        for one in flexible[:_LISTED]
    )
    more = f" and {len(flexible) - _LISTED} more" if len(flexible) > _LISTED else ""
    default = "" if asked else "the default "
    yield f"{default}shapes of flexible inputs: {listed}{more}"


def shape_findings(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[Finding, ...]:
    """Returns the shapes of flexible inputs for which a model is estimated; see `shape_notes`."""
    return tuple(
        Finding(id="assumed-shapes", severity="info", text=f"Estimated for {text}.", hint=_HINT)
        for text in _flexible_shapes(model, function, shapes)
    )


def _interface(model: Model, function: str | None) -> FunctionDescription:
    functions = model.description.functions
    return model.description.main if function is None or function not in functions else functions[function]


def _allowed(feature: Feature) -> str:
    if isinstance(feature.type, ArrayFeature | ImageFeature) and feature.type.flexibility is not None:
        return describe_flexibility(feature.type.flexibility)
    return ""


def _sizes(feature: Feature, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the part of a tensor's shape that may vary: height and width of an image."""
    return shape[-2:] if isinstance(feature.type, ImageFeature) else shape


def system_notes(model: Model, system: OSRelease, *, is_planned: bool = True) -> Iterator[str]:
    """Yields that a system does not load the model, and what is not known of the system.

    Args:
        model: The model.
        system: The system.
        is_planned: Whether the note is one on a plan of operations.
    """
    yield from _evidence_notes(system)
    problem = find_load_problem(model, system)
    if problem is None:
        return
    rest = f"; this is the plan {_as_if(model, system)}" if is_planned else ""
    yield f"this model does not load on {system}: {problem.text}{rest}"


def system_findings(model: Model, systems: Iterable[OSRelease]) -> Iterator[Finding]:
    """Yields findings on absent and damaged weights, and on each system that does not load the model.

    A system of which little is known has one as well.
    """
    for note in weight_notes(model):
        yield Finding(id="weights", severity="info", text=f"{note[0].upper()}{note[1:]}.")
    for system in dict.fromkeys(systems):
        for note in _evidence_notes(system):
            yield Finding(id="system-evidence", severity="info", text=f"{note[0].upper()}{note[1:]}.")
        if (problem := find_load_problem(model, system)) is not None:
            yield Finding(
                id="does-not-load",
                severity="warning",
                text=f"This model does not load on {system}: {problem.text}. The estimate is that"
                f" {_as_if(model, system)}.",
                hint=conversion_hint(model, system),
            )


def _evidence_notes(system: OSRelease) -> Iterator[str]:
    """Yields what is not published of a system, and what it asks of apps."""
    if system.platform != "visionOS":
        return
    major, _ = system.core_ml
    yield (
        "no plan and no latency is published for visionOS: rules, rates and times are those of the chip in"
        f" other devices, with iOS {major}"
    )
    if _FIRST_ENTITLED <= system.major <= _LAST_ENTITLED:
        yield (
            f"on visionOS {_FIRST_ENTITLED} to {_LAST_ENTITLED}, an app needs the entitlement {_ENTITLEMENT}"
            " for the Neural Engine"
        )


def weight_notes(model: Model) -> tuple[str, ...]:
    """Returns that weights are absent or damaged: the model does not load, figures are as declared."""
    return share(model, (weight_notes,), lambda: tuple(_weight_notes(model)))


def _weight_notes(model: Model) -> Iterator[str]:
    absent = [shown(file.name) for file in model.weight_files if file.size is None]
    if absent:
        more = f" and {len(absent) - _LISTED} more" if len(absent) > _LISTED else ""
        listed = f"{', '.join(absent[:_LISTED])}{more}"
        yield f"weights are absent ({listed}): sizes are those that the program declares"
        return
    try:
        check_weights(model)
    except ModelError as error:
        yield (
            f"this model does not load, as its weights are damaged: {error.message}; sizes are those that the"
            " program declares"
        )


def _as_if(model: Model, system: OSRelease) -> str:
    if model.content.is_core_ai:
        return "of a system that loads it"
    return f"of the same operations, converted for {system}"


def conversion_hint(model: Model, system: OSRelease) -> str:
    """Returns how to get a model that a system loads."""
    newer = "name a newer system (--os) or device"
    major, _ = system.core_ml
    if model.content.is_core_ai:
        return f"convert the network to Core ML, or {newer}"
    if major < _FIRST_TARGET:
        return newer
    functions = model.description.functions
    if major < _FIRST_WITH_STATES and any(one.states for one in functions.values()):
        return f"states need a newer system: pass them as inputs and outputs, or {newer}"
    if major < _FIRST_WITH_STATES and len(functions) > 1:
        return f"several functions need a newer system: save each as a model of its own, or {newer}"
    return f"convert again with minimum_deployment_target=ct.target.iOS{major}, or {newer}"
