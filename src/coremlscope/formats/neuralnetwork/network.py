"""Translation of `NeuralNetwork` messages to `ir.Program`, layer by layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from coremlscope.errors import CorruptModelError
from coremlscope.formats.neuralnetwork.builder import FLOAT, OPSET, Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.control import walk, written
from coremlscope.formats.neuralnetwork.custom import custom_layer, why_not_run
from coremlscope.formats.neuralnetwork.layers import LAYERS
from coremlscope.formats.neuralnetwork.preprocessing import preprocess
from coremlscope.formats.neuralnetwork.translation import Translation
from coremlscope.ir import (
    ArrayFeature,
    DType,
    Feature,
    Function,
    FunctionDescription,
    ImageFeature,
    Layer,
    Program,
    Shape,
    constant,
    default_shape,
)
from coremlscope.schema import Message

__all__ = ["read_network"]

_DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


def read_network(kind: str, message: Message, name: str, interface: FunctionDescription) -> Program:
    """Translates a neural network into a program of one function.

    An inconsistent layer, or one without a translation, becomes an operation without a definition and with
    the reason. The model can then be inspected, but not run.

    Args:
        kind: `neuralNetwork`, `neuralNetworkClassifier` or `neuralNetworkRegressor`.
        message: The message of the same name.
        name: The name of the function.
        interface: The inputs and outputs of the model.

    Raises:
        CorruptModelError: An input of a layer or an output of the model is undefined.
    """

    def translate(shapes: Mapping[str, Shape]) -> Function:
        function = _Network(kind, message, name, interface, shapes).translate()
        return replace(function, specialise=translate)

    return Program(functions={name: translate({})}, kind=kind)


class _Network:
    def __init__(
        self,
        kind: str,
        message: Message,
        name: str,
        interface: FunctionDescription,
        shapes: Mapping[str, Shape],
    ) -> None:
        self.kind, self.message, self.name, self.interface = kind, message, name, interface
        self.shapes = shapes
        # Layers are identified by their messages, because loops are translated more than once.
        self.messages = tuple(walk(message.layers))
        self.known: dict[int, Layer] = {
            id(layer): Layer(
                name=layer.name,
                type=_type(layer),
                problem="",
                inputs=tuple(layer.input),
                outputs=tuple(layer.output),
            )
            for layer in self.messages
        }
        names = [feature.name for feature in (*interface.inputs, *interface.outputs)]
        self.builder = Builder(name, names)
        self.is_exact = message.arrayInputShapeMapping == 1
        self.is_rank_4 = message.imageInputShapeMapping == 1
        arrays = (f for f in interface.inputs if isinstance(f.type, ArrayFeature) and f.type.takes_sequences)
        #: True if an input has all five dimensions. Then outputs have five dimensions as well.
        self.is_sequential = any(len(shapes.get(feature.name) or ()) == 5 for feature in arrays)
        # The result of the last layer that writes an output gets its name, unless it must be converted.
        writers = Counter(written(message.layers))
        self.given: dict[str, Blob] = {}
        self.mapped_names: dict[str, str] = {}
        self.writers = {f.name: writers[f.name] for f in interface.outputs if self.is_as_written(f)}

    def translate(self) -> Function:
        b = self.builder
        inputs = [self.input(feature) for feature in self.interface.inputs]
        preprocess(b, self.message.preprocessing, self.interface.inputs)
        self.layers(self.message, is_nested=False)
        b.layer = None
        outputs = [
            *self.label(),
            *(self.output(f) for f in self.interface.outputs if not self.is_predicted(f)),
        ]
        graph = b.graph(self.name, inputs, outputs)
        return Function(
            name=self.name,
            opset=f"CoreML{OPSET}",
            graph=graph,
            layers=tuple(self.known[id(m)] for m in self.messages),
        )

    # Inputs

    def input(self, feature: Feature) -> Blob:
        b, type_ = self.builder, feature.type
        b.feature = feature.name
        shape = self.shapes.get(feature.name) or default_shape(type_)
        given = b.input(feature.name, DType.INT32 if _is_integer(feature) else FLOAT, shape)
        blob = b.floats(given)
        with suppress(CannotTranslate):  # the rank is unknown; layers that need it fail
            blob = self.mapped(blob, isinstance(type_, ImageFeature))
        b.scope[feature.name] = blob
        self.given[feature.name], self.mapped_names[feature.name] = given, blob.value.name
        return given

    def mapped(self, blob: Blob, is_image: bool) -> Blob:
        """Converts an input to the layout of the network's version; see `Blob.sequence`."""
        if self.is_rank_4 if is_image else self.is_exact:
            return blob
        shape = blob.shape
        match len(shape):
            case 4 if is_image:
                return replace(blob, sequence=1)
            case 5:
                folded = (shape[0] * shape[1], *shape[2:])
                return replace(self.builder.op("reshape", x=blob, shape=folded), sequence=shape[0])
            case 1:
                full = (1, shape[0], 1, 1)
            case rank if rank <= 4:
                full = (1,) * (4 - rank) + tuple(shape)  # type: ignore[assignment]
            case rank:
                raise CannotTranslate(f"an input of rank {rank} cannot be mapped to five dimensions")
        return replace(self.builder.op("reshape", x=blob, shape=full), sequence=1)

    # Layers

    def layers(self, network: Message, *, is_nested: bool) -> None:
        """Translates the layers of a network, and writes their results to the builder's scope."""
        b = self.builder
        for message in network.layers:
            mark = b.mark
            results = self.layer(message)
            for name, blob in zip(message.output, results, strict=True):
                is_last = False
                if not is_nested and name in self.writers:
                    self.writers[name] -= 1
                    is_last = not self.writers[name]
                b.scope[name] = b.rename(blob, name, mark, is_reserved=is_last)

    def layer(self, message: Message) -> Sequence[Blob]:
        b = self.builder
        type_ = _type(message)
        missing = [name for name in message.input if name not in b.scope]
        if missing:
            raise CorruptModelError(
                f"the input {missing[0]!r} of the layer {message.name!r} ({type_}) is undefined",
                _DAMAGED,
            )
        inputs = tuple(b.scope[name] for name in message.input)
        key, mark = id(message), b.mark
        b.layer = self.known[key]
        if type_ == "custom":
            b.layer = self.known[key] = replace(b.layer, problem=why_not_run(message.custom))
            outputs = {feature.name: feature for feature in self.interface.outputs}
            return custom_layer(b, message, inputs, outputs)
        try:
            return self.translated(message, type_, inputs)
        except CannotTranslate as error:
            problem = str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # A damaged file may contain arbitrary parameters, which translations do not check completely.
            problem = f"its parameters do not match its definition ({type(error).__name__}: {error})"
        b.undo_from(mark)
        b.layer = self.known[key] = replace(self.known[key], problem=problem)
        # Later layers may read blobs of its nested networks.
        inner = sorted(set(written([message])).difference(message.output))
        results = b.unknown(type_, inputs, [None] * (len(message.output) + len(inner)))
        b.scope.update(zip(inner, results[len(message.output) :], strict=True))
        return results[: len(message.output)]

    def translated(self, message: Message, type_: str, inputs: tuple[Blob, ...]) -> Sequence[Blob]:
        spec = LAYERS.get(type_)
        if spec is None:
            raise CannotTranslate("this layer type is not supported")
        least, most = spec.inputs
        if len(inputs) < least or 0 <= most < len(inputs):
            raise CannotTranslate(f"it has {len(inputs)} inputs")
        outputs = tuple(message.output)
        params = getattr(message, type_)
        translation = Translation(
            builder=self.builder,
            params=params,
            inputs=inputs,
            outputs=outputs,
            network=lambda network: self.layers(network, is_nested=True),
        )
        result = spec.translate(translation)
        results = [result] if isinstance(result, Blob) else list(result)
        if len(results) < len(outputs):
            raise CannotTranslate(f"it has {len(outputs)} outputs instead of {len(results)}")
        return results[: len(outputs)]

    # Outputs

    def is_as_written(self, feature: Feature) -> bool:
        """True if an output is a layer's result without any conversion."""
        images = any(isinstance(f.type, ImageFeature) for f in self.interface.inputs)
        # If there are images, arrays may have to be reshaped to the shape in their description.
        declared = isinstance(feature.type, ArrayFeature) and feature.type.shape
        is_exact = self.is_exact and (not images or (self.is_rank_4 and not declared))
        return is_exact and not _is_integer(feature) and not self.is_predicted(feature)

    def is_predicted(self, feature: Feature) -> bool:
        i = self.interface
        return self.kind == "neuralNetworkClassifier" and feature.name in (
            i.predicted_feature,
            i.predicted_probabilities,
        )

    def label(self) -> list[Blob]:
        """Emits the label and the probabilities of a classifier."""
        if self.kind != "neuralNetworkClassifier":
            return []
        i, field = self.interface, self.message.WhichOneof("ClassLabels")
        labels = list(getattr(self.message, field).vector) if field else []
        layers = self.message.layers
        source = self.message.labelProbabilityLayerName or (layers[-1].output[0] if layers else "")
        if source not in self.builder.scope:
            raise CorruptModelError(f"the probabilities {source!r} of the classifier are undefined", _DAMAGED)
        blob = self.builder.scope[source]
        self.builder.feature = i.predicted_feature
        classes = constant(
            np.array(labels, object) if field == "stringClassLabels" else np.array(labels, np.int64)
        )
        names = [i.predicted_feature, i.predicted_probabilities or self.builder.fresh("probabilities")]
        try:
            flat = self.builder.op("reshape", x=replace(blob, sequence=None), shape=(-1,))
            results = self.builder.ops("classify", 2, named=names, probabilities=flat, classes=classes)
        except CannotTranslate as error:
            raise CorruptModelError(f"the label of the classifier is invalid: {error}", _DAMAGED) from None
        return list(results if i.predicted_probabilities else results[:1])

    def output(self, feature: Feature) -> Blob:
        b, name = self.builder, feature.name
        b.feature = name
        if name not in b.scope:
            raise CorruptModelError(f"the output {name!r} is undefined", _DAMAGED)
        if name in self.given:
            if b.origin(b.scope[name]) != self.mapped_names[name]:
                raise CorruptModelError(
                    f"an input and a different output have the same name {name!r}", _DAMAGED
                )
            return self.given[name]
        blob = b.scope[name]
        if blob.value.name == name:
            return blob
        try:
            return self.shaped(blob, feature)
        except CannotTranslate:  # the shape is unknown before run time, or a layer has no translation
            return b.op("identity", named=name, x=replace(blob, sequence=None))

    def shaped(self, blob: Blob, feature: Feature) -> Blob:
        """Converts a blob to an output of the model, with the name, shape and type of the description."""
        b, name = self.builder, feature.name
        if _is_integer(feature):
            folded, blob = blob.sequence, b.cast(replace(blob, sequence=None), DType.INT32)
            blob = replace(blob, sequence=folded)
        if blob.sequence is not None:
            shape, blob = self.outer_shape(blob, feature), replace(blob, sequence=None)
            if shape != blob.dims:
                return b.op("reshape", named=name, x=blob, shape=shape)
            return b.op("identity", named=name, x=blob)
        if self.is_described_otherwise(blob, feature):
            return b.op("reshape", named=name, x=blob, shape=default_shape(feature.type))
        return b.op("identity", named=name, x=blob)

    def is_described_otherwise(self, blob: Blob, feature: Feature) -> bool:
        """True if an array has another shape than in its description, but the same number of elements."""
        wanted = default_shape(feature.type)
        if not wanted or self.shapes or not isinstance(feature.type, ArrayFeature) or None in blob.dims:
            return False
        return wanted != blob.shape and math.prod(wanted) == math.prod(blob.shape)

    def outer_shape(self, blob: Blob, feature: Feature) -> tuple[int, ...]:
        """Returns the output shape of a rank-5 blob, as an app sees it."""
        sequence = blob.sequence or 1
        merged, *rest = blob.shape
        batch = merged // sequence
        if isinstance(feature.type, ImageFeature):
            return (merged, *rest)
        if self.is_sequential or sequence * batch != 1:
            return (sequence, batch, *rest)
        declared = feature.type.shape if isinstance(feature.type, ArrayFeature) else ()
        if declared and math.prod(declared) == math.prod(rest):
            return declared
        return tuple(rest[:1] if rest[1:] == [1, 1] else rest)


def _type(layer: Message) -> str:
    return layer.WhichOneof("layer") or "unknown"


def _is_integer(feature: Feature) -> bool:
    return isinstance(feature.type, ArrayFeature) and feature.type.dtype.is_int
