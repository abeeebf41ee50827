"""Transfer of feature values from one model of a pipeline to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coremlscope.base.arrays import np
from coremlscope.model.features.shapes import check_shape, default_shape
from coremlscope.model.features.tensors import from_tensors, to_tensors
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    Feature,
    FeatureType,
    ImageFeature,
    Int64Feature,
    SequenceFeature,
    Shape,
    StringFeature,
)


class FeatureValue(msgspec.Struct, frozen=True):
    """A feature and its value, as a tensor of the model that produced it.

    Attributes:
        feature: The feature, as described by the model that produced it.
        tensor: The value: a result of `to_tensors` or an output of a program.
        labels: For a classifier's label or probabilities, the labels in the order of the probabilities.
        is_input: True if the tensor is in the form of a program's input: pixels and fp16 values are rounded.
    """

    feature: Feature
    tensor: Array
    labels: Sequence[str | int] | None = None
    is_input: bool = False

    def value(self) -> Any:
        """Returns the value as coremltools represents it; see `from_tensors`."""
        name = self.feature.name
        labels = {} if self.labels is None else {name: self.labels}
        return from_tensors((self.feature,), {name: self.tensor}, labels)[name]

    def value_for(self, target: Feature) -> Any:
        """Returns the value as an output of the pipeline, which may have another numeric type."""
        value = self.value()
        match target.type:
            case ArrayFeature():
                # A copy: the value may be an input of the pipeline, or another output, too.
                return from_tensors((target,), {target.name: np.array(value)})[target.name]
            case DoubleFeature():
                return float(np.asarray(value).reshape(-1)[0])
            case Int64Feature():
                return int(np.asarray(value).reshape(-1)[0])
            case _:
                return value

    def tensor_for(self, target: Feature, shape: Shape | None = None) -> Array:
        """Returns the value as an input tensor of the next model.

        Args:
            target: The input of the next model.
            shape: The tensor shape to which the next model is bound; None if it accepts every allowed shape.
                Arrays with the same number of elements are reshaped to it.

        Raises:
            InputError: The next model does not accept the value.
        """
        if self.is_input and _is_same_image(self.feature.type, target.type):
            if shape is None:
                check_shape(target, self.tensor.shape)
            if shape is None or tuple(shape) == self.tensor.shape:
                return self.tensor
        value = self.value()
        if isinstance(target.type, ArrayFeature):
            value = _reshaped(np.asarray(value), shape or default_shape(target.type))
        shapes = {} if shape is None else {target.name: shape}
        return to_tensors((target,), {target.name: value}, shapes)[target.name]


def input_tensors(
    features: Sequence[Feature],
    available: Mapping[str, FeatureValue],
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Returns the input tensors of a model.

    Args:
        features: The inputs of the model. Optional ones may be missing in `available`.
        available: Values by the names of the model's inputs.
        shapes: Tensor shapes to which the model is bound.
        values: Values of missing optional inputs that replace the defaults.

    Raises:
        InputError: An input is missing or does not accept its value.
    """
    known = shapes or {}
    absent = [feature for feature in features if feature.name not in available]
    given = {feature.name: values[feature.name] for feature in absent if values and feature.name in values}
    tensors = to_tensors(absent, given, known) if absent else {}
    for feature in features:
        if feature.name in available:
            tensors[feature.name] = available[feature.name].tensor_for(feature, known.get(feature.name))
    return tensors


def is_compatible(source: FeatureType, target: FeatureType) -> bool:
    """True if an output of type `source` can be passed to an input of type `target`.

    Core ML requires equal types. Here, numbers and one-element arrays are also interchangeable, and arrays
    may differ in element type and shape.
    """
    match source, target:
        case ImageFeature(), ImageFeature():
            return _is_open(source) or _is_open(target) or _size(source) == _size(target)
        case ArrayFeature(), ArrayFeature():
            return _is_open(source) or _is_open(target) or math.prod(source.shape) == math.prod(target.shape)
        case ((DoubleFeature() | Int64Feature()), (DoubleFeature() | Int64Feature())):
            return True
        case ((DoubleFeature() | Int64Feature()), ArrayFeature() as array) | (
            ArrayFeature() as array,
            (DoubleFeature() | Int64Feature()),
        ):
            return _is_open(array) or math.prod(array.shape) == 1
        case StringFeature(), StringFeature():
            return True
        case DictionaryFeature(key), DictionaryFeature(wanted):
            return key == wanted
        case SequenceFeature(element), SequenceFeature(wanted):
            return element == wanted
        case _:
            return False


def _is_open(type_: ArrayFeature | ImageFeature) -> bool:
    """True if the description does not fix the shape."""
    fixed = type_.shape if isinstance(type_, ArrayFeature) else type_.width and type_.height
    return type_.flexibility is not None or not fixed


def _size(image: ImageFeature) -> tuple[int, int]:
    return image.width, image.height


def _is_same_image(source: FeatureType, target: FeatureType) -> bool:
    return (
        isinstance(source, ImageFeature)
        and isinstance(target, ImageFeature)
        and source.color_space == target.color_space
    )


def _reshaped(array: Array, shape: Shape | None) -> Array:
    sizes = [] if shape is None else [size for size in shape if size is not None]
    if shape is None or len(sizes) < len(shape) or array.shape == shape or math.prod(sizes) != array.size:
        return array
    return array.reshape(sizes)
