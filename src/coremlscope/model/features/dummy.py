"""Synthetic inputs of every type, for measurements: seeded, of valid shape and within valid ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.base.budget import Budget
from coremlscope.base.errors import InputError, UnsupportedModelError
from coremlscope.model.features.description import describe_shape
from coremlscope.model.features.limits import index_limits
from coremlscope.model.features.shapes import bind_shapes
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    Constant,
    DictionaryFeature,
    DoubleFeature,
    FeatureType,
    Function,
    FunctionDescription,
    ImageFeature,
    Int64Feature,
    SequenceFeature,
    Shape,
    StateFeature,
    StringFeature,
    TensorType,
    ValueType,
)

# Values from a model's vocabulary: the words of a dictionary, the categories of an encoder, items.

Key = str | int
#: Number of keys in a dictionary or a sequence.
_KEY_COUNT = 4


def known_keys(function: Function) -> dict[str, tuple[Key, ...]]:
    """Returns the vocabulary of each input whose value is looked up in one.

    It is the parameter `keys` of the operations of classical models.
    """
    found: dict[str, tuple[Key, ...]] = {}
    for op in function.graph.ops:
        for keys in op.inputs.get("keys", ()):
            if isinstance(keys, Constant) and keys.is_available:
                taken = (argument for argument in op.inputs.get("features", ()))
                known = tuple(keys.numpy().reshape(-1).tolist())
                found.update(
                    {value.name: known for value in taken if not isinstance(value, Constant) and known}
                )
    return found


def value_of_keys(
    type_: FeatureType, keys: Sequence[Key], generator: np.random.Generator, shape: tuple[int, ...] = ()
) -> Any:
    """Generates a value from a vocabulary. Returns None if the feature's type does not match the keys.

    Args:
        type_: The feature's type.
        keys: The vocabulary; not empty.
        generator: The source of randomness.
        shape: The shape of an array.
    """
    count = min(_KEY_COUNT, len(keys))
    chosen = [keys[int(index)] for index in generator.choice(len(keys), count, replace=False)]
    is_text = isinstance(chosen[0], str)
    match type_:
        case DictionaryFeature():
            return {key: float(generator.random()) for key in chosen}
        case SequenceFeature(element, (low, high)) if (element == "string") == is_text:
            length = max(low, len(chosen) if high < 0 else min(high, len(chosen)))
            return [chosen[index % len(chosen)] for index in range(length)]
        case StringFeature() if is_text:
            return chosen[0]
        case Int64Feature() | DoubleFeature() if not is_text:
            return chosen[0]
        case ArrayFeature(dtype=dtype) if not is_text:
            return np.resize(np.array(chosen), shape or (len(chosen),)).astype(dtype.numpy)
        case _:
            return None


#: Upper limit (exclusive) of integers without a known table to index: 0 and 1 suit masks, flags and lengths.
_CAUTIOUS_LIMIT = 2
#: Random numbers are drawn as float64 or int64, and converted to the input's own type.
_DRAWN_BYTES = 16


def dummy_values(
    description: FunctionDescription,
    *functions: Function,
    seed: int = 0,
    shapes: Mapping[str, Shape] | None = None,
) -> dict[str, Any]:
    """Generates a value for every input, including optional ones; deterministic for a given seed.

    Floats are uniform in [0, 1), pixels uniform in 0 … 255. Integers, and floats that are used as indices,
    are drawn from the rows of the table that they index if the graph shows it, otherwise from 0 and 1. Words
    and categories are drawn from the model's vocabulary. An optional array with a default value is filled
    with that value.

    Args:
        description: The interface.
        functions: The functions that take the inputs: one body, or those of several models.
        seed: The seed of the generator.
        shapes: Shapes by name that replace the defaults. They are checked against the allowed shapes.

    Raises:
        InputError: A shape is not allowed.
    """
    asked = {name: [d or 1 for d in shape] for name, shape in (shapes or {}).items()}
    bound = bind_shapes(description, asked)
    limits = _least_limits(functions)
    declared = {value.name: value.type for function in functions for value in function.graph.inputs}
    words = {name: keys for function in functions for name, keys in known_keys(function).items()}
    values: dict[str, Any] = {}
    budget = Budget.of_model()
    for feature in description.inputs:
        shape = bound.get(feature.name)
        if shape is None:
            shape = _shape_inside(declared.get(feature.name))
        # Each feature has its own generator, so that its values do not depend on other inputs.
        generator = np.random.default_rng([seed, *feature.name.encode()])
        try:
            budget.check_value(_DRAWN_BYTES * math.prod(shape), f"the input {feature.name!r}")
            known = words.get(feature.name)
            value = None if known is None else value_of_keys(feature.type, known, generator, shape)
            if value is None:
                value = dummy_value(feature.type, generator, shape, limits.get(feature.name))
            values[feature.name] = value
        except (MemoryError, UnsupportedModelError, ValueError):  # NumPy refuses impossible shapes
            raise InputError(
                f"the input {feature.name!r} is too large to generate: {describe_shape(shape)}",
                "set a smaller shape with --shape, if the model allows one",
            ) from None
    return values


def _least_limits(functions: Sequence[Function]) -> dict[str, int]:
    """Returns the number of rows of the smallest table that each input indexes."""
    limits: dict[str, int] = {}
    for found in map(index_limits, functions):
        limits.update((name, min(limit, limits.get(name, limit))) for name, limit in found.items())
    return limits


def _shape_inside(type_: ValueType | None) -> tuple[int, ...]:
    """Returns the shape that a function declares, with 1 for what is flexible; empty for none."""
    return tuple(d or 1 for d in type_.shape or ()) if isinstance(type_, TensorType) else ()


def dummy_value(
    type_: FeatureType, generator: np.random.Generator, shape: tuple[int, ...] = (), limit: int | None = None
) -> Any:
    """Generates a value of one feature type. States are zero, as Core ML initialises them.

    Args:
        type_: The type.
        generator: The source of randomness.
        shape: The tensor shape of an array or image.
        limit: If given, values are integers in [0, limit).
    """
    match type_:
        case ArrayFeature():
            return _array(type_, generator, shape, limit)
        case StateFeature(array):
            return np.zeros(shape or array.shape, dtype=array.dtype.numpy)
        case ImageFeature():
            return _image(type_, generator, shape)
        case Int64Feature():
            return int(generator.integers(limit or _CAUTIOUS_LIMIT))
        case DoubleFeature():
            return float(generator.random())
        case StringFeature():
            return "The quick brown fox jumps over the lazy dog."
        case DictionaryFeature(key):
            return {"fox": 1.0, "dog": 2.0} if key == "string" else {0: 1.0, 1: 2.0}
        case SequenceFeature(element, (low, high)):
            length = max(low, 1 if high < 0 else min(1, high))
            return ["fox"] * length if element == "string" else [1] * length


def _array(
    type_: ArrayFeature, generator: np.random.Generator, shape: tuple[int, ...], limit: int | None
) -> Array:
    dtype = type_.dtype.numpy
    if type_.default is not None:
        return np.full(shape, type_.default).astype(dtype)
    if limit is None and type_.dtype.is_float:
        return generator.random(shape).astype(dtype)
    highest = limit or _CAUTIOUS_LIMIT
    if type_.dtype.is_int:
        highest = min(highest, int(np.iinfo(dtype).max) + 1)  # type: ignore[type-var]
    return generator.integers(0, highest, shape).astype(dtype)


def _image(type_: ImageFeature, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
    from PIL import Image

    height, width = shape[-2:] if shape else (type_.height, type_.width)
    if type_.color_space == "GRAYSCALE_FLOAT16":
        return Image.fromarray(generator.random((height, width), dtype=np.float32))
    size = (height, width) if type_.color_space == "GRAYSCALE" else (height, width, 3)
    return Image.fromarray(generator.integers(0, 256, size, dtype=np.uint8))
