"""Builds programs operation by operation, with types that follow from the arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import Binder
from coremlscope.ops.view import BoundValue, CannotInfer, CannotLower, OpView

#: A value of the program, or what becomes a constant of it. Floats get the element type of the layer.
Parameter = ir.Value | ir.Constant | bool | int | float | str | Sequence[int] | Sequence[ir.Value]

#: The operation set of iOS 18, which has every operation, and its specification version.
_OPSET, _SPEC_VERSION = 8, 9
#: The most elements in a tensor, 2 GB of fp16, and in a weight.
_MOST_ELEMENTS, _MOST_WEIGHTS = 2**30, 2**28


class _Drawn(msgspec.Struct, frozen=True):
    """Random numbers, drawn whenever they are read, so that a graph of many weights stays small.

    Attributes:
        seed: Their seed.
        dtype: Their type.
        shape: Their shape.
    """

    seed: int
    dtype: ir.DType
    shape: tuple[int, ...]

    def __call__(self) -> ir.Array:
        scale = np.float32(math.sqrt(1 / math.prod(self.shape[1:])))
        content = np.random.default_rng(self.seed).standard_normal(self.shape, np.float32) * scale
        return content.astype(self.dtype.numpy)


class LayerBuilder:
    """A program under construction.

    Args:
        dtype: The element type of floats.

    Attributes:
        dtype: The element type of floats.
    """

    def __init__(self, dtype: ir.DType) -> None:
        self.dtype = dtype
        self._inputs: list[ir.Value] = []
        self._ops: list[ir.Op] = []
        self._scope: dict[str, BoundValue] = {}
        self._binder = Binder(OPS, _OPSET)
        self._constants: dict[tuple[type, str], ir.Constant] = {}

    def input(self, name: str, shape: Sequence[int], dtype: ir.DType | None = None) -> ir.Value:
        """Adds an input."""
        _check_sizes("a tensor", shape, _MOST_ELEMENTS)
        value = ir.Value(name, ir.TensorType(dtype or self.dtype, tuple(shape)))
        self._inputs.append(value)
        self._scope[name] = BoundValue(value.type)
        return value

    def weight(self, *shape: int) -> ir.Value:
        """Adds a constant of random numbers that keep the scale of activations, drawn when they are read."""
        _check_sizes("a weight", shape, _MOST_WEIGHTS)
        drawn = _Drawn(len(self._ops), self.dtype, tuple(shape))
        return self._constant(ir.Constant(ir.TensorType(self.dtype, drawn.shape), ir.Derived(drawn)))

    def floats(self, values: Sequence[float]) -> ir.Value:
        """Adds a constant of numbers."""
        return self._constant(ir.constant(np.array(values, np.float32), self.dtype))

    def op(self, type_: str, /, **parameters: Parameter) -> list[ir.Value]:
        """Adds an operation with one result; see `ops`."""
        return self.ops(type_, 1, **parameters)

    def ops(self, type_: str, count: int, /, **parameters: Parameter) -> list[ir.Value]:
        """Adds an operation and returns its results.

        Args:
            type_: Apple's name of the operation.
            count: The number of results.
            parameters: Values, or what becomes constants.

        Raises:
            UsageError: The parameters contradict each other or the definition of the operation.
        """
        inputs = {name: self._arguments(value) for name, value in parameters.items()}
        known = {name: tuple(self._scope[v.name] for v in values) for name, values in inputs.items()}
        op_id = f"main/{len(self._ops)}"
        # Rules may count the results.
        unknown = tuple(ir.Value(f"{type_}_{i}", ir.TensorType(self.dtype, None)) for i in range(count))
        bare = ir.Op(id=op_id, type=type_, inputs=inputs, outputs=unknown)
        try:
            types = OPS[type_].infer(OpView(op=bare, inputs=known, opset=_OPSET))
        except (CannotInfer, CannotLower, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise UsageError(f"{type_} cannot have these options: {error}", "change one of them") from None
        for found in types:
            if isinstance(found, ir.TensorType) and any(d is not None and d < 1 for d in found.shape or ()):
                raise UsageError(
                    f"{type_} has no result with these options: its shape would be {list(found.shape or ())}",
                    "give a larger shape, or a smaller kernel",
                )
        named = f"{type_}_{len(self._ops)}"
        results = tuple(
            ir.Value(named if index == 0 else f"{named}_{index}", found)
            for index, found in enumerate(types[:count])
        )
        op = ir.Op(
            id=op_id,
            type=type_,
            inputs=inputs,
            outputs=results,
            attributes={"name": ir.constant(named)},
        )
        self._ops.append(op)
        view = self._binder.op(op, self._scope)
        self._scope.update(zip((value.name for value in results), view.outputs, strict=True))
        return list(results)

    def model(self, results: Sequence[ir.Value], description: str) -> ir.Model:
        """Returns the program as a model that gives these results."""
        outputs = tuple(self._returned(value) for value in results)
        graph = ir.Graph(name="main", inputs=tuple(self._inputs), ops=tuple(self._ops), outputs=outputs)
        function = ir.Function(name="main", opset=f"CoreML{_OPSET}", graph=graph)
        interface = ir.FunctionDescription(
            inputs=tuple(map(_feature, self._inputs)), outputs=tuple(map(_feature, outputs))
        )
        return ir.Model(
            spec_version=_SPEC_VERSION,
            description=ir.Description({"main": interface}, "main"),
            content=ir.Program(functions={"main": function}),
            metadata=ir.Metadata(description=description),
            container="mlpackage",
        )

    def _returned(self, value: ir.Value) -> ir.Value:
        """Casts a result whose type the interface of a model does not support."""
        assert isinstance(value.type, ir.TensorType)
        if value.type.dtype in (ir.DType.FP16, ir.DType.FP32, ir.DType.INT32):
            return value
        return self.op("cast", x=value, dtype="int32")[0]

    def _arguments(self, value: Parameter) -> tuple[ir.Value, ...]:
        if isinstance(value, ir.Value):
            return (value,)
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], ir.Value):
            return tuple(one for one in value if isinstance(one, ir.Value))
        if isinstance(value, ir.Constant):
            return (self._constant(value),)
        dtype = self.dtype if isinstance(value, float) else None
        # Strides, sizes and flags repeat.
        key = type(value), repr(value)
        if key not in self._constants:
            self._constants[key] = ir.constant(value, dtype)
        return (self._constant(self._constants[key]),)

    def _constant(self, content: ir.Constant) -> ir.Value:
        name = f"const_{len(self._ops)}"
        value = ir.Value(name, content.type)
        attributes = {"name": ir.constant(name), "val": content}
        op_id = f"main/{len(self._ops)}"
        self._ops.append(ir.Op(id=op_id, type="const", inputs={}, outputs=(value,), attributes=attributes))
        self._scope[name] = BoundValue(content.type, content)
        return value


def _check_sizes(what: str, shape: Sequence[int], most: int) -> None:
    if not shape or min(shape) < 1:
        raise UsageError(f"{what} of the shape {list(shape)} cannot be built", "give positive sizes")
    if math.prod(shape) > most:
        raise UsageError(
            f"{what} of the shape {list(shape)} has more than {most} elements", "give smaller sizes"
        )


def _feature(value: ir.Value) -> ir.Feature:
    assert isinstance(value.type, ir.TensorType)
    shape = tuple(d or 0 for d in value.type.shape or ())
    return ir.Feature(value.name, ir.ArrayFeature(dtype=value.type.dtype, shape=shape))
