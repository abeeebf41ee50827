"""Rows of layer types, which translate a layer's parameters and inputs into operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from coremlscope.formats.neuralnetwork.builder import Blob, Builder
from coremlscope.model.schema import Message


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that is being translated.

    Attributes:
        builder: Emits operations.
        params: The parameters of its type.
        inputs: Its inputs.
        outputs: The names of its results.
        network: Translates the layers of a nested network in the builder's scope.
    """

    builder: Builder
    params: Message
    inputs: tuple[Blob, ...]
    outputs: tuple[str, ...]
    network: Callable[[Message], None]

    @property
    def x(self) -> Blob:
        """The first input."""
        return self.inputs[0]


#: Emits the operations of a layer, and returns one blob per result. Raises CannotTranslate.
Translate = Callable[[Translation], Blob | Sequence[Blob]]


class LayerSpec(msgspec.Struct, frozen=True):
    """A row of the table of layers.

    Attributes:
        type: Apple's name of the layer type.
        translate: Emits the operations.
        inputs: The minimum and maximum number of inputs; a maximum of -1 is unlimited.
    """

    type: str
    translate: Translate
    inputs: tuple[int, int] = (1, 1)
