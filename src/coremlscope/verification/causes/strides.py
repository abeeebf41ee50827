"""Strides that are not those of the reference: results of another size."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from coremlscope.errors import CoremlscopeError
from coremlscope.ir import Constant, Function, Op, constant
from coremlscope.ir.rewriting import constant_argument, constants_of
from coremlscope.units import shown
from coremlscope.verification.diagnosis import Case, Diagnosis, Repair
from coremlscope.verification.distance import SAME, relative_error
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.other_forms import with_form
from coremlscope.verification.pairing import general_type

__all__ = ["check_resized", "check_strides"]

#: Operations with strides.
_STRIDED = frozenset({"avg_pool", "conv", "max_pool"})
#: Strides that are tried for an axis.
_MOST_STRIDES = 6


def check_strides(case: Case) -> Diagnosis | None:
    """An operation makes another number of elements, and with the stride of the reference it is right."""
    mates = _counterparts(case)
    constants = constants_of(case.call.function)
    others: dict[str, Op] = {}
    first = None
    for name, other in mates.items():
        value, op = case.ours.values[name], case.ops.get(case.ours.values[name].op)
        if op is None or other.array.ndim != value.array.ndim or value.array.ndim < 3:
            continue
        mine = _strides(op, constants, value.array.ndim - 2)
        ratios = _ratios(case, value, other, mine)
        if not ratios or (value.array.size == other.array.size and mine in ratios):
            continue
        forms = {strides: _with_strides(op, strides) for strides in ratios if strides != mine}
        if ratios[0] in forms:
            others[name] = forms[ratios[0]]
        for strides, form in forms.items() if first is None and value in case.region else ():
            if _is_right(case, value, other, form):
                first, others[name] = (value, mine, strides), form
                break
    return None if first is None else _diagnosis(*first, others)


def check_resized(case: Case) -> Diagnosis | None:
    """An operation makes another number of elements of an argument of the same size than in the reference."""
    mates = _counterparts(case)
    for value in reversed(case.region):
        other = mates.get(value.name)
        if other is None or value.array.size == other.array.size or not value.inputs or not other.inputs:
            continue
        given = [run.values[one.inputs[0]] for run, one in ((case.ours, value), (case.theirs, other))]
        if given[0].array.size == given[1].array.size:
            text = (
                f"of as many elements it makes {value.array.size:,}, and {shown(other.name)} of the reference"
                f" {other.array.size:,}"
            )
            return Diagnosis(cause="setting", value=value.name, text=text)
    return None


def _with_strides(op: Op, strides: tuple[int, ...]) -> Op:
    return replace(op, inputs={**op.inputs, "strides": (constant(np.array(strides, np.int32)),)})


def _counterparts(case: Case) -> Mapping[str, Intermediate]:
    """Returns the strided operations of the reference by the values of the model: by pairs, else by order."""
    mine, theirs = (
        [value for value in run.values.values() if value.op and general_type(value.type) in _STRIDED]
        for run in (case.ours, case.theirs)
    )
    if [general_type(one.type) for one in mine] == [general_type(one.type) for one in theirs]:
        return {one.name: other for one, other in zip(mine, theirs, strict=True)}
    named = {_key(other): other for other in theirs}
    return {one.name: named[_key(one)] for one in mine if _key(one) in named}


def _key(value: Intermediate) -> tuple[str, ...]:
    """Returns what tells an operation with weights from others: their names."""
    names = (parameter.name.rpartition(" ")[2] for parameter in value.parameters if parameter.size > 1)
    return tuple(sorted(names)) or (value.name,)


def _ratios(
    case: Case, value: Intermediate, other: Intermediate, mine: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Returns the strides that an operation of the reference may have, by its sizes."""
    given = case.theirs.values.get(other.inputs[0]) if other.inputs else None
    if given is None or given.array.ndim != other.array.ndim:
        return []
    axes = []
    for axis, stride in enumerate(mine, 2):
        before, after, own = given.array.shape[axis], other.array.shape[axis], value.array.shape[axis]
        near = [round(before / after), before // after, -(-before // after)]
        # Without its kernel an axis has from `low` to `high` elements.
        low, high = stride * (own - 1), stride * own - 1
        near += [n for n in range(1, high + 1) if low // n + 1 <= after <= high // n + 1]
        axes.append(list(dict.fromkeys(max(1, n) for n in near))[:_MOST_STRIDES])
    return list(itertools.product(*axes))


def _strides(op: Op, constants: Mapping[str, Constant], rank: int) -> tuple[int, ...]:
    known = constant_argument(op, "strides", constants)
    return (1,) * rank if known is None else tuple(int(n) for n in known.numpy().reshape(-1))


def _is_right(case: Case, value: Intermediate, other: Intermediate, form: Op) -> bool:
    """Returns whether an operation in another form computes the value of the reference, or its norm."""
    wanted = [other.array, *(one.array for one in _norms_behind(case.theirs, other))]
    try:
        made = [case.result(one.name, {}, form=form) for one in (value, *_norms_behind(case.ours, value))]
    except (CoremlscopeError, ValueError, IndexError, TypeError):
        return False
    return any(relative_error(one, right) <= SAME for one in made for right in wanted)


def _norms_behind(run: Run, value: Intermediate) -> list[Intermediate]:
    """Returns the normalizations of a value: one of the runs may have them folded in."""
    readers = [run.values[name] for name in run.readers.get(value.name, ())]
    return [one for one in readers if general_type(one.type) == "batch_norm"]


def _diagnosis(
    value: Intermediate, mine: tuple[int, ...], right: tuple[int, ...], forms: Mapping[str, Op]
) -> Diagnosis:
    """Returns the diagnosis of a stride, and as its repairs the right one, and those of all operations."""
    text = f"its strides are {list(mine)}: with {list(right)} its result is that of the reference"
    repairs = [
        Repair(
            f"set the strides of {shown(value.name)} to {list(right)}",
            partial(with_form, op=forms[value.name]),
        )
    ]
    if len(forms) > 1:
        names = ", ".join(map(shown, forms))
        repairs.append(
            Repair(f"set the strides of {names} to those of the reference", partial(_with_forms, ops=forms))
        )
    return Diagnosis(cause="setting", value=value.name, text=text, repairs=tuple(repairs))


def _with_forms(function: Function, ops: Mapping[str, Op]) -> Function:
    return reduce(with_form, ops.values(), function)
