"""Finds operations that rules and planned costs cannot tell apart, so that each kind is examined once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coremlscope.model.ir import Constant, Immediate, TensorType
from coremlscope.ops.view import BoundValue, OpView

#: Constants with more elements are weights: how they are stored counts. Those in the file of the model may be
#: settings of an operation: they are compared by their place in memory.
_FEW_ELEMENTS = 64
#: An attribute of every operation that only people read.
_NAME = {"name"}
_Result = TypeVar("_Result")


class Kinds:
    """Numbers operations: those with equal types, constant arguments and results have equal numbers.

    What makes the other arguments, and the names of values, do not count.

    Args:
        with_declared: Whether the types that the file declares count as well as those that are known once
            shapes of inputs are chosen.
    """

    def __init__(self, *, with_declared: bool = False) -> None:
        self._with_declared = with_declared
        self._numbers: dict[object, int] = {}
        self._values: dict[object, int] = {}
        self._known: dict[int, int] = {}
        #: Objects whose addresses stand for them.
        self._kept: list[object] = []
        self._results: dict[object, Any] = {}

    def remember(self, key: object, compute: Callable[[], _Result]) -> _Result:
        """Returns what `compute` returned for a key before, or calls it: what is known of kinds."""
        if key not in self._results:
            self._results[key] = compute()
        result: _Result = self._results[key]
        return result

    def number(self, view: OpView) -> int | None:
        """Returns the number of an operation's kind; None with nested graphs or attributes besides a name."""
        if view.blocks or not view.op.attributes.keys() <= _NAME:
            return None
        parts: list[object] = [view.op.type, view.opset]
        for name, given in view.inputs.items():
            parts.append(name)
            parts.extend(map(self._value, given))
        parts.append(None)
        parts.extend(map(self._value, view.outputs))
        if self._with_declared:
            parts.extend(one.type for given in view.op.inputs.values() for one in given)
            parts.extend(value.type for value in view.op.outputs)
        return self._numbers.setdefault(tuple(parts), len(self._numbers))

    def _value(self, bound: BoundValue) -> int:
        number = self._known.get(id(bound))
        if number is None:
            content = None if bound.constant is None else self._content(bound.constant)
            number = self._values.setdefault((bound.type, content), len(self._values))
            self._known[id(bound)] = number
            self._kept.append(bound)
        return number

    def _content(self, constant: Constant) -> object:
        data, type_ = constant.data, constant.type
        if isinstance(data, Immediate):
            array = data.array
            if array.size <= _FEW_ELEMENTS and array.dtype != object:
                return type_, array.dtype.str, array.shape, array.tobytes()
        elif isinstance(type_, TensorType) and (type_.elements or 0) > _FEW_ELEMENTS:
            return type_, type(data), data.is_available, data.stored_bytes, getattr(data, "storage", None)
        self._kept.append(constant)
        return id(constant)
