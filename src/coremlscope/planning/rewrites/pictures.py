"""Image inputs instead of arrays that hold pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.describe.preprocessing import find_preprocessing
from coremlscope.model.features.images import image_from_array
from coremlscope.model.ir import (
    ArrayFeature,
    DType,
    Feature,
    Function,
    FunctionDescription,
    ImageFeature,
    Model,
    TensorType,
    constant,
)
from coremlscope.model.ir.rewriting import Chain, with_ops, with_values
from coremlscope.planning.advice import bind_default_function, find_pictures

#: Numbers in float32.
Floats = npt.NDArray[np.float32]

#: Numbers that the app passes instead of pixels of 0 … 255: 0 … 1; or these less the mean of ImageNet's
#: pixels, divided by their deviation.
Scaling = Literal["unit", "imagenet"]
#: A factor below which elements are pixels of 0 … 255.
_PIXEL_FACTOR = 1 / 32
_IMAGENET_MEAN, _IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
_RGB, _GRAY, _RANK = 3, 1, 4


class Pictures(msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of a model, and how an image becomes the array that the original takes.

    Attributes:
        features: The inputs, as images.
        scaling: What the original takes; None for pixels, which it scales itself.
        originals: The inputs of the original.
    """

    features: tuple[Feature, ...]
    scaling: Scaling | None
    originals: tuple[Feature, ...]

    def numbers(self, channels: int) -> tuple[Floats, Floats]:
        """Returns the scale and the bias of pixels, one for each channel or one for all."""
        if self.scaling is None:
            return np.ones(1, np.float32), np.zeros(1, np.float32)
        if self.scaling == "unit":
            return np.full(1, 1 / 255, np.float32), np.zeros(1, np.float32)
        mean, std = _IMAGENET_MEAN[:channels], _IMAGENET_STD[:channels]
        return (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)

    def samples(self, sample: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns inputs of the original and of the model with images that show the same pictures.

        Args:
            sample: The other inputs.
            seed: The seed of the pictures, which are drawn.
        """
        original, images = dict(sample), dict(sample)
        arrays = {feature.name: feature for feature in self.originals}
        for place, feature in enumerate(self.features):
            shape = _shape(feature)
            pixels = np.random.default_rng([seed, place]).integers(0, 256, shape).astype(np.float32)
            scale, bias = (one.reshape(1, -1, 1, 1) for one in self.numbers(shape[1]))
            array = np.asarray(pixels * scale + bias, _dtype(arrays[feature.name]))
            is_last = getattr(arrays[feature.name].type, "shape", shape) != shape
            original[feature.name] = array.transpose(0, 2, 3, 1) if is_last else array
            images[feature.name] = image_from_array(pixels[0].astype(np.uint8), feature.name)
        return original, images


def with_image_inputs(model: Model, scaling: Scaling | None = None) -> tuple[Model, Pictures]:
    """Declares the arrays that hold pictures as images.

    A model that scales pixels itself takes them as they are. Into others the scale and the bias are written,
    as coremltools writes those of `ImageType` into ML Programs.

    Args:
        model: An ML Program with one function.
        scaling: What its arrays hold; None for pixels.

    Raises:
        UnsupportedModelError: No array holds a picture, or the model does not scale pixels, so that it is not
            known what the array holds.
    """
    functions = model.content.functions
    found = [_as_image(*picture) for picture in find_pictures(bind_default_function(model))]
    images = {image.name: image for image in found if image is not None}
    if not images or len(functions) != 1:
        raise UnsupportedModelError(
            "no input is an array of one picture in a model with one function",
            "declare images where the model is converted: ct.ImageType(…)",
        )
    ((name, function),) = functions.items()
    main = model.description.main
    described = replace(main, inputs=tuple(images.get(feature.name, feature) for feature in main.inputs))
    for image in images.values():
        function = _in_single_precision(_with_channels_first(function, image), image)
    if scaling is None and not _scales_pixels(function, described, images):
        raise UnsupportedModelError(
            "the model does not begin with a scale of pixels, so what its arrays hold is not known",
            "use image-inputs-unit for arrays of 0 … 1, image-inputs-imagenet for normalized ones",
        )
    pictures = Pictures(features=tuple(images.values()), scaling=scaling, originals=tuple(main.inputs))
    if scaling is not None:
        for image in images.values():
            function = _scaled(function, image, pictures)
    interfaces = {**model.description.functions, model.description.default: described}
    description = replace(model.description, functions=interfaces)
    return replace(model.with_functions({name: function}), description=description), pictures


def why_no_images(model: Model, scaling: Scaling | None) -> str:
    """Returns why the arrays of a program cannot become images, as a sentence; empty if they can."""
    try:
        with_image_inputs(model, scaling)
    except CoremlscopeError as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    return ""


def _as_image(feature: Feature, height: int, width: int) -> Feature | None:
    """Returns an array of one picture as an image; None for arrays without a batch."""
    assert isinstance(feature.type, ArrayFeature)
    shape = feature.type.shape
    if len(shape) != _RANK:
        return None
    is_gray = _GRAY in (shape[1], shape[-1]) and _RGB not in (shape[1], shape[-1])
    return replace(feature, type=ImageFeature("GRAYSCALE" if is_gray else "RGB", width, height))


def _with_channels_first(function: Function, image: Feature) -> Function:
    """Takes a picture with its channels first, without the transposition at the beginning.

    Raises:
        UnsupportedModelError: Its channels are last, and something else than a transposition reads it.
    """
    graph = function.graph
    given = next(value for value in graph.inputs if value.name == image.name)
    shape = _shape(image)
    if not isinstance(given.type, TensorType) or given.type.shape == shape:
        return function
    readers = [op for op in graph.ops if given in (a for several in op.inputs.values() for a in several)]
    if [op.type for op in readers] != ["transpose"]:
        raise UnsupportedModelError(
            f"the channels of {shown(image.name)} are last, and the model does not begin by transposing it",
            "images have their channels first: convert the model from such inputs",
        )
    first = replace(given, type=replace(given.type, shape=shape))
    turned = readers[0].outputs[0]
    ops = [with_values(op, {turned: first}) for op in graph.ops if op is not readers[0]]
    inputs = tuple(first if value is given else value for value in graph.inputs)
    return with_ops(replace(function, graph=replace(graph, inputs=inputs)), ops)


def _in_single_precision(function: Function, image: Feature) -> Function:
    """Takes a picture in float32, as coremltools writes images, and casts it where it was float16."""
    graph = function.graph
    given = next(value for value in graph.inputs if value.name == image.name)
    if not isinstance(given.type, TensorType) or given.type.dtype is not DType.FP16:
        return function
    single = replace(given, type=replace(given.type, dtype=DType.FP32))
    chain = Chain(f"{image.name}_to_fp16", DType.FP16)
    half = chain.add("cast", given.type, x=single, dtype=constant("fp16"))
    inputs = tuple(single if value is given else value for value in graph.inputs)
    ops = [*chain.ops, *(with_values(op, {given: half}) for op in graph.ops)]
    outputs = tuple(half if value == given else value for value in graph.outputs)
    return with_ops(replace(function, graph=replace(graph, inputs=inputs, outputs=outputs)), ops)


def _dtype(feature: Feature) -> np.dtype[Any]:
    """Returns the type of the elements of an array; float32 where the interface has float64."""
    is_half = isinstance(feature.type, ArrayFeature) and feature.type.dtype is DType.FP16
    return np.dtype(np.float16 if is_half else np.float32)


def _shape(image: Feature) -> tuple[int, int, int, int]:
    assert isinstance(image.type, ImageFeature)
    channels = _GRAY if image.type.color_space == "GRAYSCALE" else _RGB
    return (1, channels, image.type.height, image.type.width)


def _scales_pixels(function: Function, described: FunctionDescription, images: Mapping[str, Feature]) -> bool:
    """Returns whether a function begins by making small numbers of all its pictures."""
    steps = [step for step in find_preprocessing(function, described) if step.input in images]
    return all(bool(step.ops) and max(map(abs, step.scale)) <= _PIXEL_FACTOR for step in steps)


def _scaled(function: Function, image: Feature, pictures: Pictures) -> Function:
    """Writes the scale and the bias of a picture behind the input."""
    graph = function.graph
    given = next(value for value in graph.inputs if value.name == image.name)
    assert isinstance(given.type, TensorType)
    shape = _shape(image)
    scale, bias = (one.reshape(1, -1, 1, 1) for one in pictures.numbers(shape[1]))
    chain = Chain(f"{image.name}_scaled", given.type.dtype)
    result = chain.add("mul", given.type, x=given, y=scale)
    if bias.any():
        result = chain.add("add", given.type, x=result, y=bias)
    return with_ops(function, [*chain.ops, *(with_values(op, {given: result}) for op in graph.ops)])
