"""Weights that are not those of the reference, in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.units import shown
from coremlscope.verification.causes.numbers import SMALLEST_FP16
from coremlscope.verification.diagnosis import (
    FAR,
    MOST_WEIGHTS,
    Case,
    Diagnosis,
    describe_relation,
    large_parameters,
)
from coremlscope.verification.distance import (
    SAME,
    find_layout,
    find_relation,
    relative_error,
)
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.locate import producers
from coremlscope.verification.pairing import Pair, general_type, plain_name

__all__ = [
    "check_crossing",
    "check_folded_norm",
    "check_folded_values",
    "check_folded_weights",
    "check_weights",
    "exact_constants",
    "is_constant",
]

_Floats = npt.NDArray[np.float64]


def check_weights(case: Case) -> Diagnosis | None:
    """With the weights of the reference the result is right."""
    own = [p for value in case.reference_region() for p in value.parameters if 1 < p.size <= MOST_WEIGHTS]
    for value in case.region:
        mine = [p for p in value.parameters if 1 < p.size <= MOST_WEIGHTS and p.read().dtype.kind == "f"]
        arrays = {p.name.split(" ")[0]: p.read() for p in mine}
        for changes in _hypotheses(arrays, own):
            keyed = {(value.op, name): array for name, array in changes.items()}
            if case.explains(changes=keyed):
                return _wrong_weight(case, value, arrays, changes)
    return None


def check_folded_values(case: Case) -> Diagnosis | None:
    """A constant is not what the reference computes there without its inputs, for instance from positions."""
    others = [value for value in case.reference_region() if is_constant(case.theirs, value)]
    for value in case.region:
        for mine in value.parameters:
            wrong = mine.read() if mine.size <= MOST_WEIGHTS else np.zeros(0, np.bool_)
            for other in others if wrong.dtype.kind == "f" else ():
                if other.array.size != mine.size or np.array_equal(other.array.ravel(), wrong.ravel()):
                    continue
                name, right = mine.name.split(" ")[0], other.array.reshape(wrong.shape)
                if case.explains(changes={(value.op, name): right}):
                    text = (
                        f"with {shown(other.name)} of the reference, which depends on no input, as its"
                        f" {shown(name)} the result is right"
                    )
                    return Diagnosis(
                        cause="constant", value=value.name, text=text, changes={(value.name, name): right}
                    )
    return None


def is_constant(run: Run, value: Intermediate) -> bool:
    """Returns whether an operation computes a value from no input."""
    above = [run.values[name] for name in run.above(value.name, lambda _: False) if name in run.values]
    return bool(value.op) and all(one.op for one in above)


def check_folded_norm(case: Case) -> Diagnosis | None:
    """With the reference's weights, and the normalization behind them folded in, the result is right."""
    found = _norm_behind(case)
    if found is None or case.value.type not in _WEIGHTED:
        return None
    plain, norm = found
    mine = {p.name.split(" ")[0]: p for p in case.value.parameters}
    weight = next((p.read() for p in plain.parameters if p.name.endswith("weight")), None)
    if weight is None:  # It may be computed from constants, as by a quantization.
        inputs = [case.theirs.values[name] for name in plain.inputs if name in case.theirs.values]
        fitting = [one.array for one in inputs if is_constant(case.theirs, one) and one.array.ndim > 1]
        weight = fitting[0] if len(fitting) == 1 else None
    if weight is None or not {"weight", "bias"} <= set(mine) or mine["weight"].size != weight.size:
        return None
    scale, shift = _fit_channels(plain.array, norm.array)
    if len(scale) != len(weight) or mine["bias"].size != len(scale):
        return None
    bias = next((p.read() for p in plain.parameters if p.name.endswith("bias")), np.zeros(len(scale)))
    planes = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    right: dict[str, Array] = {
        "weight": weight.astype(np.float64) * planes,
        "bias": bias.astype(np.float64) * scale + shift,
    }
    shape = case.site.local.shape
    expected = norm.array.reshape(shape)
    site = replace(case.site, expected=expected, made=relative_error(case.site.local, expected))
    folded = replace(case, site=site)
    keyed = {(case.value.op, name): array for name, array in right.items()}
    if not folded.explains(changes=keyed):
        return None
    wrong = {name: mine[name].read() for name in right}
    changed = {
        name: array for name, array in right.items() if relative_error(wrong[name], array) > _FOLDED_SAME
    }
    return _wrong_weight(folded, case.value, wrong, changed or right, norm.name)


