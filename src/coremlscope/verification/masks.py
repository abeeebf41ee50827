"""Inputs that hide elements from a network, as the mask of an attention does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from coremlscope.model.features.limits import index_limits
from coremlscope.model.ir import Constant, Function, Op, TensorType, Value
from coremlscope.model.ir.rewriting import constants_of
from coremlscope.verification.intermediates import Intermediate, Run

__all__ = ["constant_inputs", "constant_masks", "mask_inputs"]

#: Operations that keep the elements of a mask.
_KEEPING = frozenset(
    {"cast", "expand_dims", "identity", "reshape", "slice_by_index", "squeeze", "tile", "transpose"}
)
#: Comparisons that make a mask of numbers.
_COMPARING = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
#: Operations that a mask goes through before it chooses.
_LOGICAL = frozenset({"logical_and", "logical_not", "logical_or"})
#: The least factor on 1 − mask that hides the scores it is added to.
_HIDING = 100.0


def mask_inputs(function: Function) -> frozenset[str]:
    """Returns the inputs that are masks of 0 and 1: all that reads them compares them with a number from 0
    to 1, or subtracts them from 1 and multiplies the difference by a large number.

    Args:
        function: The function.
    """
    constants = constants_of(function)
    readers: dict[str, list[Op]] = defaultdict(list)
    for op in function.graph.walk():
        for given in op.inputs.values():
            for argument in given:
                if isinstance(argument, Value):
                    readers[argument.name].append(op)
    return frozenset(
        value.name for value in function.graph.inputs if _is_mask(value.name, readers, constants)
    )


def _is_mask(name: str, readers: Mapping[str, Sequence[Op]], constants: Mapping[str, Constant]) -> bool:
    waiting, ends = [name], 0
    while waiting:
        value = waiting.pop()
        for op in readers.get(value, ()):
            if op.type in _KEEPING and _reads_as(op, "x", value):
                waiting += [output.name for output in op.outputs]
            elif _compares(op, constants) or _hides(op, readers, constants):
                ends += 1
            else:
                return False
    return ends > 0


def _reads_as(op: Op, parameter: str, name: str) -> bool:
    return any(isinstance(a, Value) and a.name == name for a in op.inputs.get(parameter, ()))


def _number(op: Op, constants: Mapping[str, Constant]) -> float | None:
    """Returns the one number that an operation of two arguments reads beside a computed one."""
    for parameter in ("x", "y"):
        for argument in op.inputs.get(parameter, ()):
            known = argument if isinstance(argument, Constant) else constants.get(argument.name)
            is_one = known is not None and isinstance(known.type, TensorType) and known.type.elements == 1
            if known is not None and is_one and known.is_available:
                return float(known.numpy().reshape(-1)[0])
    return None


def _compares(op: Op, constants: Mapping[str, Constant]) -> bool:
    number = _number(op, constants) if op.type in _COMPARING else None
    return number is not None and 0 <= number <= 1


def _hides(op: Op, readers: Mapping[str, Sequence[Op]], constants: Mapping[str, Constant]) -> bool:
    """Returns whether an operation is the difference of a mask and 1, and large factors are all that reads
    it."""
    number = _number(op, constants) if op.type in ("sub", "add") else None
    if number is None or abs(number) != 1:
        return False
    factors = [
        abs(_number(reader, constants) or 0) if reader.type == "mul" else 0.0
        for reader in readers.get(op.outputs[0].name, ())
    ]
    return bool(factors) and min(factors) >= _HIDING


def constant_inputs(run: Run) -> Iterator[tuple[str, float]]:
    """Yields the inputs of a run whose elements, of which there are several, are all the same, and the number
    that they hold.

    Args:
        run: The run.
    """
    for value in run.values.values():
        if not value.op and value.array.size > 1 and value.array.dtype.kind in "biuf":
            first = value.array.reshape(-1)[0]
            if np.array_equal(value.array, np.broadcast_to(first, value.array.shape)):
                yield value.name, float(first)


def constant_masks(function: Function, run: Run) -> Iterator[tuple[Op, str, bool]]:
    """Yields the choices between two values that are made by an input, and the same for all elements.

    Converters write such a choice for indices, which may be negative: these are left out.

    Args:
        function: The function that ran.
        run: Its run, with all values.

    Yields:
        The operation `select`, the input, and whether the condition is true.
    """
    indices = index_limits(function)
    for op in function.graph.ops:
        for argument in op.inputs.get("cond", ()) if op.type == "select" else ():
            value = run.values.get(argument.name) if isinstance(argument, Value) else None
            if value is None or value.array.size < 2 or np.ptp(value.array.astype(np.int8)):
                continue
            source = _source(value, run)
            if source is not None and source.array.size > 1 and source.name not in indices:
                yield op, source.name, bool(value.array.reshape(-1)[0])


def _source(value: Intermediate, run: Run) -> Intermediate | None:
    """Returns the one input that a condition is made of by comparisons, without arithmetic; else None."""
    found: dict[str, Intermediate] = {}
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if not current.op:
            found[current.name] = current
        elif current.type in _KEEPING | _COMPARING | _LOGICAL:
            waiting += [run.values[name] for name in current.inputs]
        else:
            return None
    return next(iter(found.values())) if len(found) == 1 else None
