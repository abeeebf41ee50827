"""Numbers that are wrong: ties, epsilons, bounds, casts, compressed weights, in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from coremlscope.ir import Array
from coremlscope.units import shown
from coremlscope.verification.diagnosis import (
    FAR,
    MOST_WEIGHTS,
    Case,
    Diagnosis,
)
from coremlscope.verification.distance import SAME
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.locate import producers

__all__ = [
    "CHOOSING",
    "SMALLEST_FP16",
    "UNDEFINED_AT_ZERO",
    "check_cast",
    "check_compressed",
    "check_epsilon",
    "check_infinite_constant",
    "check_integers",
    "check_numbers",
    "check_rounded_number",
    "check_tie",
    "check_undefined",
    "check_wrapped",
    "describe_tie",
    "find_epsilon",
    "scalars",
]

#: The smallest positive fp16 number, which is subnormal (IEEE 754 binary16: 2⁻²⁴).
SMALLEST_FP16 = 2.0**-24


#: Operations that are undefined, or infinite, at zero.
UNDEFINED_AT_ZERO = frozenset({"inverse", "log", "pow", "real_div", "rsqrt"})


#: Operations that divide by a norm or a deviation, to which `epsilon` is added.
_NORMALISING = frozenset({"batch_norm", "instance_norm", "l2_norm", "layer_norm", "local_response_norm"})


#: Operations that return the places of elements.
CHOOSING = frozenset({"argsort", "reduce_argmax", "reduce_argmin", "topk", "non_maximum_suppression"})


def check_tie(case: Case) -> Diagnosis | None:
    """Places of elements differ because the elements are equal."""
    value = case.value
    if value.type not in CHOOSING or value.array.dtype.kind not in "iu":
        return None
    scores = case.ours.values.get(value.inputs[0]) if value.inputs else None
    if scores is None:
        return None
    return describe_tie(value, scores, case.site.local, case.site.expected, scores.array)


def describe_tie(
    value: Intermediate, scores: Intermediate, ours: Array, theirs: Array, seen: Array
) -> Diagnosis | None:
    """Returns a diagnosis if the elements at both places are equal, in the model's scores."""
    rows = _rows(scores.array.shape, ours)
    if rows is None:
        return None
    table = np.moveaxis(seen, rows, -1).reshape(-1, seen.shape[rows])
    mine, other = ours.reshape(len(table), -1)[:, 0], theirs.reshape(len(table), -1)[:, 0]
    differ = np.flatnonzero(mine != other)
    if not differ.size or max(mine.max(), other.max()) >= table.shape[1] or min(mine.min(), other.min()) < 0:
        return None
    first, second = table[differ, mine[differ]], table[differ, other[differ]]
    if np.abs(first - second).max() > 1e-6 * max(1e-30, float(np.abs(table).max())):
        return None
    row = int(differ[0])
    text = (
        f"in {differ.size} of {len(table)} rows the elements at both places are equal: at"
        f" {int(mine[row])} and at"
        f" {int(other[row])} it is {float(first[0]):.6g}, so either place is right"
    )
    return Diagnosis(cause="tie", value=value.name, text=text)


def _rows(shape: tuple[int, ...], places: Array) -> int | None:
    """Returns the axis of scores along which places were chosen."""
    for axis in reversed(range(len(shape))):
        rest = math.prod(shape) // max(1, shape[axis])
        if rest and places.size % rest == 0 and places.size // rest <= shape[axis]:
            kept = tuple(size for place, size in enumerate(shape) if place != axis)
            if (
                tuple(s for s in places.shape if s != 1)[: len(kept)]
                == tuple(s for s in kept if s != 1)[: len(kept)]
            ):
                return axis
    return None


def check_wrapped(case: Case) -> Diagnosis | None:
    """Integers pass the largest int32 in the model, where the reference counts in int64."""
    others = [*case.reference_region(), case.theirs.values[case.site.pair.theirs]]
    wide = [
        o for o in others if o.array.dtype.kind in "iu" and np.abs(o.array).max(initial=0) > _LARGEST_INT32
    ]
    for value in reversed(case.region):
        for other in wide if value.array.dtype.kind in "iu" else ():
            if other.array.size != value.array.size:
                continue
            if np.array_equal(
                other.array.astype(np.int32).reshape(-1), value.array.astype(np.int32).reshape(-1)
            ):
                text = (
                    f"it reaches {int(np.abs(other.array).max())} in the reference, which counts in int64:"
                    f" Core ML has int32, whose largest number is {_LARGEST_INT32}, and the result is wrapped"
                )
                return Diagnosis(cause="overflow", value=value.name, text=text)
    return None


_LARGEST_INT32 = 2**31 - 1


def check_epsilon(case: Case) -> Diagnosis | None:
    """A number that keeps a division or a logarithm from zero is zero in fp16."""
    if math.isfinite(case.site.made):
        return None
    for value in (v for v in case.region if v.type in UNDEFINED_AT_ZERO | _NORMALISING):
        found = find_epsilon(case.ours, value, case.theirs, case.site.pair.theirs)
        if found is not None:
            return found
    return None


