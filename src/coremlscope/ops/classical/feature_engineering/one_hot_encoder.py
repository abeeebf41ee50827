"""The one-hot encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, DictType, DType, TensorType
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import name_of, read_keys
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import I64


class OneHotEncoder(Classical, msgspec.Struct, frozen=True):
    """An array with a 1 at the index of a category, and 0 elsewhere.

    Attributes:
        keys: The categories: strings or int64 `[categories]`.
        is_sparse: The result is a dictionary with one entry instead of an array.
        ignores_unknown: Unknown categories give zeros; otherwise they are an error.
    """

    kind: ClassVar[str] = "oneHotEncoder"
    keys: Constant
    is_sparse: bool
    ignores_unknown: bool


def _read(message: Message) -> OneHotEncoder:
    """Reads a `OneHotEncoder`."""
    kind = OneHotEncoder.kind
    keys = read_keys(message, "CategoryType", kind)
    handling = name_of(message.handleUnknown, "OneHotEncoder.HandleUnknown", kind)
    return OneHotEncoder(keys, message.outputSparse, handling == "IgnoreUnknown")


def _lower(content: OneHotEncoder, interface: Interface) -> None:
    """Lowers a `OneHotEncoder`."""
    op, name, value = interface.op, interface.only_input(), interface.only_output()
    keys = content.keys.numpy().tolist()
    index = interface.label_index(name, keys, is_closed=not content.ignores_unknown)
    if isinstance(value.type, DictType):
        is_named = value.type.key == TensorType(DType.STRING, ())
        if is_named and not isinstance(keys[0], str):
            interface.contradict()
        known = op.emit("Compress", index, op.emit("GreaterOrEqual", index, op.const(0, I64)), axis=0)
        ones = op.emit("Expand", op.const([1.0], F64), op.shape_of(known))
        interface.give_pairs(value, known, ones, keys if is_named else None)
        return
    positions = op.emit("Unsqueeze", op.const(np.arange(len(keys)), I64), op.const([0], I64))
    is_index = op.emit("Equal", op.reshape(index, (1, 1)), positions)
    interface.give(value, op.cast(is_index, F64), len(keys))


def _describe(content: OneHotEncoder) -> Iterator[Fact]:
    yield "categories", list_elements(content.keys)
    yield "others", "give zeros" if content.ignores_unknown else "are an error"


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=OneHotEncoder,
        read=_read,
        lower=_lower,
        work=per_result(1),
        describe=_describe,
    ),
)
