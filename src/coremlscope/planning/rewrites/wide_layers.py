"""Very wide layers as several: the Neural Engine takes axes of a limited length, a vocabulary is longer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import Argument, Constant, Derived, Function, Op, TensorType, Value
from coremlscope.model.ir.rewriting import Chain, constant_argument, constants_of, names_read, with_ops
from coremlscope.planning.advice import LONGEST_AXIS

#: Outputs of a part are a multiple of that, but for the last one.
_STEP = 16
#: The axis of the outputs, by the type of the layer.
_AXES: Mapping[str, int] = {"linear": -1, "conv": 1}


def with_narrow_layers(function: Function) -> tuple[Function, int]:
    """Splits layers with more outputs than the Neural Engine takes on an axis.

    Layers of several groups and with packed weights stay as they are.

    Returns:
        The function, and how many layers are several.
    """
    constants = constants_of(function)
    ops: list[Op] = []
    count = 0
    for op in function.graph.ops:
        parts = [*_parts(op, constants)]
        ops += parts or [op]
        count += bool(parts)
    read = {name for op in ops for name in names_read(op)}.union(
        value.name for value in function.graph.outputs
    )
    return with_ops(function, (op for op in ops if op.constant is None or op.outputs[0].name in read)), count


def _parts(op: Op, constants: Mapping[str, Constant]) -> Iterator[Op]:
    """Yields layers for parts of the outputs, and the concat of their results; nothing if one is enough."""
    axis = _AXES.get(op.type)
    weight, bias = (constant_argument(op, name, constants) for name in ("weight", "bias"))
    result = op.outputs[0].type if op.outputs else None
    if axis is None or weight is None or (bias is None and op.inputs.get("bias")):
        return
    groups = constant_argument(op, "groups", constants)
    outputs = (weight.type.shape or (0,))[0] or 0 if isinstance(weight.type, TensorType) else 0
    is_whole = groups is None or int(groups.numpy()) == 1
    if outputs <= LONGEST_AXIS or not is_whole or not isinstance(result, TensorType) or not result.shape:
        return
    width = -(-outputs // -(-outputs // LONGEST_AXIS))
    width += -width % _STEP
    chain = Chain(f"{op.outputs[0].name}_part", result.dtype)
    others = {name: given[0] for name, given in op.inputs.items() if name not in ("weight", "bias") and given}
    values: list[Value] = []
    for start in range(0, outputs, width):
        stop = min(start + width, outputs)
        shape = list(result.shape)
        shape[axis] = stop - start
        cut: dict[str, Argument] = {"weight": _cut(weight, start, stop)}
        if bias is not None:
            cut["bias"] = _cut(bias, start, stop)
        values.append(chain.add(op.type, replace(result, shape=tuple(shape)), **others, **cut))
    chain.add("concat", result, axis=np.array(axis % len(result.shape), np.int32), interleave=np.array(False))
    *layers, concat = chain.ending(op.outputs[0].name)
    yield from layers
    yield replace(concat, inputs={"values": tuple(values), **concat.inputs})


def _cut(known: Constant, start: int, stop: int) -> Constant:
    assert isinstance(known.type, TensorType)
    type_ = replace(known.type, shape=(stop - start, *(known.type.shape or ())[1:]))
    return Constant(type_, Derived(lambda: known.numpy()[start:stop], (known,)))