def _norm_behind(case: Case) -> tuple[Intermediate, Intermediate] | None:
    """Returns a value of the reference and the normalization that alone reads it, if the model has none."""
    theirs = case.theirs.values[case.site.pair.theirs]
    if general_type(theirs.type) == "batch_norm" and theirs.inputs:
        theirs = case.theirs.values[theirs.inputs[0]]
    readers = case.theirs.readers.get(theirs.name, ())
    norm = case.theirs.values[readers[0]] if len(readers) == 1 else None
    if norm is None or general_type(norm.type) != "batch_norm" or norm.array.size != case.value.array.size:
        return None
    ours = [case.ours.values[name].type for name in case.ours.readers.get(case.site.value, ())]
    return None if "batch_norm" in ours else (theirs, norm)


def _fit_channels(given: Array, result: Array) -> tuple[_Floats, _Floats]:
    """Returns the scale and the shift of each channel that make a result of a value."""
    x, y = (np.moveaxis(one.astype(np.float64), 1, 0).reshape(one.shape[1], -1) for one in (given, result))
    centred = x - x.mean(1, keepdims=True)
    spread = np.square(centred).sum(1)
    scale = (centred * (y - y.mean(1, keepdims=True))).sum(1) / np.where(spread == 0, 1, spread)
    return scale, y.mean(1) - scale * x.mean(1)


#: Layers into which a normalization is folded, and how far their weights in fp16 are off.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear"})


_FOLDED_SAME = 5e-3


def check_folded_weights(case: Case) -> Diagnosis | None:
    """A weight into which a normalisation was folded has the directions of another one of the reference."""
    own = [p for value in case.reference_region() for p in large_parameters(value)]
    for value in case.region:
        for parameter in large_parameters(value):
            array = parameter.read()
            if array.ndim < 2 or array.dtype.kind != "f" or any(_is_folded(array, p) for p in own):
                continue
            owner = next(
                (
                    (other, theirs)
                    for other in case.theirs.values.values()
                    for theirs in large_parameters(other)
                    if _is_folded(array, theirs)
                ),
                None,
            )
            if owner is not None:
                return _swapped_folded(case, value, parameter, own, owner)
    return None


def _is_folded(array: Array, parameter: Parameter) -> bool:
    """Returns whether a weight is another one with each channel multiplied by a number."""
    if parameter.size != array.size:
        return False
    other = parameter.read()
    if other.shape != array.shape:
        return False
    directions = []
    for weight in (array, other):
        rows = weight.astype(np.float64).reshape(len(weight), -1)
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(sizes == 0, 1, sizes)
        directions.append(rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])[:, None])
    return relative_error(*directions) <= SAME


def _swapped_folded(
    case: Case,
    value: Intermediate,
    parameter: Parameter,
    own: list[Parameter],
    owner: tuple[Intermediate, Parameter],
) -> Diagnosis:
    """Returns the diagnosis of two operations that read each other's weights, and the exchange as its fix."""
    name = parameter.name.split(" ")[0]
    text = (
        f"its {shown(name)} has the directions of {shown(owner[1].name)}, which"
        f" {shown(owner[0].name)} of the reference reads"
    )
    changes: dict[tuple[str, str], Array] = {}
    for other in case.ours.values.values():
        for mine in large_parameters(other) if other.name != value.name else ():
            if mine.size == parameter.size and any(
                _is_folded(mine.read(), p) for p in own if p.size == mine.size
            ):
                key = mine.name.split(" ")[0]
                changes = {(value.name, name): mine.read(), (other.name, key): parameter.read()}
    return Diagnosis(cause="swapped weights", value=value.name, text=text, changes=changes)


