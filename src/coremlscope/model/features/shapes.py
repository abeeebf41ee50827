"""Shapes of features: defaults, allowed shapes and requested shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod

from coremlscope.base.errors import InputError
from coremlscope.model.features.description import describe_flexibility, describe_shape
from coremlscope.model.features.names import suggest_name
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    Feature,
    FunctionDescription,
    ImageFeature,
    RangeShapes,
    ShapeFlexibility,
    StateFeature,
    channels,
    default_shape,
)

__all__ = [
    "as_sequence",
    "bind_shapes",
    "check_combination",
    "check_shape",
    "default_shape",
    "largest_shapes",
]


def check_shape(feature: Feature, shape: Sequence[int]) -> tuple[int, ...]:
    """Checks that a feature allows a shape, and returns it as a tensor shape.

    Args:
        feature: An array, image or state.
        shape: A tensor shape; for an image, `[height, width]` is also accepted, and for an array of
            `[channels]` that takes sequences, `[sequence, batch, channels]`.

    Raises:
        InputError: The feature has no shape, or does not allow this one.
    """
    type_ = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    given = tuple(shape)
    if isinstance(type_, ImageFeature):
        return _check_image_shape(feature.name, type_, given)
    if not isinstance(type_, ArrayFeature):
        raise InputError(f"the input {feature.name!r} has no shape", "only arrays and images have one")
    if _allows(type_.shape, type_.flexibility, given):
        return given
    sequence = as_sequence(type_, given)
    if not (type_.takes_sequences and _allows_sequence(type_, sequence)):
        raise _not_allowed(
            feature.name, given, type_.shape, type_.flexibility, sequences=type_.takes_sequences
        )
    return sequence


def check_combination(description: FunctionDescription, shapes: Mapping[str, Sequence[int]]) -> None:
    """Checks that several inputs with enumerated shapes have those of one index, as Core ML requires.

    coremltools may sort a list, so that one with equal shapes tells nothing of others, nor do lists of
    different lengths. Source: https://github.com/apple/coremltools/issues/2271, for ML Programs.

    Args:
        description: The interface of an ML Program's function.
        shapes: Allowed tensor shapes by name; inputs that are not listed are not checked.

    Raises:
        InputError: They are of different indices.
    """
    places: dict[int, dict[str, int]] = {}
    for feature in description.inputs:
        shape, type_ = tuple(shapes.get(feature.name, ())), feature.type
        if shape and isinstance(type_, (ArrayFeature, ImageFeature)):
            match type_.flexibility:
                case EnumeratedShapes(allowed) if len(set(allowed)) == len(allowed) > 1:
                    size = shape[-2:] if isinstance(type_, ImageFeature) else shape
                    places.setdefault(len(allowed), {})[feature.name] = allowed.index(size)
    for paired in places.values():
        if len(set(paired.values())) > 1:
            given = ", ".join(f"{name} {describe_shape(shapes[name])}" for name in paired)
            raise InputError(
                f"Core ML refuses this combination of enumerated shapes: {given}",
                "inputs must have the shapes of one index: all the first ones, all the second ones, …",
            )


def as_sequence(type_: ArrayFeature, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Converts `[sequence, batch, channels]` to five dimensions, for an array of `[channels]`.

    Apps pass sequences of vectors in either form. Other shapes are returned unchanged.
    """
    is_short = type_.takes_sequences and len(shape) == 3 and len(default_shape(type_) or ()) == 1
    return (*shape, 1, 1) if is_short else shape


def _allows_sequence(type_: ArrayFeature, given: tuple[int, ...]) -> bool:
    """True for `[sequence, batch, channels, height, width]` if the inner shape is allowed."""
    if len(given) != 5 or min(given) < 1:
        return False
    rank = len(default_shape(type_) or ()) or 3
    inner = given[2:3] if rank == 1 and given[3:] == (1, 1) else given[-rank:]
    skipped = given[2 : 5 - rank] if rank > 1 else ()
    return len(inner) == rank and set(skipped) <= {1} and _allows(type_.shape, type_.flexibility, inner)


