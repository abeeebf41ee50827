"""Inputs of a verification: given ones, or synthetic ones in the range that the preprocessing implies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import InputError
from coremlscope.describe.preprocessing import Preprocessing, find_preprocessing
from coremlscope.model.features import bind_shapes, dummy_values, to_tensors
from coremlscope.model.features.limits import index_limits
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DType,
    Feature,
    ImageFeature,
    Shape,
)
from coremlscope.runtime.execution.binding import Chosen

#: A factor on the input below which its elements are pixels of 0 … 255.
_PIXEL_FACTOR = 1 / 32

#: Kinds of synthetic inputs next to those drawn first, which show faults that those hide, as they saturate a
#: network or never reach the ends of the range:
#: `faint`   the same numbers, a sixteenth of their size;
#: `zeros`   zeros, and the first row of tables;
#: `edges`   the ends of the range, and the last row of tables;
#: `noise`   others of the same range, and other rows of tables.
Kind = Literal["faint", "zeros", "edges", "noise"]
KINDS: Final[tuple[Kind, ...]] = ("faint", "zeros", "edges")
#: The factor on faint numbers, and the end of the range of normal numbers.
_FAINT, _END = 1 / 16, 3.0

#: Where an input comes from: `given`, its `default`, or drawn, as `indices` of a table or as other `numbers`.
Origin = Literal["given", "default", "indices", "numbers"]


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a verification.

    Attributes:
        tensors: Tensors by name, as the program takes them.
        notes: What each input is, as clauses.
        origins: Where each input comes from, by name.
        steps: The preprocessing that the model holds, by input.
        rows: The number of rows of the table that an input indexes, by input.
        images: The order of the colours of each image: `RGB`, `BGR`, or empty for grey.
    """

    tensors: Mapping[str, Array]
    notes: tuple[str, ...]
    origins: Mapping[str, Origin]
    steps: Mapping[str, Preprocessing]
    rows: Mapping[str, int]
    images: Mapping[str, str] = {}

    @property
    def prepared(self) -> tuple[str, ...]:
        """The names of the images that the model prepares: `scale × p + bias`. A reference that was converted
        to a model with image inputs usually takes these."""
        return tuple(name for name in self.images if name in self.steps and self.steps[name].ops)

    @property
    def synthetic(self) -> tuple[str, ...]:
        """The names of the inputs that were drawn: neither given nor filled with a default."""
        return tuple(name for name, origin in self.origins.items() if origin in ("indices", "numbers"))


