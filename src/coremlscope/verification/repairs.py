"""Changes of a function that compute a value as in the reference, or put its elements in another order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from coremlscope.ir import Array, Value
from coremlscope.units import shown
from coremlscope.verification.diagnosis import Case, Repair, describe_axes
from coremlscope.verification.distance import SAME, relative_error
from coremlscope.verification.edits import insert_after, reorder_elements, set_constant
from coremlscope.verification.grafts import Graft, find_graft
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.recognition.moved_elements import find_order

__all__ = ["find_reordering", "graft_instead", "graft_of", "grafts"]

#: Axes whose orders are tried, without running anything.
_MOST_AXES = 6


def grafts(case: Case, name: str, wanted: str, reader: str = "") -> Iterator[Repair]:
    """Yields the computation of a value as in the reference.

    Args:
        case: The difference.
        name: The value of the model.
        wanted: The value of the reference that it should be.
        reader: The id of the operation that reads it instead; empty for all.
    """
    graft = graft_of(case, name, wanted, reader)
    if graft is None:
        return
    if not reader:
        yield graft_instead(graft, name, wanted)
        return
    text = _computed_by(graft, name, wanted)
    yield Repair(text, partial(graft.ahead_of, readers=(reader,), name=name))
    order = [op.id for op in case.call.function.graph.ops]
    later = {case.ours.values[one].op for one in case.ours.readers.get(name, ())}
    several = {reader, *(op_id for op_id in later if order.index(op_id) > order.index(reader))}
    if len(several) > 1:
        yield Repair(f"{text}, for all that follows", partial(graft.ahead_of, readers=several, name=name))


def graft_instead(graft: Graft, name: str, wanted: str) -> Repair:
    return Repair(_computed_by(graft, name, wanted), partial(graft.instead_of, name=name))


def _computed_by(graft: Graft, name: str, wanted: str) -> str:
    types = ", ".join(dict.fromkeys(map(shown, reversed(graft.types))))
    return f"compute {shown(name)} as {shown(wanted)} of the reference, by {types}"


def graft_of(case: Case, name: str, wanted: str, reader: str = "") -> Graft | None:
    """Returns the operations of the reference that compute a value; for the arguments see `grafts`."""
    graph = case.call.function.graph
    known = {value.name: value for value in graph.inputs}
    for op in graph.ops:
        if op.id == reader or (not reader and any(value.name == name for value in op.outputs)):
            break
        known.update((value.name, value) for value in op.outputs)
    arrays = {key: case.ours.values[key].array for key in known if key in case.ours.values}
    return find_graft(case.theirs, wanted, case.pairs, {key: known[key] for key in arrays}, arrays)


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
