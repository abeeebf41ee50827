"""The normalizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec

from coremlscope.model.ir import Classical
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import name_of
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import I64

#: The norm: the largest magnitude, the sum of magnitudes, or the square root of the sum of squares.
Norm = Literal["LMax", "L1", "L2"]
_NORMS = {"LMax": "largest magnitude (LMax)", "L1": "sum of magnitudes (L1)", "L2": "root of squares (L2)"}


class Normalizer(Classical, msgspec.Struct, frozen=True):
    """Divides an array by its norm; an array of zeros is unchanged."""

    kind: ClassVar[str] = "normalizer"
    norm: Norm


def _read(message: Message) -> Normalizer:
    """Reads a `Normalizer`."""
    return Normalizer(name_of(message.normType, "Normalizer.NormType", Normalizer.kind))


def _lower(content: Normalizer, interface: Interface) -> None:
    """Lowers a `Normalizer`."""
    op, name = interface.op, interface.only_input()
    row, axis = interface.row(), op.const([1], I64)
    match content.norm:
        case "L1":
            norm = op.emit("ReduceL1", row, axis, keepdims=1)
        case "L2":
            norm = op.emit("ReduceL2", row, axis, keepdims=1)
        case "LMax":
            norm = op.emit("ReduceMax", op.emit("Abs", row), axis, keepdims=1)
    is_zero = op.emit("Equal", norm, op.const(0.0, F64))
    norm = op.emit("Where", is_zero, op.const(1.0, F64), norm, dtype=F64)
    interface.give(interface.only_output(), op.emit("Div", row, norm), interface.size(name))


def _describe(content: Normalizer) -> Iterator[Fact]:
    yield "divides by", _NORMS[content.norm]


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=Normalizer,
        read=_read,
        lower=_lower,
        work=per_result(3),
        describe=_describe,
    ),
)
