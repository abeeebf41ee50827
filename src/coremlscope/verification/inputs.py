"""Inputs of a verification: given ones, or synthetic ones in the range that the preprocessing implies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from coremlscope.describe.preprocessing import Preprocessing, find_preprocessing
from coremlscope.errors import InputError
from coremlscope.execution.binding import Chosen
from coremlscope.features import bind_shapes, dummy_values, to_tensors
from coremlscope.features.limits import index_limits
from coremlscope.ir import Array, ArrayFeature, Feature, ImageFeature, Shape
from coremlscope.verification.masks import mask_inputs

__all__ = ["Inputs", "Origin", "check_numbers", "choose_inputs"]

#: A factor on the input below which its elements are pixels of 0 … 255.
_PIXEL_FACTOR = 1 / 32

#: Where an input comes from: `given`, its `default`, or drawn, as `indices` of a table or as other `numbers`.
Origin = Literal["given", "default", "indices", "numbers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a verification.

    Attributes:
        tensors: Tensors by name, as the program takes them.
        prepared: Images by name after the preprocessing that the model holds: `scale × p + bias`. A reference
            that was converted to a model with image inputs usually takes these. Empty if there is none.
        notes: What each input is, as clauses.
        origins: Where each input comes from, by name.
    """

    tensors: Mapping[str, Array]
    prepared: Mapping[str, Array]
    notes: tuple[str, ...]
    origins: Mapping[str, Origin]

    @property
    def synthetic(self) -> tuple[str, ...]:
        """The names of the inputs that were drawn: neither given nor filled with a default."""
        return tuple(name for name, origin in self.origins.items() if origin in ("indices", "numbers"))


def choose_inputs(
    chosen: Chosen, given: Mapping[str, Any], shapes: Mapping[str, Shape] | None = None, seed: int = 0
) -> Inputs:
    """Completes given inputs by synthetic ones.

    Pixels and indices are drawn from their whole range. Other floats are drawn from 0 … 255 if the model
    divides them by a number like 255 first, from 0 and 1 if it compares them with a number or subtracts
    them from 1, as masks, else from the standard normal distribution, which normalised inputs have. Of 0 and
    1, both are drawn where there is more than one element.

    Args:
        chosen: The function.
        given: Values of inputs by name.
        shapes: Shapes of flexible inputs, instead of their defaults.
        seed: The seed of the generator.

    Raises:
        InputError: A value or a shape is not allowed, or a value is NaN.
    """
    description = chosen.description
    bound = bind_shapes(
        description, {name: [d or 1 for d in shape] for name, shape in (shapes or {}).items()}
    )
    values = dummy_values(description, chosen.function, seed=seed, shapes=shapes)
    steps = _preprocessing(chosen)
    limits = index_limits(chosen.function)
    masks = mask_inputs(chosen.function)
    notes: list[str] = []
    origins: dict[str, Origin] = {}
    for feature in description.inputs:
        if feature.name in given:
            check_numbers(feature.name, given[feature.name])
            values[feature.name] = given[feature.name]
            notes.append(f"{feature.name}: given")
            origins[feature.name] = "given"
            continue
        note = _describe(feature, steps.get(feature.name))
        type_ = feature.type
        has_default = isinstance(type_, ArrayFeature) and type_.default is not None
        is_index = feature.name in limits and not has_default
        origins[feature.name] = "default" if has_default else "indices" if is_index else "numbers"
        if isinstance(type_, ArrayFeature) and not has_default and not is_index:
            shape = tuple(values[feature.name].shape) or tuple(bound.get(feature.name) or ())
            if not type_.dtype.is_float or feature.name in masks:
                values[feature.name] = _zeros_and_ones(shape, feature.name, seed).astype(type_.dtype.numpy)
                note = "synthetic: 0 and 1"
            else:
                values[feature.name] = _floats(shape, feature.name, seed, steps.get(feature.name))
        elif is_index:
            note = f"synthetic: indices below {limits[feature.name]}"
        notes.append(f"{feature.name}: {note}")
    tensors = to_tensors(description.inputs, values)
    prepared = {
        name: _prepare(tensors[name], step)
        for name, step in steps.items()
        if step.ops and isinstance(_type(description.inputs, name), ImageFeature)
    }
    return Inputs(tensors=tensors, prepared=prepared, notes=tuple(notes), origins=origins)


def check_numbers(name: str, value: Any) -> None:
    """Raises InputError for a given array with NaN, of which nothing follows: masks may be infinite."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return
    count = int(np.isnan(value).sum())
    if count:
        raise InputError(
            f"{count:,} of the {value.size:,} elements given for the input {name!r} are NaN",
            "give numbers: whatever is computed from NaN is NaN in the model and in the reference",
        )


def _type(features: Sequence[Feature], name: str) -> object:
    return next(feature.type for feature in features if feature.name == name)


def _preprocessing(chosen: Chosen) -> dict[str, Preprocessing]:
    """Returns the preprocessing of images, and of arrays of the shape of an image."""
    inputs = []
    for feature in chosen.description.inputs:
        type_ = feature.type
        if isinstance(type_, ArrayFeature) and type_.dtype.is_float and len(type_.shape) == 4:
            height, width = type_.shape[-2:]
            space = "RGB" if type_.shape[1] == 3 else "GRAYSCALE"
            inputs.append(replace(feature, type=ImageFeature(space, width, height)))
        elif isinstance(type_, ImageFeature):
            inputs.append(feature)
    found = find_preprocessing(chosen.function, replace(chosen.description, inputs=tuple(inputs)))
    return {step.input: step for step in found}


def _are_pixels(step: Preprocessing | None) -> bool:
    return step is not None and bool(step.ops) and max(abs(s) for s in step.scale) <= _PIXEL_FACTOR


def _floats(shape: tuple[int, ...], name: str, seed: int, step: Preprocessing | None) -> Array:
    generator = np.random.default_rng([seed, *name.encode()])
    if _are_pixels(step):
        return np.floor(generator.random(shape) * 256).astype(np.float32)
    return generator.standard_normal(shape).astype(np.float32)


def _zeros_and_ones(shape: tuple[int, ...], name: str, seed: int) -> Array:
    """Draws integers of 0 and 1, of which several elements hold both: a mask of one number hides nothing."""
    drawn = np.random.default_rng([seed, *name.encode()]).integers(0, 2, shape)
    if drawn.size > 1 and np.ptp(drawn) == 0:
        drawn.reshape(-1)[0 if drawn.max() == 0 else -1] ^= 1
    return drawn


def _describe(feature: Feature, step: Preprocessing | None) -> str:
    match feature.type:
        case ImageFeature():
            return "synthetic: pixels of 0…255"
        case ArrayFeature(default=default) if default is not None:
            return f"its default, {default:g}"
        case ArrayFeature():
            return "synthetic: numbers of 0…255" if _are_pixels(step) else "synthetic: standard normal"
        case _:
            return "synthetic"


def _prepare(pixels: Array, step: Preprocessing) -> Array:
    planes = (1, -1, 1, 1)
    scale, bias = np.array(step.scale).reshape(planes), np.array(step.bias).reshape(planes)
    return np.asarray(pixels * scale + bias, np.float32)
