"""Translation of `NeuralNetwork` messages to `ir.Program`, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from sys import intern

from msgspec.structs import replace

from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.neuralnetwork.boundary import DAMAGED, Boundary
from coremlscope.formats.neuralnetwork.builder import OPSET, Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.control import walk, written
from coremlscope.formats.neuralnetwork.layers import LAYERS
from coremlscope.formats.neuralnetwork.preprocessing import preprocess
from coremlscope.formats.neuralnetwork.translation import Translation
from coremlscope.model.ir import (
    Feature,
    Function,
    FunctionDescription,
    Layer,
    Program,
    Shape,
    constant,
    default_shape,
)
from coremlscope.model.schema import Message
from coremlscope.ops.view import CONTRADICTIONS

# Custom layers, which are implemented by a class of an app. The file contains only their interface.

#: Sources of shapes that are guesses: the file states no shape.
_INPUT, _NOTHING = "its input", "nothing"


def why_not_run(params: Message) -> str:
    """Returns the reason why a custom layer cannot be run, as a clause."""
    return f"its class {params.className or 'without a name'} is part of an app, and not in the file"


def custom_layer(
    b: Builder, message: Message, inputs: Sequence[Blob], features: Mapping[str, Feature]
) -> tuple[list[Blob], str]:
    """Emits an operation without a definition, with results of probable shapes.

    The operation's attributes `class`, `reason` and `shape_from` are the class, the reason why it cannot be
    run, and the source of the shapes.

    Args:
        b: The builder.
        message: The layer.
        inputs: Its inputs.
        features: The outputs of the model, by name.

    Returns:
        The results, and a clause on the shapes that the file does not state; empty if it states all of them.
    """
    found = [_shape(message, index, name, inputs, features) for index, name in enumerate(message.output)]
    like = inputs[0] if inputs else None
    folded = [_folded_shape(shape, like) for shape, _ in found]
    attributes = {
        "class": constant(message.custom.className),
        "reason": constant(why_not_run(message.custom)),
        "shape_from": constant("; ".join(dict.fromkeys(source for _, source in found))),
    }
    blobs = b.unknown("custom", inputs, [shape for shape, _ in folded], attributes)
    results = [Blob(known.value, known.bound, n) for known, (_, n) in zip(blobs, folded, strict=True)]
    return results, _guess(message, {source for _, source in found})


def _guess(message: Message, sources: set[str]) -> str:
    guessed = sources & {_INPUT, _NOTHING}
    if not guessed:
        return ""
    result = "is unknown" if _NOTHING in guessed else "is assumed to be that of its input"
    class_name = message.custom.className or "without a name"
    return (
        f"it depends on the custom layer {message.name!r} (class {class_name}), whose shape is not in the "
        f"file and {result}"
    )


def _shape(
    message: Message, index: int, name: str, inputs: Sequence[Blob], features: Mapping[str, Feature]
) -> tuple[tuple[int, ...] | None, str]:
    """Returns the shape of a result, and its source."""
    if index < len(message.outputTensor):
        shape = tuple(message.outputTensor[index].dimValue)
        if shape and min(shape) > 0:
            return shape, "the layer's declaration in the file"
    declared = default_shape(features[name].type) if name in features else None
    if declared:
        return declared, f"the description of the output {name!r}"
    known = _static_shape(inputs[min(index, len(inputs) - 1)]) if inputs else None
    if known is None:
        return None, _NOTHING
    sequence = inputs[min(index, len(inputs) - 1)].sequence
    return (known if sequence is None else known[1:]), _INPUT


def _folded_shape(
    shape: tuple[int, ...] | None, like: Blob | None
) -> tuple[tuple[int, ...] | None, int | None]:
    """Returns the shape in the layout of the layer's input, and the sequence length; see `Blob.sequence`."""
    known = None if like is None else _static_shape(like)
    if shape is None or like is None or like.sequence is None or known is None:
        return shape, None
    match shape:
        case (sequence, batch, *rest) if len(rest) == 3:
            return (sequence * batch, *rest), sequence
        case (*_, _, _, _):
            return (known[0] * math.prod(shape[:-3]), *shape[-3:]), like.sequence
        case (channels,):
            return (known[0], channels, 1, 1), like.sequence
        case _:
            return (known[0], *(1,) * (3 - len(shape)), *shape), like.sequence


def _static_shape(blob: Blob) -> tuple[int, ...] | None:
    """Returns the stored shape of a blob; None if it is not fully known."""
    with suppress(CannotTranslate):
        return blob.shape
    return None


