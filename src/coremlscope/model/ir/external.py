"""Models whose computation is not in the file, but in Apple's operating systems or in an app.

The shapes of their outputs are from Apple's specification (`mlmodel/format/*.proto` of coremltools) and the
documentation of CreateMLComponents (`ImageFeaturePrint.revision`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from coremlscope.model.ir.graph import CORE_AI, Content
from coremlscope.model.ir.types import Shape

_IN_SYSTEM = "its network is part of Apple's systems and not of the file"
_IN_LANGUAGE = "its parameters can only be read by Apple's Natural Language framework"


class VisionFeaturePrint(msgspec.Struct, Content, frozen=True):
    """A network of Apple's Vision framework that turns an image into features.

    Attributes:
        extractor: `scene` or `objects`; empty if unspecified.
        version: The version of the extractor; 0 if unspecified.
        output_names: For `objects`, the outputs, with the highest resolution first.
    """

    kind: ClassVar[str] = "visionFeaturePrint"
    absent: ClassVar[str] = _IN_SYSTEM
    extractor: str
    version: int
    output_names: tuple[str, ...] = ()

    @property
    def image_size(self) -> int | None:
        """Width and height of the network's input image in pixels; None if unknown."""
        return {("scene", 1): 299, ("scene", 2): 360, ("objects", 1): 299}.get((self.extractor, self.version))

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns the known shapes of its outputs by name."""
        match self.extractor, self.version:
            case "scene", 1:
                return dict.fromkeys(names, (2048,))
            case "scene", 2:
                return dict.fromkeys(names, (768,))
            case "objects", 1:
                return dict(zip(self.output_names, ((288, 35, 35), (768, 17, 17)), strict=False))
        return {}


class AudioFeaturePrint(msgspec.Struct, Content, frozen=True):
    """A network of Apple's Sound Analysis framework that turns audio samples into features.

    Attributes:
        extractor: `sound`; empty if unspecified.
        version: The version of the extractor; 0 if unspecified.
    """

    kind: ClassVar[str] = "audioFeaturePrint"
    absent: ClassVar[str] = _IN_SYSTEM
    extractor: str
    version: int

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns the known shapes of its outputs by name."""
        return dict.fromkeys(names, (512,)) if (self.extractor, self.version) == ("sound", 1) else {}


class SoundAnalysisPreprocessing(msgspec.Struct, Content, frozen=True):
    """The preprocessing of audio samples in Apple's Sound Analysis framework.

    Attributes:
        extractor: `vggish`; empty if unspecified.
    """

    kind: ClassVar[str] = "soundAnalysisPreprocessing"
    absent: ClassVar[str] = "it is part of Apple's systems and not of the file"
    extractor: str

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns the known shapes of its outputs by name."""
        return dict.fromkeys(names, (1, 96, 64)) if self.extractor == "vggish" else {}


class LanguageFacts(msgspec.Struct, frozen=True):
    """Facts about the parameters of a text classifier or word tagger.

    Attributes:
        instances: The number of texts or sentences that it was trained on; None if unknown.
        language: The language of the training, as in `_OfLanguage`; empty if unknown.
        embedding: The word embedding that it uses: `Static`; empty if unknown.
        words: The number of words in the vocabulary; 0 if unknown.
    """

    instances: int | None = None
    language: str = ""
    embedding: str = ""
    words: int = 0


class _OfLanguage(msgspec.Struct, Content, frozen=True, kw_only=True):
    """The common part of the Natural Language framework's models.

    Attributes:
        revision: The revision of the framework's algorithm.
        language: A BCP 47 tag such as `en-US`; empty if unspecified.
        data_bytes: Size of the parameters in bytes.
        labels: The possible results of a classifier.
        facts: What is known of the parameters.
    """

    absent: ClassVar[str] = _IN_LANGUAGE
    revision: int
    language: str
    data_bytes: int
    labels: tuple[str, ...] = ()
    facts: LanguageFacts = LanguageFacts()

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns an empty mapping, because no output of these models has a fixed shape."""
        return {}


class TextClassifier(_OfLanguage, frozen=True):
    """Classifies a text."""

    kind: ClassVar[str] = "textClassifier"


