"""Graphs built without coremltools, for forms that its builder cannot produce."""

from __future__ import annotations

from typing import Any

from coremlscope.model import ir

__all__ = ["const", "function", "graph", "op", "tensor", "value"]


def tensor(*shape: int | None, dtype: ir.DType = ir.DType.FP32) -> ir.TensorType:
    """The type of a tensor."""
    return ir.TensorType(dtype, shape)


def value(name: str, type_: ir.ValueType | None = None) -> ir.Value:
    """A value; an int32 scalar by default."""
    return ir.Value(name, type_ or tensor(dtype=ir.DType.INT32))


def op(
    kind: str,
    outputs: ir.Value | tuple[ir.Value, ...],
    *,
    blocks: tuple[ir.Graph, ...] = (),
    **inputs: Any,
) -> ir.Op:
    """An operation. Its id is the name of its first output.

    Args:
        kind: Apple's name.
        outputs: Its results.
        blocks: Its nested graphs.
        inputs: Its arguments: values, constants, tuples of these, or what becomes a constant.
    """
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    arguments: dict[str, tuple[ir.Argument, ...]] = {}
    for name, given in inputs.items():
        if isinstance(given, tuple):
            arguments[name] = given
        elif isinstance(given, (ir.Value, ir.Constant)):
            arguments[name] = (given,)
        else:
            arguments[name] = (ir.constant(given),)
    return ir.Op(
        id=results[0].name if results else kind, type=kind, inputs=arguments, outputs=results, blocks=blocks
    )


def const(name: str, content: object) -> ir.Op:
    """A `const` operation."""
    constant = ir.constant(content)
    return ir.Op(
        id=name,
        type="const",
        inputs={},
        outputs=(ir.Value(name, constant.type),),
        blocks=(),
        attributes={"val": constant},
    )


def graph(
    name: str, inputs: tuple[ir.Value, ...], ops: tuple[ir.Op, ...], outputs: tuple[ir.Value, ...]
) -> ir.Graph:
    """A graph."""
    return ir.Graph(name=name, inputs=inputs, ops=ops, outputs=outputs)


def function(
    inputs: tuple[ir.Value, ...], ops: tuple[ir.Op, ...], outputs: tuple[ir.Value, ...]
) -> ir.Function:
    """A function of the opset of iOS 17."""
    return ir.Function(name="main", opset="CoreML7", graph=graph("main", inputs, ops, outputs))
