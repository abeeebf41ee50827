"""Readers of models whose computation is not in the file. Each model type has one row.

The shapes of their outputs are from Apple's specification (`mlmodel/format/*.proto` of coremltools) and the
documentation of CreateMLComponents (`ImageFeaturePrint.revision`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from coremlscope.base.units import format_bytes
from coremlscope.model.ir import External, Shape
from coremlscope.model.schema import Message

# Parameters of text classifiers and word taggers: what is known of them.
#
# Create ML stores the parameters in a format that is not published. In all files of revision 1 that were
# seen, a magic number is followed by 12 bytes and by the offsets and sizes of sections, counted from byte
# 4: a property list on the training, weights, labels, the vocabulary (words that end in a zero byte) and an
# index.

_MAGIC = b"\xde\xd3\x56\x09"
_SECTIONS = struct.Struct("<10I")
_SECTIONS_OFFSET, _BASE = 16, 4
_PROPERTIES, _VOCABULARY = 0, 3
#: Maximum size of the property list.
_MAX_PROPERTIES_BYTES = 2**16


def read_language_facts(data: bytes) -> dict[str, str]:
    """Reads what is known of the parameters, by label; nothing is known if they have another layout."""
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _SECTIONS_OFFSET + _SECTIONS.size:
        return {}
    numbers = _SECTIONS.unpack_from(data, _SECTIONS_OFFSET)
    # The last section, which is not read, may end behind the data.
    properties = _properties(_section(data, numbers, _PROPERTIES)[:_MAX_PROPERTIES_BYTES])
    vocabulary = _section(data, numbers, _VOCABULARY)
    if properties is None or len(vocabulary) != numbers[2 * _VOCABULARY + 1]:
        return {}
    instances, language = properties.get("NumberOfTrainingInstances"), properties.get("Language")
    embedding = properties.get("EmbeddingType")
    words = sum(bool(word) for word in vocabulary.split(b"\0"))
    facts = {
        "language": language if isinstance(language, str) else "",
        "trained on": f"{instances} texts" if isinstance(instances, int) else "",
        "vocabulary": f"{words} words" if words else "",
        "embedding": embedding if isinstance(embedding, str) else "",
    }
    return {label: value for label, value in facts.items() if value}


def _section(data: bytes, numbers: Sequence[int], index: int) -> bytes:
    start, size = numbers[2 * index : 2 * index + 2]
    return data[_BASE + start : _BASE + start + size]


def _properties(data: bytes) -> dict[str, object] | None:
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        content = plistlib.loads(data)
    except (
        plistlib.InvalidFileException,
        ExpatError,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ):
        return None
    return content if isinstance(content, dict) else None


_IN_SYSTEM = "its network is part of Apple's systems and not of the file"
#: What runs models of the Natural Language framework (source: Apple's documentation of it).
_LANGUAGE_CLASSES = {
    "textClassifier": "runs it with NLModel",
    "wordTagger": "runs it with NLModel",
    "wordEmbedding": "reads it with NLEmbedding",
    "gazetteer": "reads it with NLGazetteer",
}
#: Width and height of the image that a network of the Vision framework looks at, by extractor and version.
_IMAGE_SIZES = {("scene", 1): 299, ("scene", 2): 360, ("objects", 1): 299}
_SCENE_SIZES = {1: 2048, 2: 768}
#: The shapes for `objects`, with the highest resolution first.
_OBJECT_SHAPES = ((288, 35, 35), (768, 17, 17))


def read_external(kind: str, message: Message, outputs: Sequence[str]) -> External:
    """Reads the message of a model type in `EXTERNAL_READERS`, whose model has outputs of these names."""
    return EXTERNAL_READERS[kind](message, outputs)


def vision_feature_print(
    extractor: str, version: int, outputs: Sequence[str], objects: Sequence[str] = ()
) -> External:
    """Returns a network of Apple's Vision framework that turns an image into features.

    Args:
        extractor: `scene` or `objects`; empty if unspecified.
        version: The version of the extractor; 0 if unspecified.
        outputs: The outputs of the model.
        objects: For `objects`, the outputs with the highest resolution first.
    """
    shapes: dict[str, Shape] = {}
    if extractor == "scene" and version in _SCENE_SIZES:
        shapes = dict.fromkeys(outputs, (_SCENE_SIZES[version],))
    elif (extractor, version) == ("objects", 1):
        shapes = dict(zip(objects, _OBJECT_SHAPES, strict=False))
    size = _IMAGE_SIZES.get((extractor, version))
    return External(
        kind="visionFeaturePrint",
        absent=_IN_SYSTEM,
        facts=(
            ("extractor", _version(extractor, version)),
            *([] if size is None else [("looks at", f"an image of {size}×{size} pixels")]),
            *(("output", name) for name in objects),
        ),
        shapes=shapes,
    )


def _version(extractor: str, version: int) -> str:
    return f"{extractor or 'unspecified'}, version {version or 'unspecified'}"


def _read_vision(message: Message, outputs: Sequence[str]) -> External:
    extractor = message.WhichOneof("VisionFeaturePrintType") or ""
    names = tuple(message.objects.output) if extractor == "objects" else ()
    version = getattr(message, extractor).version if extractor else 0
    return vision_feature_print(extractor, version, outputs, names)


def _read_audio(message: Message, outputs: Sequence[str]) -> External:
    extractor = message.WhichOneof("AudioFeaturePrintType") or ""
    version = getattr(message, extractor).version if extractor else 0
    return External(
        kind="audioFeaturePrint",
        absent=_IN_SYSTEM,
        facts=(("extractor", _version(extractor, version)),),
        shapes=dict.fromkeys(outputs, (512,)) if (extractor, version) == ("sound", 1) else {},
    )


def _read_sound(message: Message, outputs: Sequence[str]) -> External:
    extractor = message.WhichOneof("SoundAnalysisPreprocessingType") or ""
    return External(
        kind="soundAnalysisPreprocessing",
        absent="it is part of Apple's systems and not of the file",
        facts=(("prepares for", extractor or "unspecified"),),
        shapes=dict.fromkeys(outputs, (1, 96, 64)) if extractor == "vggish" else {},
    )


def _of_language(
    kind: str, message: Message, labels: Iterable[str] = (), roles: Iterable[tuple[str, str]] = ()
) -> External:
    """Returns a model of the Natural Language framework; `roles` are facts about its outputs."""
    data = bytes(message.modelParameterData)
    known = read_language_facts(data)
    how = f"an app on an Apple device {_LANGUAGE_CLASSES[kind]} of the Natural Language framework"
    return External(
        kind=kind,
        absent="its parameters can only be read by Apple's Natural Language framework",
        how_to_run=how,
        facts=(
            ("revision", str(message.revision)),
            ("language", message.language or known.pop("language", "") or "unspecified"),
            ("data", format_bytes(len(data))),
            *((label, value) for label, value in known.items() if label != "language"),
            *roles,
            ("to run it", how),
        ),
        labels=tuple(labels),
    )


def _read_text_classifier(message: Message, _: Sequence[str]) -> External:
    return _of_language("textClassifier", message, message.stringClassLabels.vector)


def _read_gazetteer(message: Message, _: Sequence[str]) -> External:
    return _of_language("gazetteer", message, message.stringClassLabels.vector)


def _read_word_embedding(message: Message, _: Sequence[str]) -> External:
    return _of_language("wordEmbedding", message)


def _read_word_tagger(message: Message, _: Sequence[str]) -> External:
    named = {
        message.tokensOutputFeatureName: "tokens",
        message.tokenTagsOutputFeatureName: "tags",
        message.tokenLocationsOutputFeatureName: "locations",
        message.tokenLengthsOutputFeatureName: "lengths",
    }
    roles = [(f"{role} in", name) for name, role in named.items() if name]
    return _of_language("wordTagger", message, message.stringTags.vector, roles)


def _read_custom(message: Message, _: Sequence[str]) -> External:
    # The last entry of a key is used, as in every protobuf map.
    parameters = {entry.key: _parameter(entry.value) for entry in message.parameters}
    name = message.className
    return External(
        kind="customModel",
        absent="it is implemented by a class of an app, which is not in the file",
        how_to_run=f"the app that has the class {name or 'without a name'} runs it on an Apple device",
        facts=(
            ("class", name or "unspecified"),
            *([("described as", message.description)] if message.description else []),
            *((f"parameter {key}", str(value)) for key, value in parameters.items()),
        ),
    )


def _parameter(message: Message) -> Any:
    """Returns the value of a parameter; of byte strings their size."""
    field = message.WhichOneof("value")
    value = "" if field is None else getattr(message, field)
    return f"{len(value)} bytes" if field == "bytesValue" else value


def _read_linked(message: Message, _: Sequence[str]) -> External:
    name = message.linkedModelFile.linkedModelFileName.defaultValue
    folders = message.linkedModelFile.linkedModelSearchPath.defaultValue
    return External(
        kind="linkedModel",
        absent="it is a link to another model file; use that file instead",
        how_to_run=f"use the file that it links to, {name or 'which has no name'}",
        facts=(("links to", name or "unspecified"), *([("looked for in", folders)] if folders else [])),
    )


def _read_serialized(message: Message, _: Sequence[str]) -> External:
    name = message.identifier
    return External(
        kind="serializedModel",
        absent="its content can only be read by the framework that wrote it",
        how_to_run=f"the framework {name or 'that wrote it'} runs it on an Apple device",
        facts=(("written by", name or "unspecified"), ("data", format_bytes(len(message.model)))),
    )


def compiled_model(kind: str, data_bytes: int, labels: tuple[str, ...] | tuple[int, ...] = ()) -> External:
    """Returns a model that Apple's compiler has written in a format of which only the interface is known.

    Args:
        kind: Apple's name of the model type.
        data_bytes: Size of its parameters.
        labels: The possible results of a classifier; empty if the files do not list them.
    """
    return External(
        kind=kind,
        absent="its parameters are in a format of Apple's compiler that is not published",
        facts=(("data", format_bytes(data_bytes)),),
        labels=labels,
    )


#: Readers by Apple's name of the model type; they take the message, and the names of the model's outputs.
EXTERNAL_READERS: Mapping[str, Callable[[Message, Sequence[str]], External]] = {
    "visionFeaturePrint": _read_vision,
    "audioFeaturePrint": _read_audio,
    "soundAnalysisPreprocessing": _read_sound,
    "textClassifier": _read_text_classifier,
    "wordTagger": _read_word_tagger,
    "gazetteer": _read_gazetteer,
    "wordEmbedding": _read_word_embedding,
    "customModel": _read_custom,
    "linkedModel": _read_linked,
    "serializedModel": _read_serialized,
}
