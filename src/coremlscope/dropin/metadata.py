"""The `metadata.json` of a compiled model: its interface in the format of Apple's compiler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from coremlscope import ir

__all__ = ["describe"]

_DTYPES = {
    ir.DType.FP16: "Float16",
    ir.DType.FP32: "Float32",
    ir.DType.FP64: "Double",
    ir.DType.INT32: "Int32",
    ir.DType.INT8: "Int8",
}


def describe(model: ir.Model, name: str) -> list[dict[str, Any]]:
    """The content of `metadata.json`: a list of one object. Booleans are "0" and "1".

    Args:
        model: The model.
        name: The name of the model's file without the suffix, after which Xcode names the generated class.
    """
    main = model.description.main
    metadata = model.metadata
    content: dict[str, Any] = {
        "metadataOutputVersion": "3.0",
        "shortDescription": metadata.description,
        "author": metadata.author,
        "license": metadata.licence,
        "version": metadata.version,
        "specificationVersion": model.spec_version,
        "modelType": {"name": f"MLModelType_{model.kind}"},
        "isUpdatable": _flag(model.is_updatable),
        "inputSchema": _schema(main.inputs),
        "outputSchema": _schema(main.outputs),
        "stateSchema": _schema(main.states),
        "userDefinedMetadata": dict(metadata.user_defined),
        "generatedClassName": re.sub(r"\W", "_", name),
        "method": "predict",
    }
    if isinstance(model.content, ir.Program):
        content["mlProgramOperationTypeHistogram"] = _histogram(model.content)
    if len(model.description.functions) > 1:
        content["defaultFunctionName"] = model.description.default
        content["functions"] = [
            {
                "name": name,
                "inputSchema": _schema(function.inputs),
                "outputSchema": _schema(function.outputs),
                "stateSchema": _schema(function.states),
            }
            for name, function in model.description.functions.items()
        ]
    return [content]


def _schema(features: Sequence[ir.Feature]) -> list[dict[str, Any]]:
    return [
        {
            "name": feature.name,
            "shortDescription": feature.doc,
            "isOptional": _flag(feature.is_optional),
            **_feature_type(feature.type),
        }
        for feature in features
    ]


def _feature_type(type_: ir.FeatureType) -> dict[str, Any]:
    match type_:
        case ir.ArrayFeature():
            return _array("MultiArray", type_)
        case ir.StateFeature(array):
            return _array("State", array)
        case ir.ImageFeature(color_space, width, height, flexibility):
            is_color = color_space in ("RGB", "BGR")
            kind = "Color" if is_color else "Grayscale"
            return {
                "type": "Image",
                "width": str(width),
                "height": str(height),
                "colorspace": color_space,
                "isColor": _flag(is_color),
                "hasSizeFlexibility": _flag(flexibility is not None),
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


def _array(kind: str, type_: ir.ArrayFeature) -> dict[str, Any]:
    dtype = _DTYPES.get(type_.dtype, type_.dtype.value)
    sizes = " × ".join(map(str, type_.shape))
    described = {
        "type": kind,
        "dataType": dtype,
        "shape": str(list(type_.shape)),
        "formattedType": f"{kind} ({' '.join(filter(None, (dtype, sizes)))})",
        "hasShapeFlexibility": _flag(type_.flexibility is not None),
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


def _histogram(program: ir.Program) -> dict[str, int]:
    """The number of operations by type, in Apple's spelling (`SliceByIndex`), constants excluded."""
    ops = (op for function in program.functions.values() for op in function.graph.walk())
    counts = Counter(op.type for op in ops if op.type != "const")
    return {"".join(map(str.capitalize, name.split("_"))): count for name, count in counts.items()}


def _flag(value: bool) -> str:
    return "1" if value else "0"