def find_epsilon(ours: Run, value: Intermediate, theirs: Run | None, other: str) -> Diagnosis | None:
    """Finds the constant that should keep an operation from zero, and is too small for fp16.

    Args:
        ours: The run of the model.
        value: The value that is infinite, or far off.
        theirs: The run of the reference; None if it has no intermediate values.
        other: The value of the reference that it should equal.
    """
    near = [value, *(ours.values[name] for name in producers(ours, value.name, FAR))]
    for types, names in ((_ADDING, ("x", "y")), (_EPSILONS, ("epsilon",))):
        for candidate in (v for v in near if v.type in types):
            for parameter in candidate.parameters:
                name = parameter.name.split(" ")[0]
                number = (
                    float(np.asarray(parameter.read()).reshape(-1)[0]) if parameter.size == 1 else math.inf
                )
                if name in names and 0 <= number < SMALLEST_FP16:
                    return _too_small(candidate, name, number, theirs, other)
    return None


#: Operations by which converters write an epsilon out.
_ADDING = frozenset({"add", "maximum"})


_EPSILONS = _NORMALISING | {"inverse", "log", "rsqrt"}


def _too_small(value: Intermediate, name: str, number: float, theirs: Run | None, other: str) -> Diagnosis:
    right = None
    if theirs is not None and other in theirs.values:
        above = [theirs.values[other], *(theirs.values[n] for n in producers(theirs, other, FAR))]
        numbers = [float(p.read().reshape(-1)[0]) for v in above for p in v.parameters if p.size == 1]
        right = next((n for n in numbers if 0 < n < 1e-3), None)
    was = "" if right is None else f", and {right:.3g} in the reference"
    what = "`epsilon`" if name == "epsilon" else "the number that keeps it from zero"
    text = f"{what} is {number:.3g}{was}: fp16 has no number between 0 and {SMALLEST_FP16:.2g}"
    array = None if right is None else np.array(right, np.float32)
    is_rounding = right is not None and right < SMALLEST_FP16
    return Diagnosis(
        cause="epsilon", value=value.name, text=text, parameter=name, right=array, is_rounding=is_rounding
    )


def check_cast(case: Case) -> Diagnosis | None:
    """A cast to integers loses fractions that the reference keeps."""
    for value in [*case.region, *_bounds(case)]:
        if value.type != "cast" or value.array.dtype.kind not in "iu" or not value.inputs:
            continue
        if any(pair.ours == value.name and pair.error <= SAME for pair in case.site.bounds):
            continue  # The reference has these integers too.
        before = case.ours.values[value.inputs[0]].array
        if before.dtype.kind == "f" and not np.array_equal(np.trunc(before), before):
            text = "it casts to integers, and fractions are lost that the reference keeps"
            return Diagnosis(cause="cast", value=value.name, text=text, target=value.inputs[0])
    return None


def _bounds(case: Case) -> Iterator[Intermediate]:
    for pair in case.site.bounds:
        yield case.ours.values[pair.ours]


def check_numbers(case: Case) -> Diagnosis | None:
    """With a single number of the reference, or without an epsilon, the result is right."""
    theirs = [p.read() for value in case.reference_region() for p in value.parameters if p.size == 1]
    numbers = {float(array.reshape(-1)[0]) for array in theirs if array.dtype.kind == "f"}
    for value in case.region:
        for name, mine in scalars(value):
            is_added = name == "epsilon" or value.type in _ADDING
            for number in sorted(numbers - {mine}, key=lambda n: abs(n - mine)) + [0.0] * is_added:
                right = np.array(number, np.float32)
                if number == mine or not case.explains(changes={(value.op, name): right}):
                    continue
                if number == 0:
                    text = (
                        f"its {shown(name)} of {mine:.6g} is too large for its argument: without"
                        " it the result is right"
                    )
                    changes = {(value.name, name): right}
                    return Diagnosis(cause="epsilon", value=value.name, text=text, changes=changes)
                text = f"its {shown(name)} is {mine:.6g}, and {number:.6g} in the reference"
                return Diagnosis(
                    cause="constant", value=value.name, text=text, changes={(value.name, name): right}
                )
    return None


def check_integers(case: Case) -> Diagnosis | None:
    """With an integer of the reference in all operations that read another one, the result is right.

    Converters write a remainder as a quotient, a product and a difference, with the divisor in each.
    """
    theirs = [p.read() for value in case.reference_region() for p in value.parameters if p.size == 1]
    found = [float(array.reshape(-1)[0]) for array in theirs if array.dtype.kind in "iuf"]
    numbers = {int(number) for number in found if number.is_integer()}
    read: dict[int, list[tuple[Intermediate, str]]] = {}
    for value in case.region:
        for parameter in value.parameters if value.type in _INTEGER_ARITHMETIC else ():
            array = np.asarray(parameter.read())
            if array.size == 1 and array.dtype.kind in "iu":
                mine = int(array.reshape(-1)[0])
                read.setdefault(mine, []).append((value, parameter.name.split(" ")[0]))
    for mine, places in read.items():
        for number in sorted(numbers - {mine}):
            right = np.array(number, np.int32)
            if not case.explains(changes={(value.op, name): right for value, name in places}):
                continue
            value, name = places[-1]
            return Diagnosis(
                cause="constant",
                value=value.name,
                text=f"its {shown(name)} is {mine}, and {number} in the reference",
                changes={(one.name, key): right for one, key in places},
            )
    return None


