"""What rounding to fp16 does: overflow, lost numbers, ties, cancellation, sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.verification.causes.integers import CHOOSING, scores_at
from coremlscope.verification.distance import (
    explained_elements,
    explains_all,
    find_unmasked,
)
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.locate import PrecisionSite, producers
from coremlscope.verification.own_run import FunctionCall, run_from

__all__ = [
    "LARGEST_FP16",
    "ROUNDING_ROWS",
    "Rounded",
    "RoundingRow",
    "Told",
    "describe_inside",
    "judge_rounding",
]

#: The largest finite fp16 number (IEEE 754 binary16), the smallest one, and the smallest normal one.
LARGEST_FP16, _SMALLEST, _NORMAL = 65504.0, 2.0**-24, 2.0**-14
#: Operations whose results are 0 or 1 for large arguments, and how near to their ends fp16 keeps few digits.
_SATURATING, _NEAR = frozenset({"sigmoid", "sigmoid_hard", "softmax", "tanh"}), 2.0**-9
#: Operations that add many numbers, or two.
_SUMMING = frozenset({"cumsum", "reduce_mean", "reduce_sum", "reduce_sum_square"})
_PRODUCTS = frozenset({"conv", "linear", "matmul"})
#: Operations that read their argument modulo something, or as an integer; from here on its fractions matter.
_DISCRETE, _LARGE = (
    frozenset({"cast", "ceil", "cos", "floor", "floor_div", "mod", "round", "sin", "tan"}),
    256,
)
#: Operations that are undefined, or infinite, at zero, and those that have an epsilon.
_UNDEFINED = frozenset({"inverse", "log", "pow", "real_div", "rsqrt"})
_NORMALISING = frozenset({"batch_norm", "instance_norm", "l2_norm", "layer_norm", "local_response_norm"})
#: How far above an operation an epsilon, or a loss, may lie.
_FAR = 4
#: Rounding of arguments explains results that are as near as this, relative to the largest.
_EACH = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """A value that rounding moves far from the exact one.

    Attributes:
        site: The place.
        call: The function and its inputs.
        exact: The run with float32 results.
        rounded: The run with rounded results, or those of a compute unit.
    """

    site: PrecisionSite
    call: FunctionCall
    exact: Run
    rounded: Run

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

    def predicted(self) -> Array:
        """Returns what the operation computes in float32 from its rounded arguments, rounded to fp16."""
        given = {argument.name: array for argument, array in self.arguments()}
        made = run_from(self.call, given, [self.value.name])[self.value.name]
        with np.errstate(over="ignore", invalid="ignore"):
            return made.astype(np.float16).astype(np.float32) if made.dtype.kind == "f" else made


@dataclass(frozen=True, slots=True)
class Told:
    """What a row says: the value of the operation at fault, and why."""

    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundingRow:
    """One cause of a wrong value in fp16. All of them predict the same: the operation, in float32, of its
    rounded arguments, rounded. They differ in what makes that far from the exact value.

    Attributes:
        cause: Its id.
        looks_like: What it looks like.
        tell: Says why, or nothing.
        fix: What to do.
        source: Where it is described.
        accept: An example that it explains.
        reject: A similar one that it does not.
    """

    cause: Cause
    looks_like: str
    tell: Callable[[Rounded], Told | None]
    fix: str
    source: str
    accept: str
    reject: str


def judge_rounding(case: Rounded) -> tuple[Cause, Told, int]:
    """Finds the cause of a difference.

    Returns:
        The cause, what it says, and how many elements are as rounding predicts.
    """
    told = next(((row.cause, found) for row in ROUNDING_ROWS if (found := row.tell(case)) is not None), None)
    count = explained_elements(case.predicted(), case.seen, _EACH)
    if told is None or count < case.seen.size:
        size = f"{case.site.total:.2g}" if np.isfinite(case.site.total) else "an infinite number"
        text = (
            f"rounding moves its result by {size}, relative to its size, and no cause explains all elements"
        )
        return "unknown", Told(case.value.name, text), count
    return (*told, count)


def describe_inside(value: Intermediate, seen: Array) -> str:
    """Describes an overflow of what an operation computes on its way to a result that fp16 represents.

    Args:
        value: The exact result.
        seen: The result where the parts of the operation are rounded as well.
    """
    lost = (value.array != 0) & (seen == 0)
    return (
        "the Neural Engine computes it from exponentials, which overflow fp16 although its result reaches"
        f" only {_largest(value.array):.4g}: {int(lost.sum())} of {value.array.size} elements are lost"
        " (apple/coremltools issues 2687, 2690)"
    )


def _largest(array: Array) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def _overflow(case: Rounded) -> Told | None:
    exact = case.value.array
    if exact.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore"):
        lost = np.isfinite(exact) & (np.abs(exact) >= LARGEST_FP16) & ~np.isfinite(case.seen)
    if not lost.any():
        return None
    return Told(
        case.value.name,
        f"its result reaches {_largest(exact):.4g}, and the largest fp16 number is {LARGEST_FP16:.0f}:"
        f" {int(lost.sum())} of {exact.size} elements become infinite",
    )


def _tie(case: Rounded) -> Told | None:
    """Places of elements differ whose scores are equal in fp16."""
    chooser = case.value
    while chooser.type in ("cast", "squeeze", "reshape", "expand_dims") and chooser.inputs:
        chooser = case.exact.values[chooser.inputs[0]]
    if chooser.type not in CHOOSING or case.seen.dtype.kind not in "iu" or not chooser.inputs:
        return None
    scores = case.rounded.values[chooser.inputs[0]].array
    found = scores_at(scores, case.seen, case.value.array)
    if found is None or not explains_all(found[1], found[0], 2.0**-11):
        return None
    return Told(
        chooser.name,
        f"in {found[2]} of {found[3]} places scores that differ in float32 are equal in fp16{found[4]}",
    )


def _lost(case: Rounded, name: str) -> Array:
    exact, seen = case.exact.values[name].array, case.rounded.values[name].array
    lost: Array = np.logical_and(seen == 0, exact != 0) if exact.dtype.kind == "f" else np.zeros(0, bool)
    return lost


def _saturated(case: Rounded, name: str, depth: int) -> str | None:
    """Returns the operation near a value that saturates, so that fp16 keeps no digits of the rest."""
    for one in (name, *producers(case.exact, name, depth)):
        value, seen = case.exact.values[one], case.rounded.values[one].array
        small = (np.abs(value.array) < _NEAR) if value.type != "tanh" else np.zeros(value.array.shape, bool)
        is_near = (small | (np.abs(value.array) > 1 - _NEAR)) & (seen != value.array)
        if value.type in _SATURATING and is_near.any():
            return one
    return None


def _epsilon(case: Rounded) -> Told | None:
    """The constant that should keep an operation from zero is too small for fp16."""
    if np.isfinite(case.seen).all() or case.value.type not in _UNDEFINED | _NORMALISING:
        return None
    near = [case.value, *(case.exact.values[n] for n in producers(case.exact, case.value.name, _FAR))]
    for value in near:
        for parameter in value.parameters:
            name = parameter.name.split(" ")[0]
            is_added = value.type in ("add", "maximum") and name in ("x", "y")
            if parameter.size != 1 or not (is_added or name == "epsilon"):
                continue
            number = float(np.asarray(parameter.read()).reshape(-1)[0])
            if 0 <= number < _SMALLEST:
                return Told(
                    value.name,
                    f"the number that keeps it from zero is {number:.3g}: fp16 has none between 0 and"
                    f" {_SMALLEST:.2g}",
                )
    return None


def _saturation(case: Rounded) -> Told | None:
    """What is left near the end of an activation has few digits, and what follows needs them."""
    names = [argument.name for argument, _ in case.arguments()]
    is_open = case.value.type in _UNDEFINED or (case.value.type in ("add", "sub") and _cancels(case))
    for name in names if is_open else ():
        found = _saturated(case, name, _FAR)
        if found is not None:
            lost = int(_lost(case, name).sum())
            what = f"{lost} elements become exactly 0" if lost else "the rest has few digits"
            return Told(
                found,
                f"it saturates: near its end {what} in fp16, of which {shown(case.value.name)} is the"
                f" {shown(case.value.type)}",
            )
    return None


def _underflow(case: Rounded) -> Told | None:
    """Elements became zero, or kept few digits, as they are below the normal numbers of fp16."""
    exact = case.value.array
    for argument, _ in case.arguments() if case.value.type in _UNDEFINED else ():
        name = argument.name
        lost = _lost(case, name)
        if not lost.any():
            continue
        for above in producers(case.exact, name, 2 * _FAR):
            if not _lost(case, above).any():
                break
            name, lost = above, _lost(case, above)
        largest = float(np.abs(case.exact.values[name].array[lost]).max())
        return Told(
            name,
            f"{int(lost.sum())} elements of up to {largest:.2g} become zero, as the smallest fp16 number is"
            f" {_SMALLEST:.2g}; {shown(case.value.type)} {shown(case.value.name)} is undefined there",
        )
    if exact.dtype.kind != "f" or not np.isfinite(exact).all() or _largest(exact) > 16 * _NORMAL:
        return None
    small = (np.abs(exact) < _NORMAL) & (exact != 0)
    if not small.any():
        return None
    return Told(
        case.value.name,
        f"its result reaches only {_largest(exact):.2g}: {int(_lost(case, case.value.name).sum())} of"
        f" {exact.size} elements become zero, and fp16 keeps less than 11 bits of numbers below"
        f" {_NORMAL:.2g}",
    )


def _integers(case: Rounded) -> Told | None:
    """Large numbers whose fractions, or last digits, matter."""
    largest = max((_largest(argument.array) for argument, _ in case.arguments()), default=0.0)
    if case.value.type not in _DISCRETE or largest <= _LARGE:
        return None
    step = float(np.spacing(np.float16(min(largest, LARGEST_FP16))))
    text = f"its argument reaches {largest:.4g}, where neighbouring fp16 numbers are {step:.3g} apart"
    return Told(case.value.name, text)


def _sizes(case: Rounded) -> tuple[float, float]:
    """Returns the largest argument, and the typical size of the result."""
    value = case.value
    if value.array.dtype.kind != "f" or not value.array.size or not np.isfinite(value.array).all():
        return 0.0, 1.0
    seen = find_unmasked(value.array)
    sizes = [_largest(a.array[seen] if a.array.shape == seen.shape else a.array) for a, _ in case.arguments()]
    sizes += [_largest(np.asarray(p.read())) for p in value.parameters if p.size]
    return max(sizes, default=0.0), float(np.sqrt(np.mean(value.array[seen].astype(np.float64) ** 2)))


def _cancels(case: Rounded) -> bool:
    largest, typical = _sizes(case)
    return case.value.type in ("add", "sub") and largest >= 8 * typical


def _cancellation(case: Rounded) -> Told | None:
    """Large numbers that nearly cancel each other, or hide a small one."""
    if case.value.type in _PRODUCTS and case.site.total > 8 * max(case.site.inherited, 2.0**-11):
        text = (
            "its products nearly cancel each other: the rounding of its arguments,"
            f" {case.site.inherited:.2g}, becomes {case.site.total:.2g}"
        )
        return Told(case.value.name, text)
    if not _cancels(case):
        return None
    largest, typical = _sizes(case)
    return Told(
        case.value.name,
        f"numbers of up to {largest:.3g} nearly cancel each other: {typical:.2g} remains, and their rounding"
        f" of {largest * 2.0**-11:.2g} with it",
    )


def _accumulation(case: Rounded) -> Told | None:
    value = case.value
    if value.type in _SUMMING:
        count = max((a.array.size for a, _ in case.arguments()), default=0) // max(1, value.array.size)
        return Told(value.name, f"it adds {max(count, 2)} numbers, whose roundings add up")
    if not case.site.is_gradual:
        return None
    return Told(
        value.name,
        "no single operation stands out: roundings add up over the network, and this operation adds the"
        f" most, from {case.site.inherited:.2g} to {case.site.total:.2g}",
    )


_TYPED = "https://apple.github.io/coremltools/docs-guides/source/typed-execution.html"
ROUNDING_ROWS: Final[tuple[RoundingRow, ...]] = (
    RoundingRow(
        cause="overflow",
        looks_like="infinite or NaN on the GPU and the Neural Engine, finite on the CPU",
        tell=_overflow,
        fix="scale before the product, or keep the operation in float32",
        source="https://github.com/apple/coremltools/issues/2110",
        accept="squares of 400",
        reject="squares of 200",
    ),
    RoundingRow(
        cause="tie",
        looks_like="an argmax or top-k returns other places in fp16",
        tell=_tie,
        fix="keep the choice and its argument in float32",
        source=_TYPED,
        accept="scores 1 and 1.0001",
        reject="scores 1 and 1.01",
    ),
    RoundingRow(
        cause="saturation",
        looks_like="a logarithm or a difference of probabilities is off",
        tell=_saturation,
        fix="log_softmax or logsigmoid instead of a logarithm behind the activation, or float32",
        source=_TYPED,
        accept="1 − sigmoid(9)",
        reject="1 − sigmoid(1)",
    ),
    RoundingRow(
        cause="epsilon",
        looks_like="NaN or infinite where a norm or a variance is zero",
        tell=_epsilon,
        fix="a larger epsilon, which fp16 represents",
        source=_TYPED,
        accept="an epsilon of 1e-12",
        reject="an epsilon of 1e-5",
    ),
    RoundingRow(
        cause="underflow",
        looks_like="small numbers become zero",
        tell=_underflow,
        fix="scale up before, or keep the operation in float32",
        source=_TYPED,
        accept="squares of 1e-4",
        reject="squares of 0.1",
    ),
    RoundingRow(
        cause="integers",
        looks_like="angles, positions or indices are off from some number on",
        tell=_integers,
        fix="compute positions in float32 or as integers",
        source=_TYPED,
        accept="the sine of 4000.5",
        reject="the sine of 1.5",
    ),
    RoundingRow(
        cause="cancellation",
        looks_like="few digits are left though no number is large or small",
        tell=_cancellation,
        fix="keep the operation and its arguments in float32",
        source="https://github.com/apple/coremltools/issues/1617",
        accept="1000.3 − 1000",
        reject="2 − 1",
    ),
    RoundingRow(
        cause="accumulation",
        looks_like="the error grows from layer to layer, or with the length of a sum",
        tell=_accumulation,
        fix="keep the sum, or the layers that add most, in float32",
        source="https://github.com/apple/coremltools/issues/2625",
        accept="a cumulative sum of 4,096 numbers",
        reject="a sum of two",
    ),
)
