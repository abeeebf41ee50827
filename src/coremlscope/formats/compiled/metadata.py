"""The file `metadata.json` of Apple's compiled models: the interface as text, and what the model contains.

The file is a list of one object. Numbers and Booleans are strings, as are shapes: `"[1, 10]"`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.platforms import PRINTED_OPSETS, first_releases
from coremlscope.formats.weights import BlobData
from coremlscope.model import ir

METADATA = "metadata.json"

_MAX_BYTES = 64 * 2**20
_HINT = "the file is damaged or incomplete; copy or download the whole folder again"
_TYPE_PREFIX = "MLModelType_"
_DTYPES = {
    "Float16": ir.DType.FP16,
    "Float32": ir.DType.FP32,
    "Double": ir.DType.FP64,
    "Float64": ir.DType.FP64,
    "Int32": ir.DType.INT32,
    "Int8": ir.DType.INT8,
}
_SIMPLE_TYPES: Mapping[str, ir.FeatureType] = {
    "Int64": ir.Int64Feature(),
    "Double": ir.DoubleFeature(),
    "String": ir.StringFeature(),
}
#: The first specification version whose compiled models list their functions.
_FIRST_WITH_FUNCTIONS = 9
#: In the counts of operations, a name tells the operation set that last redefined the operation. The groups
#: are those seen in published compiled models: never redefined; redefined in iOS 17, but not in iOS 16;
#: redefined in iOS 16, but not in iOS 17. All others are redefined by each operation set.
_ORIGINAL = {"identity", "pad", "range_1d", "select", "shape", "split", "stack", "tile"}
_MOVING = {"concat", "expand_dims", "slice_by_index", "squeeze", "transpose"}
_REDEFINED_IN_IOS16 = {"reduce_sum", "relu", "sigmoid", "silu", "softmax"}
_COLOR_SPACES = ("RGB", "BGR", "GRAYSCALE", "GRAYSCALE_FLOAT16")


class CompiledMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `metadata.json`.

    Attributes:
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, `textClassifier`, …
        spec_version: Core ML's specification version.
        description: The interfaces of the model's functions.
        metadata: The author's information.
        is_updatable: True if the model can be trained on a device.
        class_labels: The labels of a classifier, in order, as text.
        histogram: The number of operations or layers by type, in the compiler's spelling: `Ios16.mul`.
        availability: The first version of each operating system that runs the model.
        stages: The number of models of a pipeline; 0 for other models.
    """

    kind: str
    spec_version: int
    description: ir.Description
    metadata: ir.Metadata
    is_updatable: bool = False
    class_labels: tuple[str, ...] = ()
    histogram: Mapping[str, int]
    availability: Mapping[str, str]
    stages: int = 0


def read_metadata_file(path: Path) -> CompiledMetadata:
    """Reads a `metadata.json` file.

    Raises:
        CorruptModelError: The file is damaged.
        OSError: The file cannot be read.
    """
    if path.stat().st_size > _MAX_BYTES:
        raise CorruptModelError(f"{path} is larger than {_MAX_BYTES >> 20} MB", _HINT)
    return parse_metadata(path.read_bytes(), str(path))