#: Operations whose integers are numbers, and no settings.
_INTEGER_ARITHMETIC = frozenset(
    {"add", "floor_div", "maximum", "minimum", "mod", "mul", "pow", "real_div", "sub"}
)


def scalars(value: Intermediate) -> Iterator[tuple[str, float]]:
    """Yields the single numbers that an operation reads, by parameter."""
    for parameter in value.parameters:
        array = np.asarray(parameter.read())
        if array.size == 1 and array.dtype.kind == "f":
            yield parameter.name.split(" ")[0], float(array.reshape(-1)[0])


def check_infinite_constant(case: Case) -> Diagnosis | None:
    """A constant is infinite: it was beyond the largest fp16 number.

    A bound of `clip` may be, and what is infinite in the reference is meant so.
    """
    above = [*case.reference_region(), *_values(case.theirs, case.site.pair.theirs)]
    if any(_has_infinities(other.read()) for one in above for other in one.parameters if _is_small(other)):
        return None
    for value in [*case.region, *(case.ours.values[n] for n in producers(case.ours, case.site.value, FAR))]:
        for parameter in value.parameters if value.type != "clip" else ():
            array = np.asarray(parameter.read()) if _is_small(parameter) else np.zeros(1)
            if not _has_infinities(array):
                continue
            name = parameter.name.split(" ")[0]
            text = f"its {shown(name)} is infinite: what it was is beyond the largest fp16 number, 65504"
            right = np.where(np.isinf(array), np.sign(array) * _FINITE, array).astype(np.float32)
            return Diagnosis(
                cause="overflow", value=value.name, text=text, changes={(value.name, name): right}
            )
    return None


def _values(run: Run, name: str) -> Iterator[Intermediate]:
    """Yields the values near another one that it is computed from."""
    if name in run.values:
        yield from (run.values[one] for one in producers(run, name, FAR))


def _is_small(parameter: Parameter) -> bool:
    return parameter.size <= MOST_WEIGHTS


def _has_infinities(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isinf(array).any())


#: Replaces infinities of masks: sums with it stay below the largest fp16 number.
_FINITE = 3e4


def check_rounded_number(case: Case) -> Diagnosis | None:
    """A number too small for fp16 became its smallest one: with the exact number the result is right."""
    theirs = [p.read() for value in case.reference_region() for p in value.parameters if p.size == 1]
    numbers = {float(array.reshape(-1)[0]) for array in theirs if array.dtype.kind == "f"}
    for value in case.region:
        for name, mine in scalars(value):
            if mine != SMALLEST_FP16:
                continue
            for number in sorted(n for n in numbers | {0.0} if 0 <= n < SMALLEST_FP16)[::-1]:
                right = np.array(number, np.float32)
                if not case.explains(changes={(value.op, name): right}):
                    continue
                was = f"{number:.3g} in the reference" if number else "smaller in the reference"
                text = (
                    f"its {shown(name)} is {mine:.3g}, and {was}: fp16 has no number between 0 and"
                    f" {SMALLEST_FP16:.2g}"
                )
                return Diagnosis(
                    cause="epsilon",
                    value=value.name,
                    text=text,
                    parameter=name,
                    right=right,
                    is_rounding=True,
                )
    return None


def check_compressed(case: Case) -> Diagnosis | None:
    """A weight is compressed, and the error smaller than the result: compression keeps the larger part."""
    if case.site.made >= 1:
        return None
    for value in case.region:
        op = case.ops.get(value.op)
        for given in () if op is None else op.inputs.values():
            for argument in given:
                maker = case.ops.get(_MAKER + getattr(argument, "name", ""))
                if maker is not None and maker.type.startswith("constexpr_"):
                    text = (
                        f"its weights are compressed ({maker.type}), which moves its result by"
                        f" {case.site.made:.2g}"
                    )
                    return Diagnosis(cause="compressed weights", value=value.name, text=text)
    return None


#: Begins the key of the operation that computes a value, in `Case.ops`.
_MAKER = "maker of "


def check_undefined(case: Case) -> Diagnosis | None:
    """A division by zero, a logarithm of zero, that the reference does not compute."""
    if math.isfinite(case.site.made):
        return None
    for value in case.region:
        if value.type in UNDEFINED_AT_ZERO:
            return Diagnosis(
                cause="undefined",
                value=value.name,
                text="an argument is zero, and its result is infinite or NaN, which that of the"
                " reference is not",
            )
    return None
