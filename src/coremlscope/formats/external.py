"""Readers of models whose computation is not in the file. Each model type has one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coremlscope.formats.natural_language import read_language_facts
from coremlscope.model import ir
from coremlscope.model.schema import Message


def read_external(kind: str, message: Message) -> ir.External:
    """Reads the message of a model type in `EXTERNAL_READERS`."""
    return EXTERNAL_READERS[kind](message)


def _read_vision(message: Message) -> ir.VisionFeaturePrint:
    extractor = message.WhichOneof("VisionFeaturePrintType") or ""
    names = tuple(message.objects.output) if extractor == "objects" else ()
    return ir.VisionFeaturePrint(extractor, getattr(message, extractor).version if extractor else 0, names)


def _read_audio(message: Message) -> ir.AudioFeaturePrint:
    extractor = message.WhichOneof("AudioFeaturePrintType") or ""
    return ir.AudioFeaturePrint(extractor, getattr(message, extractor).version if extractor else 0)


def _read_sound(message: Message) -> ir.SoundAnalysisPreprocessing:
    return ir.SoundAnalysisPreprocessing(message.WhichOneof("SoundAnalysisPreprocessingType") or "")


def _of_language(message: Message) -> dict[str, Any]:
    return {
        "revision": message.revision,
        "language": message.language,
        "data_bytes": len(message.modelParameterData),
        "facts": read_language_facts(bytes(message.modelParameterData)),
    }


def _read_text_classifier(message: Message) -> ir.TextClassifier:
    labels = tuple(message.stringClassLabels.vector)
    return ir.TextClassifier(labels=labels, **_of_language(message))


def _read_gazetteer(message: Message) -> ir.Gazetteer:
    return ir.Gazetteer(labels=tuple(message.stringClassLabels.vector), **_of_language(message))


def _read_word_embedding(message: Message) -> ir.WordEmbedding:
    return ir.WordEmbedding(**_of_language(message))


def _read_word_tagger(message: Message) -> ir.WordTagger:
    named = {
        message.tokensOutputFeatureName: "tokens",
        message.tokenTagsOutputFeatureName: "tags",
        message.tokenLocationsOutputFeatureName: "locations",
        message.tokenLengthsOutputFeatureName: "lengths",
    }
    roles = {name: role for name, role in named.items() if name}
    tags = tuple(message.stringTags.vector)
    return ir.WordTagger(labels=tags, roles=roles, **_of_language(message))


def _read_custom(message: Message) -> ir.CustomModel:
    # The last entry of a key is used, as in every protobuf map.
    parameters = {entry.key: _parameter(entry.value) for entry in message.parameters}
    return ir.CustomModel(message.className, parameters, message.description)


def _parameter(message: Message) -> Any:
    field = message.WhichOneof("value")
    value = "" if field is None else getattr(message, field)
    return f"{len(value)} bytes" if field == "bytesValue" else value


def _read_linked(message: Message) -> ir.LinkedModel:
    file = message.linkedModelFile
    return ir.LinkedModel(file.linkedModelFileName.defaultValue, file.linkedModelSearchPath.defaultValue)


def _read_serialized(message: Message) -> ir.SerializedModel:
    return ir.SerializedModel(message.identifier, len(message.model))


#: Readers by Apple's name of the model type.
EXTERNAL_READERS: Mapping[str, Callable[[Message], ir.External]] = {
    ir.VisionFeaturePrint.kind: _read_vision,
    ir.AudioFeaturePrint.kind: _read_audio,
    ir.SoundAnalysisPreprocessing.kind: _read_sound,
    ir.TextClassifier.kind: _read_text_classifier,
    ir.WordTagger.kind: _read_word_tagger,
    ir.Gazetteer.kind: _read_gazetteer,
    ir.WordEmbedding.kind: _read_word_embedding,
    ir.CustomModel.kind: _read_custom,
    ir.LinkedModel.kind: _read_linked,
    ir.SerializedModel.kind: _read_serialized,
}
