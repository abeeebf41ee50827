"""Conversion of `ModelDescription` messages from and to `ir.Description` and `ir.Metadata`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.model import ir, schema
from coremlscope.model.schema import Message

_DAMAGED = "the file is damaged or was written for a newer Core ML; export or download the model again"

#: Element types of multi-arrays by their number in `FeatureTypes.proto`.
_ARRAY_DTYPES = {
    65552: ir.DType.FP16,
    65568: ir.DType.FP32,
    65600: ir.DType.FP64,
    131080: ir.DType.INT8,
    131104: ir.DType.INT32,
}
_ARRAY_NUMBERS = {dtype: number for number, dtype in _ARRAY_DTYPES.items()}
#: The number of an unspecified element type, and the type that it means: doubles. Some tools for iOS 11
#: omitted the type, at a time when converters declared doubles for all arrays.
_UNSPECIFIED, _IF_UNSPECIFIED = 0, ir.DType.FP64


def read_metadata(message: Message) -> ir.Metadata:
    """Reads a `Metadata` message."""
    user_defined = {entry.key: entry.value for entry in message.userDefined}
    return ir.Metadata(
        description=message.shortDescription,
        version=message.versionString,
        author=message.author,
        licence=message.license,
        user_defined=user_defined,
    )


def read_description(message: Message, functions: tuple[str, ...] = ()) -> ir.Description:
    """Reads a `ModelDescription` message.

    Args:
        message: The message.
        functions: Names of the program's functions; empty if the model is not a program.

    Raises:
        CorruptModelError: A feature has no known type, or the default function has no description.
    """
    training = _read_features(message.trainingInput)
    if not message.functions:
        default = functions[0] if functions and "main" not in functions else "main"
        return ir.Description({default: _read_function(message, training)}, default)
    default = message.defaultFunctionName or message.functions[0].name
    described = {f.name: _read_function(f, training if f.name == default else ()) for f in message.functions}
    if default not in described:
        raise CorruptModelError(
            f"the model's default function '{shown(default)}' has no description", _DAMAGED
        )
    return ir.Description(described, default)


def _read_function(message: Message, training: Sequence[ir.Feature]) -> ir.FunctionDescription:
    return ir.FunctionDescription(
        inputs=_read_features(message.input),
        outputs=_read_features(message.output),
        states=_read_features(message.state),
        predicted_feature=message.predictedFeatureName,
        predicted_probabilities=message.predictedProbabilitiesName,
        training_inputs=training,
    )


def _read_features(messages: Iterable[Message]) -> tuple[ir.Feature, ...]:
    return tuple(
        ir.Feature(m.name, _read_feature_type(m.name, m.type), m.type.isOptional, m.shortDescription)
        for m in messages
    )


def _read_feature_type(name: str, message: Message) -> ir.FeatureType:
    match message.WhichOneof("Type"):
        case "int64Type":
            return ir.Int64Feature()
        case "doubleType":
            return ir.DoubleFeature()
        case "stringType":
            return ir.StringFeature()
        case "imageType":
            return _read_image(name, message.imageType)
        case "multiArrayType":
            return _read_array(name, message.multiArrayType)
        case "dictionaryType":
            kind = message.dictionaryType.WhichOneof("KeyType")
            return ir.DictionaryFeature("string" if kind == "stringKeyType" else "int64")
        case "sequenceType":
            sequence = message.sequenceType
            element = "string" if sequence.WhichOneof("Type") == "stringType" else "int64"
            bounds = _read_bounds(sequence.sizeRange) if sequence.HasField("sizeRange") else (0, -1)
            return ir.SequenceFeature(element, bounds)
        case "stateType":
            return ir.StateFeature(_read_array(name, message.stateType.arrayType))
        case _:
            raise CorruptModelError(
                f"the type of the feature '{shown(name)}' is missing or unknown", _DAMAGED
            )


def _read_bounds(message: Message) -> tuple[int, int]:
    return message.lowerBound, max(message.upperBound, -1)


def _read_array(name: str, message: Message) -> ir.ArrayFeature:
    dtype = _IF_UNSPECIFIED if message.dataType == _UNSPECIFIED else _ARRAY_DTYPES.get(message.dataType)
    if dtype is None:
        raise CorruptModelError(
            f"unknown element type {message.dataType} of the multi-array '{shown(name)}'", _DAMAGED
        )
    if any(size < 0 for size in message.shape):
        raise CorruptModelError(f"the multi-array '{shown(name)}' has a negative dimension", _DAMAGED)
    flexibility: ir.ShapeFlexibility | None = None
    match message.WhichOneof("ShapeFlexibility"):
        case "enumeratedShapes":
            flexibility = ir.EnumeratedShapes(tuple(tuple(s.shape) for s in message.enumeratedShapes.shapes))
        case "shapeRange":
            flexibility = ir.RangeShapes(tuple(map(_read_bounds, message.shapeRange.sizeRanges)))
    field = message.WhichOneof("defaultOptionalValue")
    default = None if field is None else float(getattr(message, field))
    return ir.ArrayFeature(dtype=dtype, shape=tuple(message.shape), flexibility=flexibility, default=default)


def _read_image(name: str, message: Message) -> ir.ImageFeature:
    color_space = schema.enum_names("ImageFeatureType.ColorSpace").get(message.colorSpace)
    if color_space is None:
        raise CorruptModelError(
            f"unknown colour space {message.colorSpace} of the image '{shown(name)}'", _DAMAGED
        )
    if message.width < 0 or message.height < 0:
        raise CorruptModelError(
            f"invalid size {message.width}x{message.height} of the image '{shown(name)}'", _DAMAGED
        )
    flexibility: ir.ShapeFlexibility | None = None
    match message.WhichOneof("SizeFlexibility"):
        case "enumeratedSizes":
            flexibility = ir.EnumeratedShapes(
                tuple((s.height, s.width) for s in message.enumeratedSizes.sizes)
            )
        case "imageSizeRange":
            ranges = message.imageSizeRange
            flexibility = ir.RangeShapes((_read_bounds(ranges.heightRange), _read_bounds(ranges.widthRange)))
    return ir.ImageFeature(color_space, message.width, message.height, flexibility)


def write_description(description: ir.Description, metadata: ir.Metadata, message: Message) -> None:
    """Fills a `ModelDescription` message; the inverse of `read_description` and `read_metadata`.

    A single function named `main` is described at the top level, which every version of Core ML supports.
    """
    if tuple(description.functions) == ("main",):
        _write_function(description.main, message)
    else:
        message.defaultFunctionName = description.default
        for name, function in description.functions.items():
            _write_function(function, message.functions.add(name=name))
    write_features(description.main.training_inputs, message.trainingInput)
    target = message.metadata
    target.SetInParent()
    target.shortDescription, target.versionString = metadata.description, metadata.version
    target.author, target.license = metadata.author, metadata.licence
    for key, value in metadata.user_defined.items():
        target.userDefined.add(key=key, value=value)


def _write_function(function: ir.FunctionDescription, message: Message) -> None:
    write_features(function.inputs, message.input)
    write_features(function.outputs, message.output)
    write_features(function.states, message.state)
    message.predictedFeatureName = function.predicted_feature
    message.predictedProbabilitiesName = function.predicted_probabilities


def write_features(features: Iterable[ir.Feature], messages: Message) -> None:
    """Adds features to the inputs, outputs or states of a description."""
    for feature in features:
        message = messages.add(name=feature.name, shortDescription=feature.doc)
        message.type.isOptional = feature.is_optional
        _write_feature_type(feature.type, message.type)


def _write_feature_type(type_: ir.FeatureType, message: Message) -> None:
    match type_:
        case ir.Int64Feature():
            message.int64Type.SetInParent()
        case ir.DoubleFeature():
            message.doubleType.SetInParent()
        case ir.StringFeature():
            message.stringType.SetInParent()
        case ir.ImageFeature():
            _write_image(type_, message.imageType)
        case ir.ArrayFeature():
            _write_array(type_, message.multiArrayType)
        case ir.DictionaryFeature(key):
            dictionary = message.dictionaryType
            (dictionary.stringKeyType if key == "string" else dictionary.int64KeyType).SetInParent()
        case ir.SequenceFeature(element, bounds):
            sequence = message.sequenceType
            (sequence.stringType if element == "string" else sequence.int64Type).SetInParent()
            _write_bounds(bounds, sequence.sizeRange)
        case ir.StateFeature(array):
            _write_array(array, message.stateType.arrayType)


def _write_bounds(bounds: tuple[int, int], message: Message) -> None:
    message.lowerBound, message.upperBound = bounds


def _write_array(array: ir.ArrayFeature, message: Message) -> None:
    message.dataType = _ARRAY_NUMBERS[array.dtype]
    message.shape.extend(array.shape)
    match array.flexibility:
        case ir.EnumeratedShapes(shapes):
            message.enumeratedShapes.SetInParent()
            for shape in shapes:
                message.enumeratedShapes.shapes.add(shape=shape)
        case ir.RangeShapes(bounds):
            message.shapeRange.SetInParent()
            for pair in bounds:
                _write_bounds(pair, message.shapeRange.sizeRanges.add())
    default = array.default
    if default is None:
        return
    if array.dtype.is_int and default.is_integer() and abs(default) < 2**31:
        message.intDefaultValue = int(default)
        return
    with np.errstate(over="ignore"):
        is_single = float(np.float32(default)) == default
    if is_single and array.dtype is not ir.DType.FP64:
        message.floatDefaultValue = default
    else:
        message.doubleDefaultValue = default


def _write_image(image: ir.ImageFeature, message: Message) -> None:
    numbers = {name: number for number, name in schema.enum_names("ImageFeatureType.ColorSpace").items()}
    message.colorSpace = numbers[image.color_space]
    message.width, message.height = image.width, image.height
    match image.flexibility:
        case ir.EnumeratedShapes(shapes):
            message.enumeratedSizes.SetInParent()
            for height, width in shapes:
                message.enumeratedSizes.sizes.add(height=height, width=width)
        case ir.RangeShapes((heights, widths)):
            _write_bounds(heights, message.imageSizeRange.heightRange)
            _write_bounds(widths, message.imageSizeRange.widthRange)
