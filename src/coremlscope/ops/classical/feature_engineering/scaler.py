"""The scaler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from coremlscope.model.ir import Classical, Constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.messages import doubles, require
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result


class Scaler(Classical, msgspec.Struct, frozen=True):
    """`(x + shift) · scale`. Both are fp64 `[1]` or `[elements]`."""

    kind: ClassVar[str] = "scaler"
    shift: Constant
    scale: Constant


def _read(message: Message) -> Scaler:
    """Reads a `Scaler`."""
    shift, scale = message.shiftValue or [0.0], message.scaleValue or [1.0]
    lengths = {len(shift), len(scale)} - {1}
    require(len(lengths) < 2, Scaler.kind, f"{len(shift)} shifts and {len(scale)} scales")
    return Scaler(doubles(shift), doubles(scale))


def _lower(content: Scaler, interface: Interface) -> None:
    """Lowers a `Scaler`."""
    op = interface.op
    shift, scale = content.shift.numpy(), content.scale.numpy()
    width = max(len(shift), len(scale))
    row = interface.row(width if width > 1 else None)
    sizes = [interface.size(name) for name in interface.inputs]
    moved = op.emit("Add", row, op.reshape(interface.weight(content.shift, "shift"), (1, -1)))
    scaled = op.emit("Mul", moved, op.reshape(interface.weight(content.scale, "scale"), (1, -1)))
    count = None if None in sizes else sum(size or 0 for size in sizes)
    interface.give(interface.only_output(), scaled, count)


def _describe(content: Scaler) -> Iterator[Fact]:
    yield "adds", list_elements(content.shift)
    yield "multiplies by", list_elements(content.scale)


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=Scaler,
        read=_read,
        lower=_lower,
        work=per_result(2),
        describe=_describe,
    ),
)
