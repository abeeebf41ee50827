"""Operations that the model has and the reference lacks, or the other way round, between the same values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Array, Function, Value
from coremlscope.units import shown
from coremlscope.verification.causes.recurrent_weights import cell_repair
from coremlscope.verification.causes.weights import is_constant
from coremlscope.verification.diagnosis import (
    CAUSES,
    MOST_WEIGHTS,
    Case,
    Diagnosis,
    Repair,
    describe_relation,
)
from coremlscope.verification.distance import SAME, find_relation, relative_error
from coremlscope.verification.edits import insert_after, read_instead
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.pairing import general_type
from coremlscope.verification.repairs import find_reordering, grafts

__all__ = [
    "check_exchanged",
    "check_extra_operation",
    "check_missing_operation",
    "check_wrong_argument",
    "check_wrong_value",
    "equal_value",
    "graft_argument",
]

_Floats = npt.NDArray[np.float64]
#: Arguments that are tried.
_MOST_TRIED = 16
#: A result is that of an operation if it differs by less.
_SAME_RESULT = 1e-4


def check_extra_operation(case: Case) -> Diagnosis | None:
    """With an argument instead of what the model computes from it first, the result is right."""
    for value in reversed(case.region[1:]):
        above = set(case.ours.above(value.name, lambda _: False))
        for pair in case.site.bounds:
            array = case.site.given[pair.ours]
            if pair.ours not in above or array.shape != value.array.shape:
                continue
            if relative_error(value.array, array) <= SAME or not case.explains(
                given={value.name: array}, most=SAME
            ):
                continue
            text = (
                f"the reference has no such operation: with {shown(pair.ours)} instead of its result, what"
                " follows is right"
            )
            change = partial(read_instead, instead={value.name: pair.ours})
            repair = Repair(f"read {shown(pair.ours)} instead of {shown(value.name)}", change)
            return Diagnosis(cause="extra operation", value=value.name, text=text, repairs=(repair,))
    return None


@dataclass(frozen=True, slots=True)
class _Applied:
    """An operation by which a value of the reference results from another one.

    Attributes:
        type: Its type.
        parameters: What it reads besides `x`: constants, and names of values of the model.
    """

    type: str
    parameters: Mapping[str, Array | str]


def check_missing_operation(case: Case) -> Diagnosis | None:
    """The reference applies an operation first, or afterwards, which the model lacks."""
    site = case.site
    for applied in _applied(case, site.local, site.expected, case.theirs.values[site.pair.theirs]):
        return _missing(case, applied, site.value, site.pair.theirs, ())
    for other in case.reference_region():
        for pair in case.site.bounds if other.name != site.pair.theirs else ():
            given = case.theirs.values[pair.theirs].array
            ours = case.ours.values[pair.ours].array
            if pair.axes or given.shape != ours.shape or other.array.shape != given.shape:
                continue
            for applied in _applied(case, given, other.array, other):
                if case.explains(given={pair.ours: other.array}):
                    is_alone = case.theirs.readers.get(pair.theirs, ()) == [other.name]
                    readers = case.ours.readers[pair.ours] if is_alone else [site.value]
                    return _missing(case, applied, pair.ours, other.name, tuple(readers))
    return None


def _missing(case: Case, applied: _Applied, target: str, other: str, readers: tuple[str, ...]) -> Diagnosis:
    """Returns the diagnosis of an operation that is missing behind a value, with its insertion."""
    ids = tuple(case.ours.values[name].op for name in readers)

    def insert(function: Function) -> Function:
        known = {
            v.name: v for v in (*function.graph.inputs, *(v for o in function.graph.ops for v in o.outputs))
        }
        parameters: dict[str, Array | Value] = {
            key: known[content] if isinstance(content, str) else content
            for key, content in applied.parameters.items()
        }
        return insert_after(function, target, ids, applied.type, parameters)

    where = "behind it" if not readers else f"of {shown(target)} first"
    what = f"{shown(applied.type)} {where}, as {shown(other)}"
    text = f"the reference computes {what}: with that the result is right"
    repair = Repair(f"insert {shown(applied.type)} behind {shown(target)}", insert)
    return Diagnosis(cause="missing operation", value=case.site.value, text=text, repairs=(repair,))


def _applied(case: Case, given: Array, result: Array, other: Intermediate) -> Iterator[_Applied]:
    """Yields the operations that compute a value of the reference from given elements."""
    if given.shape != result.shape or given.dtype.kind != "f" or given.size < 2:
        return
    x, y = given.astype(np.float64), result.astype(np.float64)
    with np.errstate(all="ignore"):
        for axis in range(x.ndim):
            if x.shape[axis] > 1 and _is_same(_softmax(x, axis), y):
                yield _Applied("softmax", {"axis": np.array(axis, np.int32)})
        for axes in _axes_of_norms(x):
            if _is_same(_normalized(x, axes), y):
                yield _norm(x, axes)
        for content in _contents(case, other):
            number = case.theirs.values[content].array if isinstance(content, str) else content
            yield from _binary(case, x, y, number, content)


def _is_same(made: _Floats, wanted: _Floats) -> bool:
    return relative_error(made, wanted) <= _SAME_RESULT


def _softmax(x: _Floats, axis: int) -> _Floats:
    powers = np.exp(x - x.max(axis, keepdims=True))
    result: _Floats = powers / powers.sum(axis, keepdims=True)
    return result


def _axes_of_norms(x: _Floats) -> Iterator[tuple[int, ...]]:
    """Yields the axes over which layers normalize: the last ones, and those behind the channels."""
    axes = tuple(range(x.ndim))
    yield from {axes[first:] for first in range(1, x.ndim)}


def _normalized(x: _Floats, axes: tuple[int, ...]) -> _Floats:
    centred = x - x.mean(axes, keepdims=True)
    result: _Floats = centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + _NORM_EPSILON)
    return result


#: The epsilon of layer and instance normalizations in PyTorch.
_NORM_EPSILON = 1e-5


def _norm(x: _Floats, axes: tuple[int, ...]) -> _Applied:
    parameters: dict[str, Array | str] = {
        "axes": np.array(axes, np.int32),
        "epsilon": np.array(_NORM_EPSILON, np.float32),
    }
    return _Applied("layer_norm", parameters)


def _contents(case: Case, other: Intermediate) -> Iterator[Array | str]:
    """Yields what an operation of the reference may read besides its argument: arrays, or names of values."""
    for parameter in other.parameters:
        array = np.asarray(parameter.read()) if parameter.size <= MOST_WEIGHTS else np.zeros(0)
        if array.size and array.dtype.kind == "f":
            yield array
    for name in other.inputs:
        value = case.theirs.values.get(name)
        if value is not None and is_constant(case.theirs, value) and value.array.dtype.kind == "f":
            yield value.array
        elif value is not None and value.array.dtype.kind == "f":
            yield name


def _binary(case: Case, x: _Floats, y: _Floats, number: Array, content: Array | str) -> Iterator[_Applied]:
    """Yields the sums, products and quotients with a number, or a value of the model, that make a result."""
    n = number.astype(np.float64)
    try:
        if np.broadcast_shapes(x.shape, n.shape) != x.shape:
            return
    except ValueError:
        return
    made: Array | str = number.astype(np.float32)
    if isinstance(content, str):
        made = next((p.ours for p in case.pairs if p.theirs == content and not p.axes), "")
        if not made or case.ours.values[made].array.shape != number.shape:
            return
    for kind, result in (("add", x + n), ("mul", x * n), ("sub", x - n), ("real_div", x / n)):
        is_same = _is_same(result, y) and relative_error(x, y) > SAME
        if is_same:
            yield _Applied(kind, {"y": made})


def check_exchanged(case: Case) -> Diagnosis | None:
    """With two values exchanged, in all operations that read them on the way, the result is right."""
    bounds = [pair for pair in case.site.bounds if not pair.axes]
    for one, two in itertools.combinations(bounds, 2):
        first, second = case.site.given[one.ours], case.site.given[two.ours]
        if first.shape != second.shape or relative_error(first, second) <= SAME:
            continue
        if not case.explains(given={one.ours: second, two.ours: first}, most=SAME):
            continue
        names = {one.ours: two.ours, two.ours: one.ours}
        readers = [value for value in case.region if set(names) & set(value.inputs)]
        change = partial(read_instead, instead=names, readers={value.op for value in readers})
        what = f"{shown(one.ours)} and {shown(two.ours)}"
        return Diagnosis(
            cause="swapped arguments",
            value=readers[-1].name,
            text=f"{what} are exchanged, here and in what follows: the other way round the result is right",
            repairs=(Repair(f"exchange {what}", change),),
        )
    return None


def check_wrong_value(case: Case) -> Diagnosis | None:
    """With a value of the reference instead of one on the way, what follows is right: it is wrong before."""
    for value in reversed(case.region[1:]):
        for other in case.reference_region():
            if other.array.size != value.array.size or other.array.dtype.kind != value.array.dtype.kind:
                continue
            right = other.array.reshape(value.array.shape)
            if relative_error(value.array, right) <= SAME:
                continue
            if other.name == case.site.pair.theirs or not case.explains(given={value.name: right}, most=SAME):
                continue
            text = (
                f"it should be {shown(other.name)} ({other.type or 'an input'}) of the reference, and is off"
                f" by {relative_error(value.array, right):.2g}: with that instead, all that follows is right"
            )
            relation = find_relation(value.array, right)
            if (
                relation is not None
                and relation.kind in ("scaled", "shifted", "negated")
                and relation.axis is None
            ):
                what = describe_relation(relation, f"{shown(other.name)} of the reference")
                return Diagnosis(
                    cause=CAUSES[relation.kind],
                    value=value.name,
                    text=f"its result is {what}: with that instead, all that follows is right",
                    relation=relation,
                    target=value.name,
                )
            repairs = (*find_reordering(case, value, right), *grafts(case, value.name, other.name))
            maker, part, wanted = _maker(case, value, right)
            if maker.name != value.name:
                text = f"its part of {shown(value.name)} is not that of {shown(other.name)} of the reference"
            cell = cell_repair(case, maker, part.name, wanted) if maker.type == "while_loop" else None
            return Diagnosis(
                cause="other operation" if cell is None else "weights",
                value=maker.name,
                text=text if cell is None else "with the weights of the reference its result is right",
                repairs=repairs if cell is None else (cell,),
            )
    return None


def _maker(case: Case, value: Intermediate, right: Array) -> tuple[Intermediate, Intermediate, Array]:
    """Returns the value whose operation computes the first wrong part of another one, the part, and what it
    should be."""
    part, wanted = next(_wrong_parts(case, value, right), (value, right))
    maker = part
    while maker.type in _MOVING and maker.inputs and maker.inputs[0] in case.site.between:
        maker = case.ours.values[maker.inputs[0]]
    is_computed = maker.name in case.site.between and (value is not part or maker.type == "while_loop")
    return (maker, part, wanted) if is_computed else (value, value, right)


def _wrong_parts(case: Case, value: Intermediate, right: Array) -> Iterator[tuple[Intermediate, Array]]:
    """Yields the joined values that differ from those parts of the right one."""
    parts = [case.ours.values[name] for name in value.inputs] if value.type == "concat" else []
    axes = [
        axis
        for axis, size in enumerate(value.array.shape)
        if parts and sum(one.array.shape[axis] for one in parts if one.array.ndim == value.array.ndim) == size
    ]
    begin = 0
    for part in parts if len(axes) == 1 else ():
        size = part.array.shape[axes[0]]
        wanted = np.take(right, range(begin, begin + size), axes[0])
        begin += size
        if relative_error(part.array, wanted) > SAME:
            yield part, wanted


#: Operations that choose or move elements.
_MOVING = frozenset(
    {"expand_dims", "reshape", "reverse", "slice_by_index", "slice_by_size", "squeeze", "transpose"}
)


def check_wrong_argument(case: Case) -> Diagnosis | None:
    """With a value that the reference computes first, instead of an argument, the result is right."""
    others = [value for value in case.reference_region() if value.name != case.site.pair.theirs]
    tried = 0
    for pair in case.site.bounds:
        array = case.site.given[pair.ours]
        for other in others:
            if other.array.size != array.size or other.array.dtype.kind != "f" or tried == _MOST_TRIED:
                continue
            right = other.array.reshape(array.shape)
            if relative_error(array, right) <= SAME:
                continue
            tried += 1
            if not case.explains(given={pair.ours: right}, most=SAME):
                continue
            reader = _reader(case, pair.ours)
            if _leaves(case, reader, pair.ours, right):
                continue
            own = equal_value(case, right, reader.name)
            if own is not None:
                change = partial(read_instead, instead={pair.ours: own}, readers={reader.op})
                text = f"it reads {shown(pair.ours)}: with {shown(own)} the result is right"
                repair = Repair(f"read {shown(own)} instead of {shown(pair.ours)}", change)
                return Diagnosis(cause="wrong argument", value=reader.name, text=text, repairs=(repair,))
            text = (
                f"it reads {shown(pair.ours)}: the reference reads {shown(other.name)} ({shown(other.type)})"
                " there, and with that the result is right"
            )
            repairs = graft_argument(case, pair.ours, other.name)
            return Diagnosis(cause="missing operation", value=reader.name, text=text, repairs=repairs)
    return None


def _leaves(case: Case, reader: Intermediate, name: str, right: Array) -> bool:
    """Returns whether an operation of another type than those of the reference leaves an argument as it is.

    A rounding does so with integers: it stands where the reference computes them in another way.
    """
    types = {general_type(value.type) for value in case.reference_region()}
    if reader.type not in _KEEPING or general_type(reader.type) in types:
        return False
    return relative_error(case.result(reader.name, {name: right}), right) <= SAME


#: Operations that leave results of their own kind as they are.
_KEEPING = frozenset({"abs", "ceil", "clip", "floor", "relu", "relu6", "round", "sign"})


def equal_value(case: Case, right: Array, before: str) -> str | None:
    """Returns the name of a value of the model that equals a right one, shape included.

    Args:
        case: The difference.
        right: The right value.
        before: The value before which it is computed.
    """
    for value in case.ours.values.values():
        if value.name == before:
            break
        if value.array.shape == right.shape and relative_error(value.array, right) <= SAME:
            return value.name
    return None


def _reader(case: Case, name: str) -> Intermediate:
    """Returns the first value on the way that is computed from another one."""
    return next(value for value in reversed(case.region) if name in value.inputs)


def graft_argument(case: Case, name: str, wanted: str) -> tuple[Repair, ...]:
    """Returns changes that compute an argument as in the reference, or order its elements so.

    Args:
        case: The difference.
        name: The argument.
        wanted: The value of the reference that it should be.
    """
    return tuple(grafts(case, name, wanted, _reader(case, name).op))
