"""The file `metadata.json` of compiled models."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.compiled.metadata import METADATA, parse_metadata, read_metadata_file
from coremlscope.model import ir


def _array(name: str, **more: str) -> dict[str, str]:
    return {"name": name, "type": "MultiArray", "dataType": "Float16", "shape": "[1, 10]", **more}


def _parse(**content: Any) -> ir.FunctionDescription:
    return _parse_all(**content).main


def _parse_all(**content: Any) -> ir.Description:
    whole = {"modelType": {"name": "MLModelType_mlProgram"}, "specificationVersion": 8, **content}
    return parse_metadata(json.dumps([whole]).encode(), "m").description


def test_arrays() -> None:
    function = _parse(
        inputSchema=[
            _array("x", shortDescription="samples", isOptional="1"),
            _array("r", shapeRange="[[1, 1], [1, -1]]", hasShapeFlexibility="1"),
            _array("e", enumeratedShapes="[[1, 10], [1, 20]]"),
        ],
        stateSchema=[{**_array("s"), "type": "State"}],
    )
    array = ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 10))
    assert function.inputs[0] == ir.Feature("x", array, True, "samples")
    flexible = [f.type.flexibility for f in function.inputs[1:] if isinstance(f.type, ir.ArrayFeature)]
    assert flexible == [ir.RangeShapes(((1, 1), (1, -1))), ir.EnumeratedShapes(((1, 10), (1, 20)))]
    assert function.states == (ir.Feature("s", ir.StateFeature(array)),)


def test_other_features() -> None:
    image = {"name": "i", "type": "Image", "width": "600", "height": "375", "isColor": "1"}
    function = _parse(
        modelType={"name": "MLModelType_neuralNetworkClassifier"},
        inputSchema=[{**image, "colorspace": "BGR"}, {**image, "isColor": "0"}],
        outputSchema=[
            {"name": "p", "type": "Dictionary", "keyType": "Int64"},
            {"name": "c", "type": "Int64"},
            {"name": "d", "type": "Double"},
            {"name": "t", "type": "Sequence", "formattedType": "Sequence (String)"},
        ],
    )
    assert [f.type for f in function.inputs] == [
        ir.ImageFeature("BGR", 600, 375),
        ir.ImageFeature("GRAYSCALE", 600, 375),
    ]
    assert [f.type for f in function.outputs] == [
        ir.DictionaryFeature("int64"),
        ir.Int64Feature(),
        ir.DoubleFeature(),
        ir.SequenceFeature("string"),
    ]
    assert (function.predicted_feature, function.predicted_probabilities) == ("c", "p")


def test_functions() -> None:
    functions = [{"name": name, "inputSchema": [_array(f"x_{name}")]} for name in ("add", "mul")]
    description = _parse_all(functions=functions, defaultFunctionName="mul")
    assert list(description.functions) == ["add", "mul"]
    assert description.main.inputs[0].name == "x_mul"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "does not describe a compiled model"),
        ("[{}]", "does not describe a compiled model"),
        ('[{"modelType": {"name": "x"}, "specificationVersion": 1e999}]', "does not describe"),
    ],
    ids=["empty", "deep", "list", "object", "number"],
)
def test_damage(content: str, message: str) -> None:
    with pytest.raises(CorruptModelError, match=message):
        parse_metadata(content.encode(), "m")


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"type": "Video", "name": "v"}, "the type 'Video' of a feature is unknown"),
        (_array("x", dataType="Float8"), "the element type 'Float8' is unknown"),
        (_array("x", shape="[-1]"), "negative dimension"),
        (_array("x", shape="1"), "does not describe"),
        (_array("x", shapeRange="[[1]]"), "does not describe"),
    ],
    ids=["type", "element", "shape", "text", "range"],
)
def test_damaged_features(feature: dict[str, str], message: str) -> None:
    with pytest.raises(CorruptModelError, match=message):
        _parse(inputSchema=[feature])


def test_unknown_default_function() -> None:
    with pytest.raises(CorruptModelError, match="the default function 'other' is not described"):
        _parse(defaultFunctionName="other")


@pytest.mark.corpus
def test_files_of_the_corpus(corpus: Path) -> None:
    files = sorted(corpus.rglob(f"*.mlmodelc/{METADATA}"))
    assert len(files) >= 23
    metadata = [read_metadata_file(file) for file in files]
    assert Counter(data.kind for data in metadata)["mlProgram"] >= 21
    for data in metadata:
        assert data.description.main.inputs
        assert data.availability["iOS"]
        assert bool(data.histogram) == (data.kind != "textClassifier")
    labels = [data.class_labels for data in metadata if data.kind == "textClassifier"]
    assert labels == [("Spam", "Ham")]
