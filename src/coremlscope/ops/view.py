"""An operation with what is known of its arguments, as infer, lower, work and rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from coremlscope.model.ir import Array, Constant, Graph, Op, Shape, StateType, TensorType, ValueType

_REQUIRED: Any = object()
_Result = TypeVar("_Result")
#: The longest parameter of shapes, axes, paddings or lengths of parts.
_MOST_INTEGERS = 1 << 16


class CannotInfer(Exception):  # noqa: N818
    """An operation's arguments contradict each other or its definition. The message says how."""


class CannotLower(Exception):  # noqa: N818
    """A form of an operation that has no lowering. The message says which form."""


#: Errors that rules raise for arguments of the wrong kinds: damaged files may hold any, and rules need
#: not check all.
CONTRADICTIONS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(NotImplementedError, TypeError, ValueError),
)


class BoundValue(msgspec.Struct, frozen=True):
    """A value once shapes are bound.

    Attributes:
        type: Its type, with every dimension that can be known filled in.
        constant: Its content, where it is known before run time.
    """

    type: ValueType
    constant: Constant | None = None


class BoundGraph(msgspec.Struct, frozen=True):
    """A graph once shapes are bound; `ops` are in the order of `graph.ops`."""

    graph: Graph
    inputs: tuple[BoundValue, ...]
    ops: Sequence[OpView]
    outputs: tuple[BoundValue, ...]

    def walk(self) -> Iterator[OpView]:
        """Iterates over all operations, each before the operations of its nested graphs."""
        for view in self.ops:
            yield view
            for block in view.blocks:
                yield from block.walk()


class OpView(msgspec.Struct, kw_only=True, eq=False):
    """An operation of a bound graph.

    Attributes:
        op: The operation as the file has it.
        inputs: What is known of each argument of each parameter.
        opset: The number in the function's opset: 5 for `CoreML5` (iOS 15) … 8 for `CoreML8` (iOS 18).
        blocks: Its nested graphs, bound (filled in by `bind`).
        outputs: What is known of its results (filled in by `bind`).
    """

    op: Op
    inputs: Mapping[str, tuple[BoundValue, ...]]
    opset: int
    blocks: tuple[BoundGraph, ...] = ()
    outputs: tuple[BoundValue, ...] = ()
    #: Results of functions that examine the operation. Few operations have any: an empty table takes memory.
    _memo: dict[object, Any] | None = None

    def remember(self, key: object, compute: Callable[[], _Result]) -> _Result:
        """Returns what `compute` returned for a key before, or calls it."""
        if self._memo is None:
            self._memo = {}
        if key not in self._memo:
            self._memo[key] = compute()
        found: _Result = self._memo[key]
        return found

    def has(self, name: str) -> bool:
        """True where the parameter is given."""
        return bool(self.inputs.get(name))

    def bound(self, name: str, index: int = 0) -> BoundValue:
        """Returns the bound value of one argument: its type, and its data where known.

        Raises:
            CannotInfer: The parameter is not given.
        """
        arguments = self.inputs.get(name, ())
        if index >= len(arguments):
            raise CannotInfer(f"parameter `{name}` is missing")
        return arguments[index]

    def type(self, name: str, index: int = 0) -> TensorType:
        """The tensor type of an argument (of a state: the type that it wraps).

        Raises:
            CannotInfer: The parameter is not given or is no tensor.
        """
        type_ = self.bound(name, index).type
        if isinstance(type_, StateType):
            type_ = type_.wrapped
        if not isinstance(type_, TensorType):
            raise CannotInfer(f"parameter `{name}` is not a tensor")
        return type_

    def shape(self, name: str, index: int = 0) -> Shape:
        """The shape of an argument; single dimensions may be None.

        Raises:
            CannotInfer: Not even the rank is known.
        """
        shape = self.type(name, index).shape
        if shape is None:
            raise CannotInfer(f"the rank of parameter `{name}` is not known")
        return shape

    def static_shape(self, name: str, index: int = 0) -> tuple[int, ...]:
        """The shape of an argument, every dimension known.

        Raises:
            CannotLower: A dimension is not known before run time.
        """
        shape = self.type(name, index).shape
        if shape is None or None in shape:
            raise CannotLower(f"the shape of `{name}` is not known before run time")
        return tuple(d for d in shape if d is not None)

    def types(self, name: str) -> list[TensorType]:
        """The tensor types of all arguments of a variadic parameter."""
        return [self.type(name, index) for index in range(len(self.inputs.get(name, ())))]

    def is_known(self, name: str) -> bool:
        """True where the parameter is given, and by values known before run time."""
        return self.has(name) and all(
            b.constant is not None and b.constant.is_available for b in self.inputs[name]
        )

    def value(self, name: str, default: Any = _REQUIRED) -> Array:
        """The content of an argument that must be known before run time.

        Args:
            name: The parameter.
            default: Returned where the parameter is not given.

        Raises:
            CannotLower: The parameter is given by a value that is only known at run time.
            CannotInfer: The parameter is not given and has no default.
        """
        if not self.has(name):
            if default is _REQUIRED:
                raise CannotInfer(f"parameter `{name}` is missing")
            return default  # type: ignore[no-any-return]
        constant = self.inputs[name][0].constant
        if constant is None:
            raise CannotLower(f"`{name}` is not known before run time")
        return constant.numpy()

    def _scalar(self, name: str, default: Any) -> Any:
        if not self.has(name) and default is not _REQUIRED:
            return default
        flat = self.value(name).reshape(-1)
        if flat.size != 1:
            raise CannotInfer(f"parameter `{name}` should hold one element, not {flat.size}")
        return flat[0]

    def integer(self, name: str, default: int = _REQUIRED) -> int:
        """A known integer; raises as `value` does."""
        return int(self._scalar(name, default))

    def real(self, name: str, default: float = _REQUIRED) -> float:
        """A known number; raises as `value` does."""
        return float(self._scalar(name, default))

    def flag(self, name: str, default: bool = _REQUIRED) -> bool:
        """A known boolean; raises as `value` does."""
        return bool(self._scalar(name, default))

    def text(self, name: str, default: str = _REQUIRED) -> str:
        """A known string; raises as `value` does."""
        return str(self._scalar(name, default))

    def integers(self, name: str, default: Sequence[int] = _REQUIRED) -> list[int]:
        """A known list of integers; raises as `value` does."""
        if not self.has(name) and default is not _REQUIRED:
            return list(default)
        if (self.type(name).elements or 0) > _MOST_INTEGERS:
            raise CannotInfer(f"parameter `{name}` has more than {_MOST_INTEGERS} elements")
        return [int(v) for v in self.value(name).reshape(-1)]

    def output_type(self, index: int = 0) -> TensorType:
        """The tensor type of a result, once bound.

        Raises:
            CannotLower: The result is no tensor.
        """
        type_ = self.outputs[index].type
        if not isinstance(type_, TensorType):
            raise CannotLower(f"result {index} is not a tensor")
        return type_
