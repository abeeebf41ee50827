"""Computes a program in half precision without coremltools, which leaves the same operations.

coremltools gives each operation float16 arguments and casts its results back, and then removes the casts
between operations. In programs whose operations all compute in one floating-point type, what is left are
casts of the inputs and outputs.
(Source: `coremltools/converters/mil/mil/passes/defs/quantization.py` of coremltools 9.0.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Array,
    Constant,
    DType,
    Function,
    Model,
    Op,
    TensorType,
    Value,
    ValueType,
    constant,
)

#: Operations with parameters that must be float32, or that coremltools leaves as they are.
_OTHERS = frozenset(
    {
        "lstm",
        "rnn",
        "gru",
        "crop_resize",
        "while_loop",
        "cond",
        "make_list",
        "list_gather",
        "list_scatter",
        "list_read",
    }
    | {"list_write", "list_length", "read_state", "coreml_update_state", "quantize", "dequantize"}
)
#: The operation that reads probabilities in float32.
_CLASSIFY = "classify"
#: Operations of which coremltools leaves some numbers in float32 from iOS 17 on.
_MIXED = frozenset(
    {"elu", "leaky_relu", "prelu", "thresholded_relu", "clamped_relu", "linear_activation", "scaled_tanh"}
    | {"sigmoid_hard", "softplus_parametric", "inverse", "log", "rsqrt"}
)
_IOS_17 = 8
#: The largest number of float16, and from where on numbers are taken for infinite.
_LARGEST, _INFINITE = 65504.0, 1e38
#: The smallest number of float16, which small numbers become in arrays of fewer elements than this.
_SMALLEST, _FEW = np.nextafter(np.float16(0), np.float16(1)), 400
#: Numbers that are taken for zero.
_TINY = np.nextafter(np.float32(0), np.float32(1))


def with_half_precision(model: Model) -> Model:
    """Returns an ML Program that computes in float16.

    Args:
        model: A model of which `can_be_halved` says so.
    """
    ((name, function),) = model.content.functions.items()
    return model.with_functions({name: _Halving(function).function()})


def can_be_halved(model: Model) -> bool:
    """Returns whether coremltools would leave all operations of a program in float16.

    Args:
        model: A model.
    """
    content = model.content
    if not content.is_typed or content.is_core_ai or len(content.functions) != 1:
        return False
    ((_, function),) = content.functions.items()
    made = {value.name: op for op in function.graph.ops for value in op.outputs}
    makers = [(value, made.get(value.name)) for value in function.graph.outputs]
    if any(op is None or op.constant is not None for _, op in makers):
        return False
    if any(op is not None and op.type == "cast" and not _is_single(value.type) for value, op in makers):
        return False
    return all(_is_plain(op, model.spec_version) for op in function.graph.ops)


def _is_plain(op: Op, spec_version: int) -> bool:
    """Returns whether an operation computes in one floating-point type, which may be float16."""
    if op.blocks or op.type in _OTHERS or op.type.startswith("constexpr_"):
        return False
    if op.type in _MIXED and spec_version >= _IOS_17:
        return False
    if op.constant is not None:
        return not _is_single(op.constant.type) or _fits(op.constant.numpy())
    given = [one for several in op.inputs.values() for one in several]
    if op.type == "cast":
        types = (given[0].type, op.outputs[0].type)
        return all(isinstance(one, TensorType) and one.dtype in (DType.FP16, DType.FP32) for one in types)
    if any(isinstance(one, Constant) and _is_single(one.type) and not _fits(one.numpy()) for one in given):
        return False
    made = any(_is_single(one.type) for one in op.outputs)
    return not made or any(_is_single(one.type) for one in given)


def _is_single(type_: ValueType) -> bool:
    return isinstance(type_, TensorType) and type_.dtype is DType.FP32


def _fits(numbers: Array) -> bool:
    magnitude = np.abs(numbers.astype(np.float64))
    return not ((magnitude > _LARGEST) & (magnitude < _INFINITE)).any()


class _Halving:
    """A function while its values become float16."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._inputs = {value.name for value in function.graph.inputs}
        #: What stays in float32: outputs, and what a classifier reads.
        self._outputs = {value.name for value in function.graph.outputs}
        self._outputs.update(
            one.name
            for op in function.graph.ops
            if op.type == _CLASSIFY
            for several in op.inputs.values()
            for one in several
            if isinstance(one, Value)
        )
        #: The values in float16 that stand for others, by name.
        self._halves: dict[str, Value] = {}
        #: The casts of outputs.
        self._casts: dict[str, Op] = {}

    def function(self) -> Function:
        """Returns the function in float16, without constants that nothing reads."""
        ops = [made for op in self._function.graph.ops for made in self._changed(op)]
        ops += reversed(self._casts.values())  # where coremltools leaves them
        read = {
            one.name
            for op in ops
            for several in op.inputs.values()
            for one in several
            if isinstance(one, Value)
        }
        kept = tuple(op for op in ops if op.constant is None or op.outputs[0].name in read)
        graph = replace(self._function.graph, ops=kept)
        return replace(self._function, graph=graph, specialise=None)

    def _changed(self, op: Op) -> Iterator[Op]:
        if op.constant is not None:
            yield self._const(op, op.constant)
            return
        if op.type == _CLASSIFY:
            names = {one.name for several in op.inputs.values() for one in several if isinstance(one, Value)}
            yield from (self._casts.pop(name) for name in list(self._casts) if name in names)
            yield op
            return
        if op.type == "cast" and op.outputs[0].name not in self._outputs:
            (x,) = op.inputs["x"]
            if isinstance(x, Value):
                yield from self._cast_input(x)
                self._halves[op.outputs[0].name] = self._halves.get(x.name, x)
                return
        inputs: dict[str, tuple[Argument, ...]] = {}
        for name, several in op.inputs.items():
            for one in several:
                if isinstance(one, Value):
                    yield from self._cast_input(one)
            inputs[name] = tuple(map(self._half, several))
        if op.type == "cast":
            self._halves[op.outputs[0].name] = inputs["x"][0]  # type: ignore[assignment]
            yield replace(op, inputs=inputs)
            return
        outputs = tuple(map(self._result, op.outputs))
        yield replace(op, inputs=inputs, outputs=outputs)
        for half, single in zip(outputs, op.outputs, strict=True):
            if half != single and single.name in self._outputs:
                self._casts[single.name] = _cast(half, single, "fp32")

    def _const(self, op: Op, known: Constant) -> Op:
        if not _is_single(known.type):
            return op
        value = replace(op.outputs[0], type=_halved(known.type))
        self._halves[value.name] = value
        return replace(op, outputs=(value,), attributes={**op.attributes, "val": _half_constant(known)})

    def _cast_input(self, value: Value) -> Iterator[Op]:
        """Yields the cast of an input of the function where it is read first."""
        if value.name in self._inputs and _is_single(value.type) and value.name not in self._halves:
            half = Value(f"{value.name}_to_fp16", _halved(value.type))
            self._halves[value.name] = half
            yield _cast(value, half, "fp16")

    def _half(self, argument: Argument) -> Argument:
        if isinstance(argument, Value):
            return self._halves.get(argument.name, argument)
        return _half_constant(argument) if _is_single(argument.type) else argument

    def _result(self, value: Value) -> Value:
        if not _is_single(value.type):
            return value
        name = f"{value.name}_cast_fp16" if value.name in self._outputs else value.name
        half = self._halves[value.name] = Value(name, _halved(value.type))
        return half


def _cast(x: Value, result: Value, dtype: str) -> Op:
    return Op(
        id="",
        type="cast",
        inputs={"x": (x,), "dtype": (constant(dtype),)},
        outputs=(result,),
        attributes={"name": constant(result.name)},
    )


def _halved(type_: ValueType) -> TensorType:
    assert isinstance(type_, TensorType)
    return replace(type_, dtype=DType.FP16)


def _half_constant(known: Constant) -> Constant:
    """Returns a constant in float16, in which few small numbers do not become zero."""
    numbers = known.numpy()
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16)
    if numbers.size < _FEW:
        is_lost = (np.abs(halves) <= _SMALLEST) & (np.abs(numbers) > _TINY)
        halves = np.where(is_lost, np.copysign(_SMALLEST, numbers).astype(np.float16), halves)
    return constant(halves)
