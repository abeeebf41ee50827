"""Type inference shared by many operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from coremlscope.model.ir import DType, Shape, TensorType, ValueType
from coremlscope.ops.view import CannotInfer, OpView


def same_as(name: str = "x") -> Callable[[OpView], Sequence[ValueType]]:
    """The result has the type of parameter `name`."""
    return lambda view: [view.type(name)]


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The broadcast shape by NumPy's rules; beside an unknown dimension, a known one is taken.

    Raises:
        CannotInfer: Two dimensions differ and neither is 1.
    """
    rank = max(map(len, shapes))
    result: list[int | None] = []
    for axis in range(rank):
        dims = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = {d for d in dims if d is not None and d != 1}
        if len(wide) > 1:
            raise CannotInfer(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")
        result.append(wide.pop() if wide else None if None in dims else 1)
    return tuple(result)


def broadcast(*names: str, dtype: DType | None = None) -> Callable[[OpView], Sequence[ValueType]]:
    """The parameters' shapes broadcast; the element type is the first one's unless `dtype` is given."""

    def infer(view: OpView) -> Sequence[ValueType]:
        types = [view.type(name) for name in names]
        element = dtype or types[0].dtype
        shapes = [t.shape for t in types]
        if any(s is None for s in shapes):
            return [TensorType(element, None)]
        return [TensorType(element, broadcast_shapes([s for s in shapes if s is not None]))]

    return infer


def normal_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        CannotInfer: The tensor has no such axis.
    """
    if not -rank <= axis < rank:
        raise CannotInfer(f"axis {axis} does not exist in a tensor of rank {rank}")
    return axis % rank


def reduced(type_: TensorType, axes: Sequence[int], keep: bool) -> TensorType:
    """`type_` with `axes` reduced to 1, or removed."""
    if type_.shape is None:
        return type_
    gone = {normal_axis(axis, len(type_.shape)) for axis in axes}
    if keep:
        return replace(type_, shape=tuple(1 if i in gone else d for i, d in enumerate(type_.shape)))
    return replace(type_, shape=tuple(d for i, d in enumerate(type_.shape) if i not in gone))


def first_known(*dims: int | None) -> int | None:
    """The first dimension that is known."""
    return next((d for d in dims if d is not None), None)
