"""Operations that the model has and the reference lacks, or the other way round, between the same values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Array, Function, Value
from coremlscope.units import shown
from coremlscope.verification.diagnosis import (
    CAUSES,
    MOST_WEIGHTS,
    Case,
    Diagnosis,
    Repair,
    describe_axes,
    describe_relation,
)
from coremlscope.verification.distance import SAME, find_relation, relative_error
from coremlscope.verification.edits import insert_after, read_instead, reorder_elements, set_constant
from coremlscope.verification.grafts import find_graft
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.pairing import general_type
from coremlscope.verification.recognition.moved_elements import find_order
from coremlscope.verification.weight_causes import is_constant

__all__ = [
    "check_exchanged",
    "check_extra_operation",
    "check_missing_operation",
    "check_recomputed",
    "check_sizes",
    "check_wrong_argument",
    "check_wrong_value",
    "find_reordering",
    "graft_argument",
]

_Floats = npt.NDArray[np.float64]
#: Weights that were rounded to fp16 cause smaller errors.
_MADE_BY_ROUNDING = 3e-3
#: Arguments that are tried.
_MOST_TRIED = 16
#: A result is that of an operation if it differs by less.
_SAME_RESULT = 1e-4
#: Axes whose orders are tried, without running anything.
_MOST_AXES = 6


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
            repairs = (*find_reordering(case, value, right), *_grafts(case, value.name, other.name))
            return Diagnosis(cause="other operation", value=value.name, text=text, repairs=repairs)
    return None


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
            own = _equal_value(case, right, reader.name)
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


def _equal_value(case: Case, right: Array, before: str) -> str | None:
    """Returns the name of a value that equals a right one, shape included, and is computed before another
    one."""
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
    return tuple(_grafts(case, name, wanted, _reader(case, name).op))


def check_recomputed(case: Case) -> Diagnosis | None:
    """With the operations of the reference, written for this program, the result is right."""
    if case.site.pair.axes or case.site.made < _MADE_BY_ROUNDING:
        return None
    for repair in _grafts(case, case.site.value, case.site.pair.theirs):
        text = (
            f"the reference computes it in another way: with {repair.text.partition(' as ')[2]} it is right"
        )
        return Diagnosis(
            cause="other operation", value=case.site.value, text=text, repairs=(repair,), is_rewriting=True
        )
    return None


def _grafts(case: Case, name: str, wanted: str, reader: str = "") -> Iterator[Repair]:
    """Yields the computation of a value as in the reference.

    Args:
        case: The difference.
        name: The value of the model.
        wanted: The value of the reference that it should be.
        reader: The id of the operation that reads it instead; empty for all.
    """
    graph = case.call.function.graph
    known = {value.name: value for value in graph.inputs}
    for op in graph.ops:
        if op.id == reader or (not reader and any(value.name == name for value in op.outputs)):
            break
        known.update((value.name, value) for value in op.outputs)
    arrays = {key: case.ours.values[key].array for key in known if key in case.ours.values}
    graft = find_graft(case.theirs, wanted, case.pairs, {key: known[key] for key in arrays}, arrays)
    if graft is None:
        return
    types = ", ".join(dict.fromkeys(map(shown, reversed(graft.types))))
    if reader:
        change = partial(graft.ahead_of, reader=reader, name=name)
    else:
        change = partial(graft.instead_of, name=name)
    yield Repair(f"compute {shown(name)} as {shown(wanted)} of the reference, by {types}", change)


def check_sizes(case: Case) -> Diagnosis | None:
    """An operation on the way makes as many elements as none of that type in the reference."""
    region = list(reversed(case.region))
    order = {name: place for place, name in enumerate(case.theirs.values)}
    theirs = sorted(case.reference_region(), key=lambda one: order[one.name])
    for value in region:
        mine, others = (_of_type(values, value.type) for values in (region, theirs))
        if len(mine) != len(others):
            continue
        other = others[[one.name for one in mine].index(value.name)]
        if other.array.size != value.array.size:
            text = (
                f"its result has {value.array.size:,} elements, and that of {shown(other.name)} of the"
                f" reference {other.array.size:,}"
            )
            repairs = (
                () if case.site.pair.axes else tuple(_grafts(case, case.site.value, case.site.pair.theirs))
            )
            return Diagnosis(
                cause="setting",
                value=value.name,
                text=text,
                repairs=repairs,
                is_guess=not repairs,
                is_rewriting=bool(repairs),
            )
    return None


def _of_type(values: Iterable[Intermediate], kind: str) -> list[Intermediate]:
    return [value for value in values if general_type(value.type) == general_type(kind)]


def find_reordering(case: Case, value: Intermediate, right: Array) -> tuple[Repair, ...]:
    """Returns changes that bring the elements of a value into the right order, if there are some.

    Args:
        case: The difference.
        value: The value.
        right: Its elements in the right order.
    """
    found = (*_other_permutation(case, value, right), *_other_indices(value, right))
    return found or tuple(_any_order(value, right))


def _any_order(value: Intermediate, right: Array) -> Iterator[Repair]:
    """Yields a choice of elements in any order: the proof that nothing but their order is wrong."""
    places = find_order(value.array, right)
    if places is not None and value.array.dtype.kind == "f":
        change = partial(reorder_elements, name=value.name, places=places)
        yield Repair(f"put the elements of {shown(value.name)} in the order of the reference", change)


def _other_permutation(case: Case, value: Intermediate, right: Array) -> Iterator[Repair]:
    """Yields the transposition with another order of axes, also where a value is reshaped behind it."""
    turned = [value, *(v for v in case.region if v.name in value.inputs)]
    maker = next((v for v in turned if v.type == "transpose" and v.inputs), None)
    before = None if maker is None else case.ours.values.get(maker.inputs[0])
    if maker is None or before is None or before.array.ndim > _MOST_AXES:
        return
    for order in itertools.permutations(range(before.array.ndim)):
        moved = np.transpose(before.array, order)
        if moved.shape == maker.array.shape and relative_error(moved, right) <= SAME:
            change = partial(set_constant, changes={(maker.op, "perm"): np.array(order, np.int32)})
            yield Repair(f"transpose by {describe_axes(order)} in {shown(maker.name)}", change)
            return


def _other_indices(value: Intermediate, right: Array) -> Iterator[Repair]:
    """Yields the choice of other places along one axis."""
    for axis, size in enumerate(value.array.shape):
        wrong = np.moveaxis(value.array, axis, 0).reshape(size, -1)
        wanted = np.moveaxis(right, axis, 0).reshape(size, -1)
        places = _places(wrong, wanted)
        if places is not None:
            parameters: dict[str, Array | Value] = {
                "indices": np.array(places, np.int32),
                "axis": np.array(axis, np.int32),
            }
            change = partial(
                insert_after, name=value.name, readers=(), op_type="gather", parameters=parameters
            )
            listed = ", ".join(map(str, places[:_MOST_LISTED])) + (", …" if size > _MOST_LISTED else "")
            yield Repair(f"take places {listed} of axis {axis} of {shown(value.name)}", change)
            return


#: Places that a sentence lists, and slices that are compared with each other.
_MOST_LISTED, _MOST_PLACES = 6, 512


def _places(wrong: Array, wanted: Array) -> list[int] | None:
    """Returns where each row stands among other rows; None if one is not there."""
    if not 1 < len(wrong) <= _MOST_PLACES or wrong.dtype.kind != "f":
        return None
    places = []
    for row in wanted.astype(np.float64):
        errors = np.abs(wrong - row).max(1)
        best = int(errors.argmin())
        if errors[best] > SAME * max(1e-30, float(np.abs(row).max())):
            return None
        places.append(best)
    return places