def parse_metadata(data: bytes, name: str) -> CompiledMetadata:
    """Reads the bytes of a `metadata.json` file; see `read_metadata_file`.

    Args:
        data: The bytes.
        name: The name of the file in error messages.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptModelError(f"{name} is not valid JSON", _HINT) from None
    try:
        return _read(content[0] if isinstance(content, list) else content)
    except CorruptModelError as error:
        raise CorruptModelError(f"{name} is damaged: {error.message}", _HINT) from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        raise CorruptModelError(f"{name} does not describe a compiled model", _HINT) from None


def _read(content: Mapping[str, Any]) -> CompiledMetadata:
    kind = str(content["modelType"]["name"]).removeprefix(_TYPE_PREFIX)
    histograms = ("mlProgramOperationTypeHistogram", "neuralNetworkLayerTypeHistogram")
    histogram: Mapping[str, Any] = next((content[key] for key in histograms if key in content), {})
    return CompiledMetadata(
        kind=kind,
        spec_version=int(content["specificationVersion"]),
        description=_description(content, is_classifier=kind.endswith("Classifier")),
        metadata=ir.Metadata(
            description=str(content.get("shortDescription", "")),
            version=str(content.get("version", "")),
            author=str(content.get("author", "")),
            licence=str(content.get("license", "")),
            user_defined=_texts(content.get("userDefinedMetadata", {})),
        ),
        is_updatable=_flag(content, "isUpdatable"),
        class_labels=tuple(map(str, content.get("classLabels", ()))),
        histogram={str(name): int(count) for name, count in histogram.items()},
        availability=_texts(content.get("availability", {})),
        stages=len(content["modelType"].get("structure", ())),
    )


def _texts(content: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in content.items()}


def _flag(content: Mapping[str, Any], name: str) -> bool:
    return str(content.get(name, "0")) == "1"


def _description(content: Mapping[str, Any], *, is_classifier: bool) -> ir.Description:
    functions = content.get("functions") or [{**content, "name": "main"}]
    described = {str(f["name"]): _function(f, is_classifier=is_classifier) for f in functions}
    default = str(content.get("defaultFunctionName") or next(iter(described)))
    if default not in described:
        raise CorruptModelError(f"the default function '{shown(default)}' is not described", _HINT)
    return ir.Description(described, default)


def _function(content: Mapping[str, Any], *, is_classifier: bool) -> ir.FunctionDescription:
    outputs = _features(content, "outputSchema")
    label, probabilities = "", ""
    if is_classifier:  # The file does not name these outputs; their types are those of no other output.
        probabilities = next((f.name for f in outputs if isinstance(f.type, ir.DictionaryFeature)), "")
        labels = (f.name for f in outputs if isinstance(f.type, ir.StringFeature | ir.Int64Feature))
        label = next(labels, "") if probabilities else ""
    return ir.FunctionDescription(
        inputs=_features(content, "inputSchema"),
        outputs=outputs,
        states=_features(content, "stateSchema"),
        predicted_feature=label,
        predicted_probabilities=probabilities,
    )


def _features(content: Mapping[str, Any], name: str) -> tuple[ir.Feature, ...]:
    return tuple(
        ir.Feature(
            str(feature["name"]),
            _feature_type(feature),
            _flag(feature, "isOptional"),
            str(feature.get("shortDescription", "")),
        )
        for feature in content.get(name, ())
    )


def _feature_type(feature: Mapping[str, Any]) -> ir.FeatureType:
    kind = str(feature["type"])
    match kind:
        case "MultiArray":
            return _array(feature)
        case "State":
            return ir.StateFeature(_array(feature))
        case "Image":
            return _image(feature)
        case "Dictionary":
            key = str(feature.get("keyType", feature.get("formattedType", "")))
            return ir.DictionaryFeature("int64" if "Int64" in key else "string")
        case "Sequence":
            is_int = "Int64" in str(feature.get("formattedType", ""))
            return ir.SequenceFeature("int64" if is_int else "string")
        case _ if kind in _SIMPLE_TYPES:
            return _SIMPLE_TYPES[kind]
        case _:
            raise CorruptModelError(f"the type '{shown(kind)}' of a feature is unknown", _HINT)


def _array(feature: Mapping[str, Any]) -> ir.ArrayFeature:
    dtype = _DTYPES.get(str(feature["dataType"]))
    if dtype is None:
        raise CorruptModelError(f"the element type '{shown(str(feature['dataType']))}' is unknown", _HINT)
    return ir.ArrayFeature(
        dtype=dtype,
        shape=_sizes(_parsed(feature, "shape")),
        flexibility=_flexibility(feature, "enumeratedShapes", "shapeRange"),
    )


def _image(feature: Mapping[str, Any]) -> ir.ImageFeature:
    color_space = str(feature.get("colorspace", "")).upper()
    if color_space not in _COLOR_SPACES:
        color_space = "RGB" if _flag(feature, "isColor") else "GRAYSCALE"
    width, height = _sizes((feature["width"], feature["height"]))
    flexibility = _flexibility(feature, "enumeratedSizes", "sizeRange")
    return ir.ImageFeature(color_space, width, height, flexibility)


def _flexibility(feature: Mapping[str, Any], shapes: str, bounds: str) -> ir.ShapeFlexibility | None:
    if feature.get(shapes):
        return ir.EnumeratedShapes(tuple(map(_sizes, _parsed(feature, shapes))))
    if feature.get(bounds):
        return ir.RangeShapes(tuple((int(low), max(int(high), -1)) for low, high in _parsed(feature, bounds)))
    return None


def _parsed(feature: Mapping[str, Any], name: str) -> Any:
    """Reads a list that is given as text."""
    value = feature[name]
    return json.loads(value) if isinstance(value, str) else value


def _sizes(values: Any) -> tuple[int, ...]:
    sizes = tuple(map(int, values))
    if any(size < 0 for size in sizes):
        raise CorruptModelError(f"the shape {sizes} has a negative dimension", _HINT)
    return sizes


def describe_model(model: ir.Model, name: str) -> list[dict[str, Any]]:
    """Returns the content of `metadata.json`: a list of one object. Booleans are "0" and "1".

    Args:
        model: The model.
        name: The name of the model's file without the suffix, after which Xcode names the generated class.
    """
    metadata, description = model.metadata, model.description
    about = {
        "shortDescription": metadata.description,
        "author": metadata.author,
        "license": metadata.licence,
        "version": metadata.version,
    }
    content: dict[str, Any] = {
        "metadataOutputVersion": "3.0",
        **{key: text for key, text in about.items() if text},
        "specificationVersion": model.spec_version,
        "modelType": {"name": f"{_TYPE_PREFIX}{model.kind}"},
        "isUpdatable": _as_flag(model.is_updatable),
        "availability": first_releases(model.spec_version),
        "modelParameters": [],
        **_write_interface(description.main),
        "userDefinedMetadata": dict(metadata.user_defined),
        "generatedClassName": re.sub(r"\W", "_", name),
        "method": "predict",
    }
    if not model.content.is_typed:
        return [content]
    functions = model.content.functions
    content |= _write_function(functions[description.default])
    storage = _storage_precision(functions.values())
    content |= {"storagePrecision": storage} if storage else {}
    if len(functions) > 1 or model.spec_version >= _FIRST_WITH_FUNCTIONS:
        content["defaultFunctionName"] = description.default
        content["functions"] = [
            {"name": name, **_write_interface(interface), **_write_function(functions[name])}
            for name, interface in description.functions.items()
        ]
    return [content]


def _write_interface(function: ir.FunctionDescription) -> dict[str, Any]:
    return {
        "inputSchema": _write_schema(function.inputs),
        "outputSchema": _write_schema(function.outputs),
        "stateSchema": _write_schema(function.states),
    }


def _write_function(function: ir.Function) -> dict[str, Any]:
    """Describes the operations of a function: their number by type, and their numeric element types."""
    ops = tuple(function.graph.walk())
    counts = Counter(op.type for op in ops if op.type != "const")
    values = (*function.graph.inputs, *(value for op in ops for value in op.outputs))
    dtypes = {value.type.dtype for value in values if isinstance(value.type, ir.TensorType)}
    return {
        "mlProgramOperationTypeHistogram": {
            _operation_name(type_, function.opset): count for type_, count in counts.items()
        },
        "computePrecision": _mixed(map(_name, dtypes - {ir.DType.BOOL, ir.DType.STRING})),
    }


def _operation_name(type_: str, opset: str) -> str:
    """Returns an operation's name in Apple's spelling, with the operation set that last redefined it.

    Names of the first operation set have no prefix: `SliceByIndex`, but `Ios17.sliceByIndex`.
    """
    release = PRINTED_OPSETS.get(opset, opset.lower())
    if release == "ios17" and type_ in _REDEFINED_IN_IOS16:
        release = "ios16"
    first, *others = type_.split("_")
    camel_case = "".join((first, *map(str.capitalize, others)))
    is_original = release == "ios15" or type_ in _ORIGINAL or (release == "ios16" and type_ in _MOVING)
    return camel_case[:1].upper() + camel_case[1:] if is_original else f"{release.capitalize()}.{camel_case}"


def _storage_precision(functions: Iterable[ir.Function]) -> str:
    """Describes the encodings of the weights in weight files; empty if there are none."""
    names = set()
    for op in (op for function in functions for op in function.graph.walk()):
        arguments = (
            *op.attributes.values(),
            *(argument for group in op.inputs.values() for argument in group),
        )
        for constant in arguments:
            if isinstance(constant, ir.Constant) and isinstance(constant.data, BlobData):
                names.add(_encoding(op, constant.data.type.dtype))
    return _mixed(names)


def _encoding(op: ir.Op, dtype: ir.DType) -> str:
    if "sparse" in op.type:
        return "Sparse"
    if "lut" not in op.type:
        return _name(dtype)
    parameters = {**op.attributes, **{name: group[0] for name, group in op.inputs.items()}}
    table, indices = parameters["lut"].type, parameters["indices"].type
    assert isinstance(table, ir.TensorType)
    assert isinstance(indices, ir.TensorType)
    # Until iOS 17 the indices are packed into bytes, and the table has one dimension.
    bits = indices.dtype.bits if indices.dtype.bits < 8 else ((table.elements or 1) - 1).bit_length()
    return f"Palettized ({bits} bits)"


def _mixed(names: Iterable[str]) -> str:
    ordered = sorted(set(names))
    return ordered[0] if len(ordered) == 1 else f"Mixed ({', '.join(ordered)})" if ordered else ""


def _name(dtype: ir.DType) -> str:
    """Returns Apple's name of an element type: `Float16`, `UInt8`."""
    if dtype is ir.DType.FP64:
        return "Double"
    name: str = dtype.value
    return name.replace("fp", "Float").replace("uint", "UInt").replace("int", "Int")


