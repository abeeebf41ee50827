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


def _facts(kind: str, content: dict[str, Any]) -> dict[str, str]:
    return dict(describe_model(_read(kind, content)).facts)


@pytest.mark.parametrize(
    ("kind", "content", "facts", "shapes"),
    [
        (
            "visionFeaturePrint",
            {"scene": {"version": 1}},
            {"extractor": "scene, version 1", "looks at": "an image of 299×299 pixels"},
            {"label": (2048,)},
        ),
        (
            "visionFeaturePrint",
            {"scene": {"version": 2}},
            {"extractor": "scene, version 2", "looks at": "an image of 360×360 pixels"},
            {"label": (768,)},
        ),
        ("visionFeaturePrint", {"scene": {"version": 3}}, {"extractor": "scene, version 3"}, {}),
        (
            "visionFeaturePrint",
            {"objects": {"version": 1, "output": ["high", "low"]}},
            {"extractor": "objects, version 1", "looks at": "an image of 299×299 pixels", "output": "low"},
            {"high": (288, 35, 35), "low": (768, 17, 17)},
        ),
        ("visionFeaturePrint", {}, {"extractor": "unspecified, version unspecified"}, {}),
        (
            "audioFeaturePrint",
            {"sound": {"version": 1}},
            {"extractor": "sound, version 1"},
            {"label": (512,)},
        ),
        ("audioFeaturePrint", {}, {"extractor": "unspecified, version unspecified"}, {}),
        ("soundAnalysisPreprocessing", {"vggish": {}}, {"prepares for": "vggish"}, {"label": (1, 96, 64)}),
        ("soundAnalysisPreprocessing", {}, {"prepares for": "unspecified"}, {}),
    ],
)
def test_networks_of_the_system(
    kind: str, content: dict[str, Any], facts: dict[str, str], shapes: dict[str, Any]
) -> None:
    read = _read(kind, content).content
    assert isinstance(read, ir.External)
    assert (dict(read.facts), read.shapes) == (facts, shapes)
    described = _facts(kind, content)
    gives = ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, shape in shapes.items())
    assert described == {**facts, **({"gives": gives} if gives else {})}


def test_language() -> None:
    given = {"revision": "2", "language": "en-US", "data": "7 B"}
    for kind, framework in {"textClassifier": "NLModel", "gazetteer": "NLGazetteer"}.items():
        content = {**_LANGUAGE, "stringClassLabels": _LABELS}
        assert _read(kind, content).content.labels == ("no", "yes")
        facts = _facts(kind, content)
        assert framework in facts.pop("to run it")
        assert facts == given
    facts = _facts("wordEmbedding", _LANGUAGE)
    assert "NLEmbedding" in facts.pop("to run it")
    assert facts == given
    names = {"tokensOutputFeatureName": "words", "tokenTagsOutputFeatureName": "tags"}
    content = {**_LANGUAGE, **names, "stringTags": _LABELS}
    assert _read("wordTagger", content).content.labels == ("no", "yes")
    facts = _facts("wordTagger", content)
    assert "NLModel" in facts.pop("to run it")
    assert facts == {**given, "tokens in": "words", "tags in": "tags"}


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
    facts = _facts(kind, {"revision": 1, "modelParameterData": data})
    assert facts["language"] == "de"
    assert facts["trained on"] == "1234 texts"
    assert facts["vocabulary"] == "2 words"
    assert facts["embedding"] == "Static"
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
    facts = _facts("textClassifier", {"revision": 2, "modelParameterData": data})
    assert facts.keys() == {"revision", "language", "data", "to run it"}
    assert (facts["language"], facts["data"]) == ("unspecified", f"{len(data)} B")


def test_odd_properties_are_ignored() -> None:
    data = _parameters(plistlib.dumps({"NumberOfTrainingInstances": "many", "Language": 7}))
    facts = _facts("textClassifier", {"revision": 1, "modelParameterData": data})
    assert (facts["language"], facts["vocabulary"]) == ("unspecified", "2 words")
    assert "trained on" not in facts


def test_all_labels_of_a_text_classifier_are_listed() -> None:
    labels = [f"label {index}" for index in range(30)]
    model = _read("textClassifier", {"revision": 1, "stringClassLabels": {"vector": labels}})
    found = describe_model(model).labels
    assert found is not None
    assert (found.count, list(found.first)) == (30, labels)


@pytest.mark.corpus
def test_facts_of_a_real_text_classifier(corpus: Path) -> None:
    path = corpus / "models" / "raywenderlich__mlt-materials" / "SentimentClassifier.mlmodel"
    model = container.read(path)
    facts = dict(describe_model(model).facts)
    assert (facts["language"], facts["revision"], model.content.labels) == ("en", "1", ("pos", "neg"))
    assert facts["trained on"] == "23789 texts"
    assert int(facts["vocabulary"].split()[0]) > 50_000


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
    entries = [{"key": key, "value": value} for key, value in values.items()]
    content = {"className": "MyModel", "description": "does it", "parameters": entries}
    parameters = {"rate": 0.5, "name": "x", "blob": "3 bytes", "count": 3, "big": 2**40, "flag": True}
    assert _facts("customModel", content) == {
        "class": "MyModel",
        "described as": "does it",
        **{f"parameter {key}": str(value) for key, value in parameters.items()},
        "parameter nothing": "",
    }


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
    ("kind", "parameters", "facts", "sentence"),
    [
        (
            "linkedModel",
            {
                "linkedModelFile": {
                    "linkedModelFileName": {"defaultValue": "A.mlmodelc"},
                    "linkedModelSearchPath": {"defaultValue": ".:models"},
                }
            },
            {"links to": "A.mlmodelc", "looked for in": ".:models"},
            "a link to another model file",
        ),
        (
            "serializedModel",
            {"identifier": "some.framework", "model": b"abc"},
            {"written by": "some.framework", "data": "3 B"},
            "only be read by the framework that wrote it",
        ),
    ],
)
def test_linked_and_serialized_models(kind: str, parameters: Any, facts: Any, sentence: str) -> None:
    spec = model_spec(kind, parameters, {"x": array_type(1)}, {"y": dictionary_type()})
    model = container.read(spec.SerializeToString())
    assert dict(describe_model(model).facts) == facts
    with pytest.raises(UnsupportedModelError, match=sentence):
        open_predictor(model)
