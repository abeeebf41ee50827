"""Finds operations that rules and planned costs cannot tell apart, so that each kind is examined once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from coremlscope.model.ir import Constant, Immediate, TensorType
from coremlscope.ops.view import BoundValue, OpView

#: Constants with more elements are weights: how they are stored counts. Those in the file of the model may be
#: settings of an operation: they are compared by their place in memory.
_FEW_ELEMENTS = 64
#: An attribute of every operation that only people read.
_NAME = {"name"}
_Result = TypeVar("_Result")
#: The most kinds whose numbers are kept for further models.
_MOST_KINDS = 5_000


class _Known:
    """The numbers of kinds and of values, and what is known of kinds: nothing of a single model."""

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}
        self.values: dict[object, int] = {}
        self.results: dict[object, Any] = {}


#: What the models of a process share; None outside `sharing_kinds`.
_SHARED: ContextVar[list[_Known] | None] = ContextVar("shared kinds", default=None)


@contextmanager
def sharing_kinds() -> Iterator[None]:
    """Keeps what is known of kinds of operations from one model to the next until the context ends."""
    token = _SHARED.set([_Known()])
    try:
        yield
    finally:
        _SHARED.reset(token)


class Kinds:
    """Numbers operations: those with equal types, constant arguments and results have equal numbers.

    What makes the other arguments, and the names of values, do not count. Inside `sharing_kinds` the numbers
    of all models are the same.

    Args:
        with_declared: Whether the types that the file declares count as well as those that are known once
            shapes of inputs are chosen.
    """

    def __init__(self, *, with_declared: bool = False) -> None:
        self._with_declared = with_declared
        shared = _SHARED.get()
        if shared and len(shared[0].numbers) > _MOST_KINDS:
            shared[0] = _Known()
        self._all = shared[0] if shared else _Known()
        self._known: dict[int, int] = {}
        #: What stands for constants that are compared by their place in memory.
        self._places: dict[int, object] = {}
        #: Objects whose addresses stand for them.
        self._kept: list[object] = []
        #: What is known of graphs.
        self._notes: dict[object, Any] = {}

    def remember(self, key: object, compute: Callable[[], _Result]) -> _Result:
        """Returns what `compute` returned for a key before, or calls it: what is known of kinds."""
        return _remembered(self._all.results, key, compute)

    def note(self, key: object, compute: Callable[[], _Result]) -> _Result:
        """As `remember`, for what belongs to a model."""
        return _remembered(self._notes, key, compute)

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
        return self._all.numbers.setdefault(tuple(parts), len(self._all.numbers))

    def _value(self, bound: BoundValue) -> int:
        number = self._known.get(id(bound))
        if number is None:
            content = None if bound.constant is None else self._content(bound.constant)
            number = self._all.values.setdefault((bound.type, content), len(self._all.values))
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
        return self._places.setdefault(id(constant), object())


def _remembered(results: dict[object, Any], key: object, compute: Callable[[], _Result]) -> _Result:
    if key not in results:
        results[key] = compute()
    result: _Result = results[key]
    return result
