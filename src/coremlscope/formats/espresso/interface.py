"""The interface of a compiled network: what the files of the layers contain about its inputs and outputs."""

from __future__ import annotations

from coremlscope.formats.espresso.files import BlobShape
from coremlscope.formats.espresso.network import CompiledFiles
from coremlscope.formats.neuralnetwork.interface import take_sequences
from coremlscope.model.ir import (
    ArrayFeature,
    Description,
    DType,
    Feature,
    FeatureType,
    FunctionDescription,
    ImageFeature,
)

_COLOURS = {3: "RGB", 1: "GRAYSCALE"}


def with_compiled_shapes(description: Description, files: CompiledFiles) -> Description:
    """Completes the description of a model by what its compiled files contain.

    Arrays of networks without exact shapes also accept sequences. Arrays without a shape get that of the
    shapes file.
    """
    functions = {name: _completed(function, files) for name, function in description.functions.items()}
    completed = Description(functions, description.default)
    return completed if files.is_exact else take_sequences(completed)


def _completed(function: FunctionDescription, files: CompiledFiles) -> FunctionDescription:
    return FunctionDescription(
        inputs=tuple(_with_shape(feature, files) for feature in function.inputs),
        outputs=function.outputs,
        states=function.states,
        predicted_feature=function.predicted_feature,
        predicted_probabilities=function.predicted_probabilities,
        training_inputs=function.training_inputs,
    )


def _with_shape(feature: Feature, files: CompiledFiles) -> Feature:
    listed = files.shapes.get(feature.name)
    if listed is None or not isinstance(feature.type, ArrayFeature) or feature.type.shape:
        return feature
    type_ = ArrayFeature(dtype=feature.type.dtype, shape=_outer_shape(listed), default=feature.type.default)
    return Feature(feature.name, type_, feature.is_optional, feature.doc)


def describe_files(files: CompiledFiles) -> Description:
    """Describes a network by its layers and shapes alone.

    Inputs are the blobs that layers read before any layer writes them. Outputs are those that the file marks,
    or else those that no layer reads.
    """
    layers = files.network.layers
    written: set[str] = set()
    inputs: dict[str, None] = {}
    for layer in layers:
        inputs.update(dict.fromkeys(name for name in layer.inputs if name not in written))
        written.update(layer.outputs)
    read = {name for layer in layers for name in layer.inputs}
    marked = [
        name for layer in layers if _is_output(layer.attributes.get("attributes")) for name in layer.outputs
    ]
    unread = [name for layer in layers for name in layer.outputs if name not in read]
    outputs = dict.fromkeys(marked or unread or layers[-1].outputs)
    function = FunctionDescription(
        inputs=tuple(Feature(name, _input_type(name, files)) for name in inputs),
        outputs=tuple(Feature(name, _array(files.shapes.get(name))) for name in outputs),
    )
    description = Description({"main": function}, "main")
    return description if files.is_exact else take_sequences(description)


def _is_output(attributes: object) -> bool:
    return isinstance(attributes, dict) and attributes.get("is_output") == 1


def _input_type(name: str, files: CompiledFiles) -> FeatureType:
    """Returns the type of an input: an image if the file has its preprocessing."""
    listed, transform = files.shapes.get(name), files.transforms.get(name)
    if listed is None or transform is None or listed.sizes[2] not in _COLOURS:
        return _array(listed)
    *_, channels, height, width = listed.sizes
    colour = "BGR" if channels == 3 and transform.get("is_network_bgr") == 1 else _COLOURS[channels]
    return ImageFeature(colour, width, height)


def _array(listed: BlobShape | None) -> ArrayFeature:
    return ArrayFeature(dtype=DType.FP32, shape=() if listed is None else _outer_shape(listed))


def _outer_shape(listed: BlobShape) -> tuple[int, ...]:
    """Returns the shape of an array as an app passes it."""
    if listed.rank is not None:
        return listed.dims
    sequence, batch, *rest = listed.sizes
    if sequence * batch != 1:
        return listed.sizes
    return tuple(rest[:1] if rest[1:] == [1, 1] else rest)
