"""Specification of an operation: one row with its traits, inference, lowering, folding and work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from coremlscope.model.ir import Constant, ListType, StateType, TensorType, ValueType
from coremlscope.ops.emit import Lowering, Tensor
from coremlscope.ops.traits import NO_TRAITS, Trait
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of an operation, independent of what runs it.

    Attributes:
        flops: Floating-point or integer operations; a multiply-add counts as two.
        read_bytes: Bytes read at the program's own precision, weights included.
        weight_bytes: Bytes of `read_bytes` that are weights; see `Constant.is_weight`.
        written_bytes: Bytes written.
        is_complete: False where a shape is not known, so that the figures are lower bounds.
    """

    flops: int = 0
    read_bytes: int = 0
    weight_bytes: int = 0
    written_bytes: int = 0
    is_complete: bool = True

    def __add__(self, other: Work) -> Work:
        return Work(
            flops=self.flops + other.flops,
            read_bytes=self.read_bytes + other.read_bytes,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
            is_complete=self.is_complete and other.is_complete,
        )

    def __mul__(self, times: int) -> Work:
        return Work(
            flops=self.flops * times,
            read_bytes=self.read_bytes * times,
            weight_bytes=self.weight_bytes * times,
            written_bytes=self.written_bytes * times,
            is_complete=self.is_complete,
        )


Infer = Callable[[OpView], Sequence[ValueType]]
Lower = Callable[[Lowering], Sequence[Tensor] | Tensor]


class OpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of operations.

    Attributes:
        name: Apple's name.
        doc: One sentence for people: what it computes.
        traits: What it is, for rules of placement, prices and estimates; see `Trait`.
        infer: Types of the results from what is known of the arguments. Raises CannotInfer.
        lower: Emits ONNX nodes and returns one tensor per result. Raises CannotLower.
        work: FLOPs and bytes of the bound operation.
        fold: The results' content where it can be known before run time, else None. Must not read weights:
            large results are `Derived` constants.
    """

    name: str
    doc: str
    traits: Trait = NO_TRAITS
    infer: Infer
    lower: Lower
    work: Callable[[OpView], Work]
    fold: Callable[[OpView], Sequence[Constant] | None] | None = None


def work_of(spec: OpSpec, view: OpView) -> Work | None:
    """The work of a bound operation; None where its arguments contradict its definition."""
    return view.remember(work_of, lambda: _work_of(spec, view))


def _work_of(spec: OpSpec, view: OpView) -> Work | None:
    try:
        return spec.work(view)
    except (CannotInfer, CannotLower, *CONTRADICTIONS):
        return None


def bytes_of(type_: ValueType) -> tuple[int, bool]:
    """Packed bytes of a value and whether its shape is fully known."""
    match type_:
        case TensorType():
            size = type_.nbytes
            return size or 0, size is not None
        case StateType(wrapped):
            return bytes_of(wrapped)
        case ListType(element, length):
            size, complete = bytes_of(element)
            return size * (length or 0), complete and length is not None
        case _:
            return 0, True


def moved(view: OpView, flops: int = 0) -> Work:
    """Every argument read once, every result written once, plus `flops`: the usual case."""
    read = weight = written = 0
    complete = True
    for arguments in view.inputs.values():
        for argument in arguments:
            size, known = bytes_of(argument.type)
            read += size
            weight += size if argument.constant is not None and argument.constant.is_weight else 0
            complete &= known
    for result in view.outputs:
        size, known = bytes_of(result.type)
        written += size
        complete &= known
    return Work(
        flops=flops, read_bytes=read, weight_bytes=weight, written_bytes=written, is_complete=complete
    )


def moved_output(view: OpView) -> Work:
    """As much read as is written: slices, gathers, copies."""
    total = Work()
    for result in view.outputs:
        size, known = bytes_of(result.type)
        total += Work(flops=0, read_bytes=size, weight_bytes=0, written_bytes=size, is_complete=known)
    return total


def free(view: OpView) -> Work:
    """Nothing is computed or moved: constants, views of the same memory."""
    return Work()
