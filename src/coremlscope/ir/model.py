"""A model: a program (or another kind of content), its features and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coremlscope.ir.classical import Classical
from coremlscope.ir.external import External
from coremlscope.ir.graph import Program
from coremlscope.ir.types import DType

__all__ = [
    "ArrayFeature",
    "Description",
    "DictionaryFeature",
    "DoubleFeature",
    "EnumeratedShapes",
    "Feature",
    "FeatureType",
    "FunctionDescription",
    "ImageFeature",
    "Int64Feature",
    "Metadata",
    "Model",
    "Opaque",
    "Pipeline",
    "RangeShapes",
    "SequenceFeature",
    "ShapeFlexibility",
    "StateFeature",
    "StringFeature",
    "WeightFile",
]


@dataclass(frozen=True, slots=True)
class EnumeratedShapes:
    """The shapes that a flexible feature may take (images: `(height, width)`)."""

    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RangeShapes:
    """Inclusive bounds of each dimension (images: height, width); an upper bound of -1 means unbounded."""

    bounds: tuple[tuple[int, int], ...]


ShapeFlexibility = EnumeratedShapes | RangeShapes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFeature:
    """A multi-array. `shape` is the default shape; `()` where the file gives none.

    Attributes:
        dtype: fp16, fp32, fp64, int32 or int8.
        flexibility: Which other shapes are allowed.
        default: The value that an absent optional input is filled with.
        takes_sequences: True for inputs of neural networks of the older kind: besides the shapes above, which
            are `[channels]` or `[channels, height, width]`, they take `[sequence, batch, channels, height,
            width]`, with any number of steps and batches.
    """

    dtype: DType
    shape: tuple[int, ...]
    flexibility: ShapeFlexibility | None = None
    default: float | None = None
    takes_sequences: bool = False


@dataclass(frozen=True, slots=True)
class ImageFeature:
    """An image. `color_space` is `RGB`, `BGR`, `GRAYSCALE` or `GRAYSCALE_FLOAT16`."""

    color_space: str
    width: int
    height: int
    flexibility: ShapeFlexibility | None = None


@dataclass(frozen=True, slots=True)
class Int64Feature:
    """A 64-bit integer."""


@dataclass(frozen=True, slots=True)
class DoubleFeature:
    """A double."""


@dataclass(frozen=True, slots=True)
class StringFeature:
    """A string."""


@dataclass(frozen=True, slots=True)
class DictionaryFeature:
    """A dictionary from `int64` or `string` keys to doubles."""

    key: str


@dataclass(frozen=True, slots=True)
class SequenceFeature:
    """A sequence of `int64` or `string`; an upper bound of -1 means unbounded."""

    element: str
    bounds: tuple[int, int] = (0, -1)


@dataclass(frozen=True, slots=True)
class StateFeature:
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


@dataclass(frozen=True, slots=True)
class Feature:
    """A named input, output or state of a model."""

    name: str
    type: FeatureType
    is_optional: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDescription:
    """What one function takes and gives.

    Attributes:
        predicted_feature: Name of the output that holds a classifier's label; empty where there is none.
        predicted_probabilities: Name of the output that holds a classifier's probabilities.
    """

    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...] = ()
    predicted_feature: str = ""
    predicted_probabilities: str = ""
    training_inputs: tuple[Feature, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """The interface of each function, and which function is the default.

    A model with one function is described under `default`, by that name, whatever the file calls it.
    """

    functions: Mapping[str, FunctionDescription]
    default: str

    @property
    def main(self) -> FunctionDescription:
        """The default function's interface."""
        return self.functions[self.default]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the author says about the model."""

    description: str = ""
    version: str = ""
    author: str = ""
    licence: str = ""
    user_defined: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opaque:
    """Content that is recognised by kind and not read further.

    Attributes:
        kind: Apple's name of the model type: `neuralNetwork`, `treeEnsembleClassifier`, …
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Models that follow one another: each takes features of the pipeline, or of the models before it.

    Attributes:
        kind: Apple's name of the model type: `pipeline`, `pipelineClassifier` or `pipelineRegressor`.
        names: What the models are called; empty strings for those without a name.
        models: The models in order.
    """

    kind: str
    names: tuple[str, ...]
    models: tuple[Model, ...]


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A weight file of the package. `size` is None where the file is absent."""

    name: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, whatever container it came in.

    Attributes:
        spec_version: Core ML's specification version.
        content: What is inside.
        source: Where it was read from; None for bytes. Not part of equality.
        container: `mlpackage`, `mlmodel` or `mlmodelc`. Not part of equality.
        size_bytes: Bytes of all files of the model. Not part of equality.
        weight_files: The weight files that the program refers to. Not part of equality.
        stage: Of a model in a pipeline that is being run or planned: where it stands there, such as `model0`
            or `model1/model0`; the ids of its operations begin with it. Not part of equality.
    """

    spec_version: int
    description: Description
    content: Program | Pipeline | Classical | External | Opaque
    metadata: Metadata = field(default_factory=Metadata)
    is_updatable: bool = False
    source: Path | None = field(default=None, compare=False)
    container: str = field(default="mlmodel", compare=False)
    size_bytes: int = field(default=0, compare=False)
    weight_files: tuple[WeightFile, ...] = field(default=(), compare=False)
    stage: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        """Apple's name of the model type: `mlProgram`, `neuralNetwork`, …"""
        return self.content.kind