class WordTagger(_OfLanguage, frozen=True):
    """Tags each word of a text.

    Attributes:
        roles: The content of each output (`tokens`, `tags`, `locations`, `lengths`), by output name.
    """

    kind: ClassVar[str] = "wordTagger"
    roles: Mapping[str, str] = msgspec.field(default_factory=dict)


class Gazetteer(_OfLanguage, frozen=True):
    """Maps each of a set of terms to a label."""

    kind: ClassVar[str] = "gazetteer"


class WordEmbedding(_OfLanguage, frozen=True):
    """Maps each of a set of words to a vector."""

    kind: ClassVar[str] = "wordEmbedding"


class CustomModel(msgspec.Struct, Content, frozen=True):
    """A model that is implemented by a class of an app.

    Attributes:
        class_name: The class.
        parameters: Parameters of the class. Of byte strings, only the size is kept, as text.
        description: The author's description.
    """

    kind: ClassVar[str] = "customModel"
    absent: ClassVar[str] = "it is implemented by a class of an app, which is not in the file"
    class_name: str
    parameters: Mapping[str, str | int | float | bool]
    description: str = ""

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns an empty mapping, because only the class knows the shapes."""
        return {}


class LinkedModel(msgspec.Struct, Content, frozen=True):
    """A link to another model file.

    Attributes:
        file_name: The name of the other file.
        search_path: The folders in which it is searched, relative to the linking model, separated by `:`.
    """

    kind: ClassVar[str] = "linkedModel"
    absent: ClassVar[str] = "it is a link to another model file; use that file instead"
    file_name: str
    search_path: str

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns an empty mapping, because the shapes are in the other file."""
        return {}


class SerializedModel(msgspec.Struct, Content, frozen=True):
    """A model in a proprietary format.

    Attributes:
        identifier: Identifies the format.
        data_bytes: Size of the content in bytes.
    """

    kind: ClassVar[str] = "serializedModel"
    absent: ClassVar[str] = "its content can only be read by the framework that wrote it"
    identifier: str
    data_bytes: int

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns an empty mapping, because only the framework knows the shapes."""
        return {}


class CompiledModel(msgspec.Struct, Content, frozen=True):
    """A model that Apple's compiler has written in a format of which only the interface is known.

    Attributes:
        kind: Apple's name of the model type.
        data_bytes: Size of its parameters in bytes.
        labels: The possible results of a classifier; empty if the files do not list them.
        facts: What other files in the folder tell: pairs of label and value.
    """

    absent: ClassVar[str] = "its parameters are in a format of Apple's compiler that is not published"
    kind: str
    data_bytes: int
    labels: tuple[str, ...] | tuple[int, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """Returns an empty mapping, because the shapes of other outputs than those described are unknown."""
        return {}


#: Every model type whose computation is not in the file. `absent` is the reason, as a clause.
External = (
    VisionFeaturePrint
    | AudioFeaturePrint
    | SoundAnalysisPreprocessing
    | TextClassifier
    | WordTagger
    | Gazetteer
    | WordEmbedding
    | CustomModel
    | LinkedModel
    | SerializedModel
    | CompiledModel
)


def how_to_run(content: Content) -> str:
    """Returns what is needed to run such a model, as a clause.

    (Source: Apple's documentation of the Natural Language framework.)
    """
    match content:
        case TextClassifier() | WordTagger():
            return "an app on an Apple device runs it with NLModel of the Natural Language framework"
        case WordEmbedding():
            return "an app on an Apple device reads it with NLEmbedding of the Natural Language framework"
        case Gazetteer():
            return "an app on an Apple device reads it with NLGazetteer of the Natural Language framework"
        case CustomModel(class_name):
            return f"the app that has the class {class_name or 'without a name'} runs it on an Apple device"
        case LinkedModel(file_name):
            return f"use the file that it links to, {file_name or 'which has no name'}"
        case CompiledModel(kind) if kind == CORE_AI:
            return "use the .aimodel bundle that it was compiled from"
        case SerializedModel(identifier):
            return f"the framework {identifier or 'that wrote it'} runs it on an Apple device"
        case _:
            return "Core ML runs it on an Apple device"
