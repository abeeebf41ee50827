"""Layers that are being translated, and the rows that translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coremlscope.formats.espresso.attributes import CompiledLayer
from coremlscope.formats.espresso.blobs import BlobFile
from coremlscope.formats.espresso.files import BlobShape
from coremlscope.formats.neuralnetwork.builder import Blob, Builder


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that is being translated.

    Attributes:
        builder: Emits operations.
        layer: The layer.
        inputs: Its inputs.
        blobs: The weight file.
        shapes: The shapes of blobs by name in the shapes file, which apply to the default shapes of inputs.
        is_exact: True if blobs have exact shapes; False if all have five dimensions.
        doubts: What is not known of the layer, as clauses. Its operations are planned, but cannot be run.
        weight_doubts: What is not known of its weights alone. With random weights it can be run.
    """

    builder: Builder
    layer: CompiledLayer
    inputs: tuple[Blob, ...]
    blobs: BlobFile
    shapes: Mapping[str, BlobShape]
    is_exact: bool
    doubts: list[str] = msgspec.field(default_factory=list)
    weight_doubts: list[str] = msgspec.field(default_factory=list)

    def doubt(self, text: str) -> None:
        """Records that a part of the layer's meaning is not established."""
        self.doubts.append(text)

    def doubt_weights(self, text: str) -> None:
        """Records that weights cannot be read, although their shapes are known."""
        self.weight_doubts.append(text)

    @property
    def expected(self) -> tuple[BlobShape | None, ...]:
        """The shapes of the outputs in the shapes file, with None for missing ones."""
        return tuple(self.shapes.get(name) for name in self.layer.outputs)

    @property
    def x(self) -> Blob:
        """The first input."""
        return self.inputs[0]


class LayerSpec(msgspec.Struct, frozen=True):
    """A row of the table of layers.

    Attributes:
        type: The compiler's name of the layer type.
        translate: Emits the operations, and returns one blob per result. Raises CannotTranslate.
        inputs: The minimum and maximum number of inputs; a maximum of -1 is unlimited.
    """

    type: str
    translate: Callable[[Translation], Blob | Sequence[Blob]]
    inputs: tuple[int, int] = (1, 1)
