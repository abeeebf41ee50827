"""Conversion between feature values and tensors, with the checks of Core ML."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coremlscope.base.arrays import np
from coremlscope.base.errors import InputError
from coremlscope.model.features.description import describe_feature, describe_shape, dtype_name
from coremlscope.model.features.images import from_image, image_from_array, is_image, to_image
from coremlscope.model.features.names import suggest_name
from coremlscope.model.features.shapes import as_sequence, check_shape, default_shape
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    Feature,
    ImageFeature,
    Int64Feature,
    SequenceFeature,
    Shape,
    StateFeature,
    StringFeature,
)

Labels = Sequence[str | int]

#: Missing inputs that a message names; tree ensembles can have a thousand.
_LISTED_INPUTS = 6


class ConversionObserver(Protocol):
    """Sees the conversions of values; times are nanoseconds of `time.perf_counter_ns`."""

    def input_converted(self, feature: Feature, value: Any, tensor: Array, start: int) -> int:
        """Sees a converted input, and returns when the next conversion begins."""

    def output_converted(self, feature: Feature, tensor: Array, value: Any, start: int) -> int:
        """Sees a converted output, and returns when the next conversion begins."""


_observer: ConversionObserver | None = None


def observe_conversions(observer: ConversionObserver | None) -> None:
    """Calls an observer after each conversion in this process; None stops that."""
    global _observer
    _observer = observer


def to_tensors(
    features: Sequence[Feature],
    values: Mapping[str, Any],
    shapes: Mapping[str, Shape] | None = None,
) -> dict[str, Array]:
    """Converts values as coremltools accepts them to the input tensors of a program.

    Arrays become float32, float64 or int32. Values of fp16 features are first rounded to fp16, and floats for
    integer features are truncated. Images become float32 `[1, planes, height, width]`. `int64`, `double` and
    `string` become one-element arrays, sequences one-dimensional arrays, and a dictionary an array of one
    object.

    Args:
        features: The inputs of a function.
        values: Values by name. Missing optional inputs get their default value, or zero without a default.
        shapes: Tensor shapes to which the program is bound; other shapes are rejected. A feature that is not
            listed accepts every allowed shape.

    Raises:
        InputError: A value is missing, unknown, or has the wrong type or shape.
    """
    known = [feature.name for feature in features]
    for name in values:
        if name not in known:
            raise InputError(f"the model has no input {name!r}", suggest_name(name, known, "input"))
    missing = [f for f in features if f.name not in values and not f.is_optional]
    if missing:
        raise InputError(*_describe_missing(missing))
    tensors = {}
    observer = _observer
    start = 0 if observer is None else time.perf_counter_ns()
    for feature in features:
        shape = (shapes or {}).get(feature.name)
        if feature.name in values:
            value = values[feature.name]
            tensor = tensors[feature.name] = _to_tensor(feature, value, shape)
            if observer is not None:
                start = observer.input_converted(feature, value, tensor, start)
        else:
            tensors[feature.name] = _default_value(feature, shape)
    return tensors


def _to_tensor(feature: Feature, value: Any, shape: Shape | None) -> Array:
    match feature.type:
        case ArrayFeature() | StateFeature():
            return _array(feature, value, shape)
        case ImageFeature():
            return _image(feature, feature.type, value, shape)
        case Int64Feature():
            return np.array([_number(feature, value, int)], dtype=np.int64)
        case DoubleFeature():
            return np.array([_number(feature, value, float)], dtype=np.float64)
        case StringFeature():
            if not isinstance(value, str):
                raise _wrong_type(feature, value)
            return _objects([value])
        case DictionaryFeature():
            return _objects([_dictionary(feature, value)])
        case SequenceFeature():
            return _sequence(feature, feature.type, value)


def _wrong_type(feature: Feature, value: object) -> InputError:
    given = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    return InputError(
        f"the input {feature.name!r} takes {describe_feature(feature.type)}, not {given}",
        "use a value of that type",
    )


def _objects(items: Sequence[object]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _number(feature: Feature, value: Any, kind: type[int] | type[float]) -> int | float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise _wrong_type(feature, value)
    number = array.reshape(-1)[0].item()
    if kind is int and (not np.isfinite(number) or not -(2**63) <= number < 2**63):
        raise InputError(f"the value {number} of the input {feature.name!r} is out of range for int64")
    return kind(number)


def _dictionary(feature: Feature, value: Any) -> dict[str | int, float]:
    """Checks that all keys have one type. As in Core ML, this need not be the type in the description.

    coremltools' converters describe some dictionaries with string keys although the models look up integers.
    """
    if not isinstance(value, Mapping) or not (
        all(isinstance(number, (int, float, np.number)) for number in value.values())
        and any(all(isinstance(k, wanted) for k in value) for wanted in (str, (int, np.integer)))
    ):
        raise _wrong_type(feature, value)
    return {k if isinstance(k, str) else int(k): float(v) for k, v in value.items()}


def _sequence(feature: Feature, type_: SequenceFeature, value: Any) -> Array:
    items = value.tolist() if isinstance(value, np.ndarray) else value
    wanted = str if type_.element == "string" else (int, np.integer)
    if (
        isinstance(items, str)
        or not isinstance(items, Sequence)
        or not all(isinstance(item, wanted) and not isinstance(item, bool) for item in items)
    ):
        raise _wrong_type(feature, value)
    low, high = type_.bounds
    if len(items) < low or (0 <= high < len(items)):
        raise InputError(
            f"the input {feature.name!r} takes {describe_feature(type_)}, not {len(items)}",
            "use a sequence of an allowed length",
        )
    return _objects(items) if type_.element == "string" else np.array(items, dtype=np.int64)


def _array(feature: Feature, value: Any, shape: Shape | None) -> Array:
    type_ = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    assert isinstance(type_, ArrayFeature)
    if is_image(value) or isinstance(value, (str, bytes, Mapping)):
        raise _wrong_type(feature, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(
            f"the input {feature.name!r} takes {describe_feature(feature.type)}, "
            "but its rows differ in length",
            "use an array with the same number of elements in each row",
        ) from None
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise _wrong_type(feature, array if array.dtype != object else value)
    return _converted(feature.name, _shaped(feature, array, shape), type_.dtype)


def _shaped(feature: Feature, array: Array, shape: Shape | None) -> Array:
    """Checks the shape of an array. For one-element arrays, ranks 0 and 1 are interchangeable."""
    wanted = shape if shape is not None else default_shape(feature.type)
    if wanted is not None and {array.shape, tuple(wanted)} == {(), (1,)}:
        return array.reshape((1,) * len(wanted))
    if shape is None:
        return array.reshape(check_shape(feature, array.shape))
    if isinstance(feature.type, ArrayFeature):
        array = array.reshape(as_sequence(feature.type, array.shape))
    fits = len(shape) == array.ndim and all(
        want in (None, size) for want, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(
            f"the input {feature.name!r} has the shape {describe_shape(shape)}, "
            f"but {describe_shape(array.shape)} was given",
            "use an array of that shape, or set another shape with --shape if the model allows it",
        )
    return array


def _converted(name: str, array: Array, dtype: DType) -> Array:
    """Converts elements to the dtype in which programs carry them, rounded to the feature's dtype."""
    if dtype.is_float:
        if dtype is DType.FP16:
            with np.errstate(over="ignore"):
                array = array.astype(np.float16)
        return np.asarray(array, dtype=np.float64 if dtype is DType.FP64 else np.float32, order="C")
    if array.dtype.kind in "uif" and array.size:
        limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
        low, high = float(array.min()), float(array.max())
        if not (limits.min <= np.trunc(low) and np.trunc(high) <= limits.max):
            worst = low if np.isnan(low) or low < limits.min else high
            raise InputError(
                f"the value {worst:g} of the input {name!r} is out of range for {dtype_name(dtype)}",
                f"use values between {limits.min} and {limits.max}",
            )
    return np.asarray(array.astype(np.int32), order="C")