def _hypotheses(mine: dict[str, Array], own: list[Parameter]) -> Iterator[dict[str, Array]]:
    """Yields what weights could be instead: those of the reference, by their roles, then each by itself."""
    roles = {p.name.split(" ")[0]: p for p in own}
    same = {
        name: roles[name].read() for name in mine if name in roles and roles[name].size == mine[name].size
    }
    different = {
        n: a.reshape(mine[n].shape) for n, a in same.items() if not np.array_equal(a.ravel(), mine[n].ravel())
    }
    if different:
        yield different
    together = dict(_only_fitting(mine, own))
    if len(together) > 1 and together.keys() != different.keys():
        yield together
    for name, array in mine.items():
        for parameter in own:
            if parameter.size == array.size:
                yield from ({name: fitting} for fitting in _orders(parameter.read(), array))


def _only_fitting(mine: dict[str, Array], own: list[Parameter]) -> Iterator[tuple[str, Array]]:
    """Yields the only weight of the reference of each size, where it is another one."""
    for name, array in mine.items():
        fitting = [p for p in own if p.size == array.size]
        same = [other for other in mine.values() if other.size == array.size]
        if len(fitting) == len(same) == 1:
            for right in _orders(fitting[0].read(), array):
                yield name, right
                break


def _orders(right: Array, wrong: Array) -> Iterator[Array]:
    """Yields a weight in the orders of axes that have the shape of another one, unless both are equal."""
    orders = [tuple(range(right.ndim)), (1, 0, *range(2, right.ndim))] if right.ndim > 1 else [(0,)]
    seen = []
    for order in orders:
        moved = np.transpose(right, order)
        shapes = [tuple(d for d in a.shape if d > 1) for a in (moved, wrong)]
        if shapes[0] == shapes[1]:
            fitting = moved.reshape(wrong.shape)
            if relative_error(wrong, fitting) > SAME:
                seen.append(fitting)
    yield from seen


def _wrong_weight(
    case: Case, value: Intermediate, mine: dict[str, Array], changes: dict[str, Array], folded: str = ""
) -> Diagnosis:
    """Returns the diagnosis of weights; `folded` names a normalization that is folded into them."""
    name = next(iter(changes))
    wrong, right = mine[name], changes[name]
    keyed = {(value.name, key): array for key, array in changes.items()}
    other = _owner(case, wrong, right, folded)
    if other is not None:
        text = f"its {shown(name)} is {shown(other)}: another weight of the reference belongs here"
        return Diagnosis(cause="swapped weights", text=text, value=value.name, changes=keyed)
    relation = find_relation(wrong, right)
    if relation is None:
        text = (
            f"its {shown(name)} is not that of the reference: it is off by {relative_error(wrong, right):.2g}"
        )
        return Diagnosis(cause="weights", text=text, value=value.name, changes=keyed)
    text = f"its {shown(name)} is {describe_relation(relation, 'that of the reference')}"
    cause: Cause = "layout" if relation.kind in ("permuted", "reordered") else "weights"
    return Diagnosis(cause=cause, text=text, relation=relation, value=value.name, changes=keyed)


def _owner(case: Case, wrong: Array, right: Array, folded: str) -> str | None:
    """Returns the name of the weight of the reference that equals a wrong one, and not the right one.

    The shift of a normalization that is folded in without its statistics stays as it is.
    """
    if find_layout(wrong, right, SAME) is not None:
        return None
    for value in case.theirs.values.values():
        for parameter in value.parameters if value.name != folded else ():
            if parameter.size == wrong.size and find_layout(wrong, parameter.read(), SAME) is not None:
                return f"{parameter.name.rpartition(' ')[2]}, which {value.name} of the reference reads"
    return None


