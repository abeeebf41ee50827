"""Weights and numbers that are not those of the reference, and those that rounding to fp16 has moved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.verification.causes.relation import find_relation
from coremlscope.verification.causes.rounding import SMALLEST_FP16
from coremlscope.verification.causes.site import Hypothesis, Site, parameters_of
from coremlscope.verification.causes.substitution import is_prepared
from coremlscope.verification.distance import SAME, find_layout, relative_error
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import Pair, general_type

#: Layers into which a normalization is folded.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear"})
#: Weights of the reference that are tried in place of one, and choices of all of a layer together.
_MOST_FITTING, _MOST_COMBINED = 8, 16
#: A compressed weight has fewer values.
_FEW_VALUES = 256
_Floats = npt.NDArray[np.float64]


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
    other. A weight that the reference has stays."""
    fitting: dict[str, list[Array]] = {}
    for name, array in mine.items():
        several = list(_fitting(array, own))
        is_right = any(relative_error(array, one) <= SAME for one, is_turned in several if not is_turned)
        others = [one for one, _ in several if relative_error(array, one) > SAME]
        fitting[name] = [] if is_right else others[:_MOST_FITTING]
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
    listed = " and ".join(shown(key) for key in changes)
    return Hypothesis(
        value=value.name,
        text=f"its {shown(name)} ",
        predict=lambda one: (one.compute(changes=keyed), one.expected),
        describe=lambda: _difference(site, value, name, mine[name], right),
        advice=f"convert with the {listed} of the reference in {shown(value.name)}",
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
                yield Hypothesis(
                    value=value.name,
                    text=f"its {shown(name)} is {mine:.6g}, and {number:.6g} in the reference",
                    predict=lambda one, keyed=keyed: (one.compute(changes=keyed), one.expected),  # type: ignore[misc]
                    cause=_cause_of_number(site, value, name),
                    advice=f"set the {shown(name)} of {shown(value.name)} to {number:.6g}",
                )


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


def exact_constants(ours: Run, theirs: Run, pairs: Sequence[Pair]) -> dict[tuple[str, str], Array]:
    """Returns the constants of the reference that rounding to fp16 has moved in a model.

    Args:
        ours: The run of the model.
        theirs: The run of the reference.
        pairs: The pairs of their values: a single number is that of the paired operation.

    Returns:
        The elements in float32, in the shape of the model's constant, by the name of a value and that of the
        parameter of its operation.
    """
    known = _by_rounded(theirs)
    mates = {pair.ours: theirs.values[pair.theirs] for pair in pairs}
    found: dict[tuple[str, str], Array] = {}
    for value in ours.values.values():
        near = parameters_of(mates[value.name], least=1).values() if value.name in mates else ()
        own = {key: array for array in near if array.size == 1 for key in _keys(array)}
        for name, rounded in parameters_of(value, least=1).items():
            numbers = own if rounded.size == 1 and own else known
            if rounded.size == 1 and not rounded.any() and not own:
                continue  # A zero is most often no number that was lost.
            right = numbers.get(_keys(rounded)[0]) if rounded.size else None
            if right is not None and not np.array_equal(right.reshape(-1), rounded.reshape(-1)):
                found[value.name, name] = right.reshape(rounded.shape).astype(np.float32)
    return found


def _by_rounded(run: Run) -> dict[tuple[int, bytes], Array]:
    """Returns the constants of a run by what they are in fp16."""
    known: dict[tuple[int, bytes], Array] = {}
    for value in run.values.values():
        arrays = list(parameters_of(value, least=1).values())
        if _is_constant(run, value) and value.array.dtype.kind == "f":
            arrays.append(value.array)
        for array in arrays:
            for key in _keys(array):
                known.setdefault(key, array)
    return known


def _keys(array: Array) -> list[tuple[int, bytes]]:
    """Returns the elements of a constant in fp16; second, with the smallest number in place of what is lost,
    as coremltools writes it."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = np.ascontiguousarray(array, np.float16) + np.float16(0)
        lost = (half == 0) & (np.asarray(array) != 0)
        kept = np.where(lost, np.float16(SMALLEST_FP16) * np.sign(array).astype(np.float16), half)
    return [(array.size, one.astype(np.float16).tobytes()) for one in (half, kept)]
