"""Features on their way from one model of a pipeline to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coremlscope.features.shapes import check_shape, default_shape
from coremlscope.features.tensors import from_tensors, to_tensors
from coremlscope.ir import (
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

__all__ = ["Held", "can_pass", "take"]


@dataclass(frozen=True, slots=True)
class Held:
    """A feature and its content, as the tensor of the model that gave it.

    Attributes:
        feature: The feature, as the model describes it that gave it.
        tensor: The content: what `to_tensors` made, or what a program gave.
        labels: Of a classifier's label or probabilities: the labels, in the order of the probabilities.
        is_fed: True where the tensor is what programs are fed: pixels are rounded, and so is fp16.
    """

    feature: Feature
    tensor: Array
    labels: Sequence[str | int] | None = None
    is_fed: bool = False

    def value(self) -> Any:
        """The content as coremltools gives it; see `from_tensors`."""
        name = self.feature.name
        labels = {} if self.labels is None else {name: self.labels}
        return from_tensors((self.feature,), {name: self.tensor}, labels)[name]

    def value_for(self, target: Feature) -> Any:
        """The content as an output of the whole, which may be described with another type of number."""
        value = self.value()
        match target.type:
            case ArrayFeature():
                return from_tensors((target,), {target.name: np.asarray(value)})[target.name]
            case DoubleFeature():
                return float(np.asarray(value).reshape(-1)[0])
            case Int64Feature():
                return int(np.asarray(value).reshape(-1)[0])
            case _:
                return value

    def tensor_for(self, target: Feature, shape: Shape | None = None) -> Array:
        """What the next model is fed.

        Args:
            target: The input that the content is for.
            shape: The tensor shape that the next model is bound to; None where it takes every allowed one.
                Arrays with as many elements in another shape are given this one.

        Raises:
            InputError: The next model does not take such content.
        """
        if self.is_fed and _is_same_image(self.feature.type, target.type):
            if shape is None:
                check_shape(target, self.tensor.shape)
            if shape is None or tuple(shape) == self.tensor.shape:
                return self.tensor
        value = self.value()
        if isinstance(target.type, ArrayFeature):
            value = _reshaped(np.asarray(value), shape or default_shape(target.type))
        shapes = {} if shape is None else {target.name: shape}
        return to_tensors((target,), {target.name: value}, shapes)[target.name]


def take(
    features: Sequence[Feature],
    held: Mapping[str, Held],
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """The tensors that a model is fed, from features that it is given by the names of its inputs.

    Args:
        features: The inputs of the model. Optional ones may be absent.
        held: What there is.
        shapes: Tensor shapes that the model is bound to.
        values: What stands for optional inputs that are absent, where that is more than their defaults.

    Raises:
        InputError: An input is missing or does not take what it is given.
    """
    known = shapes or {}
    absent = [feature for feature in features if feature.name not in held]
    standing = {feature.name: values[feature.name] for feature in absent if values and feature.name in values}
    tensors = to_tensors(absent, standing, known) if absent else {}
    for feature in features:
        if feature.name in held:
            tensors[feature.name] = held[feature.name].tensor_for(feature, known.get(feature.name))
    return tensors


def can_pass(source: FeatureType, target: FeatureType) -> bool:
    """Whether what is described as `source` can be given to what is described as `target`.

    Core ML asks for the very same type; here numbers may also become arrays of one element and the other way
    round, and arrays may differ in element type and in how their elements are arranged.
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
    """True where the description does not fix the shape."""
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