def choose_inputs(
    chosen: Chosen, given: Mapping[str, Any], shapes: Mapping[str, Shape] | None = None, seed: int = 0
) -> Inputs:
    """Completes given inputs by synthetic ones.

    Pixels and indices are drawn from their whole range. Other floats are drawn from 0 … 255 if the model
    divides them by a number like 255 first, from 0 and 1 if they are masks by their name, else from the
    standard normal distribution, which normalised inputs have. Of 0 and 1, both are drawn where there is more
    than one element.

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
        description, {key: [size or 1 for size in one] for key, one in (shapes or {}).items()}
    )
    values = dummy_values(description, chosen.function, seed=seed, shapes=shapes)
    steps = _preprocessing(chosen)
    limits = index_limits(chosen.function)
    notes: list[str] = []
    origins: dict[str, Origin] = {}
    for feature in description.inputs:
        name, type_, step = feature.name, feature.type, steps.get(feature.name)
        note, origins[name] = _describe(feature, step), "numbers"
        if name in given:
            check_numbers(name, given[name])
            values[name], note, origins[name] = given[name], "given", "given"
        elif isinstance(type_, ArrayFeature) and type_.default is not None:
            origins[name] = "default"
        elif name in limits:
            note, origins[name] = f"synthetic: indices below {limits[name]}", "indices"
        elif isinstance(type_, ArrayFeature):
            shape = tuple(values[name].shape) or tuple(bound.get(name) or ())
            values[name] = _floats(shape, name, seed, step)
            if not type_.dtype.is_float or is_mask(name):
                values[name], note = _mask(shape, name, seed, type_.dtype), "synthetic: 0 and 1"
        notes.append(f"{name}: {note}")
    tensors = to_tensors(description.inputs, values)
    tensors.update(_unrounded(description.inputs, values, tensors))
    return Inputs(
        tensors=tensors,
        notes=tuple(notes),
        origins=origins,
        steps=steps,
        rows=limits,
        images={
            feature.name: feature.type.color_space if feature.type.color_space in ("RGB", "BGR") else ""
            for feature in description.inputs
            if isinstance(feature.type, ImageFeature)
        },
    )


def _unrounded(
    features: Sequence[Feature], values: Mapping[str, Any], tensors: Mapping[str, Array]
) -> dict[str, Array]:
    """Returns inputs that are declared as fp16 as they were before: the reference, and the run in float32,
    take them so, and only the rounded run shows what rounding them does."""
    return {
        feature.name: np.asarray(values[feature.name], np.float32)
        for feature in features
        if isinstance(feature.type, ArrayFeature)
        and feature.type.dtype is DType.FP16
        and isinstance(values[feature.name], np.ndarray)
        and values[feature.name].shape == tensors[feature.name].shape
    }


def other_kinds(drawn: Inputs, seed: int = 0) -> Iterator[tuple[Kind, Inputs]]:
    """Yields the other kinds of the inputs that were drawn, each in its turn.

    Args:
        drawn: The inputs.
        seed: The seed of the generator.
    """
    free = [name for name in drawn.synthetic if drawn.tensors[name].dtype.kind in "biuf"]
    yield from ((kind, redraw(drawn, kind, seed)) for kind in KINDS if free)


def redraw(drawn: Inputs, kind: Kind, seed: int) -> Inputs:
    """Returns inputs of a kind, in the shapes of others. Given inputs stay, but for noise; masks stay.

    Args:
        drawn: The others.
        kind: The kind.
        seed: The seed of the generator.
    """
    tensors = dict(drawn.tensors)
    for name in tensors if kind == "noise" else drawn.synthetic:
        given: Any = drawn.tensors[name]
        generator = np.random.default_rng([seed, *name.encode()])
        has_pixels = name in drawn.images or _are_pixels(drawn.steps.get(name))
        if name in drawn.rows:
            last = drawn.rows[name] - 1
            made = {"zeros": 0 * given, "edges": 0 * given + last, "faint": given}.get(kind)
            made = generator.integers(0, last + 1, given.shape) if made is None else made
        elif given.dtype.kind != "f" or is_mask(name) or not given.size or not np.isfinite(given).all():
            continue
        else:
            low, high = (0.0, 255.0) if has_pixels else (-_END, _END)
            if name not in drawn.synthetic:
                low, high = float(given.min()), float(given.max())
                low -= low == high
            shares = generator.random(given.shape)
            shares = np.rint(shares) if kind == "edges" else shares
            made = {"zeros": given * 0, "faint": given * _FAINT}.get(kind, low + (high - low) * shares)
            made = np.floor(made) if has_pixels and name in drawn.synthetic else made
        tensors[name] = np.ascontiguousarray(made, given.dtype)
    return replace(drawn, tensors=tensors)


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


def _mask(shape: tuple[int, ...], name: str, seed: int, dtype: DType) -> Array:
    """Draws integers of 0 and 1, of which several elements hold both: a mask of one number hides nothing."""
    drawn = np.random.default_rng([seed, *name.encode()]).integers(0, 2, shape)
    if drawn.size > 1 and np.ptp(drawn) == 0:
        drawn.reshape(-1)[0 if drawn.max() == 0 else -1] ^= 1
    return drawn.astype(dtype.numpy)


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


def prepare(pixels: Array, step: Preprocessing) -> Array:
    """Returns pixels after a preprocessing: `scale × p + bias`."""
    planes = (1, -1, 1, 1)
    scale, bias = np.array(step.scale).reshape(planes), np.array(step.bias).reshape(planes)
    return np.asarray(pixels * scale + bias, np.float32)


def is_mask(name: str) -> bool:
    """Returns whether an input is a mask of 0 and 1, by its name: `attention_mask`."""
    return "mask" in name.lower()
