"""Parts of neural networks: some layers of a specification as a network of their own.

Layers are copied as they are in the file, so a part runs on the units on which the layers ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from coremlscope.formats.description import write_features
from coremlscope.formats.neuralnetwork.control import walk
from coremlscope.model import schema
from coremlscope.model.ir import Feature
from coremlscope.model.schema import Message

_KINDS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


class LayerCut(msgspec.Struct, frozen=True, kw_only=True):
    """Some layers of a network.

    Attributes:
        chosen: The indices of the layers in the network.
        inputs: The blobs that they read and other layers write, or that are inputs of the model.
        outputs: The blobs that they write and that other layers read, or that nothing reads.
        overwritten: Blobs of which the layers read one value and write another.
    """

    chosen: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overwritten: tuple[str, ...] = ()


class NetworkLayers:
    """The layers of a neural network, from its serialised specification.

    A blob that several layers write gets one name for each of its values; not in networks with loops or
    branches, whose nested layers share names with the others.

    Args:
        spec: The bytes of a specification that was read before.
    """

    def __init__(self, spec: bytes) -> None:
        self._spec = schema.message_class("Model").FromString(spec)
        kind = next(kind for kind in _KINDS if kind == self._spec.WhichOneof("Type"))
        self._network = getattr(self._spec, kind)
        self._layers: tuple[Message, ...] = tuple(self._network.layers)
        self.model_inputs = frozenset(feature.name for feature in self._spec.description.input)
        if len(tuple(walk(self._layers))) == len(self._layers):
            _name_values_once(self._layers, self.model_inputs)
        self._reads = [set(_read(layer)) for layer in self._layers]
        self._writes = [{name for one in walk([layer]) for name in one.output} for layer in self._layers]

    @property
    def names(self) -> Sequence[tuple[str, str]]:
        """The name and the type of each layer."""
        return [(layer.name, layer.WhichOneof("layer") or "unknown") for layer in self._layers]

    def cut(self, chosen: Sequence[int]) -> LayerCut:
        """Finds what a set of layers reads and writes."""
        inputs: dict[str, None] = {}
        written: dict[str, int] = {}
        for index in sorted(chosen):
            inputs.update(dict.fromkeys(sorted(self._reads[index] - written.keys())))
            written.update(dict.fromkeys(sorted(self._writes[index]), index))
        outputs = [name for name, index in written.items() if self._is_returned(name, index, set(chosen))]
        return LayerCut(
            chosen=tuple(sorted(chosen)),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            overwritten=tuple(name for name in inputs if name in written),
        )

    def _is_returned(self, name: str, index: int, chosen: set[int]) -> bool:
        """True if a blob is an output of the model or is read outside a part, or by no layer at all."""
        is_read = False
        for later in range(index + 1, len(self._layers)):
            is_read |= name in self._reads[later]
            if name in self._reads[later] and later not in chosen:
                return True
            if name in self._writes[later]:
                return not is_read
        described = {feature.name for feature in self._spec.description.output}
        return not is_read or name in described

    def part(self, chosen: Sequence[int], inputs: Sequence[Feature], outputs: Sequence[Feature]) -> bytes:
        """Returns the specification of some layers as a network.

        Args:
            chosen: The indices of the layers, in order.
            inputs: The inputs, named as the blobs.
            outputs: The outputs, named as the blobs.
        """
        spec = schema.message_class("Model")(specificationVersion=self._spec.specificationVersion)
        write_features(inputs, spec.description.input)
        write_features(outputs, spec.description.output)
        network = spec.neuralNetwork
        network.SetInParent()
        network.arrayInputShapeMapping = self._network.arrayInputShapeMapping
        network.imageInputShapeMapping = self._network.imageInputShapeMapping
        names = {feature.name for feature in inputs}
        first = next((feature.name for feature in self._spec.description.input), "")
        for entry in self._network.preprocessing:
            if (entry.featureName or first) in names:
                network.preprocessing.add().CopyFrom(entry)
        for index in chosen:
            layer = network.layers.add()
            layer.CopyFrom(self._layers[index])
            layer.isUpdatable = False
        data: bytes = spec.SerializeToString(deterministic=True)
        return data


def _name_values_once(layers: Sequence[Message], given: frozenset[str]) -> None:
    """Renames blobs so that each is written once; inputs and the last values keep their names."""
    writes = Counter(name for layer in layers for name in layer.output)
    done: Counter[str] = Counter()
    current: dict[str, str] = {}
    for layer in layers:
        inputs = [current.get(name, name) for name in layer.input]
        outputs = []
        for name in layer.output:
            done[name] += 1
            is_kept = done[name] == writes[name] and name not in given
            current[name] = name if is_kept else f"{name}#{done[name]}"
            outputs.append(current[name])
        del layer.input[:], layer.output[:]
        layer.input.extend(inputs)
        layer.output.extend(outputs)


def _read(layer: Message) -> Iterator[str]:
    """Yields the blobs that a layer reads before it writes them, those of nested networks included."""
    own: set[str] = set()
    for one in walk([layer]):
        yield from (name for name in one.input if name not in own)
        if one is not layer:
            own.update(one.output)
        if one.WhichOneof("layer") == "loop" and one.loop.conditionVar:
            yield one.loop.conditionVar
