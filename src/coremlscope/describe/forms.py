"""The form of every operation of a model: types of its arguments, and its small parameters."""

from __future__ import annotations

from typing import Any

from coremlscope.model.ir import DType, Model, TensorType, describe_type
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.results.evidence import OpForm
from coremlscope.runtime.execution.wiring import bind_functions

#: Longer lists may be weights.
_LONGEST = 16


def list_forms(model: Model) -> dict[str, OpForm]:
    """Returns the form of every operation of all functions, by id; those of pipelines are in their stages.

    Weights may be absent, and are not read; flexible inputs have their default shapes.
    """
    bound = (one.bound for one in bind_functions(model, every=True))
    return {view.op.id: _form(view) for one in bound if one is not None for view in one.graph.walk()}


def _form(view: OpView) -> OpForm:
    attributes = {name: _value(bound) for name, bound in view.inputs.items()}
    return OpForm(
        inputs={
            name: tuple(_type(value) for value in bound)
            for name, bound in view.inputs.items()
            if attributes[name] is None
        },
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def _type(value: BoundValue) -> str:
    return ("" if value.constant is None else "const ") + describe_type(value.type)


def _value(arguments: tuple[BoundValue, ...]) -> Any:
    """Returns the value of a small parameter; None for anything else."""
    if len(arguments) != 1:
        return None
    (argument,) = arguments
    type_, constant = argument.type, argument.constant
    if constant is None or not constant.is_available or not isinstance(type_, TensorType):
        return None
    is_scalar = not type_.shape
    size = 1
    for extent in type_.shape or ():
        size *= extent or _LONGEST + 1
    is_real = type_.dtype in (DType.FP16, DType.FP32, DType.FP64, DType.STRING)
    if size > _LONGEST or (is_real and not is_scalar):
        return None
    values = constant.numpy().reshape(-1).tolist()
    return values[0] if is_scalar else values
