"""Bound operations of a long graph, kept in columns; see `ir.long`."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coremlscope.ir import Constant, LongOps, LongSequence, Op, Value, ValueType
from coremlscope.ops.view import BoundValue, OpView

if TYPE_CHECKING:
    from coremlscope.ops.view import BoundGraph

__all__ = ["LongViews"]

#: In place of a type: the value is not bound yet, or is a constant that the operation which made it holds.
_UNBOUND, _CONSTANT = -1, -2


class LongViews(LongSequence[OpView]):
    """The bound operations of a long graph, each made when it is read.

    What an operation remembers is forgotten with it.

    Args:
        ops: The operations.
        opset: The number in the function's operation set.
        outer: What is known of the values outside.
    """

    def __init__(self, ops: LongOps, opset: int, outer: Mapping[str, BoundValue]) -> None:
        self._ops, self._opset, self._outer = ops, opset, outer
        #: Known facts of each value without content: its place among `_known`.
        self._bound = array("q", [_UNBOUND]) * ops.values
        self._known: list[BoundValue] = []
        self._places: dict[ValueType, int] = {}
        #: Values whose content was computed, and values from outside with a content.
        self._contents: dict[int, BoundValue] = {}
        self._blocks: dict[int, tuple[BoundGraph, ...]] = {}

    def __len__(self) -> int:
        return len(self._ops)

    def begin(self, index: int) -> OpView:
        """Returns an operation whose arguments are bound, and whose results are not."""
        op = self._ops[index]
        return OpView(op=op, inputs=self._inputs(index, op), opset=self._opset)

    def finish(self, index: int, view: OpView) -> None:
        """Notes what is known of the results of an operation."""
        first = self._ops.first_result(index)
        is_constant = view.op.constant is not None
        for place, bound in enumerate(view.outputs, first):
            if is_constant:
                self._bound[place] = _CONSTANT
            else:
                self._note(place, bound)
        if view.blocks:
            self._blocks[index] = view.blocks

    def release(self) -> None:
        """Releases what only binding needs."""
        self._outer = {}

    def _note(self, place: int, bound: BoundValue) -> None:
        if bound.constant is not None:
            self._contents[place] = bound
            return
        number = self._places.setdefault(bound.type, len(self._known))
        if number == len(self._known):
            self._known.append(bound)
        self._bound[place] = number

    def _inputs(self, index: int, op: Op) -> dict[str, tuple[BoundValue, ...]]:
        place = self._ops.first_source(index)
        inputs = {}
        for name, arguments in op.inputs.items():
            sources = self._ops.sources[place : place + len(arguments)]
            inputs[name] = tuple(
                [
                    BoundValue(argument.type, argument)
                    if isinstance(argument, Constant)
                    else self._value(source, argument)
                    for source, argument in zip(sources, arguments, strict=True)
                ]
            )
            place += len(arguments)
        return inputs

    def _value(self, place: int, value: Value) -> BoundValue:
        number = self._bound[place]
        if number >= 0:
            return self._known[number]
        if number == _CONSTANT:
            return BoundValue(value.type, self._ops.content(place))
        if place not in self._contents:  # The first time that a value from outside is read.
            self._note(place, self._outer.get(value.name) or BoundValue(value.type))
            return self._value(place, value)
        return self._contents[place]

    def _make(self, index: int) -> OpView:
        view = self.begin(index)
        view.blocks = self._blocks.get(index, ())
        first = self._ops.first_result(index)
        view.outputs = tuple([self._value(first + k, value) for k, value in enumerate(view.op.outputs)])
        return view
