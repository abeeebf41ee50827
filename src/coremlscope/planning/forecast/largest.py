"""What a model with flexible inputs takes at its largest shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_bytes, format_duration, shown
from coremlscope.describe.model import list_operations
from coremlscope.devices import ComputeUnits, Device
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.model.features import bind_shapes
from coremlscope.model.features import largest_shapes as shapes_at_most
from coremlscope.model.features.description import describe_shape
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    Feature,
    Model,
)
from coremlscope.planning.forecast.memory import MemoryModel, find_shortages
from coremlscope.planning.forecast.planner import forecast
from coremlscope.results.estimate import Estimate
from coremlscope.runtime.execution.binding import choose_function

#: Elements of an input beyond which a bound says nothing about what an app does.
_MOST_ELEMENTS = 2**28
#: Devices of which each latency is listed.
_LISTED = 4


def largest_shapes(model: Model, function: str | None) -> dict[str, tuple[int, ...]]:
    """Returns the largest shape of every flexible input; empty if there is none, or one has no bound."""
    if not model.content.functions:
        return {}
    found = shapes_at_most(choose_function(model, function).description)
    return {} if any(math.prod(shape) > _MOST_ELEMENTS for shape in found.values()) else found


def find_at_largest(
    model: Model,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    function: str | None,
    shapes: Mapping[str, Sequence[int]],
    *,
    with_estimates: bool,
) -> Iterator[Finding]:
    """Yields the memory, and the latency under the first setting, at the largest shapes of flexible inputs.

    Nothing is yielded where these are the planned ones, or do not fit together.

    Args:
        model: The model.
        devices: The chips and systems.
        settings: The settings of compute units.
        function: The function; None for the default one.
        shapes: The shapes that are planned.
        with_estimates: Whether to estimate latencies.
    """
    largest = largest_shapes(model, function)
    if not largest:
        return
    chosen = choose_function(model, function)
    try:
        planned = bind_shapes(chosen.description, shapes)
        if all(planned.get(name) == shape for name, shape in largest.items()):
            return
        ops = list_operations(model, largest, functions=[chosen.name])
        estimates: Sequence[Estimate] = ()
        if with_estimates:
            first = devices[:_LISTED]
            found = forecast(model, ops, first, settings[:1], function=function, shapes=largest, advised=())
            estimates = found.estimates
    except CoremlscopeError:
        return
    flexible = [feature for feature in chosen.description.inputs if feature.name in largest]
    listed = ", ".join(
        f"{shown(feature.name)} {describe_shape(_sizes(feature, largest[feature.name]))}"
        for feature in flexible
    )
    memory = MemoryModel.of(model, ops, function)
    yield from _describe(flexible, listed, estimates, memory.peak())
    yield from find_shortages(memory, devices, f" at the largest shapes ({listed})")


def _describe(
    flexible: Sequence[Feature], listed: str, estimates: Sequence[Estimate], peak: Figure | None
) -> Iterator[Finding]:
    figures = [
        f"{one.device} {format_duration(one.latency.value)} ({SETTING_WORDS[one.compute_units]})"
        for one in estimates
    ]
    figures += [f"peak memory {format_bytes(peak.value)}"] if peak is not None else []
    if not figures:
        return
    kinds = [getattr(feature.type, "flexibility", None) for feature in flexible]
    is_enumerated = peak is not None and any(isinstance(kind, EnumeratedShapes) for kind in kinds)
    always = " The memory of the largest enumerated shape was taken whatever shape was used."
    yield Finding(
        id="largest-shapes",
        severity="info",
        text=f"At the largest shapes ({listed}), estimated: {', '.join(figures)}."
        + (always if is_enumerated else ""),
        hint="--shape plans and estimates another shape",
        source="apple/coremltools issue 1249" if is_enumerated else "",
    )


def _sizes(feature: Feature, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns what may vary of a tensor's shape: height and width of an image."""
    return shape if isinstance(feature.type, ArrayFeature) else shape[-2:]
