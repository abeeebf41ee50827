"""The feature vectorizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from coremlscope.model.ir import Classical
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import MOST_ELEMENTS, require
from coremlscope.ops.classical.words import list_texts
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import I64, STRING, Tensor


class FeatureVectorizer(Classical, msgspec.Struct, frozen=True):
    """Concatenates features into one array. `columns` holds the name and size of each."""

    kind: ClassVar[str] = "featureVectorizer"
    columns: tuple[tuple[str, int], ...]


def _read(message: Message) -> FeatureVectorizer:
    """Reads a `FeatureVectorizer`."""
    kind = FeatureVectorizer.kind
    columns = tuple((column.inputColumn, column.inputDimensions) for column in message.inputList)
    require(len(columns) > 0, kind, "no features")
    total = sum(size for _, size in columns)
    require(total < MOST_ELEMENTS, kind, f"features of {total} elements in all")
    return FeatureVectorizer(columns)


def _lower(content: FeatureVectorizer, interface: Interface) -> None:
    """Lowers a `FeatureVectorizer`."""
    op = interface.op
    parts = [_column(name, size, interface) for name, size in content.columns]
    row = op.emit("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    interface.give(interface.only_output(), row, sum(size for _, size in content.columns))


def _column(name: str, size: int, interface: Interface) -> Tensor:
    """A feature as fp64 `[1, size]`; a dictionary holds the nonzero elements by index."""
    op = interface.op
    if not interface.is_dictionary(name):
        return interface.row(size, [name])
    keys, numbers = interface.pairs(name)
    if keys.dtype == STRING:
        raise interface.error(
            f"takes a dictionary with integer keys as the input {name!r}, which has strings"
        )
    zeros = op.emit("Expand", op.const([0.0], F64), op.const([size], I64))
    spread = op.emit("ScatterElements", zeros, keys, numbers, axis=0)
    return op.reshape(spread, (1, size))


def _describe(content: FeatureVectorizer) -> Iterator[Fact]:
    yield "columns", list_texts([f"{name} ({size})" for name, size in content.columns])


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=FeatureVectorizer,
        read=_read,
        lower=_lower,
        work=per_result(0),
        describe=_describe,
    ),
)
