"""Translation of compiled networks to `ir.Program`, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.espresso.attributes import LARGEST, CompiledLayer
from coremlscope.formats.espresso.blobs import BlobFile
from coremlscope.formats.espresso.files import AXES, BlobShape, CompiledNetwork
from coremlscope.formats.espresso.layers import LAYERS
from coremlscope.formats.espresso.preprocessing import find_doubt, read_step
from coremlscope.formats.espresso.translation import Translation
from coremlscope.formats.espresso.weights import unknown_blobs
from coremlscope.formats.neuralnetwork.boundary import Boundary
from coremlscope.formats.neuralnetwork.builder import OPSET, Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.preprocessing import preprocess
from coremlscope.formats.neuralnetwork.rank_5 import fold
from coremlscope.model.ir import (
    Constant,
    Function,
    FunctionDescription,
    ImageFeature,
    Layer,
    Program,
    Shape,
    TensorType,
    constant,
    default_shape,
)
from coremlscope.ops.view import CONTRADICTIONS

_DAMAGED = "the file is damaged or incomplete; copy or download the whole folder again"
#: Attributes that say nothing about the computation.
_SILENT = ("attributes", "debug_info")


class CompiledFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the three files.

    Attributes:
        network: The layers.
        shapes: The shapes of blobs by name; empty if the file is missing.
        blobs: The weights.
        scaling: The preprocessing of images by input in another file than the layers'.
    """

    network: CompiledNetwork
    shapes: Mapping[str, BlobShape]
    blobs: BlobFile
    scaling: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)

    @property
    def transforms(self) -> Mapping[str, Mapping[str, Any]]:
        """The preprocessing of images by input."""
        return {**self.scaling, **self.network.transforms}

    @property
    def is_exact(self) -> bool:
        """True if blobs have exact shapes; False if all have five dimensions."""
        return any(shape.rank is not None for shape in self.shapes.values())


def read_network(
    kind: str,
    files: CompiledFiles,
    name: str,
    interface: FunctionDescription,
    labels: Sequence[str] | Sequence[int] = (),
) -> Program:
    """Translates a compiled network into a program of one function.

    A layer that is inconsistent or unknown becomes an operation without a definition and with the reason. The
    model can then be inspected, but not run.

    Args:
        kind: `neuralNetwork`, `neuralNetworkClassifier` or `neuralNetworkRegressor`.
        files: The content of the files.
        name: The name of the function.
        interface: The inputs and outputs of the model.
        labels: The labels of a classifier.

    Raises:
        CorruptModelError: An input of a layer or an output of the model is undefined.
        UnsupportedModelError: The preprocessing is unknown.
    """

    def translate(shapes: Mapping[str, Shape]) -> Function:
        function = _Network(kind, files, name, interface, shapes, labels).translate()
        return replace(function, specialise=translate)

    return Program(functions={name: translate({})}, kind=kind)


