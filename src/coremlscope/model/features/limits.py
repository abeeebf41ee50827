"""Limits of integer inputs that index tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from coremlscope.model.ir import Argument, Constant, Function, Graph, Op, StateType, TensorType, Value

#: Operations whose results contain elements of the named parameters unchanged.
_PASS_THROUGH: Mapping[str, tuple[str, ...]] = {
    "cast": ("x",),
    "concat": ("values",),
    "expand_dims": ("x",),
    "flatten2d": ("x",),
    "gather": ("x",),
    "gather_along_axis": ("x",),
    "identity": ("x",),
    "reshape": ("x",),
    "select": ("a", "b"),
    "slice_by_index": ("x",),
    "slice_by_size": ("x",),
    "split": ("x",),
    "squeeze": ("x",),
    "stack": ("values",),
    "tile": ("x",),
    "transpose": ("x",),
}


class _Uses(msgspec.Struct):
    """The flow of elements between values, by value name.

    Attributes:
        targets: The values to which elements of a value are passed unchanged.
        limits: The number of rows of the smallest table that a value indexes.
        constants: The values of `const` operations.
    """

    targets: dict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    constants: dict[str, Constant] = msgspec.field(default_factory=dict)

    def limit(self, argument: Argument, size: int | None) -> None:
        if isinstance(argument, Value) and size is not None and size > 0:
            self.limits[argument.name] = min(size, self.limits.get(argument.name, size))

    def link(self, argument: Argument, target: Value) -> None:
        if isinstance(argument, Value):
            self.targets[argument.name].add(target.name)


def index_limits(function: Function) -> dict[str, int]:
    """Returns the number of rows of the smallest table that each input of a function indexes.

    Only operations that pass elements on unchanged are followed, not arithmetic. So an input that is not in
    the result may still index a table.
    """
    uses = _Uses()
    _collect(function.graph, uses)
    limits = {}
    for value in function.graph.inputs:
        found = [uses.limits[name] for name in _reached(value.name, uses) if name in uses.limits]
        if found:
            limits[value.name] = min(found)
    return limits


def _reached(name: str, uses: _Uses) -> Iterator[str]:
    seen, waiting = {name}, [name]
    while waiting:
        current = waiting.pop()
        yield current
        fresh = uses.targets.get(current, set()) - seen
        seen |= fresh
        waiting.extend(fresh)


def _collect(graph: Graph, uses: _Uses) -> None:
    for op in graph.ops:
        if op.constant is not None:
            uses.constants[op.outputs[0].name] = op.constant
        for parameter, size in _indexed(op, uses.constants):
            for argument in op.inputs.get(parameter, ()):
                uses.limit(argument, size)
        for parameter in _PASS_THROUGH.get(op.type, ()):
            for argument in op.inputs.get(parameter, ()):
                for output in op.outputs:
                    uses.link(argument, output)
        _collect_blocks(op, uses)


def _collect_blocks(op: Op, uses: _Uses) -> None:
    for block in op.blocks:
        for argument, inner in zip(op.inputs.get("loop_vars", ()), block.inputs, strict=False):
            uses.link(argument, inner)
        if len(block.outputs) == len(op.outputs):
            for result, output in zip(block.outputs, op.outputs, strict=True):
                uses.link(result, output)
        _collect(block, uses)


def _indexed(op: Op, constants: Mapping[str, Constant]) -> Iterator[tuple[str, int | None]]:
    """Yields the index parameters of an operation, with the number of rows that they index."""
    match op.type:
        case "gather" | "gather_along_axis":
            yield "indices", _size(op, "x", _integer(op, "axis", constants))
        case "scatter" | "scatter_along_axis":
            yield "indices", _size(op, "data", _integer(op, "axis", constants))
        case "gather_nd":
            sizes = _shape(op, "x")[_integer(op, "batch_dims", constants) :]
            depth = (_shape(op, "indices") or (None,))[-1]
            known = [size for size in sizes[:depth] if size is not None]
            yield "indices", min(known, default=None)
        case "one_hot":
            yield "indices", _integer(op, "one_hot_vector_size", constants)


def _shape(op: Op, parameter: str) -> tuple[int | None, ...]:
    for argument in op.inputs.get(parameter, ()):
        type_ = argument.type.wrapped if isinstance(argument.type, StateType) else argument.type
        if isinstance(type_, TensorType):
            return type_.shape or ()
    return ()


def _size(op: Op, parameter: str, axis: int) -> int | None:
    shape = _shape(op, parameter)
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _integer(op: Op, parameter: str, constants: Mapping[str, Constant]) -> int:
    """Returns a constant integer parameter; 0, the default of all parameters used here, if it is unknown."""
    for argument in op.inputs.get(parameter, ()):
        constant = argument if isinstance(argument, Constant) else constants.get(argument.name)
        if constant is not None and constant.is_available:
            return int(constant.item())
    return 0
