"""Models whose file does not hold what computes them: that is in Apple's systems, or in an app.

What their outputs are like is told by Apple's specification (`mlmodel/format/*.proto` of coremltools) and by
the documentation of CreateMLComponents (`ImageFeaturePrint.revision`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from coremlscope.ir.types import Shape

__all__ = [
    "AudioFeaturePrint",
    "CustomModel",
    "External",
    "Gazetteer",
    "LinkedModel",
    "SerializedModel",
    "SoundAnalysisPreprocessing",
    "TextClassifier",
    "VisionFeaturePrint",
    "WordEmbedding",
    "WordTagger",
]

_IN_SYSTEM = "its network is part of Apple's systems and not of the file"
_IN_LANGUAGE = "its parameters are in a form that only Apple's Natural Language framework reads"


@dataclass(frozen=True, slots=True)
class VisionFeaturePrint:
    """A network of Apple's Vision framework that turns an image into features.

    Attributes:
        extractor: `scene` or `objects`; empty where the file tells neither.
        version: Which one; 0 where the file does not tell.
        output_names: Of `objects`: the outputs, the highest resolution first.
    """

    kind: ClassVar[str] = "visionFeaturePrint"
    absent: ClassVar[str] = _IN_SYSTEM
    extractor: str
    version: int
    output_names: tuple[str, ...] = ()

    @property
    def image_size(self) -> int | None:
        """Width and height of the image that it looks at, in pixels."""
        return {("scene", 1): 299, ("scene", 2): 360, ("objects", 1): 299}.get((self.extractor, self.version))

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs, where they are known."""
        match self.extractor, self.version:
            case "scene", 1:
                return dict.fromkeys(names, (2048,))
            case "scene", 2:
                return dict.fromkeys(names, (768,))
            case "objects", 1:
                return dict(zip(self.output_names, ((288, 35, 35), (768, 17, 17)), strict=False))
        return {}


@dataclass(frozen=True, slots=True)
class AudioFeaturePrint:
    """A network of Apple's Sound Analysis framework that turns samples of sound into features.

    Attributes:
        extractor: `sound`; empty where the file does not tell.
        version: Which one; 0 where the file does not tell.
    """

    kind: ClassVar[str] = "audioFeaturePrint"
    absent: ClassVar[str] = _IN_SYSTEM
    extractor: str
    version: int

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs, where they are known."""
        return dict.fromkeys(names, (512,)) if (self.extractor, self.version) == ("sound", 1) else {}


@dataclass(frozen=True, slots=True)
class SoundAnalysisPreprocessing:
    """What Apple's Sound Analysis framework does to samples of sound before a network.

    Attributes:
        extractor: `vggish`; empty where the file does not tell.
    """

    kind: ClassVar[str] = "soundAnalysisPreprocessing"
    absent: ClassVar[str] = "it is part of Apple's systems and not of the file"
    extractor: str

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs, where they are known."""
        return dict.fromkeys(names, (1, 96, 64)) if self.extractor == "vggish" else {}


@dataclass(frozen=True, slots=True)
class _OfLanguage:
    """What the models of the Natural Language framework have in common.

    Attributes:
        revision: The revision of the framework's algorithm.
        language: A BCP 47 tag such as `en-US`; empty where the file does not tell.
        data_bytes: Bytes of the parameters.
        labels: What the model gives, where it is one of these.
    """

    absent: ClassVar[str] = _IN_LANGUAGE
    revision: int
    language: str
    data_bytes: int
    labels: tuple[str, ...] = ()

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs: nothing of what such models give has a fixed shape."""
        return {}


@dataclass(frozen=True, slots=True)
class TextClassifier(_OfLanguage):
    """Gives a label to a text."""

    kind: ClassVar[str] = "textClassifier"


@dataclass(frozen=True, slots=True)
class WordTagger(_OfLanguage):
    """Gives a tag to each word of a text.

    Attributes:
        roles: What each output holds (`tokens`, `tags`, `locations`, `lengths`), by the output's name.
    """

    kind: ClassVar[str] = "wordTagger"
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gazetteer(_OfLanguage):
    """Gives a label to each of a set of terms."""

    kind: ClassVar[str] = "gazetteer"


@dataclass(frozen=True, slots=True)
class WordEmbedding(_OfLanguage):
    """Gives a vector to each of a set of words."""

    kind: ClassVar[str] = "wordEmbedding"


@dataclass(frozen=True, slots=True)
class CustomModel:
    """A model that a class of an app computes.

    Attributes:
        class_name: The class.
        parameters: What the class is given; of bytes only how many there are, in words.
        description: What the author says of it.
    """

    kind: ClassVar[str] = "customModel"
    absent: ClassVar[str] = "its code is a class of the app that it was made for, and not in the file"
    class_name: str
    parameters: Mapping[str, str | int | float | bool]
    description: str = ""

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs: the class alone knows them."""
        return {}


@dataclass(frozen=True, slots=True)
class LinkedModel:
    """A link to the file of another model.

    Attributes:
        file_name: What the other file is called.
        search_path: The folders that it is looked for in, relative to the linking model; `:` between them.
    """

    kind: ClassVar[str] = "linkedModel"
    absent: ClassVar[str] = "it is only a link to the file of another model; give that file instead"
    file_name: str
    search_path: str

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs: the other file knows them."""
        return {}


@dataclass(frozen=True, slots=True)
class SerializedModel:
    """A model in a form of its own.

    Attributes:
        identifier: Says what wrote it.
        data_bytes: Bytes of its content.
    """

    kind: ClassVar[str] = "serializedModel"
    absent: ClassVar[str] = "its content is in a form that only the framework reads which wrote it"
    identifier: str
    data_bytes: int

    def output_shapes(self, names: tuple[str, ...]) -> Mapping[str, Shape]:
        """The shapes of its outputs: the framework alone knows them."""
        return {}


#: Every kind of model whose file does not hold what computes it. `absent` says why, and goes on from a name.
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
)
