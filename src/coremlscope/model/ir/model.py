"""Models: a program or another kind of content, its features and its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.units import short_repr
from coremlscope.model.ir.classical import Classical
from coremlscope.model.ir.external import External
from coremlscope.model.ir.graph import Content, Function, Program
from coremlscope.model.ir.types import DType


class EnumeratedShapes(msgspec.Struct, frozen=True):
    """The allowed shapes of a flexible feature (images: `(height, width)`)."""

    shapes: tuple[tuple[int, ...], ...]


class RangeShapes(msgspec.Struct, frozen=True):
    """Inclusive bounds of each dimension (images: height, width). An upper bound of -1 means unbounded."""

    bounds: tuple[tuple[int, int], ...]


ShapeFlexibility = EnumeratedShapes | RangeShapes


class ArrayFeature(msgspec.Struct, frozen=True, kw_only=True):
    """A multi-array.

    Attributes:
        dtype: fp16, fp32, fp64, int32 or int8.
        shape: The default shape; `()` if the file does not specify one.
        flexibility: The other allowed shapes.
        default: The value that fills a missing optional input.
        takes_sequences: True for inputs of neural networks with legacy shape mapping. Besides the shapes
            above, which are `[channels]` or `[channels, height, width]`, they accept `[sequence, batch,
            channels, height, width]` with any sequence length and batch size.
    """

    dtype: DType
    shape: tuple[int, ...]
    flexibility: ShapeFlexibility | None = None
    default: float | None = None
    takes_sequences: bool = False


class ImageFeature(msgspec.Struct, frozen=True):
    """An image. `color_space` is `RGB`, `BGR`, `GRAYSCALE` or `GRAYSCALE_FLOAT16`."""

    color_space: str
    width: int
    height: int
    flexibility: ShapeFlexibility | None = None


class Int64Feature(msgspec.Struct, frozen=True):
    """A 64-bit integer."""


class DoubleFeature(msgspec.Struct, frozen=True):
    """A double."""


class StringFeature(msgspec.Struct, frozen=True):
    """A string."""


class DictionaryFeature(msgspec.Struct, frozen=True):
    """A dictionary from `int64` or `string` keys to doubles."""

    key: str


class SequenceFeature(msgspec.Struct, frozen=True):
    """A sequence of `int64` or `string`. `bounds` are those of its length; -1 means unbounded."""

    element: str
    bounds: tuple[int, int] = (0, -1)


class StateFeature(msgspec.Struct, frozen=True):
    """A state: an array that predictions read and update."""

    array: ArrayFeature


FeatureType = (
    ArrayFeature
    | ImageFeature
    | Int64Feature
    | DoubleFeature
    | StringFeature
    | DictionaryFeature
    | SequenceFeature
    | StateFeature
)


class Feature(msgspec.Struct, frozen=True):
    """A named input, output or state of a model."""

    name: str
    type: FeatureType
    is_optional: bool = False
    doc: str = ""


class FunctionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The interface of a function.

    Attributes:
        inputs: The inputs.
        outputs: The outputs.
        states: The states.
        predicted_feature: Name of the output with a classifier's label; empty for other models.
        predicted_probabilities: Name of the output with a classifier's probabilities; empty for other models.
        training_inputs: The inputs for training of an updatable model.
    """

    inputs: Sequence[Feature]
    outputs: Sequence[Feature]
    states: Sequence[Feature] = ()
    predicted_feature: str = ""
    predicted_probabilities: str = ""
    training_inputs: Sequence[Feature] = ()


class Description(msgspec.Struct, frozen=True):
    """The interface of each function, and the name of the default function.

    The interface of a model with a single function is stored under the name `default`.
    """

    functions: Mapping[str, FunctionDescription]
    default: str

    @property
    def main(self) -> FunctionDescription:
        """The default function's interface."""
        return self.functions[self.default]


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The author's information about the model."""

    description: str = ""
    version: str = ""
    author: str = ""
    licence: str = ""
    user_defined: Mapping[str, str] = msgspec.field(default_factory=dict)


class Opaque(msgspec.Struct, Content, frozen=True):
    """Content of which only the kind is read.

    Attributes:
        kind: Apple's name of the model type: `neuralNetwork`, `treeEnsembleClassifier`, …
    """

    kind: str


class Pipeline(msgspec.Struct, Content, frozen=True):
    """A sequence of models, which take inputs of the pipeline and outputs of earlier models.

    Attributes:
        kind: Apple's name of the model type: `pipeline`, `pipelineClassifier` or `pipelineRegressor`.
        names: The names of the models; empty strings for models without a name.
        models: The models in order.
    """

    kind: str
    names: tuple[str, ...]
    models: tuple[Model, ...]


class WeightFile(msgspec.Struct, frozen=True):
    """A weight file of the package. `size` is in bytes, or None if the file is missing."""

    name: str
    size: int | None


class Model(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A model, independent of its container.

    Attributes:
        spec_version: Core ML's specification version.
        description: The interfaces of its functions.
        content: The program, or another kind of content.
        metadata: The author's information.
        is_updatable: True if the model can be trained on a device.
        source: The path from which it was read; None for bytes. Ignored by equality.
        container: `mlpackage`, `mlmodel`, `mlmodelc` or `aimodel`. Ignored by equality.
        reader: What read the program of a Core AI bundle, and why where that was not coremlscope's reader;
            empty for other models. Ignored by equality.
        size_bytes: Total size of the model's files. Ignored by equality.
        weight_files: The weight files that the program refers to. Ignored by equality.
        stage: For a model in a pipeline that is run or planned, its path in the pipeline, such as `model0` or
            `model1/model0`; the ids of its operations begin with it. Ignored by equality.
        remarks: What was assumed when the files were read, as clauses. Ignored by equality.
    """

    spec_version: int
    description: Description
    content: Program | Pipeline | Classical | External | Opaque
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    is_updatable: bool = False
    source: Path | None = None
    container: str = "mlmodel"
    reader: str = ""
    size_bytes: int = 0
    weight_files: tuple[WeightFile, ...] = ()
    stage: str = ""
    remarks: tuple[str, ...] = ()

    __repr__ = short_repr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((self.spec_version, self.kind))

    def _compared(self) -> tuple[object, ...]:
        return self.spec_version, self.description, self.content, self.metadata, self.is_updatable

    @property
    def kind(self) -> str:
        """Apple's name of the model type: `mlProgram`, `neuralNetwork`, …"""
        return self.content.kind

    @property
    def program(self) -> Program:
        """The content of a model that is known to be a program."""
        assert isinstance(self.content, Program)
        return self.content

    def with_functions(self, functions: Mapping[str, Function]) -> Model:
        """Returns a model that consists of a program, with other functions."""
        return replace(self, content=replace(self.program, functions=functions))
