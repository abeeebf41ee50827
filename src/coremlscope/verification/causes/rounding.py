"""What rounding to fp16 does: overflow, lost numbers, ties, cancellation, sums.

All causes predict the same: the operation, in float32, of its rounded arguments, rounded. They differ in what
makes that far from the exact value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.verification.causes.integers import CHOOSING, KEEPING, scores_at
from coremlscope.verification.causes.site import Hypothesis, Row
from coremlscope.verification.distance import explains_all, find_unmasked
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.own_run import FunctionCall, run_from

#: The largest finite fp16 number (IEEE 754 binary16), the smallest positive one, and the smallest normal one.
LARGEST_FP16, SMALLEST_FP16, _NORMAL = 65504.0, 2.0**-24, 2.0**-14
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


class Rounded(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that rounding moves far from the exact one.

    Attributes:
        name: Its name.
        total: Its relative error.
        made: The relative error on exact arguments; None if it is unknown.
        inherited: The largest relative error of its arguments.
        is_gradual: True if no operation stands out, as errors grow slowly.
        call: The function and its inputs.
        exact: The run with float32 results.
        rounded: The run with rounded results.
    """

    name: str
    total: float
    made: float | None
    inherited: float
    is_gradual: bool = False
    call: FunctionCall
    exact: Run
    rounded: Run

    @property
    def value(self) -> Intermediate:
        """The value, exact."""
        return self.exact.values[self.name]

    @property
    def seen(self) -> Array:
        """The value, rounded."""
        return self.rounded.values[self.name].array

    def arguments(self) -> list[tuple[Intermediate, Array]]:
        """The arguments of the operation, exact and rounded."""
        return [(self.exact.values[n], self.rounded.values[n].array) for n in self.value.inputs]

    def predicted(self) -> Array:
        """Returns what the operation computes in float32 from its rounded arguments, rounded to fp16."""
        given = {argument.name: array for argument, array in self.arguments()}
        made = run_from(self.call, given, [self.name])[self.name]
        with np.errstate(over="ignore", invalid="ignore"):
            return made.astype(np.float16).astype(np.float32) if made.dtype.kind == "f" else made

    def tells(self, predicted: Array | None, observed: Array) -> bool:
        """Returns whether a prediction holds for each element."""
        return predicted is not None and explains_all(predicted, observed, _EACH)


#: The value of an operation at fault, and why.
_Told = tuple[str, str] | None


def _row(tell: Callable[[Rounded], _Told]) -> Callable[[Rounded], Iterator[Hypothesis[Rounded]]]:
    def propose(case: Rounded) -> Iterator[Hypothesis[Rounded]]:
        told = tell(case)
        if told is not None:
            yield Hypothesis(
                value=told[0],
                text=told[1],
                predict=lambda one: (one.predicted(), one.seen),
                kind="precision",
            )

    return propose


def _largest(array: Array) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def _overflow(case: Rounded) -> _Told:
    exact = case.value.array
    if exact.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore"):
        lost = np.isfinite(exact) & (np.abs(exact) >= LARGEST_FP16) & ~np.isfinite(case.seen)
    if not lost.any():
        return None
    return (
        case.name,
        f"its result reaches {_largest(exact):.4g}, and the largest fp16 number is {LARGEST_FP16:.0f}:"
        f" {int(lost.sum())} of {exact.size} elements become infinite",
    )


def _tie(case: Rounded) -> _Told:
    """Places of elements differ whose scores are equal in fp16."""
    chooser = case.value
    while chooser.type in KEEPING and chooser.inputs:
        chooser = case.exact.values[chooser.inputs[0]]
    if chooser.type not in CHOOSING or case.seen.dtype.kind not in "iu" or not chooser.inputs:
        return None
    found = scores_at(case.rounded.values[chooser.inputs[0]].array, case.seen, case.value.array)
    if found is None or not explains_all(found[1], found[0], 2.0**-11):
        return None
    count, rows, text = found[2:]
    return chooser.name, f"in {count} of {rows} places scores that differ in float32 are equal in fp16{text}"


def _above(case: Rounded, name: str, depth: int) -> Iterator[str]:
    """Yields the values that a value is computed from, the nearest first."""
    level, seen = [name], {name}
    for _ in range(depth):
        level = [g for n in level for g in case.exact.values[n].inputs if g in case.exact.values]
        level = [given for given in dict.fromkeys(level) if given not in seen]
        seen.update(level)
        yield from level


def _lost(case: Rounded, name: str) -> Array:
    exact, seen = case.exact.values[name].array, case.rounded.values[name].array
    lost: Array = np.logical_and(seen == 0, exact != 0) if exact.dtype.kind == "f" else np.zeros(0, bool)
    return lost


def _faint(case: Rounded, name: str) -> Array:
    exact = case.exact.values[name].array
    if exact.dtype.kind != "f":
        return np.zeros(0, bool)
    faint: Array = np.logical_and(np.abs(exact) < _NORMAL, exact != 0)
    return faint


def _epsilon(case: Rounded) -> _Told:
    """The constant that should keep an operation from zero is too small for fp16."""
    if np.isfinite(case.seen).all() or case.value.type not in _UNDEFINED | _NORMALISING:
        return None
    for name in (case.name, *_above(case, case.name, _FAR)):
        value = case.exact.values[name]
        for parameter in value.parameters:
            key = parameter.name.split(" ")[0]
            is_added = value.type in ("add", "maximum") and key in ("x", "y")
            if parameter.size != 1 or not (is_added or key == "epsilon"):
                continue
            number = float(np.asarray(parameter.read()).reshape(-1)[0])
            if 0 < number < SMALLEST_FP16:
                text = f"the number that keeps it from zero is {number:.3g}: fp16 has none between 0 and"
                return name, f"{text} {SMALLEST_FP16:.2g}"
    return None


