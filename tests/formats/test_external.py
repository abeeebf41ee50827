"""Reading models whose computation is not in the file."""

from __future__ import annotations

import plistlib
import struct
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.formats.external import EXTERNAL_READERS
from coremlscope.model import ir
from coremlscope.model.schema import message_class
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.pipeline import open_predictor
from tests.support.classical_specs import array_type, dictionary_type, model_spec
from tests.support.wire_format import field

_LANGUAGE = {"revision": 2, "language": "en-US", "modelParameterData": b"1234567"}
_LABELS = {"vector": ["no", "yes"]}


def _read(kind: str, content: dict[str, Any]) -> ir.Model:
    text = {"name": "text", "type": {"stringType": {}}}
    label = {"name": "label", "type": {"stringType": {}}}
    spec = message_class("Model")(
        specificationVersion=4, description={"input": [text], "output": [label]}, **{kind: content}
    )
    model = container.read(spec.SerializeToString())
    assert model.kind == kind
    return model


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"scene": {"version": 1}}, ir.VisionFeaturePrint("scene", 1)),
        ({"scene": {"version": 2}}, ir.VisionFeaturePrint("scene", 2)),
        ({"objects": {"version": 1, "output": ["a", "b"]}}, ir.VisionFeaturePrint("objects", 1, ("a", "b"))),
        ({}, ir.VisionFeaturePrint("", 0)),
    ],
)
def test_vision(content: dict[str, Any], expected: ir.VisionFeaturePrint) -> None:
    assert _read("visionFeaturePrint", content).content == expected


def test_shapes_of_the_specification() -> None:
    assert ir.VisionFeaturePrint("scene", 1).output_shapes(("x",)) == {"x": (2048,)}
    assert ir.VisionFeaturePrint("scene", 2).output_shapes(("x",)) == {"x": (768,)}
    assert ir.VisionFeaturePrint("scene", 9).output_shapes(("x",)) == {}
    objects = ir.VisionFeaturePrint("objects", 1, ("high", "low"))
    assert objects.output_shapes(()) == {"high": (288, 35, 35), "low": (768, 17, 17)}
    assert [ir.VisionFeaturePrint("scene", v).image_size for v in (1, 2, 3)] == [299, 360, None]
    assert ir.AudioFeaturePrint("sound", 1).output_shapes(("x",)) == {"x": (512,)}
    assert ir.SoundAnalysisPreprocessing("vggish").output_shapes(("x",)) == {"x": (1, 96, 64)}


def test_sound() -> None:
    assert _read("audioFeaturePrint", {"sound": {"version": 1}}).content == ir.AudioFeaturePrint("sound", 1)
    assert _read("audioFeaturePrint", {}).content == ir.AudioFeaturePrint("", 0)
    found = _read("soundAnalysisPreprocessing", {"vggish": {}}).content
    assert found == ir.SoundAnalysisPreprocessing("vggish")
    assert _read("soundAnalysisPreprocessing", {}).content == ir.SoundAnalysisPreprocessing("")


def test_language() -> None:
    given = {"revision": 2, "language": "en-US", "data_bytes": 7}
    found = _read("textClassifier", {**_LANGUAGE, "stringClassLabels": _LABELS}).content
    assert found == ir.TextClassifier(**given, labels=("no", "yes"))
    found = _read("gazetteer", {**_LANGUAGE, "stringClassLabels": _LABELS}).content
    assert found == ir.Gazetteer(**given, labels=("no", "yes"))
    assert _read("wordEmbedding", _LANGUAGE).content == ir.WordEmbedding(**given)
    names = {"tokensOutputFeatureName": "words", "tokenTagsOutputFeatureName": "tags"}
    found = _read("wordTagger", {**_LANGUAGE, **names, "stringTags": _LABELS}).content
    assert found == ir.WordTagger(**given, labels=("no", "yes"), roles={"words": "tokens", "tags": "tags"})


def _parameters(properties: bytes, vocabulary: bytes = b"\0\0the\0and\0") -> bytes:
    """Parameters in the layout of Create ML's files of revision 1."""
    sections = [properties, b"weights", b"no\0yes\0", vocabulary, b"index"]
    offsets, start = [], 52
    for section in sections:
        offsets += [start, len(section)]
        start += len(section)
    return b"\xde\xd3\x56\x09" + bytes(12) + struct.pack("<10I", *offsets) + b"".join(sections)


_PROPERTIES = {"NumberOfTrainingInstances": 1234, "Language": "de", "EmbeddingType": "Static", "ModelType": 0}


