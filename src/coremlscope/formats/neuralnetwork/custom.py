"""Custom layers, which are implemented by a class of an app. The file contains only their interface."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from coremlscope.formats.neuralnetwork.builder import Blob, Builder
from coremlscope.ir import Feature, constant, default_shape
from coremlscope.schema import Message

__all__ = ["custom_layer", "why_not_run"]


def why_not_run(params: Message) -> str:
    """Returns the reason why a custom layer cannot be run, as a clause."""
    return f"its class {params.className or 'without a name'} is part of an app, and not in the file"


def custom_layer(
    b: Builder, message: Message, inputs: Sequence[Blob], features: Mapping[str, Feature]
) -> list[Blob]:
    """Emits an operation without a definition, with results of probable shapes.

    The operation's attributes `class`, `reason` and `shape_from` are the class, the reason why it cannot be
    run, and the source of the shapes.

    Args:
        b: The builder.
        message: The layer.
        inputs: Its inputs.
        features: The outputs of the model, by name.
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
    return [Blob(blob.value, blob.bound, sequence) for blob, (_, sequence) in zip(blobs, folded, strict=True)]


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
    if inputs:
        known = inputs[min(index, len(inputs) - 1)]
        if None not in known.dims:
            return (known.shape if known.sequence is None else known.shape[1:]), "its input"
    return None, "nothing"


def _folded_shape(
    shape: tuple[int, ...] | None, like: Blob | None
) -> tuple[tuple[int, ...] | None, int | None]:
    """Returns the shape in the layout of the layer's input, and the sequence length; see `Blob.sequence`."""
    if shape is None or like is None or like.sequence is None:
        return shape, None
    match shape:
        case (sequence, batch, *rest) if len(rest) == 3:
            return (sequence * batch, *rest), sequence
        case (*_, _, _, _):
            return (like.shape[0] * math.prod(shape[:-3]), *shape[-3:]), like.sequence
        case (channels,):
            return (like.shape[0], channels, 1, 1), like.sequence
        case _:
            return (like.shape[0], *(1,) * (3 - len(shape)), *shape), like.sequence