def _image(feature: Feature, type_: ImageFeature, value: Any, shape: Shape | None) -> Array:
    if isinstance(value, np.ndarray):
        value = image_from_array(value, feature.name)
    if not is_image(value):
        raise _wrong_type(feature, value)
    tensor = from_image(value, type_)
    if shape is not None and tuple(shape) != tensor.shape:
        height, width = shape[-2:]
        raise InputError(
            f"the image {feature.name!r} is {width}×{height}, but {value.width}×{value.height} was given",
            "resize it, or use --resize scale-fill, scale-fit or center-crop",
        )
    if shape is None:
        check_shape(feature, tensor.shape)
    return tensor


def _describe_missing(missing: Sequence[Feature]) -> tuple[str, str]:
    """Returns a sentence on the first missing inputs, and how to set them."""
    noun, verb = ("input", "is") if len(missing) == 1 else ("inputs", "are")
    listed = [f"{f.name!r} ({describe_feature(f.type)})" for f in missing[:_LISTED_INPUTS]]
    if len(missing) > len(listed):
        listed.append(f"and {len(missing) - len(listed)} more")
    option = shlex.quote(f"{missing[0].name}=VALUE")
    hint = f"set every input that is not optional; on the command line: --input {option}"
    return f"the {noun} {', '.join(listed)} {verb} missing", hint