def _underflow(case: Rounded) -> _Told:
    """Elements became zero, or kept few digits, as they are below the normal numbers of fp16."""
    exact = case.value.array
    for argument, _ in case.arguments() if case.value.type in _UNDEFINED else ():
        name = argument.name
        if not _faint(case, name).any():
            continue
        for above in _above(case, name, 2 * _FAR):
            if not _faint(case, above).any():
                break
            name = above
        faint, lost = _faint(case, name), _lost(case, name)
        smallest = float(np.abs(case.exact.values[name].array[faint]).min())
        return (
            name,
            f"{int(faint.sum())} elements, down to {smallest:.2g}, lie below the normal numbers of fp16:"
            f" {int(lost.sum())} become zero, and the others keep few digits, before {shown(case.value.type)}"
            f" {shown(case.name)}",
        )
    if exact.dtype.kind != "f" or not np.isfinite(exact).all() or _largest(exact) > 16 * _NORMAL:
        return None
    if not ((np.abs(exact) < _NORMAL) & (exact != 0)).any():
        return None
    return (
        case.name,
        f"its result reaches only {_largest(exact):.2g}: {int(_lost(case, case.name).sum())} of"
        f" {exact.size} elements become zero, and fp16 keeps less than 11 bits of numbers below"
        f" {_NORMAL:.2g}",
    )


def _integers(case: Rounded) -> _Told:
    """Large numbers whose fractions, or last digits, matter."""
    largest = max((_largest(argument.array) for argument, _ in case.arguments()), default=0.0)
    if case.value.type not in _DISCRETE or largest <= _LARGE:
        return None
    step = float(np.spacing(np.float16(min(largest, LARGEST_FP16))))
    text = f"its argument reaches {largest:.4g}, where neighbouring fp16 numbers are {step:.3g} apart"
    return case.name, text


def _cancellation(case: Rounded) -> _Told:
    """Large numbers that nearly cancel each other, or hide a small one."""
    value = case.value
    if value.type in _PRODUCTS and case.total > 8 * max(case.inherited, 2.0**-11):
        text = (
            "its products nearly cancel each other: the rounding of its arguments,"
            f" {case.inherited:.2g}, becomes {case.total:.2g}"
        )
        return case.name, text
    is_open = value.type in _UNDEFINED  # Where the smallest elements matter as well.
    for name in (case.name, *(_above(case, case.name, 1) if is_open else ())):
        value = case.exact.values[name]
        numbers = value.array
        if value.type not in ("add", "sub") or numbers.dtype.kind != "f" or not np.isfinite(numbers).all():
            continue
        seen = find_unmasked(numbers) if numbers.size else np.zeros(0, bool)
        given = [case.exact.values[one].array for one in value.inputs]
        sizes = [_largest(one[seen] if one.shape == seen.shape else one) for one in given]
        largest = max([*sizes, *(_largest(np.asarray(p.read())) for p in value.parameters if p.size)])
        squares = np.square(numbers[seen].astype(np.float64))
        typical = float(np.sqrt(squares.min(initial=np.inf) if is_open else squares.mean()))
        if largest >= 8 * typical:
            return (
                name,
                f"numbers of up to {largest:.3g} nearly cancel each other: {typical:.2g} remains, and their"
                f" rounding of {largest * 2.0**-11:.2g} with it",
            )
    return None


def _accumulation(case: Rounded) -> _Told:
    value = case.value
    if value.type in _SUMMING:
        count = max((a.array.size for a, _ in case.arguments()), default=0) // max(1, value.array.size)
        return case.name, f"it adds {max(count, 2)} numbers, whose roundings add up"
    if not case.is_gradual:
        return None
    return (
        case.name,
        "no single operation stands out: roundings add up over the network, and this operation adds the"
        f" most, from {case.inherited:.2g} to {case.total:.2g}",
    )


_TYPED = "https://apple.github.io/coremltools/docs-guides/source/typed-execution.html"
ROUNDING_ROWS: Final[tuple[Row[Rounded], ...]] = (
    Row(
        cause="overflow",
        looks_like="infinite or NaN on the GPU and the Neural Engine, finite on the CPU",
        propose=_row(_overflow),
        fix="scale before the product, or keep the operation in float32",
        source="https://github.com/apple/coremltools/issues/2110",
    ),
    Row(
        cause="tie",
        looks_like="an argmax or top-k returns other places in fp16",
        propose=_row(_tie),
        fix="keep the choice and its argument in float32",
        source=_TYPED,
    ),
    Row(
        cause="epsilon",
        looks_like="NaN or infinite where a norm or a variance is zero",
        propose=_row(_epsilon),
        fix="a larger epsilon, which fp16 represents",
        source=_TYPED,
    ),
    Row(
        cause="underflow",
        looks_like="small numbers become zero",
        propose=_row(_underflow),
        fix="scale up before, or keep the operation in float32",
        source=_TYPED,
    ),
    Row(
        cause="integers",
        looks_like="angles, positions or indices are off from some number on",
        propose=_row(_integers),
        fix="compute positions in float32 or as integers",
        source=_TYPED,
    ),
    Row(
        cause="cancellation",
        looks_like="few digits are left though no number is large or small",
        propose=_row(_cancellation),
        fix="keep the operation and its arguments in float32",
        source="https://github.com/apple/coremltools/issues/1617",
    ),
    Row(
        cause="accumulation",
        looks_like="the error grows from layer to layer, or with the length of a sum",
        propose=_row(_accumulation),
        fix="keep the sum, or the layers that add most, in float32",
        source="https://github.com/apple/coremltools/issues/2625",
    ),
)
