"""The array feature extractor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.messages import MOST_ELEMENTS, require
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import I64


class ArrayFeatureExtractor(Classical, msgspec.Struct, frozen=True):
    """Selects elements of an array. `indices` is int64 `[elements]`, into the flattened array."""

    kind: ClassVar[str] = "arrayFeatureExtractor"
    indices: Constant


def _read(message: Message) -> ArrayFeatureExtractor:
    """Reads an `ArrayFeatureExtractor`."""
    kind, indices = ArrayFeatureExtractor.kind, message.extractIndex
    require(len(indices) > 0, kind, "nothing to extract")
    require(max(indices) < MOST_ELEMENTS, kind, f"the element {max(indices)} to extract")
    return ArrayFeatureExtractor(constant(np.array(indices, np.int64)))


def _lower(content: ArrayFeatureExtractor, interface: Interface) -> None:
    """Lowers an `ArrayFeatureExtractor`."""
    op, name = interface.op, interface.only_input()
    indices, size = content.indices.numpy(), interface.size(name)
    if size is not None and indices.max() >= size:
        raise interface.error(f"extracts the element {indices.max()}, but its input holds {size}")
    flat = op.reshape(interface.tensor(name), (-1,))
    chosen = op.emit("Gather", flat, interface.weight(content.indices, "indices", I64), axis=0)
    interface.give(interface.only_output(), chosen, len(indices))


def _describe(content: ArrayFeatureExtractor) -> Iterator[Fact]:
    yield "elements", list_elements(content.indices)


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=ArrayFeatureExtractor,
        read=_read,
        lower=_lower,
        work=per_result(0),
        describe=_describe,
    ),
)