def _default_value(feature: Feature, shape: Shape | None) -> Array:
    """Returns the value of a missing optional input."""
    type_ = feature.type
    size = shape if shape is not None else default_shape(type_)
    if isinstance(type_, ArrayFeature):
        filled = np.full([d or 1 for d in size or (1,)], type_.default or 0.0)
        return _converted(feature.name, filled, type_.dtype)
    match type_:
        case ImageFeature():
            return np.zeros([d or 1 for d in size or (1, 1, 1, 1)], dtype=np.float32)
        case StringFeature():
            return _objects([""])
        case DictionaryFeature():
            return _objects([{}])
        case SequenceFeature(element):
            return _objects([]) if element == "string" else np.zeros(0, dtype=np.int64)
        case Int64Feature():
            return np.zeros(1, dtype=np.int64)
        case _:
            return np.zeros(1, dtype=np.float64)


def from_tensors(
    features: Sequence[Feature],
    tensors: Mapping[str, Array],
    labels: Mapping[str, Labels] | None = None,
) -> dict[str, Any]:
    """Converts the output tensors of a program to values as coremltools returns them on a Mac.

    Arrays of fp16 and fp32 features are float32, of fp64 float64, of int32 int32. Rank 0 becomes rank 1.
    They share the memory of tensors that have that type.
    Images are Pillow images: RGBA for colour, L, F. A label is a `str` or `int`, and probabilities are a
    dictionary from label to float.

    Args:
        features: The outputs of a function.
        tensors: Tensors by feature name.
        labels: For a classifier, the labels in the order of the probabilities, by output name.
    """
    values = {}
    observer = _observer
    start = 0 if observer is None else time.perf_counter_ns()
    for feature in features:
        if feature.name in tensors:
            tensor = tensors[feature.name]
            value = values[feature.name] = _from_tensor(feature, tensor, (labels or {}).get(feature.name))
            if observer is not None:
                start = observer.output_converted(feature, tensor, value, start)
    return values


def _from_tensor(feature: Feature, tensor: Array, labels: Labels | None) -> Any:
    match feature.type:
        case ImageFeature():
            return to_image(tensor, feature.type)
        case ArrayFeature(dtype=dtype) | StateFeature(ArrayFeature(dtype=dtype)):
            given = np.float32 if dtype is DType.FP16 else dtype.numpy
            return np.atleast_1d(np.asarray(tensor)).astype(given, copy=False)
        case DictionaryFeature():
            flat = tensor.reshape(-1)
            if labels is None:
                return dict(flat[0])
            return {label: float(value) for label, value in zip(labels, flat, strict=True)}
        case SequenceFeature():
            items = tensor.reshape(-1).tolist()
            return items if labels is None else [labels[int(item)] for item in items]
        case _:
            value = tensor.reshape(-1)[0]
            if labels is not None:
                return labels[int(value)]
            return value if isinstance(value, str) else value.item()
