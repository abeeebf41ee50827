"""What a layer is: one row that says how its parameters and inputs become operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coremlscope.formats.neuralnetwork.builder import Blob, Builder
from coremlscope.schema import Message

__all__ = ["LayerSpec", "Translate", "Translation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A layer while it is translated.

    Attributes:
        builder: Emits operations.
        params: The parameters of its type.
        inputs: What it takes.
        outputs: What later layers call its results.
        network: Translates the layers of a nested network, in the builder's scope.
    """

    builder: Builder
    params: Message
    inputs: tuple[Blob, ...]
    outputs: tuple[str, ...]
    network: Callable[[Message], None]

    @property
    def x(self) -> Blob:
        """The only input, or the first."""
        return self.inputs[0]


#: Emits operations for a layer, and returns a blob per result. Raises CannotTranslate.
Translate = Callable[[Translation], Blob | Sequence[Blob]]


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One row of the table of layers.

    Attributes:
        type: Apple's name.
        translate: Emits the operations.
        inputs: The least and the greatest number of inputs; -1 is no limit.
    """

    type: str
    translate: Translate
    inputs: tuple[int, int] = (1, 1)
