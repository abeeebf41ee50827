"""Linear layers as 1×1 convolutions over (B, C, 1, S), as in Apple's transformers for the Neural Engine.

A sequence (B, S, C) is turned once, stays turned through linear layers, activations, sums and normalizations,
and is turned back where an operation reads it that works in the original layout only. A matrix (N, C) becomes
(N, C, 1, 1), which needs no transposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Array,
    Constant,
    Derived,
    DType,
    Function,
    Op,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.ir.rewriting import Chain, constants_of, names_read, with_ops
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait

_MATRIX, _SEQUENCE = 2, 3
_SWAP = (0, 2, 1)
#: Operations of one argument that compute every element by itself, with their other arguments constant.
_BY_ELEMENT = Trait.ACTIVATION | Trait.FUNCTION
#: Operations of two arguments that compute every element by itself.
_OF_TWO = frozenset({"add", "sub", "mul", "real_div", "maximum", "minimum"})
#: Activations with a number for each channel, whose place is the second axis.
_PER_CHANNEL = frozenset({"prelu", "softplus_parametric"})


def with_convolutions(function: Function) -> tuple[Function, int]:
    """Writes the linear layers of a function as convolutions.

    Layers of other ranks, of shapes that are not fixed, and with packed weights stay as they are.

    Returns:
        The function, and how many linear layers it has as convolutions.
    """
    return _Rewriting(function).run()


class _Rewriting:
    """Rewrites one function, operation by operation."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.constants = constants_of(function)
        self.ops: list[Op] = []
        #: Values as (B, C, 1, S), by their names; those that exist only so.
        self.turned: dict[str, Value] = {}
        self.waiting: dict[str, Value] = {}
        self.count = 0

    def run(self) -> tuple[Function, int]:
        for op in self.function.graph.ops:
            if not self._turn(op):
                if self.waiting:
                    self._restore(names_read(op))
                self.ops.append(op)
        self._restore(value.name for value in self.function.graph.outputs)
        return with_ops(self.function, self.ops), self.count

    def _turn(self, op: Op) -> bool:
        """Writes an operation in the other layout, if it can be and is worth while."""
        if op.blocks or len(op.outputs) != 1 or _shape(op.outputs[0]) is None:
            return False
        if op.type == "linear":
            return self._linear(op)
        if not self.waiting or not any(name in self.waiting for name in names_read(op)):
            return False
        if op.type in _OF_TWO:
            return self._of_two(op)
        if op.type == "layer_norm":
            return self._normalization(op)
        is_by_element = bool(traits_of(op.type) & _BY_ELEMENT) and op.type not in _PER_CHANNEL
        return is_by_element and self._by_element(op)

    def _linear(self, op: Op) -> bool:
        given = op.inputs["x"][0]
        weight = self._known(op, "weight")
        bias = self._known(op, "bias")
        if not isinstance(given, Value) or weight is None or _shape(given) is None:
            return False
        if op.inputs.get("bias") and bias is None:
            return False
        assert isinstance(weight.type, TensorType)
        shape = (*(weight.type.shape or ()), 1, 1)
        inputs: dict[str, Argument | Array] = {"x": self._as_turned(given), "weight": _shaped(weight, shape)}
        if bias is not None:
            inputs["bias"] = bias
        self._emit(op, "conv", {**inputs, **_CONVOLUTION})
        self.count += 1
        return True

    def _by_element(self, op: Op) -> bool:
        others = {name: given[0] for name, given in op.inputs.items() if name != "x" and given}
        if not all(self._constant(other) is not None for other in others.values()):
            return False
        self._emit(op, op.type, {"x": self._as_turned(op.inputs["x"][0]), **others})
        return True

    def _of_two(self, op: Op) -> bool:
        result = _shape(op.outputs[0])
        inputs: dict[str, Argument | Array] = {}
        for name in ("x", "y"):
            given = op.inputs[name][0]
            known = self._constant(given)
            if known is not None:
                turned = _turned_constant(known, result or ())
                if turned is None:
                    return False
                inputs[name] = turned
            elif isinstance(given, Value) and _shape(given) == result:
                inputs[name] = given
            else:
                return False
        self._emit(
            op,
            op.type,
            {name: self._as_turned(one) if isinstance(one, Value) else one for name, one in inputs.items()},
        )
        return True

    def _normalization(self, op: Op) -> bool:
        axes, shape = self._known(op, "axes"), _shape(op.outputs[0]) or ()
        if axes is None or [int(axis) % len(shape) for axis in axes.numpy().reshape(-1)] != [len(shape) - 1]:
            return False
        others = {name: given[0] for name, given in op.inputs.items() if name not in ("x", "axes") and given}
        turned = self._as_turned(op.inputs["x"][0])
        self._emit(op, "layer_norm", {"x": turned, "axes": np.array([1], np.int32), **others})
        return True

    def _emit(self, op: Op, op_type: str, inputs: Mapping[str, Argument | Array]) -> None:
        """Adds an operation whose result is turned."""
        value = op.outputs[0]
        chain = self._chain(value)
        chain.add(op_type, _turned_type(value), **inputs)
        name = f"{value.name}_bc1s"
        self.ops += chain.ending(name)
        self.turned[value.name] = Value(name, _turned_type(value))
        self.waiting[value.name] = value

    def _as_turned(self, given: Argument) -> Value:
        """Returns a value in the other layout; it is turned where that was not done yet."""
        assert isinstance(given, Value)
        if given.name not in self.turned:
            type_ = _turned_type(given)
            chain, name = self._chain(given), f"{given.name}_bc1s"
            value, axes = given, [2, 3]
            if len(_shape(given) or ()) == _SEQUENCE:
                value, axes = self._swapped(chain, given, _shape(given) or ()), [2]
            chain.add("expand_dims", type_, x=value, axes=np.array(axes, np.int32))
            self.ops += chain.ending(name)
            self.turned[given.name] = Value(name, type_)
        return self.turned[given.name]

    def _swapped(self, chain: Chain, value: Value, shape: Sequence[int]) -> Value:
        assert isinstance(value.type, TensorType)
        type_ = TensorType(value.type.dtype, tuple(shape[axis] for axis in _SWAP))
        return chain.add("transpose", type_, x=value, perm=np.array(_SWAP, np.int32))

    def _restore(self, names: Iterable[str]) -> None:
        """Adds the original layout of values that exist in the other one only."""
        for name in names:
            value = self.waiting.pop(name, None)
            if value is None:
                continue
            shape = _shape(value) or ()
            chain = self._chain(value)
            if len(shape) == _MATRIX:
                chain.add("squeeze", _type(value), x=self.turned[name], axes=np.array([2, 3], np.int32))
            else:
                swapped = TensorType(_type(value).dtype, tuple(shape[axis] for axis in _SWAP))
                flat = chain.add("squeeze", swapped, x=self.turned[name], axes=np.array([2], np.int32))
                chain.add("transpose", _type(value), x=flat, perm=np.array(_SWAP, np.int32))
            self.ops += chain.ending(name)

    def _chain(self, value: Value) -> Chain:
        return Chain(f"{value.name}_bc1s_of_{len(self.ops)}", _type(value).dtype)

    def _known(self, op: Op, parameter: str) -> Constant | None:
        return next((self._constant(given) for given in op.inputs.get(parameter, ())), None)

    def _constant(self, given: Argument) -> Constant | None:
        return given if isinstance(given, Constant) else self.constants.get(given.name)


