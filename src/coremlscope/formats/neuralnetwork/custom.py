"""Custom layers, which are implemented by a class of an app. The file contains only their interface."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.model.ir import Feature, constant, default_shape
from coremlscope.model.schema import Message

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
