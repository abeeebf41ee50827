"""Why an operation computes something else than the reference from the same values, in float32."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coremlscope.ir import Array, Op, Value
from coremlscope.ir.rewriting import constants_of
from coremlscope.units import shown
from coremlscope.verification.causes.numbers import (
    check_cast,
    check_compressed,
    check_epsilon,
    check_infinite_constant,
    check_integers,
    check_numbers,
    check_rounded_number,
    check_tie,
    check_undefined,
    check_wrapped,
)
from coremlscope.verification.causes.regions import (
    check_exchanged,
    check_extra_operation,
    check_missing_operation,
    check_wrong_argument,
    check_wrong_value,
    equal_value,
    graft_argument,
)
from coremlscope.verification.causes.rewriting import check_recomputed, check_sizes
from coremlscope.verification.causes.solved_numbers import check_solved_number
from coremlscope.verification.causes.strides import check_resized, check_strides
from coremlscope.verification.causes.weights import (
    check_crossing,
    check_folded_norm,
    check_folded_values,
    check_folded_weights,
    check_weights,
)
from coremlscope.verification.diagnosis import (
    CAUSES,
    Case,
    Diagnosis,
    Repair,
    describe_axes,
    describe_relation,
    shape_without_ones,
)
from coremlscope.verification.distance import (
    SAME,
    Relation,
    explains_all,
    find_layout,
    find_relation,
    relative_error,
)
from coremlscope.verification.edits import read_instead
from coremlscope.verification.element_functions import ElementFunction, find_functions
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.locate import producers
from coremlscope.verification.other_forms import OtherForm, other_arguments, other_forms
from coremlscope.verification.pairing import Pair
from coremlscope.verification.repairs import find_reordering

__all__ = ["diagnose_conversion"]


def diagnose_conversion(case: Case) -> Diagnosis:
    """Finds the cause of a difference: the first check that explains it."""
    for check in _CHECKS:
        found = check(case)
        if found is not None:
            return found
    is_late = time.monotonic() > case.until
    value, site = case.value, case.site
    what = "infinite or NaN" if not math.isfinite(site.made) else f"off by {site.made:.2g}"
    text = (
        f"on the reference's own values its result is {what}, relative to {shown(site.pair.theirs)}, and no"
        " cause explains all elements"
    )
    if is_late:
        text += "; the search for its cause was stopped, as it took too long"
    return Diagnosis(cause="unknown", value=value.name, text=text)


def _origin_of_order(case: Case, name: str) -> str:
    """Returns the transposition above a value whose axes are in another order; the value itself without
    one."""
    straight = {pair.ours for pair in case.pairs if not pair.axes}
    for above in case.ours.above(name, lambda n: n in straight):
        if above not in straight and case.ours.values[above].type == "transpose":
            return above
    return name


def _check_layout_of_arguments(case: Case) -> Diagnosis | None:
    """Arguments are transpositions of those of the reference, and in the order of the reference all is
    right."""
    orders = {pair: list(_other_orders(case, pair)) for pair in case.site.bounds if pair.axes}
    moved = {pair: found for pair, found in orders.items() if found}
    trials = [{pair: one} for pair, found in moved.items() for one in found]
    if len(moved) > 1:
        trials += [dict(zip(moved, several, strict=True)) for several in itertools.product(*moved.values())]
    for trial in trials[:_MOST_ORDERS]:
        if case.explains(given={pair.ours: array for pair, (array, _, _) in trial.items()}):
            (pair, (_, name, axes)), *rest = trial.items()
            text = (
                f"its result is {shown(name)} of the reference with its axes in another order:"
                f" transposed by {describe_axes(axes)} it equals it"
            )
            return Diagnosis(
                cause="layout",
                value=_origin_of_order(case, pair.ours),
                text=text,
                relation=Relation(kind="permuted", axes=axes),
                target=pair.ours,
                also=tuple((one.ours, Relation(kind="permuted", axes=a)) for one, (_, _, a) in rest),
            )
    return None


def _other_orders(case: Case, pair: Pair) -> Iterator[tuple[Array, str, tuple[int, ...]]]:
    """Yields the elements of an argument in the order of a value of the reference, the name of that value,
    and the order of axes which makes it."""
    mine = case.ours.values[pair.ours].array
    for name in (pair.theirs, *producers(case.theirs, pair.theirs, 2)):
        other = case.theirs.values[name].array
        if other.size != mine.size or other.dtype.kind != mine.dtype.kind:
            continue
        straight = other.reshape(mine.shape)
        axes = find_layout(mine, straight, SAME)
        if axes:
            yield straight, name, axes
        elif name == pair.theirs and axes is None:
            yield straight, name, pair.axes


def _check_missing(case: Case) -> Diagnosis | None:
    """The reference applies a function to an argument first, which the model lacks."""
    by_reference = {pair.theirs: pair for pair in case.site.bounds}
    for other in case.reference_region():
        # The value itself is another result of its operation.
        applied = () if other.name == case.site.pair.theirs else _applied(case, by_reference, other)
        for pair, function in applied:
            shape = case.ours.values[pair.ours].array.shape
            if not case.explains(given={pair.ours: pair.in_our_layout(other.array, shape)}):
                continue
            text = (
                f"the reference computes {shown(function.type)} of {shown(pair.ours)} first: with"
                f" {shown(other.name)} instead, the result is right"
            )
            return Diagnosis(
                cause="missing operation",
                value=case.value.name,
                text=text,
                target=pair.ours,
                missing=function,
            )
    return None


def _applied(
    case: Case, bounds: Mapping[str, Pair], other: Intermediate
) -> Iterator[tuple[Pair, ElementFunction]]:
    """Yields the arguments of which a value of the reference is a function, and these functions."""
    for pair in bounds.values():
        given = case.theirs.values[pair.theirs].array
        if pair.ours in case.value.inputs and given.size == other.array.size and given.dtype.kind == "f":
            yield from ((pair, function) for function in find_functions(given, other.array))


def _check_result(case: Case) -> Diagnosis | None:
    """The wrong result is the right one, transposed, scaled, shifted, truncated."""
    relation = find_relation(case.site.local, case.site.expected)
    if relation is None:
        return None
    if relation.axis is not None and case.value.type not in _WEIGHTED:
        return None  # The factor of a function of which only a small part is seen.
    repairs: tuple[Repair, ...] = ()
    if relation.kind == "reordered":
        repairs = find_reordering(case, case.value, case.site.expected)
        found = None if repairs and case.value.type == "transpose" else _check_other_forms(case)
        if found is not None:
            kind = "" if found.form is None else found.form.op.type
            return found if kind.startswith(_MOVING) else replace(found, cause="layout")
    value = _place(case, relation)
    text = f"its result is {describe_relation(relation, f'{shown(case.site.pair.theirs)} of the reference')}"
    return Diagnosis(
        cause=CAUSES[relation.kind],
        value=value,
        text=text,
        relation=relation,
        target=case.site.value,
        repairs=repairs,
    )


#: Operations with weights, whose results have a factor and a summand for each channel.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear", "matmul"})


def _place(case: Case, relation: Relation) -> str:
    """Returns the value of the region whose operation moves elements, for a wrong order of elements."""
    if relation.kind in ("permuted", "reordered"):
        movers = [v for v in case.region if v.type in ("transpose", "reshape", "concat", "pixel_shuffle")]
        if movers:
            return movers[-1].name if case.value.type not in ("transpose", "reshape") else case.value.name
    return case.site.value


def _check_arguments(case: Case) -> Diagnosis | None:
    """Arguments are those of the reference, scaled or transposed: an operation before them is missing."""
    found = dict(_related_arguments(case))
    straight = {
        name: other.array.reshape(case.ours.values[name].array.shape) for name, (_, other) in found.items()
    }
    for name, (relation, _) in list(found.items()):
        if relation.axis is not None and equal_value(case, straight[name], case.site.value) is not None:
            del found[name]  # The model has the right value, and reads another one.
    for names in ([name] for name in found):
        if case.explains(given={name: straight[name] for name in names}):
            return _missing(case, {name: found[name] for name in names})
    if len(found) > 1 and case.explains(given={name: straight[name] for name in found}):
        return _missing(case, found)
    return None


def _related_arguments(case: Case) -> Iterator[tuple[str, tuple[Relation, Intermediate]]]:
    """Yields arguments that result in a simple way from what the operation of the reference reads."""
    used = {pair.theirs for pair in case.site.bounds}
    above = {pair.ours: pair.theirs for pair in case.site.bounds}
    for ours, theirs in above.items():
        array = case.site.given[ours]
        for other in case.reference_region():
            is_behind = theirs in case.theirs.above(other.name, lambda name: name in used)
            if (
                other.name == case.site.pair.theirs
                or shape_without_ones(other.array) != shape_without_ones(array)
                or not is_behind
            ):
                continue
            relation = find_relation(array, other.array)
            if relation is not None:
                yield ours, (relation, other)
                break


def _missing(case: Case, found: Mapping[str, tuple[Relation, Intermediate]]) -> Diagnosis:
    (target, (relation, other)), *rest = found.items()
    is_open = relation.kind == "reordered" or relation.axis is not None
    right = f"{shown(other.name)} of the reference"
    text = (
        f"its argument {shown(target)} is {describe_relation(relation, right)}:"
        f" {shown(other.type or 'an operation')} before it is missing"
    )
    return Diagnosis(
        cause=CAUSES[relation.kind],
        value=case.site.value,
        text=text,
        relation=relation,
        target=target,
        also=tuple((name, relation) for name, (relation, _) in rest),
        repairs=graft_argument(case, target, other.name) if is_open else (),
    )


@dataclass(frozen=True, slots=True)
class _Extra:
    """A value that results in a simple way from one that the reference reads instead.

    Attributes:
        value: The value.
        pair: The pair of the other one.
        relation: How it results.
        right: The elements of the other one.
    """

    value: Intermediate
    pair: Pair
    relation: Relation
    right: Array

    @property
    def straight(self) -> Array:
        """The elements that it should have."""
        return self.right.reshape(self.value.array.shape)

    @property
    def is_moved(self) -> bool:
        """Whether only the order of elements differs, so that the other value can be read in its place."""
        return self.relation.kind in ("permuted", "reordered") and self.right.shape == self.value.array.shape


def _check_extra(case: Case) -> Diagnosis | None:
    """Operations before the wrong value scale, shift or transpose, and without them the result is right."""
    found = list(_extra_operations(case))
    moved = [one for one in found if one.is_moved]
    for several in [[one] for one in found] + [moved] * (len(moved) > 1):
        if not case.explains(given={one.value.name: one.straight for one in several}):
            continue
        first = several[0]
        text = (
            f"its result is {describe_relation(first.relation, shown(first.pair.theirs))} of the reference:"
            " the reference has no such operation"
        )
        instead = {one.value.name: one.pair.ours for one in several}
        what = ", ".join(f"{shown(new)} instead of {shown(old)}" for old, new in instead.items())
        repair = Repair(f"read {what}", partial(read_instead, instead=instead))
        return Diagnosis(
            cause=CAUSES[first.relation.kind],
            value=first.value.name,
            text=text,
            relation=first.relation,
            target=first.value.name,
            repairs=(repair,) if first.is_moved else (),
        )
    return None


def _extra_operations(case: Case) -> Iterator[_Extra]:
    for value in reversed(case.region[1:]):
        for pair in case.site.bounds:
            array = case.site.given[pair.ours]
            if shape_without_ones(value.array) != shape_without_ones(array):
                continue
            relation = find_relation(value.array, array)
            if relation is not None:
                yield _Extra(value, pair, relation, array)


def _check_order_of_elements(case: Case) -> Diagnosis | None:
    """A value on the way has the elements of one of the reference, in another order."""
    for value in reversed(case.region[1:]):
        mine = np.sort(value.array, axis=None)
        for other in case.reference_region():
            if other.array.size != mine.size or other.array.dtype.kind != value.array.dtype.kind:
                continue
            if not explains_all(np.sort(other.array, axis=None), mine):
                continue
            straight = other.array.reshape(value.array.shape)
            if relative_error(value.array, straight) > SAME and case.explains(given={value.name: straight}):
                return _moved(case, value, other)
    return None


def _moved(case: Case, value: Intermediate, other: Intermediate) -> Diagnosis:
    """Returns the diagnosis of a value in another order, made by the transposition before it if there is
    one."""
    names = [value.name, *(n for n in producers(case.ours, value.name, 2) if n in case.site.between)]
    maker = next((n for n in names if case.ours.values[n].type == "transpose"), value.name)
    text = (
        f"{shown(value.name)} has the elements of {shown(other.name)} of the reference in another order"
        + ("" if maker == value.name else ", as this operation transposes them")
    )
    repairs = find_reordering(case, value, other.array.reshape(value.array.shape))
    return Diagnosis(cause="layout", value=maker, text=text, target=value.name, repairs=repairs)


def _check_other_forms(case: Case) -> Diagnosis | None:
    """With another setting, type or argument of one operation the result is right."""
    constants = constants_of(case.call.function)
    wanted = [value.type for value in case.reference_region()]
    return _first_right(case, lambda _, op: other_forms(op, constants, wanted))


def _check_other_arguments(case: Case) -> Diagnosis | None:
    """With another value of the reference as an argument the result is right."""
    constants = constants_of(case.call.function)
    order = {name: place for place, name in enumerate(case.ours.values)}
    declared = {v.name: v for op in case.call.function.graph.ops for v in op.outputs}
    declared.update((value.name, value) for value in case.call.function.graph.inputs)
    known = {pair.ours for pair in case.pairs if pair.how != "order"} & set(case.site.given)

    def forms(value: Intermediate, op: Op) -> Iterator[OtherForm]:
        near = sorted((n for n in known if order[n] < order[value.name]), key=lambda n: -order[n])
        return other_arguments(op, constants, [declared[name] for name in near if name in declared])

    return _first_right(case, forms)


def _first_right(case: Case, forms: Callable[[Intermediate, Op], Iterator[OtherForm]]) -> Diagnosis | None:
    """Returns the first form of an operation of the region with which the result is right."""
    for value in case.region[:_MOST_TRIED]:
        op = case.ops.get(value.op)
        if op is None or op.blocks:
            continue
        for form in forms(value, op):
            if _is_right(case, form.op):
                return Diagnosis(cause=form.cause, value=value.name, text=form.reason, form=form)
    return None


def _is_right(case: Case, form: Op) -> bool:
    """Returns whether the wrong value is right with an operation in another form, if that can run."""
    read = {a.name for given in form.inputs.values() for a in given if isinstance(a, Value)}
    given = {name: case.site.given[name] for name in read & set(case.site.given)}
    return case.explains(form=form, given=given, most=SAME)


#: Operations between the reference's values whose other forms are tried, and orders of arguments.
_MOST_TRIED, _MOST_ORDERS = 6, 16


#: Begins the types of operations whose settings say which elements are kept or replaced, not their order.
_MOVING = ("pad", "slice", "crop")


def _check_written(case: Case) -> Diagnosis | None:
    """A state keeps its content, and the reference writes to it."""
    value = case.value
    if value.type != "read_state" or case.site.bounds or value.inputs:
        return None
    text = f"the state is read and not written, and the reference writes {shown(case.site.pair.theirs)} to it"
    return Diagnosis(cause="missing operation", value=value.name, text=text)


_CHECKS: tuple[Callable[[Case], Diagnosis | None], ...] = (
    _check_written,
    check_tie,
    check_wrapped,
    check_infinite_constant,
    check_epsilon,
    check_rounded_number,
    check_integers,
    check_undefined,
    check_strides,
    check_crossing,
    _check_arguments,
    _check_layout_of_arguments,
    _check_order_of_elements,
    check_wrong_argument,
    check_folded_norm,
    check_weights,
    check_folded_values,
    check_folded_weights,
    _check_missing,
    check_cast,
    _check_extra,
    _check_result,
    check_numbers,
    check_compressed,
    check_extra_operation,
    check_missing_operation,
    check_exchanged,
    _check_other_forms,
    _check_other_arguments,
    check_resized,
    check_solved_number,
    check_wrong_value,
    check_sizes,
    check_recomputed,
)
