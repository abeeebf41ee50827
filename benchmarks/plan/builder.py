"""Builds programs without a file, for networks whose structure is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coremlscope.model.ir import (
    Argument,
    Constant,
    Description,
    Function,
    FunctionDescription,
    Graph,
    Model,
    Op,
    Program,
    TensorType,
    Value,
    constant,
)
from coremlscope.ops import OPS
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.planning.patterns.rule import fp16, weight

__all__ = ["Builder", "shape_of"]


@dataclass
class Builder:
    """Adds operations with the types that are inferred for their results.

    Attributes:
        ops: The operations so far.
    """

    ops: list[Op] = field(default_factory=list)

    def add(self, type_: str, results: int, **arguments: object) -> tuple[Value, ...]:
        """Adds an operation and returns its results.

        Args:
            type_: Its name.
            results: The number of its results.
            **arguments: Values, constants, or what `ir.constant` takes; a tuple is a variadic parameter.
        """
        bound: dict[str, tuple[BoundValue, ...]] = {}
        inputs: dict[str, tuple[Argument, ...]] = {}
        for name, given in arguments.items():
            several = [_argument(one) for one in (given if isinstance(given, tuple) else (given,))]
            inputs[name] = tuple(several)
            bound[name] = tuple(
                BoundValue(one.type, one) if isinstance(one, Constant) else BoundValue(one.type)
                for one in several
            )
        id_ = f"main/{len(self.ops)}"
        untyped = tuple(Value(str(k), fp16(1)) for k in range(results))
        view = OpView(op=Op(id=id_, type=type_, inputs=inputs, outputs=untyped), inputs=bound, opset=8)
        types = OPS[type_].infer(view)
        outputs = tuple(Value(f"v{len(self.ops)}_{k}", known) for k, known in enumerate(types))
        self.ops.append(Op(id=id_, type=type_, inputs=inputs, outputs=outputs))
        return outputs

    def one(self, type_: str, **arguments: object) -> Value:
        """Adds an operation and returns its one result."""
        return self.add(type_, 1, **arguments)[0]

    def conv(self, x: Value, channels: int, *, bias: bool = False) -> Value:
        """Adds a convolution with 1×1 weights."""
        more = {"bias": weight(channels)} if bias else {}
        return self.one("conv", x=x, weight=weight(channels, shape_of(x)[1], 1, 1), pad_type="valid", **more)

    def linear(self, x: Value, width: int) -> Value:
        """Adds a linear layer with a bias."""
        return self.one("linear", x=x, weight=weight(width, shape_of(x)[-1]), bias=weight(width))

    def model(self, inputs: Sequence[Value], *outputs: Value) -> Model:
        """Returns the model of all operations."""
        graph = Graph(name="main", inputs=tuple(inputs), ops=tuple(self.ops), outputs=outputs)
        function = Function(name="main", opset="CoreML8", graph=graph)
        description = Description({"main": FunctionDescription(inputs=(), outputs=())}, "main")
        return Model(spec_version=9, description=description, content=Program(functions={"main": function}))


def _argument(given: object) -> Argument:
    return given if isinstance(given, Value | Constant) else constant(given)


def shape_of(x: Value) -> tuple[int, ...]:
    """Returns the shape of a value; unknown dimensions are one."""
    assert isinstance(x.type, TensorType)
    assert x.type.shape is not None
    return tuple(size or 1 for size in x.type.shape)
