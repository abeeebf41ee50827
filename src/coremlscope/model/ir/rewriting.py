"""Other operations for a function: how rewritten programs are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from coremlscope.model.ir.data import Array, Constant, constant
from coremlscope.model.ir.graph import Argument, Function, Graph, Op, Value
from coremlscope.model.ir.types import DType, TensorType

_Given = TypeVar("_Given")


def constants_of(function: Function) -> dict[str, Constant]:
    """Returns the constants of a function by the names of their values; those inside blocks are left out."""
    return {op.outputs[0].name: op.constant for op in function.graph.ops if op.constant is not None}


def constant_argument(op: Op, name: str, constants: Mapping[str, Constant]) -> Constant | None:
    """Returns the one constant argument of a name, None if it is absent, computed, or one of several.

    Args:
        op: The operation.
        name: The name of the parameter.
        constants: The constants of its function; see `constants_of`.
    """
    given = op.inputs.get(name, ())
    if len(given) != 1:
        return None
    return given[0] if isinstance(given[0], Constant) else constants.get(given[0].name)


def names_read(op: Op) -> list[str]:
    """Returns the names of the values that an operation reads, those inside its blocks included."""
    if not op.blocks:
        return [one.name for given in op.inputs.values() for one in given if isinstance(one, Value)]
    readers = (op, *(inner for block in op.blocks for inner in block.walk()))
    given = (argument for one in readers for several in one.inputs.values() for argument in several)
    names = [one.name for one in given if isinstance(one, Value)]
    return names + [value.name for one in readers for block in one.blocks for value in block.outputs]


def with_values(op: Op, instead: Mapping[Value, Value]) -> Op:
    """Returns an operation that reads and makes other values, those inside its blocks included."""

    def changed(values: tuple[_Given, ...]) -> tuple[_Given, ...]:
        return tuple(instead.get(one, one) if isinstance(one, Value) else one for one in values)  # type: ignore[misc]

    def inside(block: Graph) -> Graph:
        return replace(
            block, ops=tuple(with_values(one, instead) for one in block.ops), outputs=changed(block.outputs)
        )

    return replace(
        op,
        inputs={name: changed(given) for name, given in op.inputs.items()},
        outputs=changed(op.outputs),
        blocks=tuple(inside(block) for block in op.blocks),
    )


def with_ops(function: Function, ops: Iterable[Op]) -> Function:
    """Returns a function with other operations, whose ids are their places."""
    graph = function.graph
    stem = graph.ops[0].id.rpartition("/")[0] if graph.ops else graph.name
    numbered = tuple(_renumber(op, f"{stem}/{place}") for place, op in enumerate(ops))
    return replace(function, graph=replace(graph, ops=numbered), specialise=None)


def _renumber(op: Op, op_id: str) -> Op:
    if op.id == op_id:
        return op
    blocks = tuple(
        replace(
            block,
            ops=tuple(_renumber(inner, inner.id.replace(op.id, op_id, 1)) for inner in block.ops),
        )
        for block in op.blocks
    )
    return replace(op, id=op_id, blocks=blocks)


class Chain:
    """Operations that are added to a function, one after the other.

    Args:
        stem: The beginning of the names of their results.
        dtype: The element type of numbers among their arguments.
    """

    def __init__(self, stem: str, dtype: DType) -> None:
        self.ops: list[Op] = []
        self._stem, self._dtype = stem, dtype

    def add(self, op_type: str, type_: TensorType, **inputs: Argument | Array) -> Value:
        """Adds an operation; returns its result.

        Args:
            op_type: Its type.
            type_: The type of its result.
            inputs: Its arguments. Arrays become constants, numbers of the element type.
        """
        result = Value(f"{self._stem}_{op_type}_{len(self.ops)}", type_)
        self.ops.append(
            Op(
                id="",
                type=op_type,
                inputs={key: (self._argument(value),) for key, value in inputs.items()},
                outputs=(result,),
                attributes={"name": constant(result.name)},
            )
        )
        return result

    def ending(self, name: str) -> tuple[Op, ...]:
        """Returns the operations, the last of which has a result of a given name."""
        last = self.ops[-1]
        renamed = replace(
            last, outputs=(replace(last.outputs[0], name=name),), attributes={"name": constant(name)}
        )
        return (*self.ops[:-1], renamed)

    def _argument(self, value: Argument | Array) -> Argument:
        if isinstance(value, (Value, Constant)):
            return value
        return constant(value, self._dtype if value.dtype.kind == "f" else None)
