"""Weights and numbers that are not those of the reference, and those that rounding to fp16 has moved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.verification.causes.relation import find_relation
from coremlscope.verification.causes.rounding import SMALLEST_FP16
from coremlscope.verification.causes.site import Hypothesis, Site, in_float32, parameters_of
from coremlscope.verification.causes.substitution import is_prepared
from coremlscope.verification.distance import SAME, find_layout, relative_error
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import general_type

#: Layers into which a normalization is folded.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear"})
#: Weights of the reference that are tried in place of one, and choices of all of a layer together.
_MOST_FITTING, _MOST_COMBINED = 8, 16
#: A compressed weight has fewer values.
_FEW_VALUES = 256
#: Replaces infinities of masks: sums with it stay below the largest fp16 number.
_FINITE = 3e4


def propose_weights(site: Site) -> Iterator[Hypothesis[Site]]:
    """With the weights of the reference the result is right."""
    own = [array for value in site.reference_region() for array in parameters_of(value).values()] + [
        value.array
        for value in site.reference_region()
        if value.array.size > 1 and value.array.dtype.kind == "f" and _is_constant(site.theirs, value)
    ]
    for value in site.region:
        mine = parameters_of(value)
        for changes in _choices(mine, own):
            yield _wrong(site, value, mine, changes)
    folded = _folded(site)
    if folded is not None:
        mine = parameters_of(site.value)
        if any(relative_error(mine[name], one) > SAME for name, one in folded.items()):
            yield _wrong(site, site.value, mine, folded)


def _choices(mine: Mapping[str, Array], own: Sequence[Array]) -> Iterator[dict[str, Array]]:
    """Yields what weights could be instead: all of a layer together, then each by itself, then two for each
    other, then the same before they were rounded. A weight that the reference has stays."""
    fitting: dict[str, list[Array]] = {}
    rounded: dict[str, Array] = {}
    for name, array in mine.items():
        several = list(_fitting(array, own))
        right = [one for one, is_turned in several if not is_turned and relative_error(array, one) <= SAME]
        others = [one for one, _ in several if relative_error(array, one) > SAME]
        fitting[name] = [] if right else others[:_MOST_FITTING]
        if right and not np.array_equal(right[0], array):
            rounded[name] = right[0]
    together = [name for name, several in fitting.items() if several]
    if len(together) > 1:
        combined = itertools.product(*(fitting[name] for name in together))
        for chosen in itertools.islice(combined, _MOST_COMBINED):
            yield dict(zip(together, chosen, strict=True))
    for name in together:
        yield from ({name: one} for one in fitting[name])
    for first, second in itertools.combinations(mine, 2):
        if mine[first].size == mine[second].size and relative_error(mine[first], mine[second]) > SAME:
            yield {
                first: mine[second].reshape(mine[first].shape),
                second: mine[first].reshape(mine[second].shape),
            }
    yield from [rounded] * bool(rounded)


def _fitting(wrong: Array, own: Sequence[Array]) -> Iterator[tuple[Array, bool]]:
    """Yields the weights of the reference that have the size of one of the model, in its layout: as they are,
    then with the first two axes exchanged; and whether they are."""
    shape = [size for size in wrong.shape if size > 1]
    for is_turned in (False, True):
        for right in (one for one in own if one.size == wrong.size and (one.ndim > 1 or not is_turned)):
            moved = np.swapaxes(right, 0, 1) if is_turned else right
            if [size for size in moved.shape if size > 1] == shape:
                yield moved.reshape(wrong.shape), is_turned


def _wrong(
    site: Site, value: Intermediate, mine: Mapping[str, Array], changes: Mapping[str, Array]
) -> Hypothesis[Site]:
    """Returns what is wrong with weights."""
    name, right = max(changes.items(), key=lambda item: relative_error(mine[item[0]], item[1]))
    keyed = {(value.op, key): array for key, array in changes.items()}
    listed = " and ".join(map(shown, changes))
    found: Hypothesis[Site] = Hypothesis(
        value=value.name,
        text=f"its {shown(name)} ",
        predict=lambda one: (one.compute(changes=keyed), one.expected),
        describe=lambda: _difference(site, value, name, mine[name], right),
        advice=f"convert with the {listed} of the reference in {shown(value.name)}",
    )
    cause = _cause_of_rounding(mine[name], right)
    return found if cause is None else _rounded(site, value, found, cause)


def _cause_of_rounding(wrong: Array, right: Array) -> Cause | None:
    """Returns what fp16 has made of constants of the reference; None if it is not that."""
    with np.errstate(over="ignore"):
        half = right.astype(np.float16)
    if not np.isfinite(wrong).all() and np.isfinite(right).all():
        return "infinite constants"
    if right.size == 1 and 0 < abs(float(right.reshape(-1)[0])) < SMALLEST_FP16:
        return "epsilon"
    is_rounded = np.array_equal(half.reshape(-1), wrong.reshape(-1)) or relative_error(wrong, right) <= SAME
    return "cancellation" if is_rounded and right.size and half.any() else None


#: What rounding has done to a constant, and what follows.
_ROUNDINGS: Mapping[Cause, str] = {
    "infinite constants": "is infinite: numbers beyond 65504, the largest fp16 number, became so; 0 × ∞ and"
    " ∞ − ∞ are NaN",
    "epsilon": f"is not that of the reference: fp16 has no number between 0 and {SMALLEST_FP16:.2g}",
    "cancellation": "was rounded to fp16, by 2⁻¹¹, and nearly cancels with what it is computed with",
}


def _rounded(site: Site, value: Intermediate, found: Hypothesis[Site], cause: Cause) -> Hypothesis[Site]:
    """Returns that rounding a constant to fp16 is the cause. The layer before may have lost as much."""
    run = site.ours
    above = run.above(value.name, lambda name: bool(run.values[name].parameters))
    advice, code = in_float32(run, [run.values[name].op for name in above if run.values[name].op])
    if cause == "infinite constants":
        advice = f"use ±{_FINITE:.0f} instead of infinite constants"
        code = f"{-_FINITE:.0f} instead of torch.finfo(torch.float32).min or -inf in masks"
    return replace(
        found,
        describe=lambda: (cause, _ROUNDINGS[cause]),
        advice=advice,
        code=code,
        kind="precision",
    )


def _difference(site: Site, value: Intermediate, name: str, wrong: Array, right: Array) -> tuple[Cause, str]:
    """Returns in what a weight differs from the right one."""
    for other in site.theirs.values.values():
        for array in parameters_of(other, least=wrong.size).values():
            is_other = array.size == wrong.size and relative_error(array, right) > SAME
            if is_other and find_layout(wrong, array, SAME) is not None:
                return "swapped weights", f"is that of {shown(other.name)} of the reference"
    relation = find_relation(wrong, right)
    if relation is not None and relation.cause == "layout":
        return "layout", f"{relation.text} is that of the reference"
    if not wrong.any():
        return "weights", "is zero, and that of the reference is not"
    odd = np.abs(np.subtract(wrong, right)) > SAME * np.abs(right).max()
    what = f"is off by {relative_error(wrong, right):.2g}, in {int(odd.sum())} of {odd.size} elements"
    op = site.op(value)
    given = None if op is None else next(iter(op.inputs.get(name, ())), None)
    makers = {v.name: one.type for one in site.call.function.graph.ops for v in one.outputs}
    maker, count = makers.get(getattr(given, "name", ""), ""), np.unique(wrong).size
    if maker.startswith("constexpr_"):
        return "compressed weights", f"is compressed ({maker}), {what}"
    if count <= min(_FEW_VALUES, wrong.size // 16):
        return "compressed weights", f"has only {count} different values, {what}"
    is_scaling = value.type in _SUMS_AND_PRODUCTS and is_prepared(site, value.name)
    return "preprocessing" if is_scaling else "weights", what


def _folded(site: Site) -> dict[str, Array] | None:
    """Returns the weights of the reference with the normalization behind them folded in, if the model has
    none there."""
    theirs = site.theirs.values[site.pair.theirs]
    if general_type(theirs.type) == "batch_norm" and theirs.inputs:
        theirs = site.theirs.values[theirs.inputs[0]]
    readers = site.theirs.readers.get(theirs.name, ())
    norm = site.theirs.values[readers[0]] if len(readers) == 1 else None
    mine = parameters_of(site.value)
    if norm is None or general_type(norm.type) != "batch_norm" or not {"weight", "bias"} <= set(mine):
        return None
    weight = next((a for a in parameters_of(theirs).values() if a.size == mine["weight"].size), None)
    if weight is None or site.value.type not in _WEIGHTED or norm.array.shape != theirs.array.shape:
        return None
    x, y = (
        np.moveaxis(one.astype(np.float64), 1, 0).reshape(one.shape[1], -1)
        for one in (theirs.array, norm.array)
    )
    centred = x - x.mean(1, keepdims=True)
    spread = np.square(centred).sum(1)
    scale = (centred * (y - y.mean(1, keepdims=True))).sum(1) / np.where(spread == 0, 1, spread)
    if scale.size != mine["bias"].size or len(weight) != scale.size:
        return None
    bias = next((a for a in parameters_of(theirs).values() if a.size == scale.size), np.zeros(scale.size))
    shift = y.mean(1) - scale * x.mean(1)
    planes = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    return {
        "weight": (weight * planes).reshape(mine["weight"].shape),
        "bias": bias * scale + shift,
    }


def propose_constants(site: Site) -> Iterator[Hypothesis[Site]]:
    """With a single number of the reference the result is right: an epsilon, a slope, a bound."""
    numbers = sorted(
        {
            float(array.reshape(-1)[0])
            for value in site.reference_region()
            for parameter in value.parameters
            if parameter.size == 1 and (array := np.asarray(parameter.read())).dtype.kind in "fiu"
        }
    )
    for value in site.region:
        for name, array in parameters_of(value, least=1, kinds="fiu").items():
            if array.size != 1 or (array.dtype.kind != "f" and value.type not in _ARITHMETIC):
                continue
            mine = float(array.reshape(-1)[0])
            for number in sorted((n for n in numbers if n != mine), key=lambda n: abs(n - mine)):
                content = np.array(number, np.float32 if array.dtype.kind == "f" else np.int32)
                keyed: dict[tuple[str, str], Array] = {(value.op, name): content}
                text = f"its {shown(name)} is {mine:.6g}, and {number:.6g} in the reference"
                found = Hypothesis(
                    value=value.name,
                    text=text,
                    predict=lambda one, keyed=keyed: (one.compute(changes=keyed), one.expected),  # type: ignore[misc]
                    cause=_cause_of_number(site, value, name),
                    advice=f"set the {shown(name)} of {shown(value.name)} to {number:.6g}",
                )
                cause = _cause_of_rounding(array, np.array(number)) if array.dtype.kind == "f" else None
                if cause is not None:
                    found = _rounded(site, value, replace(found, text=f"{text}: it "), cause)
                yield found


def _cause_of_number(site: Site, value: Intermediate, name: str) -> Cause | None:
    """Returns the cause of another number than that of the row: a summand below a root is an epsilon."""
    readers = {site.ours.values[reader].type for reader in site.ours.readers.get(value.name, ())}
    if value.type == "add" and readers and readers <= _ROOTS:
        return "epsilon"
    return "weights" if name in ("bias", "weight") else _SUMS_AND_PRODUCTS.get(value.type)


#: Operations that an epsilon keeps from zero.
_ROOTS = frozenset({"inverse", "log", "pow", "rsqrt", "sqrt"})
#: Operations of which a number is a factor or a summand.
_SUMS_AND_PRODUCTS: Mapping[str, Cause] = {
    "add": "offset",
    "mul": "scale",
    "real_div": "scale",
    "sub": "offset",
}
#: Operations whose integers are numbers, and no settings.
_ARITHMETIC = frozenset({"add", "floor_div", "maximum", "minimum", "mod", "mul", "pow", "real_div", "sub"})


def _is_constant(run: Run, value: Intermediate) -> bool:
    """Returns whether an operation computes a value from no input."""
    above = [run.values[name] for name in run.above(value.name, lambda _: False) if name in run.values]
    return bool(value.op) and all(one.op for one in above)