@pytest.mark.parametrize("format_", [plistlib.FMT_BINARY, plistlib.FMT_XML])
@pytest.mark.parametrize("kind", ["textClassifier", "wordTagger", "wordEmbedding", "gazetteer"])
def test_facts_of_the_parameters(kind: str, format_: plistlib.PlistFormat) -> None:
    data = _parameters(plistlib.dumps(_PROPERTIES, fmt=format_))
    content = _read(kind, {"revision": 1, "modelParameterData": data}).content
    assert isinstance(content, (ir.TextClassifier, ir.WordTagger, ir.WordEmbedding, ir.Gazetteer))
    assert content.facts == ir.LanguageFacts(1234, "de", "Static", 2)
    summary = describe_model(_read(kind, {"revision": 1, "modelParameterData": data}))
    facts = dict(summary.facts)
    assert facts["language"] == "de"
    assert facts["trained on"] == "1234 texts"
    assert facts["vocabulary"] == "2 words"
    assert "Natural Language framework" in facts["to run it"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xde\xd3\x56\x09",
        _parameters(b""),
        _parameters(b"bplist00" + bytes(60)),
        _parameters(plistlib.dumps([1])),
        _parameters(plistlib.dumps(_PROPERTIES))[:-9],
        b"other layout" + bytes(100),
    ],
)
def test_parameters_of_another_layout_tell_nothing(data: bytes) -> None:
    content = _read("textClassifier", {"revision": 2, "modelParameterData": data}).content
    assert isinstance(content, ir.TextClassifier)
    assert content.facts == ir.LanguageFacts()
    assert content.data_bytes == len(data)


def test_odd_properties_are_ignored() -> None:
    data = _parameters(plistlib.dumps({"NumberOfTrainingInstances": "many", "Language": 7}))
    content = _read("textClassifier", {"revision": 1, "modelParameterData": data}).content
    assert isinstance(content, ir.TextClassifier)
    assert content.facts == ir.LanguageFacts(words=2)


def test_all_labels_of_a_text_classifier_are_listed() -> None:
    labels = [f"label {index}" for index in range(30)]
    model = _read("textClassifier", {"revision": 1, "stringClassLabels": {"vector": labels}})
    found = describe_model(model).labels
    assert found is not None
    assert (found.count, list(found.first)) == (30, labels)


@pytest.mark.corpus
def test_facts_of_a_real_text_classifier(corpus: Path) -> None:
    path = corpus / "models" / "raywenderlich__mlt-materials" / "SentimentClassifier.mlmodel"
    content = container.read(path).content
    assert isinstance(content, ir.TextClassifier)
    assert (content.language, content.revision, content.labels) == ("en", 1, ("pos", "neg"))
    assert content.facts.instances == 23789
    assert content.facts.words > 50_000


def test_custom() -> None:
    values = {
        "rate": {"doubleValue": 0.5},
        "name": {"stringValue": "x"},
        "nothing": {},
        "count": {"intValue": 3},
        "big": {"longValue": 2**40},
        "flag": {"boolValue": True},
        "blob": {"bytesValue": b"abc"},
    }
    parameters = [{"key": key, "value": value} for key, value in values.items()]
    content = {"className": "MyModel", "description": "does it", "parameters": parameters}
    assert _read("customModel", content).content == ir.CustomModel(
        "MyModel",
        {"rate": 0.5, "name": "x", "blob": "3 bytes", "count": 3, "big": 2**40, "flag": True, "nothing": ""},
        "does it",
    )


@pytest.mark.parametrize("kind", EXTERNAL_READERS)
def test_external_models_cannot_be_run(kind: str) -> None:
    with pytest.raises(
        UnsupportedModelError, match=f"{ir.kind_with_article(kind)} cannot be run here: its? "
    ) as caught:
        choose_function(_read(kind, {}))
    assert "\n" not in caught.value.message
    assert "inspect" in caught.value.hint
    assert "pipeline" not in caught.value.hint
    assert "profile" not in caught.value.hint


def test_deeply_nested_pipelines_are_rejected() -> None:
    data = message_class("Model")(specificationVersion=1, identity={}).SerializeToString()
    for _ in range(1000):
        inner = field(1, data)  # Pipeline.models
        data = b"\x08\x01\x12\x00" + field(202, inner)  # version, description, Model.pipeline
    with pytest.raises(CorruptModelError) as caught:
        container.read(data)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "parameters", "content", "sentence"),
    [
        (
            "linkedModel",
            {
                "linkedModelFile": {
                    "linkedModelFileName": {"defaultValue": "A.mlmodelc"},
                    "linkedModelSearchPath": {"defaultValue": ".:models"},
                }
            },
            ir.LinkedModel("A.mlmodelc", ".:models"),
            "a link to another model file",
        ),
        (
            "serializedModel",
            {"identifier": "some.framework", "model": b"abc"},
            ir.SerializedModel("some.framework", 3),
            "only be read by the framework that wrote it",
        ),
    ],
)
def test_linked_and_serialized_models(kind: str, parameters: Any, content: Any, sentence: str) -> None:
    spec = model_spec(kind, parameters, {"x": array_type(1)}, {"y": dictionary_type()})
    model = container.read(spec.SerializeToString())
    assert model.content == content
    with pytest.raises(UnsupportedModelError, match=sentence):
        open_predictor(model)