#: The other parameters of a 1×1 convolution.
_CONVOLUTION: Mapping[str, Argument] = {
    "strides": constant(np.array([1, 1], np.int32)),
    "pad_type": constant("valid"),
    "pad": constant(np.zeros(4, np.int32)),
    "dilations": constant(np.array([1, 1], np.int32)),
    "groups": constant(np.array(1, np.int32)),
}


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _shape(value: Value) -> tuple[int, ...] | None:
    """Returns the fixed shape of a float tensor that can be turned; None for others."""
    type_ = value.type
    if (
        not isinstance(type_, TensorType)
        or not type_.is_static
        or type_.dtype not in (DType.FP16, DType.FP32)
    ):
        return None
    shape = tuple(extent or 0 for extent in type_.shape or ())
    return shape if len(shape) in (_MATRIX, _SEQUENCE) else None


def _turned_type(value: Value) -> TensorType:
    shape = _shape(value) or ()
    turned = (*shape, 1, 1) if len(shape) == _MATRIX else (shape[0], shape[2], 1, shape[1])
    return TensorType(_type(value).dtype, turned)


def _turned_constant(known: Constant, result: Sequence[int]) -> Constant | None:
    """Returns a constant that broadcasts to a result in the other layout; None if it is not known."""
    assert isinstance(known.type, TensorType)
    shape = known.type.shape or ()
    if known.type.elements == 1:
        return _shaped(known, ())
    full = (1,) * (len(result) - len(shape)) + tuple(extent or 0 for extent in shape)
    if len(result) == _MATRIX:
        return _shaped(known, (*full, 1, 1))
    if len(full) != _SEQUENCE:
        return None
    type_ = TensorType(known.type.dtype, (full[0], full[2], 1, full[1]))
    data = Derived(lambda: known.numpy().reshape(full).transpose(_SWAP)[:, :, None], (known,))
    return Constant(type_, data)


def _shaped(known: Constant, shape: tuple[int | None, ...]) -> Constant:
    assert isinstance(known.type, TensorType)
    sizes = tuple(extent or 0 for extent in shape)
    return Constant(replace(known.type, shape=sizes), Derived(lambda: known.numpy().reshape(sizes), (known,)))
