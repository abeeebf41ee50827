"""Weights of gated recurrent cells that a converter wrote as a loop, which those of the reference replace."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from coremlscope.errors import CoremlscopeError
from coremlscope.ir import Array, Function, Op, TensorType, Value, constant
from coremlscope.ir.rewriting import with_ops
from coremlscope.units import shown
from coremlscope.verification.diagnosis import Case, Repair
from coremlscope.verification.distance import SAME, relative_error
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.own_run import run_from

__all__ = ["cell_repair"]

#: Gates of a GRU, in whose loop each has a layer of the input and one of the state.
_GATES = 3


def cell_repair(case: Case, loop: Intermediate, made: str, wanted: Array) -> Repair | None:
    """Returns the change that gives a loop the weights of the reference, if its result is right with them.

    Args:
        case: The difference.
        loop: The value of the loop.
        made: The value behind it that the reference computes.
        wanted: The elements of that value.
    """
    op = case.ops.get(loop.op)
    layers = [] if op is None else list(_layers(op))
    if op is None or len(layers) != 2 * _GATES:
        return None
    for other in case.reference_region():
        for cell in _cells(other):
            for order in itertools.permutations(range(_GATES)):
                content = _assigned(layers, cell, order)
                if content is None:
                    break
                change = partial(_with_constants, loop=op.outputs[0].name, content=content)
                if _is_right(case, change(case.call.function), made, wanted):
                    return Repair(
                        f"replace the weights of {shown(loop.name)} by those of the reference", change
                    )
    return None


def _is_right(case: Case, function: Function, made: str, wanted: Array) -> bool:
    given = {
        pair.ours: np.asarray(case.site.given[pair.ours], case.ours.values[pair.ours].array.dtype)
        for pair in case.site.bounds
    }
    try:
        local = run_from(replace(case.call, function=function), given, [made])[made]
    except (CoremlscopeError, ValueError):
        return False
    return relative_error(local, wanted) <= SAME


def _layers(op: Op) -> Iterator[tuple[str, str]]:
    """Yields the names of the weight and the bias of each layer in a loop."""
    for block in op.blocks:
        for one in block.walk():
            weight, bias = (next(iter(one.inputs.get(key, ())), None) for key in ("weight", "bias"))
            if one.type == "linear" and isinstance(weight, Value) and isinstance(bias, Value):
                yield weight.name, bias.name


def _cells(other: Intermediate) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yields the weights and biases of the input and of the state, for each direction of a cell."""
    arrays = {p.name: p.read() for p in other.parameters if p.size > 1}
    for end in ("", "_reverse"):  # PyTorch has arrays of their own.
        roles = (f"weight_ih_l0{end}", f"weight_hh_l0{end}", f"bias_ih_l0{end}", f"bias_hh_l0{end}")
        found = [[a for name, a in arrays.items() if name.endswith(role)] for role in roles]
        if all(len(one) == 1 for one in found):
            yield tuple(one[0] for one in found)  # type: ignore[misc]
    stacked = [array for array in arrays.values() if array.ndim == 3 and array.shape[1] % _GATES == 0]
    biases = [array for array in arrays.values() if array.ndim == 2]
    if len(stacked) == 2 and len(biases) == 1:  # ONNX stacks the directions.
        for ih, hh, both in zip(*stacked, biases[0], strict=False):
            yield ih, hh, both[: len(ih)], both[len(ih) :]


def _assigned(
    layers: Sequence[tuple[str, str]], cell: tuple[Array, Array, Array, Array], order: Sequence[int]
) -> dict[str, Array] | None:
    """Returns the constants of a loop by name, whose gates are those of a cell in some order."""
    blocks = [array.reshape(_GATES, len(array) // _GATES, *array.shape[1:])[list(order)] for array in cell]
    content = {}
    for gate in range(_GATES):
        for side in range(2):
            weight, bias = layers[2 * gate + side]
            content[weight], content[bias] = blocks[side][gate], blocks[2 + side][gate]
    return content


def _with_constants(function: Function, loop: str, content: Mapping[str, Array]) -> Function:
    """Returns a function with other constants in the blocks of the operation that computes a value."""
    ops = [
        replace(op, blocks=tuple(replace(block, ops=_changed(block.ops, content)) for block in op.blocks))
        if op.blocks and any(value.name == loop for value in op.outputs)
        else op
        for op in function.graph.ops
    ]
    return with_ops(function, ops)


def _changed(ops: Sequence[Op], content: Mapping[str, Array]) -> tuple[Op, ...]:
    changed = []
    for op in ops:
        right = content.get(op.outputs[0].name) if op.outputs else None
        old = op.constant
        if right is not None and old is not None and isinstance(old.type, TensorType):
            shape = tuple(size or 1 for size in old.type.shape or ())
            new = constant(np.asarray(right).reshape(shape), old.type.dtype)
            op = replace(op, attributes={**op.attributes, "val": new})
        changed.append(op)
    return tuple(changed)