def check_crossing(case: Case) -> Diagnosis | None:
    """Values equal those of the reference crosswise: their operations read each other's weights."""
    pairs = {pair.ours: pair for pair in case.pairs}
    changes: dict[tuple[str, str], Array] = {}
    found: list[tuple[str, str]] = []
    for name in producers(case.ours, case.site.value, 2 * FAR):
        if name not in pairs:
            continue
        theirs = large_parameters(case.theirs.values[pairs[name].theirs])
        for mine in large_parameters(case.ours.values[name]):
            if mine.read().dtype.kind != "f":
                continue  # Bounds and orders of axes are settings.
            # Files do not keep the order of parameters.
            wanted, wrong = _named_like(case.theirs, mine), mine.read()
            other = next((parameter for parameter in theirs if _is_same(wrong, parameter)), None)
            if other is None:
                continue
            if wanted is None or wanted.name == other.name or wanted.size != mine.size:
                continue
            parameter, right = mine.name.split(" ")[0], _fit(np.asarray(wanted.read()), wrong, other)
            if not _is_same(wrong, other) or relative_error(right, wrong) <= SAME:
                continue
            changes[name, parameter] = right
            text = (
                f"its {shown(parameter)} is {shown(other.name)} of the reference; by its name it"
                f" is {shown(wanted.name)}"
            )
            found.append((name, text))
    if not found:
        return None
    order = list(case.ours.values)
    name, text = min(found, key=lambda item: order.index(item[0]))
    return Diagnosis(cause="swapped weights", value=name, text=text, changes=changes)


def _is_same(array: Array, parameter: Parameter) -> bool:
    return parameter.size == array.size and find_layout(array, parameter.read(), SAME) is not None


def _fit(right: Array, wrong: Array, other: Parameter) -> Array:
    """Returns a weight in the layout that another one of the reference has in the model."""
    axes = find_layout(other.read(), wrong, SAME) or ()
    return (np.transpose(right, axes) if axes else right).reshape(wrong.shape)


def _named_like(run: Run, parameter: Parameter) -> Parameter | None:
    """Returns the weight of a run whose name is that of a weight."""
    name = plain_name(parameter.name.rpartition(" ")[2])
    for value in run.values.values():
        for other in value.parameters:
            if other.size > 1 and plain_name(other.name.rpartition(" ")[2]) == name:
                return other
    return None


def exact_constants(ours: Run, theirs: Run, pairs: Sequence[Pair]) -> dict[tuple[str, str], Array]:
    """Returns the constants of the reference that rounding to fp16 has moved in a model.

    Args:
        ours: The run of the model.
        theirs: The run of the reference.
        pairs: The pairs of values of both.

    Returns:
        The elements in float32, in the shape of the model's constant, by the name of a value and that of the
        parameter of its operation.
    """
    mates = {pair.ours: theirs.values[pair.theirs] for pair in pairs}
    everywhere = [p for value in theirs.values.values() for p in value.parameters]
    computed = [value.array for value in theirs.values.values() if is_constant(theirs, value)]
    found: dict[tuple[str, str], Array] = {}
    for value in ours.values.values():
        near = mates.get(value.name)
        own = () if near is None else near.parameters
        for mine in value.parameters:
            rounded = mine.read() if mine.size <= MOST_WEIGHTS else np.zeros(0)
            if rounded.dtype.kind != "f" or not rounded.size:
                continue
            listed = [p.read() for p in own if p.size == mine.size]
            if mine.size > 1 or not listed:
                listed += [p.read() for p in everywhere if p.size == mine.size]
                listed += [array for array in computed if array.size == mine.size]
            right = next((array for array in listed if _rounds_to(array, rounded)), None)
            if right is not None:
                found[value.name, mine.name.split(" ")[0]] = right.reshape(rounded.shape).astype(np.float32)
    return found


def _rounds_to(wanted: Array, rounded: Array) -> bool:
    """Returns whether elements become others by rounding them to fp16, where none becomes zero."""
    if wanted.dtype.kind != "f":
        return False
    is_lost = (wanted != 0) & (np.abs(wanted) < SMALLEST_FP16)
    exact = np.where(is_lost, np.sign(wanted) * SMALLEST_FP16, wanted)
    a, b, c = exact.reshape(-1), rounded.reshape(-1), wanted.reshape(-1)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(a.astype(np.float16), b.astype(np.float16)) and not np.array_equal(c, b))
