"""Why rounding to fp16 moves the result of an operation far from the exact one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from coremlscope.ir import Array, Op
from coremlscope.units import shown
from coremlscope.verification.causes.numbers import (
    CHOOSING,
    SMALLEST_FP16,
    UNDEFINED_AT_ZERO,
    describe_tie,
    find_epsilon,
)
from coremlscope.verification.diagnosis import FAR, Diagnosis
from coremlscope.verification.distance import find_unmasked
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.locate import PrecisionSite, lost_elements, producers

__all__ = [
    "LARGEST_FP16",
    "RoundedCase",
    "diagnose_constant",
    "diagnose_inside",
    "diagnose_precision",
    "diagnose_sum",
]

#: The largest finite fp16 number (IEEE 754 binary16).
LARGEST_FP16 = 65504.0
#: The largest integer up to which fp16 represents all of them.
_LARGEST_INTEGER = 2048.0
#: Operations whose result is 0 or 1 for large arguments.
_SATURATING = frozenset({"sigmoid", "sigmoid_hard", "softmax", "tanh"})
#: How near to their ends these operations are, where fp16 keeps three digits of the rest.
_SMALL = 2.0**-9
#: Operations that add many numbers.
_SUMMING = frozenset({"cumsum", "reduce_mean", "reduce_sum", "reduce_sum_square"})
#: Operations that add or subtract two.
_ADDING = frozenset({"add", "sub"})
#: An element that is off by this share of itself is far off: rounding to fp16 moves it by 5e-4.
_FAR_OFF = 0.05
#: Operations that read their argument modulo something, or as an integer.
_DISCRETE = frozenset({"cast", "ceil", "cos", "floor", "floor_div", "mod", "round", "sin", "tan"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedCase:
    """A value that rounding moves far from the exact one.

    Attributes:
        site: The place.
        exact: The run with float32 results.
        rounded: The run with rounded results, or those of a compute unit.
        made: The errors of rounding on exact arguments, by value.
        ops: The operations of the program by id.
    """

    site: PrecisionSite
    exact: Run
    rounded: Run
    made: Mapping[str, float]
    ops: Mapping[str, Op]

    @property
    def value(self) -> Intermediate:
        """The value, exact."""
        return self.exact.values[self.site.value]

    @property
    def seen(self) -> Array:
        """The value, rounded."""
        return self.rounded.values[self.site.value].array

    def arguments(self) -> list[tuple[Intermediate, Array]]:
        """The arguments of the operation, exact and rounded."""
        return [(self.exact.values[n], self.rounded.values[n].array) for n in self.value.inputs]


def diagnose_precision(case: RoundedCase) -> Diagnosis:
    """Finds the cause of a difference: the first check that explains it."""
    for check in _CHECKS:
        found = check(case)
        if found is not None:
            return found
    text = f"rounding moves its result by {case.site.total:.2g}, relative to its size"
    return Diagnosis(cause="unknown", value=case.value.name, text=text)


def diagnose_inside(value: Intermediate, seen: Array) -> Diagnosis:
    """Describes an overflow of what an operation computes on its way to a result that fp16 represents.

    Args:
        value: The exact result.
        seen: The result where the parts of the operation are rounded as well.
    """
    lost = (value.array != 0) & (seen == 0)
    text = (
        "the Neural Engine computes it from exponentials, which overflow fp16 although its result reaches"
        f" only {_largest(value.array):.4g}: {int(lost.sum())} of {value.array.size} elements are lost"
        " (apple/coremltools issues 2687, 2690)"
    )
    return Diagnosis(cause="overflow", value=value.name, text=text)


def diagnose_sum(value: Intermediate, error: float) -> Diagnosis:
    """Describes a sum of products that loses digits where it is accumulated in fp16.

    Args:
        value: The result.
        error: The relative error.
    """
    text = (
        "it adds many products, whose partial sums are larger than the result: a unit that accumulates in"
        f" fp16 moves it by {error:.2g}, which rounding the result alone does not (apple/coremltools issue"
        " 2625)"
    )
    return Diagnosis(cause="accumulation", value=value.name, text=text)


def diagnose_constant(case: RoundedCase, constants: Mapping[tuple[str, str], Array]) -> Diagnosis | None:
    """Finds a small constant near a value that became another one in fp16.

    Args:
        case: The place, and the runs.
        constants: The exact constants by value and parameter.
    """
    for name in (case.value.name, *producers(case.exact, case.value.name, FAR)):
        for parameter in case.exact.values[name].parameters:
            key = parameter.name.split(" ")[0]
            exact = constants.get((name, key))
            if exact is None or exact.size != 1 or not 0 < abs(float(exact.reshape(-1)[0])) < SMALLEST_FP16:
                continue
            was, seen = float(exact.reshape(-1)[0]), float(parameter.read().reshape(-1)[0])
            text = (
                f"its {shown(key)} is {was:.3g} in the reference and {seen:.3g} in the model: fp16 has no"
                f" number between 0 and {SMALLEST_FP16:.2g}"
            )
            return Diagnosis(cause="epsilon", value=name, text=text)
    return None


def _largest(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0))


def _check_overflow(case: RoundedCase) -> Diagnosis | None:
    exact = case.value.array
    if exact.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore"):
        lost = np.isfinite(exact) & (np.abs(exact) >= LARGEST_FP16) & ~np.isfinite(case.seen)
    if not lost.any():
        return None
    count = int(lost.sum())
    text = (
        f"its result reaches {_largest(exact):.4g}, and the largest fp16 number is {LARGEST_FP16:.0f}:"
        f" {count} of {exact.size} elements become infinite"
    )
    return Diagnosis(cause="overflow", value=case.value.name, text=text)


def _check_tie(case: RoundedCase) -> Diagnosis | None:
    value = case.value
    if value.type not in CHOOSING or value.array.dtype.kind not in "iu":
        return None
    scores, rounded = case.arguments()[0]
    found = describe_tie(value, scores, case.seen, value.array, rounded)
    if found is None:
        return Diagnosis(
            cause="tie",
            value=value.name,
            text="the elements that it chooses between differ by less than rounding to fp16 moves them",
        )
    return Diagnosis(cause="tie", value=found.value, text=f"rounded to fp16, {found.text}")


def _check_zero(case: RoundedCase) -> Diagnosis | None:
    """An argument became zero, and the operation is undefined there, or divides by it."""
    if case.value.type not in UNDEFINED_AT_ZERO:
        return None
    for argument, rounded in case.arguments():
        if argument.array.dtype.kind != "f":
            continue
        if lost_elements(argument.array, rounded).any():
            return _origin_of_zero(case, argument.name)
        found = _near_its_end(case, argument, rounded)
        if found is not None:
            return found
    if not np.isfinite(case.seen).all() and np.isfinite(case.value.array).all():
        return find_epsilon(case.exact, case.value, None, "")
    return None


def _near_its_end(case: RoundedCase, argument: Intermediate, rounded: Array) -> Diagnosis | None:
    """Returns a diagnosis if small elements of an argument are far off: something saturates before them."""
    exact = argument.array.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.abs(rounded.astype(np.float64) - exact) / np.abs(exact)
    worst = float(np.nan_to_num(off, posinf=0.0).max(initial=0.0))
    saturated = next(
        (n for n in (argument.name, *producers(case.exact, argument.name, 2)) if _saturates(case, n)), None
    )
    if worst < _FAR_OFF or saturated is None:
        return None
    text = (
        f"it saturates: near its end fp16 keeps so few digits that {shown(argument.name)} is off by up to"
        f" {worst:.0%}, of which {shown(case.value.name)} is the {shown(case.value.type)}"
    )
    return Diagnosis(cause="saturation", value=saturated, text=text)


def _origin_of_zero(case: RoundedCase, name: str) -> Diagnosis:
    """Follows a lost element up to the operation that loses it."""
    current = case.exact.values[name]
    for _ in range(2 * FAR):
        above = next(
            (
                given
                for given in current.inputs
                if lost_elements(case.exact.values[given].array, case.rounded.values[given].array).any()
            ),
            None,
        )
        if above is None:
            break
        current = case.exact.values[above]
    saturated = next(
        (n for n in (current.name, *producers(case.exact, current.name, 2)) if _saturates(case, n)), None
    )
    lost = lost_elements(current.array, case.rounded.values[current.name].array)
    count, largest = int(lost.sum()), float(np.abs(current.array[lost]).max())
    noun = "element" if count == 1 else "elements"
    if saturated is not None:
        value = case.exact.values[saturated]
        text = (
            f"it saturates: {count} {noun} of up to {largest:.2g} from 0 or 1 become exactly 0 or 1 in"
            " fp16, and"
            f" {shown(case.value.type)} {shown(case.site.value)} of that is infinite"
        )
        return Diagnosis(cause="saturation", value=value.name, text=text)
    text = (
        f"{count} {noun} of up to {largest:.2g} become zero, as the smallest fp16 number is"
        f" {SMALLEST_FP16:.2g};"
        f" {shown(case.value.type)} {shown(case.site.value)} is undefined there"
    )
    return Diagnosis(cause="underflow", value=current.name, text=text)


def _saturates(case: RoundedCase, name: str) -> bool:
    value = case.exact.values[name]
    if value.type not in _SATURATING:
        return False
    rounded = case.rounded.values[name].array
    near_zero = (np.abs(value.array) < _SMALL) & (rounded != value.array) if value.type != "tanh" else False
    near_one = np.abs(value.array) > 1 - _SMALL
    return bool((near_zero | (near_one & (rounded != value.array))).any())


def _check_underflow(case: RoundedCase) -> Diagnosis | None:
    """Elements became zero, or kept few digits, as they are below the normal numbers of fp16."""
    exact = case.value.array
    if exact.dtype.kind != "f" or not np.isfinite(exact).all():
        return None
    lost = lost_elements(exact, case.seen)
    smallest_normal = 2.0**-14
    small = (np.abs(exact) < smallest_normal) & (exact != 0)
    if lost.sum() + small.sum() == 0 or _largest(exact) > 16 * smallest_normal:
        return None
    text = (
        f"its result reaches only {_largest(exact):.2g}: {int(lost.sum())} of {exact.size} elements"
        " become zero, and"
        f" fp16 keeps less than 11 bits of numbers below {smallest_normal:.2g}"
    )
    return Diagnosis(cause="underflow", value=case.value.name, text=text)


def _check_integers(case: RoundedCase) -> Diagnosis | None:
    """Large numbers whose fractions, or last digits, matter."""
    if case.value.type not in _DISCRETE:
        return None
    for argument, _ in case.arguments():
        largest = _largest(argument.array) if argument.array.dtype.kind == "f" else 0.0
        if largest > _LARGEST_INTEGER / 8:
            text = (
                f"its argument reaches {largest:.4g}, where neighbouring fp16 numbers are"
                f" {float(np.spacing(np.float16(min(largest, LARGEST_FP16)))):.3g} apart"
            )
            return Diagnosis(cause="integers", value=case.value.name, text=text)
    return None


def _check_accumulation(case: RoundedCase) -> Diagnosis | None:
    value = case.value
    if value.type in _SUMMING:
        count = max((a.array.size for a, _ in case.arguments()), default=0) // max(1, value.array.size)
        text = f"it adds {count} numbers, whose roundings add up" if count > 1 else "it adds up many numbers"
        return Diagnosis(cause="accumulation", value=value.name, text=text)
    if case.site.is_gradual:
        text = (
            "no single operation stands out: roundings add up over the network, and this operation adds"
            " the most,"
            f" from {case.site.inherited:.2g} to {case.site.total:.2g}"
        )
        return Diagnosis(cause="accumulation", value=value.name, text=text)
    return None


def _check_cancellation(case: RoundedCase) -> Diagnosis | None:
    """Large numbers that nearly cancel each other, or hide a small one."""
    value = case.value
    if not value.array.size or not np.isfinite(value.array).all():
        return None
    seen = find_unmasked(value.array)
    sizes = [
        _largest(a.array[seen] if a.array.shape == seen.shape else a.array)
        for a, _ in case.arguments()
        if a.array.dtype.kind == "f"
    ]
    sizes += [_largest(p.read()) for p in value.parameters if p.size and p.read().dtype.kind == "f"]
    if value.type not in _ADDING or not sizes:
        return None
    typical = float(np.sqrt(np.mean(value.array[seen].astype(np.float64) ** 2)))
    if max(sizes) < 8 * typical:
        return None
    saturated = next((n for n in producers(case.exact, value.name, 1) if _saturates(case, n)), None)
    if saturated is not None:
        text = (
            f"it saturates: its result is so near to 0 or 1 that {shown(value.name)} keeps few"
            " digits of the rest"
        )
        return Diagnosis(cause="saturation", value=saturated, text=text)
    text = (
        f"numbers of up to {max(sizes):.3g} nearly cancel each other: {typical:.2g} remains, and their"
        " rounding of"
        f" {max(sizes) * 2.0**-11:.2g} with it"
    )
    return Diagnosis(cause="cancellation", value=value.name, text=text)


def _check_not_finite(case: RoundedCase) -> Diagnosis | None:
    if (
        case.value.array.dtype.kind != "f"
        or np.isfinite(case.seen).all()
        or not np.isfinite(case.value.array).all()
    ):
        return None
    return Diagnosis(
        cause="undefined",
        value=case.value.name,
        text="its rounded result is infinite or NaN, and the exact one is not",
    )


_CHECKS: tuple[Callable[[RoundedCase], Diagnosis | None], ...] = (
    _check_overflow,
    _check_tie,
    _check_zero,
    _check_underflow,
    _check_cancellation,
    _check_integers,
    _check_accumulation,
    _check_not_finite,
)
