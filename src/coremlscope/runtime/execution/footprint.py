"""Checks that the values of a function fit in the memory of this machine before it is run."""

from __future__ import annotations

from coremlscope.model.ir import ListType, StateType, TensorType, ValueType
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.emit import carry
from coremlscope.ops.view import OpView

#: Engines compute what depends on constants alone when they load a model, from copies.
_COPIES = 4


def check_values(bound: BoundFunction) -> None:
    """Checks the size of each input and result as the engine holds it.

    Raises:
        UnsupportedModelError: A value is larger than the memory of this machine.
    """
    for value, given in zip(bound.graph.graph.inputs, bound.graph.inputs, strict=True):
        bound.budget.check_value(_carried_bytes(given.type), f"the input {value.name!r}")
    fixed: set[str] = set()  # the values that depend on constants alone
    for view in bound.graph.walk():
        is_fixed = not view.blocks and _depends_on_constants(view, fixed)
        for value, result in zip(view.op.outputs, view.outputs, strict=True):
            if is_fixed:
                fixed.add(value.name)
            nbytes = 0 if result.constant is not None else _carried_bytes(result.type)
            what = f"the result of {view.op.id} ({view.op.type})"
            bound.budget.check_value(nbytes, what, copies=_COPIES if is_fixed else 1)


def _depends_on_constants(view: OpView, fixed: set[str]) -> bool:
    return all(
        known.constant is not None or getattr(argument, "name", None) in fixed
        for name, arguments in view.op.inputs.items()
        for argument, known in zip(arguments, view.inputs[name], strict=True)
    )


def _carried_bytes(type_: ValueType) -> int:
    """The size of a value in the engine; 0 if a dimension is unknown."""
    match type_:
        case StateType(wrapped):
            return _carried_bytes(wrapped)
        case ListType(element, length):
            return _carried_bytes(element) * (length or 0)
        case TensorType(dtype):
            return (type_.elements or 0) * carry(dtype).itemsize
        case _:
            return 0
