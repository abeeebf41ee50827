"""Inputs of a verification: given ones, or synthetic ones in the range that the preprocessing implies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import msgspec.structs
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from coremlscope.base.errors import InputError
from coremlscope.describe.preprocessing import Preprocessing, find_preprocessing
from coremlscope.model.features import bind_shapes, dummy_values, to_tensors
from coremlscope.model.features.limits import index_limits
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    Constant,
    DType,
    Feature,
    Function,
    ImageFeature,
    Op,
    Shape,
    TensorType,
    Value,
)
from coremlscope.model.ir.rewriting import constants_of
from coremlscope.runtime.execution.binding import Chosen

#: Operations that keep the elements of a mask.
_KEEPING = frozenset(
    {"cast", "expand_dims", "identity", "reshape", "slice_by_index", "squeeze", "tile", "transpose"}
)
#: Comparisons that make a mask of numbers.
_COMPARING = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
#: The least factor on 1 − mask that hides the scores it is added to.
_HIDING = 100.0
#: A factor on the input below which its elements are pixels of 0 … 255.
_PIXEL_FACTOR = 1 / 32

#: Kinds of synthetic inputs beside noise, which show faults that noise hides, as it saturates a network:
#: `picture` smooth areas with edges, increasing indices, masks that hide nothing;
#: `faint`   noise of a sixteenth of the size;
#: `zeros`   zeros, and the first row of tables;
#: `edges`   the ends of the range, and the last row of tables.
Kind = Literal["picture", "faint", "zeros", "edges"]
KINDS: Final[tuple[Kind, ...]] = ("picture", "faint", "zeros", "edges")
#: The factor on faint noise, and the end of the range of normal numbers.
_FAINT, _END = 1 / 16, 3.0

#: Where an input comes from: `given`, its `default`, or drawn, as `indices` of a table or as other `numbers`.
Origin = Literal["given", "default", "indices", "numbers"]


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a verification.

    Attributes:
        tensors: Tensors by name, as the program takes them.
        prepared: Images by name after the preprocessing that the model holds: `scale × p + bias`. A reference
            that was converted to a model with image inputs usually takes these. Empty if there is none.
        notes: What each input is, as clauses.
        origins: Where each input comes from, by name.
        steps: The preprocessing that the model holds, by input.
        rows: The number of rows of the table that an input indexes, by input.
        masks: The inputs that are masks of 0 and 1.
        images: The order of the colours of each image: `RGB`, `BGR`, or empty for grey.
    """

    tensors: Mapping[str, Array]
    prepared: Mapping[str, Array]
    notes: tuple[str, ...]
    origins: Mapping[str, Origin]
    steps: Mapping[str, Preprocessing]
    rows: Mapping[str, int]
    masks: frozenset[str]
    images: Mapping[str, str] = {}

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
        description, {key: [size or 1 for size in one] for key, one in (shapes or {}).items()}
    )
    values = dummy_values(description, chosen.function, seed=seed, shapes=shapes)
    steps = _preprocessing(chosen)
    limits = index_limits(chosen.function)
    masks = mask_inputs(chosen.function)
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
            if not type_.dtype.is_float or name in masks:
                values[name], note = _mask(shape, name, seed, type_.dtype), "synthetic: 0 and 1"
        notes.append(f"{name}: {note}")
    tensors = to_tensors(description.inputs, values)
    tensors.update(_unrounded(description.inputs, values, tensors))
    return Inputs(
        tensors=tensors,
        prepared=_prepared(description.inputs, tensors, steps),
        notes=tuple(notes),
        origins=origins,
        steps=steps,
        rows=limits,
        masks=masks,
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


def other_kinds(chosen: Chosen, drawn: Inputs, seed: int = 0) -> Iterator[tuple[Kind, Inputs]]:
    """Yields inputs of the other kinds, of the shapes of those that were drawn. Given inputs stay.

    Args:
        chosen: The function.
        drawn: Its inputs.
        seed: The seed of the generator.
    """
    images = {f.name for f in chosen.description.inputs if isinstance(f.type, ImageFeature)}
    free = [name for name in drawn.synthetic if drawn.tensors[name].dtype.kind in "biuf"]
    for kind in KINDS if free else ():
        tensors = dict(drawn.tensors)
        for name in free:
            given: Any = tensors[name]
            step = drawn.steps.get(name)
            generator = np.random.default_rng([seed, *name.encode(), KINDS.index(kind)])
            if name in drawn.rows:
                made = _indices(kind, given, drawn.rows[name])
            elif name in drawn.masks or given.dtype.kind != "f":
                made = np.ones_like(given) if kind == "picture" else given
            elif name in images or _are_pixels(step):
                made = np.floor(255.0 * _unit(kind, given, generator))
            else:
                made = _END * (2 * _unit(kind, given, generator) - 1)
                made = {"faint": given * _FAINT, "zeros": np.zeros_like(given)}.get(kind, made)
            tensors[name] = np.ascontiguousarray(made, given.dtype)
        prepared = {name: prepare(tensors[name], drawn.steps[name]) for name in drawn.prepared}
        yield kind, msgspec.structs.replace(drawn, tensors=tensors, prepared=prepared)


def further_inputs(drawn: Inputs, seed: int = 0) -> Iterator[Inputs]:
    """Yields two other sets of inputs of the ranges of some, the given ones varied as well: a cause has to
    hold on them too.

    Args:
        drawn: The inputs.
        seed: The seed of the generator.
    """
    for number in range(2):
        tensors = dict(drawn.tensors)
        for name, given in drawn.tensors.items():
            generator = np.random.default_rng([seed, number, *name.encode()])
            if name in drawn.rows:
                tensors[name] = generator.integers(0, drawn.rows[name], given.shape).astype(given.dtype)
            elif given.dtype.kind == "f" and given.size and np.isfinite(given).all():
                low, high = float(given.min()), float(given.max())
                low = low if high > low else low - 1.0
                made = low + (high - low) * generator.random(given.shape)
                tensors[name] = np.asarray(made, given.dtype)
        prepared = {name: prepare(tensors[name], drawn.steps[name]) for name in drawn.prepared}
        yield msgspec.structs.replace(drawn, tensors=tensors, prepared=prepared)


def _indices(kind: Kind, given: Array, rows: int) -> Array:
    places = {"picture": np.arange(given.size).reshape(given.shape) % rows, "zeros": np.zeros_like(given)}
    return np.full_like(given, rows - 1) if kind == "edges" else places.get(kind, given)


def _unit(kind: Kind, given: Array, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draws numbers from 0 to 1 of a kind: a picture has waves, and one edge, along its last two axes."""
    if kind == "picture":
        drawn = np.full(given.shape, 0.5)
        for axis in range(max(0, given.ndim - 2), given.ndim):
            line = np.linspace(0, 1, given.shape[axis]).reshape(-1, *(1,) * (given.ndim - 1 - axis))
            others = tuple(1 if place >= given.ndim - 2 else size for place, size in enumerate(given.shape))
            turns, phase = generator.uniform(0.5, 3, others), generator.uniform(0, 1, others)
            edge = 0.1 * np.sign(line - generator.uniform(0.2, 0.8, others))
            drawn = drawn + 0.15 * np.sin(2 * np.pi * (turns * line + phase)) + edge
        return np.clip(drawn, 0, 1)
    if kind == "edges":
        return generator.integers(0, 2, given.shape).astype(np.float64)
    return generator.random(given.shape) * (_FAINT if kind == "faint" else 0.0)


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


def _prepared(
    features: Sequence[Feature], tensors: Mapping[str, Array], steps: Mapping[str, Preprocessing]
) -> dict[str, Array]:
    """Returns the images after the preprocessing that the model holds."""
    images = {feature.name for feature in features if isinstance(feature.type, ImageFeature)}
    held = {name: step for name, step in steps.items() if step.ops and name in images}
    return {name: prepare(tensors[name], step) for name, step in held.items()}


def prepare(pixels: Array, step: Preprocessing) -> Array:
    """Returns pixels after a preprocessing: `scale × p + bias`."""
    planes = (1, -1, 1, 1)
    scale, bias = np.array(step.scale).reshape(planes), np.array(step.bias).reshape(planes)
    return np.asarray(pixels * scale + bias, np.float32)


def mask_inputs(function: Function) -> frozenset[str]:
    """Returns the inputs that are masks of 0 and 1: all that reads them compares them with a number from 0
    to 1, or subtracts them from 1 and multiplies the difference by a large number.

    Args:
        function: The function.
    """
    constants = constants_of(function)
    readers: dict[str, list[Op]] = defaultdict(list)
    for op in function.graph.walk():
        for given in op.inputs.values():
            for argument in given:
                if isinstance(argument, Value):
                    readers[argument.name].append(op)
    return frozenset(
        value.name for value in function.graph.inputs if _is_mask(value.name, readers, constants)
    )


def _is_mask(name: str, readers: Mapping[str, Sequence[Op]], constants: Mapping[str, Constant]) -> bool:
    waiting, ends = [name], 0
    while waiting:
        value = waiting.pop()
        for op in readers.get(value, ()):
            if op.type in _KEEPING and _reads_as(op, "x", value):
                waiting += [output.name for output in op.outputs]
            elif _compares(op, constants) or _hides(op, readers, constants):
                ends += 1
            else:
                return False
    return ends > 0


def _reads_as(op: Op, parameter: str, name: str) -> bool:
    return any(isinstance(a, Value) and a.name == name for a in op.inputs.get(parameter, ()))


def _number(op: Op, constants: Mapping[str, Constant]) -> float | None:
    """Returns the one number that an operation of two arguments reads beside a computed one."""
    for parameter in ("x", "y"):
        for argument in op.inputs.get(parameter, ()):
            known = argument if isinstance(argument, Constant) else constants.get(argument.name)
            is_one = known is not None and isinstance(known.type, TensorType) and known.type.elements == 1
            if known is not None and is_one and known.is_available:
                return float(known.numpy().reshape(-1)[0])
    return None


def _compares(op: Op, constants: Mapping[str, Constant]) -> bool:
    number = _number(op, constants) if op.type in _COMPARING else None
    return number is not None and 0 <= number <= 1


def _hides(op: Op, readers: Mapping[str, Sequence[Op]], constants: Mapping[str, Constant]) -> bool:
    """Returns whether an operation is the difference of a mask and 1, and large factors are all that reads
    it."""
    number = _number(op, constants) if op.type in ("sub", "add") else None
    if number is None or abs(number) != 1:
        return False
    factors = [
        abs(_number(reader, constants) or 0) if reader.type == "mul" else 0.0
        for reader in readers.get(op.outputs[0].name, ())
    ]
    return bool(factors) and min(factors) >= _HIDING
