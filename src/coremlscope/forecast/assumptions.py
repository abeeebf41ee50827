"""Notes on what a plan assumes: the shapes of flexible inputs, and a system that loads the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coremlscope.devices.release import OSRelease
from coremlscope.features import bind_shapes
from coremlscope.features.description import describe_flexibility, describe_shape
from coremlscope.findings import Finding
from coremlscope.formats.platforms import first_release
from coremlscope.ir import ArrayFeature, Feature, FunctionDescription, ImageFeature, Model
from coremlscope.units import shown

__all__ = ["shape_findings", "shape_notes", "system_notes"]

#: Inputs up to which each is listed.
_LISTED = 4
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


def system_notes(model: Model, system: OSRelease) -> Iterator[str]:
    """Yields that a system is older than the model needs."""
    first = first_release(model.spec_version, system.platform)
    if first is not None and (system.major, system.minor) < first:
        needed = OSRelease(system.platform, *first)
        yield (
            f"this model does not load on {system}: specification {model.spec_version} needs {needed}; this"
            f" is the plan of the same operations, converted for {system}"
        )