class _Network(Boundary):
    def __init__(
        self,
        kind: str,
        files: CompiledFiles,
        name: str,
        interface: FunctionDescription,
        shapes: Mapping[str, Shape],
        labels: Sequence[str] | Sequence[int],
    ) -> None:
        layers = files.network.layers
        super().__init__(
            kind=kind,
            name=name,
            interface=interface,
            shapes=shapes,
            is_exact=files.is_exact,
            is_rank_4=_are_images_of_rank_4(files, interface),
            written=[blob for layer in layers for blob in layer.outputs],
        )
        self.files, self.labels = files, labels
        #: The shapes in the file apply to one shape of each input.
        self.listed = {} if shapes or _has_other_inputs(files, interface) else files.shapes
        self.known: list[Layer] = []

    def translate(self) -> Function:
        b, network = self.builder, self.files.network
        inputs = [self.input(feature) for feature in self.interface.inputs]
        self.preprocess()
        for layer in network.layers:
            mark = b.mark
            self.define(layer.outputs, self.layer(layer), mark, is_nested=False)
        b.layer = None
        outputs = [
            *self.classes(),
            *(self.output(f) for f in self.interface.outputs if not self.is_predicted(f)),
        ]
        return Function(
            name=self.name,
            opset=f"CoreML{OPSET}",
            graph=b.graph(self.name, inputs, outputs),
            layers=tuple(self.known),
        )

    def preprocess(self) -> None:
        """Scales images."""
        b = self.builder
        for feature in self.interface.inputs:
            values = self.files.transforms.get(feature.name)
            if values is None:
                continue
            mark = b.mark
            preprocess(b, [read_step(feature.name, values)], self.interface.inputs)
            doubt = find_doubt(feature, values)
            if doubt:
                layer = Layer(name=feature.name, type="scaler", doubt=doubt)
                b.assign_layer(mark, layer)
                self.known.append(layer)

    def classes(self) -> list[Blob]:
        """Emits the label and the probabilities of a classifier; nothing for other models."""
        if not self.is_classifier:
            return []
        are_strings = not self.labels or isinstance(self.labels[0], str)
        return self.label(self.labels, self.probabilities(), are_strings=are_strings)

    def probabilities(self) -> str:
        """Returns the blob with a classifier's probabilities, which the files do not name in every case.

        It is the one with the name of the output, or else the last one that no layer reads and that has one
        element per label.
        """
        named, layers = self.interface.predicted_probabilities, self.files.network.layers
        if named in self.builder.scope:
            return named
        read = {name for layer in layers for name in layer.inputs}
        ends = [name for layer in reversed(layers) for name in layer.outputs if name not in read]
        for name in ends:
            type_ = self.builder.scope[name].bound.type
            if isinstance(type_, TensorType) and type_.elements == len(self.labels):
                return name
        return ends[0] if ends else ""

    def layer(self, layer: CompiledLayer) -> Sequence[Blob]:
        b = self.builder
        missing = [name for name in layer.inputs if name not in b.scope]
        if missing:
            raise CorruptModelError(
                f"the input {missing[0]!r} of the layer {layer.name!r} ({layer.type}) is undefined", _DAMAGED
            )
        inputs = tuple(b.scope[name] for name in layer.inputs)
        mark = b.mark
        b.layer = Layer(name=layer.name, type=layer.type, inputs=layer.inputs, outputs=layer.outputs)
        try:
            results, translation = self.translated(layer, inputs)
        except CannotTranslate as error:
            problem = str(error)
        except CONTRADICTIONS as error:
            # A damaged file may contain arbitrary attributes, which translations do not check completely.
            problem = f"its attributes do not match its type ({type(error).__name__}: {error})"
        else:
            doubts = [*translation.doubts, *translation.weight_doubts]
            if doubts:
                b.layer = replace(b.layer, doubt="; ".join(doubts), is_timeable=not translation.doubts)
                b.assign_layer(mark, b.layer)
            self.known.append(b.layer)
            return results
        b.undo_from(mark)
        b.layer = replace(b.layer, problem=problem)
        self.known.append(b.layer)
        return self.unknown(layer, inputs)

    def translated(
        self, layer: CompiledLayer, inputs: tuple[Blob, ...]
    ) -> tuple[Sequence[Blob], Translation]:
        """Returns the results of a layer, and its translation, which holds what is not known of it."""
        spec = LAYERS.get(layer.type)
        if spec is None:
            raise CannotTranslate("this layer type is not supported")
        least, most = spec.inputs
        if len(inputs) < least or 0 <= most < len(inputs):
            raise CannotTranslate(f"it has {len(inputs)} inputs")
        translation = Translation(
            builder=self.builder,
            layer=layer,
            inputs=inputs,
            blobs=self.files.blobs,
            shapes=self.listed,
            is_exact=self.is_exact,
        )
        result = spec.translate(translation)
        results = [result] if isinstance(result, Blob) else list(result)
        if len(results) < len(layer.outputs):
            raise CannotTranslate(f"it has {len(layer.outputs)} outputs instead of {len(results)}")
        pairs = zip(layer.outputs, results, strict=False)
        return [self.checked(name, blob) for name, blob in pairs], translation

    def checked(self, name: str, blob: Blob) -> Blob:
        """Compares a result with its shape in the shapes file, and adds or removes axes of one element.

        Raises:
            CannotTranslate: The shapes differ otherwise.
        """
        listed = self.listed.get(name)
        if listed is None or None in blob.dims:
            return blob
        found = blob.shape
        if blob.sequence is not None:
            found = (blob.sequence, found[0] // max(blob.sequence, 1), *found[1:])
        if found == listed.dims:
            return blob
        if _without_ones(found) != _without_ones(listed.sizes):
            raise CannotTranslate(
                f"its result {name!r} has the shape {list(found)} instead of {list(listed.dims)} in the "
                "shapes file"
            )
        flat = self.builder.tensor(blob)
        shaped = self.builder.op("reshape", x=flat, shape=listed.dims)
        return fold(self.builder, shaped) if listed.rank is None else shaped

    def unknown(self, layer: CompiledLayer, inputs: tuple[Blob, ...]) -> Sequence[Blob]:
        """Emits a placeholder for a layer without a translation, with results of the listed shapes."""
        shapes: list[tuple[int, ...] | None] = []
        sequences: list[int | None] = []
        for name in layer.outputs:
            listed = self.listed.get(name)
            if listed is not None and listed.rank is None:
                sequence, batch, *rest = listed.sizes
                shapes.append((sequence * batch, *rest))
                sequences.append(sequence)
            else:
                shapes.append(None if listed is None else listed.dims)
                sequences.append(None)
        weights = unknown_blobs(layer, self.files.blobs)
        results = self.builder.unknown(layer.type, inputs, shapes, _listed_attributes(layer), weights)
        return [replace(blob, sequence=sequence) for blob, sequence in zip(results, sequences, strict=True)]


def _has_other_inputs(files: CompiledFiles, interface: FunctionDescription) -> bool:
    """True if the shapes file lists other shapes of inputs than the description."""
    for feature in interface.inputs:
        given, listed = default_shape(feature.type), files.shapes.get(feature.name)
        if given is not None and listed is not None and _without_ones(given) != _without_ones(listed.sizes):
            return True
    return False


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _are_images_of_rank_4(files: CompiledFiles, interface: FunctionDescription) -> bool:
    images = [f.name for f in interface.inputs if isinstance(f.type, ImageFeature)]
    listed = [files.shapes[name].rank for name in images if name in files.shapes]
    return files.is_exact and all(rank in (None, len(AXES) - 1) for rank in listed)


def _listed_attributes(layer: CompiledLayer) -> dict[str, Constant]:
    """Returns the attributes of a layer that are numbers or texts. Numbers that do not fit become texts."""
    given = {**layer.attributes, **{f"weights.{role}": number for role, number in layer.weights.items()}}
    return {
        name: constant(value if isinstance(value, str) or _fits(value) else str(value))
        for name, value in given.items()
        if isinstance(value, (bool, int, float, str)) and name not in (*_SILENT, "name", "val")
    }


def _fits(value: float) -> bool:
    """True for an integer of 32 bits, and for a number that has single precision."""
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return not math.isfinite(value) or abs(value) <= LARGEST