def _check_image_shape(name: str, image: ImageFeature, given: tuple[int, ...]) -> tuple[int, ...]:
    planes = channels(image)
    size = given[2:] if len(given) == 4 and given[:2] == (1, planes) else given
    if len(size) != 2:
        raise InputError(
            f"invalid shape {describe_shape(given)} for the image {name!r}",
            f"use height x width, or 1x{planes}x height x width",
        )
    if not _allows((image.height, image.width), image.flexibility, size):
        raise _not_allowed(name, size, (image.height, image.width), image.flexibility)
    return (1, planes, *size)


def _not_allowed(
    name: str,
    given: tuple[int, ...],
    default: tuple[int, ...],
    flexibility: ShapeFlexibility | None,
    *,
    sequences: bool = False,
) -> InputError:
    if sequences:
        allowed = describe_shape(default) if flexibility is None else describe_flexibility(flexibility)
        return InputError(
            f"{name!r} does not allow the shape {describe_shape(given)}",
            f"allowed: {allowed}, or sequence×batch×channels×height×width that contains it",
        )
    if flexibility is None:
        return InputError(
            f"{name!r} has the fixed shape {describe_shape(default)}, not {describe_shape(given)}",
            "the shape cannot be changed; convert the model again with a flexible shape",
        )
    return InputError(
        f"{name!r} does not allow the shape {describe_shape(given)}",
        f"allowed: {describe_flexibility(flexibility)}",
    )


def _allows(default: tuple[int, ...], flexibility: ShapeFlexibility | None, shape: tuple[int, ...]) -> bool:
    match flexibility:
        case EnumeratedShapes(shapes):
            return shape in shapes or shape == default
        case RangeShapes(bounds):
            return len(bounds) == len(shape) and all(
                low <= size and (high < 0 or size <= high)
                for size, (low, high) in zip(shape, bounds, strict=True)
            )
        case None:
            return not default or shape == default


def bind_shapes(
    description: FunctionDescription, given: Mapping[str, Sequence[int]] | None = None
) -> dict[str, tuple[int, ...]]:
    """Returns the tensor shape of every input and state: the requested one, or the default.

    Features without a shape, and arrays without a default shape, are included only if requested.

    Raises:
        InputError: A name is unknown, or a shape is not allowed.
    """
    given = given or {}
    if given:
        names = [feature.name for feature in chain(description.inputs, description.states)]
        for name in given:
            if name not in names:
                raise InputError(f"the model has no input {name!r}", suggest_name(name, names, "input"))
    shapes = {}
    for feature in chain(description.inputs, description.states):
        name = feature.name
        shape = check_shape(feature, given[name]) if name in given else default_shape(feature.type)
        if shape is not None:
            shapes[name] = shape
    return shapes


def largest_shapes(description: FunctionDescription) -> dict[str, tuple[int, ...]]:
    """Returns the largest tensor shape of each flexible input; empty for fixed ones, or if one is unbounded.

    Enumerated shapes of several inputs go together by their index; see `check_combination`.
    """
    found: dict[str, tuple[int, ...]] = {}
    enumerated: dict[str, Sequence[tuple[int, ...]]] = {}
    for feature in description.inputs:
        match getattr(feature.type, "flexibility", None):
            case EnumeratedShapes(shapes) if shapes:
                enumerated[feature.name] = shapes
            case RangeShapes(bounds):
                found[feature.name] = tuple(high for _, high in bounds)
    several = [shapes for shapes in enumerated.values() if len(shapes) > 1]
    if len(set(map(len, several))) > 1:
        return {}
    for index in range(max(map(len, several), default=1)):
        row = {name: shapes[min(index, len(shapes) - 1)] for name, shapes in enumerated.items()}
        known = {name: found[name] for name in row if name in found}
        if sum(map(prod, row.values())) > sum(map(prod, known.values())):
            found |= row
    if any(not shape or min(shape) < 1 for shape in found.values()):
        return {}
    try:
        return {name: shape for name, shape in bind_shapes(description, found).items() if name in found}
    except InputError:
        return {}
