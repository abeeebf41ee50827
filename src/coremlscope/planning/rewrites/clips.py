"""ReLU6 and other bounds of neural networks as one layer: those of several layers become a clip."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.formats.mlmodel import read_spec
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import schema
from coremlscope.model.ir import Model
from coremlscope.planning.advice import bind_default_function, find_clips

#: The first version of the specification that has the layer `clip`: that of iOS 13.
_IOS_13 = 4


def read_network(spec: bytes) -> Model:
    """Reads the specification of a neural network, whose weights are inside."""
    return read_spec(spec, WeightStorage)


def with_clips(spec: bytes) -> tuple[bytes, int]:
    """Writes each bound of values of a neural network as one layer, ReLU6 above all.

    Args:
        spec: The serialised specification.

    Returns:
        The specification, and how many activations are one layer.
    """
    message = schema.message_class("Model").FromString(spec)
    layers = getattr(message, message.WhichOneof("Type")).layers
    places = {(layer.name, *layer.output): place for place, layer in enumerate(layers)}
    gone: set[int] = set()
    count = 0
    function = bind_default_function(read_network(spec))
    for members, clamp in find_clips(function):
        # Of a layer that is several operations, these may be some.
        if not all(map(function.is_authored, members)):
            continue
        keys = [(layer.name, *layer.outputs) for view in members if (layer := view.op.layer) is not None]
        known = [places[key] for key in keys if key in places]
        if len(known) < len(members) or not _can_join(layers, known):
            continue
        given, last = layers[known[0]].input[0], layers[known[-1]]
        del last.input[:]
        last.input.append(given)
        last.clip.SetInParent()
        last.clip.minVal, last.clip.maxVal = clamp.low, clamp.high
        gone.update(known[:-1])
        count += 1
    for place in sorted(gone, reverse=True):
        del layers[place]
    message.specificationVersion = max(message.specificationVersion, _IOS_13)
    data: bytes = message.SerializeToString(deterministic=True)
    return data, count


def _can_join(layers: Sequence[schema.Message], places: Sequence[int]) -> bool:
    """Returns whether the last of some layers can read what the first one reads, and nothing writes that or
    uses the result between them: several layers may write a blob of one name."""
    given, result = layers[places[0]].input[0], layers[places[-1]].output[0]
    between = range(places[0] + 1, places[-1])
    others = [layers[place] for place in between if place not in places]
    return not any(given in one.output or result in (*one.input, *one.output) for one in others)