#: Layers that may be translated: so many, and so many times the number of layers. A loop is translated up to
#: four times and a branch twice, which multiplies where they are inside each other.
_FREE_LAYERS, _REPEATS = 4_000, 16


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
        UnsupportedModelError: There are more layers than this machine's memory holds.
    """
    Budget.of_model().check_operations(len(message.layers))

    def translate(shapes: Mapping[str, Shape]) -> Function:
        function = _Network(kind, message, name, interface, shapes).translate()
        return replace(function, specialise=translate)

    return Program(functions={name: translate({})}, kind=kind)


class _Network(Boundary):
    def __init__(
        self,
        kind: str,
        message: Message,
        name: str,
        interface: FunctionDescription,
        shapes: Mapping[str, Shape],
    ) -> None:
        super().__init__(
            kind=kind,
            name=name,
            interface=interface,
            shapes=shapes,
            is_exact=message.arrayInputShapeMapping == 1,
            is_rank_4=message.imageInputShapeMapping == 1,
            written=written(message.layers),
        )
        self.message, self.messages = message, message.layers
        self.builder.layers_left = _FREE_LAYERS + _REPEATS * sum(1 for _ in walk(self.messages))
        #: The layer that is translated, and those in it, by the identities of their messages: loops are
        #: translated more than once.
        self.known: dict[int, Layer] = {}
        self.listed: list[Layer] = []
        #: The blobs that depend on a guessed shape of a custom layer, with a clause on the guess.
        self.guesses: dict[str, str] = {}

    def translate(self) -> Function:
        b = self.builder
        inputs = [self.input(feature) for feature in self.interface.inputs]
        preprocess(b, self.message.preprocessing, self.interface.inputs)
        for message in self.messages:
            self.top_layer(message)
        b.layer = None
        outputs = [
            *self.classes(),
            *(self.output(f) for f in self.interface.outputs if not self.is_predicted(f)),
        ]
        graph = b.graph(self.name, inputs, outputs)
        return Function(
            name=self.name,
            opset=f"CoreML{OPSET}",
            graph=graph,
            layers=tuple(self.listed),
        )

    def classes(self) -> list[Blob]:
        """Emits the label and the probabilities of a classifier; nothing for other models."""
        if not self.is_classifier:
            return []
        field = self.message.WhichOneof("ClassLabels")
        labels = list(getattr(self.message, field).vector) if field else []
        layers = self.messages
        source = self.message.labelProbabilityLayerName or (layers[-1].output[0] if layers else "")
        return self.label(labels, source, are_strings=field == "stringClassLabels")

    # Layers

    def top_layer(self, message: Message) -> None:
        """Translates a layer of the network, and lists it with the layers in it."""
        inside = tuple(walk([message]))
        self.known = {id(layer): self.untranslated(layer) for layer in inside}
        self.layers([message], is_nested=False)
        self.listed += (self.known[id(layer)] for layer in inside)

    def untranslated(self, message: Message) -> Layer:
        """Describes a layer."""
        inputs, outputs = (tuple(map(intern, names)) for names in (message.input, message.output))
        return Layer(name=intern(message.name), type=_type(message), inputs=inputs, outputs=outputs)

    def layers(self, messages: Iterable[Message], *, is_nested: bool) -> None:
        """Translates layers, and writes their results to the builder's scope."""
        outer = self.builder.layer
        for message in messages:
            mark = self.builder.mark
            results = self.layer(message)
            self.define(message.output, results, mark, is_nested=is_nested)
        self.builder.layer = outer

    def layer(self, message: Message) -> Sequence[Blob]:
        b = self.builder
        b.layers_left -= 1
        type_ = _type(message)
        missing = [name for name in message.input if name not in b.scope]
        if missing:
            raise CorruptModelError(
                f"the input {missing[0]!r} of the layer {message.name!r} ({type_}) is undefined",
                DAMAGED,
            )
        inputs = tuple(b.scope[name] for name in message.input)
        inherited = next(filter(None, map(self.guesses.get, message.input)), "")
        key, mark = id(message), b.mark
        b.layer = self.known[key]
        if type_ == "custom":
            b.layer = self.known[key] = replace(b.layer, problem=why_not_run(message.custom))
            outputs = {feature.name: feature for feature in self.interface.outputs}
            placeholders, guess = custom_layer(b, message, inputs, outputs)
            self.note_guess(message.output, guess or inherited)
            return placeholders
        self.note_guess(message.output, inherited)
        try:
            return self.translated(message, type_, inputs)
        except CannotTranslate as error:
            problem = str(error)
        except CONTRADICTIONS as error:
            # A damaged file may contain arbitrary parameters, which translations do not check completely.
            problem = f"its parameters do not match its definition ({type(error).__name__}: {error})"
        b.undo_from(mark)
        problem = f"{problem}; {inherited}" if inherited else problem
        b.layer = self.known[key] = replace(self.known[key], problem=problem)
        # Later layers may read blobs of its nested networks.
        inner = sorted(set(written([message])).difference(message.output))
        results = b.unknown(type_, inputs, [None] * (len(message.output) + len(inner)))
        b.scope.update(zip(inner, results[len(message.output) :], strict=True))
        return results[: len(message.output)]

    def note_guess(self, names: Iterable[str], guess: str) -> None:
        """Notes that blobs depend on a guessed shape, or, if there is no guess, that they do not."""
        for name in names:
            self.guesses[name] = guess

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
            network=lambda network: self.layers(network.layers, is_nested=True),
        )
        result = spec.translate(translation)
        results = [result] if isinstance(result, Blob) else list(result)
        if len(results) < len(outputs):
            raise CannotTranslate(f"it has {len(outputs)} outputs instead of {len(results)}")
        return results[: len(outputs)]


def _type(layer: Message) -> str:
    return layer.WhichOneof("layer") or "unknown"