def _write_schema(features: Sequence[ir.Feature]) -> list[dict[str, Any]]:
    return [
        {
            "name": feature.name,
            "shortDescription": feature.doc,
            "isOptional": _as_flag(feature.is_optional),
            **_write_type(feature.type),
        }
        for feature in features
    ]


def _write_type(type_: ir.FeatureType) -> dict[str, Any]:
    match type_:
        case ir.ArrayFeature():
            return _write_array("MultiArray", type_)
        case ir.StateFeature(array):
            return _write_array("State", array)
        case ir.ImageFeature(color_space, width, height, flexibility):
            is_color = color_space in ("RGB", "BGR")
            kind = "Color" if is_color else "Grayscale"
            return {
                "type": "Image",
                "width": str(width),
                "height": str(height),
                "colorspace": color_space,
                "isColor": _as_flag(is_color),
                "hasSizeFlexibility": _as_flag(flexibility is not None),
                "formattedType": f"Image ({kind} {width} × {height})",
            }
        case ir.DictionaryFeature(key):
            return {
                "type": "Dictionary",
                "keyType": key.capitalize(),
                "formattedType": f"Dictionary ({key.capitalize()} → Double)",
            }
        case ir.SequenceFeature(element):
            return {"type": "Sequence", "formattedType": f"Sequence ({element.capitalize()})"}
        case ir.Int64Feature() | ir.DoubleFeature() | ir.StringFeature():
            name = type(type_).__name__.removesuffix("Feature")
            return {"type": name, "formattedType": name}


def _write_array(kind: str, type_: ir.ArrayFeature) -> dict[str, Any]:
    dtype = _name(type_.dtype)
    sizes = " × ".join(map(str, type_.shape))
    described = {
        "type": kind,
        "dataType": dtype,
        "shape": str(list(type_.shape)),
        "formattedType": f"{kind} ({' '.join(filter(None, (dtype, sizes)))})",
        "hasShapeFlexibility": _as_flag(type_.flexibility is not None),
    }
    match type_.flexibility:
        case ir.EnumeratedShapes(shapes):
            described["shapeFlexibility"] = " | ".join(" × ".join(map(str, shape)) for shape in shapes)
            described["enumeratedShapes"] = str([list(shape) for shape in shapes])
        case ir.RangeShapes(bounds):
            described["shapeFlexibility"] = " × ".join(
                str(low) if low == high else f"{low}...{'' if high < 0 else high}" for low, high in bounds
            )
            described["shapeRange"] = str([list(bound) for bound in bounds])
    return described


def _as_flag(value: bool) -> str:
    return "1" if value else "0"
