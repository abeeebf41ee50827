"""Compares the boxes that a suppression keeps: their order is free where their scores tie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import Array
from coremlscope.results.verification import ComparedOutput
from coremlscope.verification.outputs import Tolerance, compare_output
from coremlscope.verification.pairing import plain_name

__all__ = ["Boxes", "boxes_of", "compare_boxes", "match_boxes"]

#: Numbers of a box.
_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes with their scores, a row each.

    Attributes:
        scores: The score of each class, `[boxes, classes]`, or the best one, `[boxes, 1]`; float64.
        coordinates: Four numbers each, `[boxes, 4]`, as the network gives them; float64.
    """

    scores: Array
    coordinates: Array

    @property
    def best(self) -> Array:
        """The best score of each box, `[boxes]`."""
        return np.asarray(self.scores.max(axis=1, initial=-np.inf))


def boxes_of(scores: Array, coordinates: Array) -> Boxes | None:
    """Returns boxes without those that only fill up a fixed number; None if the shapes are not of boxes.

    Args:
        scores: `[boxes, classes]` or `[boxes]`, or so with axes of one element.
        coordinates: `[boxes, 4]`, or so with axes of one element.
    """
    if coordinates.ndim == 0 or coordinates.shape[-1] != _NUMBERS:
        return None
    places = coordinates.astype(np.float64).reshape(-1, _NUMBERS)
    count = len(places)
    if scores.size == count:
        rows = scores.astype(np.float64).reshape(count, 1)
    elif scores.ndim > 1 and scores.size == count * scores.shape[-1]:
        rows = scores.astype(np.float64).reshape(count, scores.shape[-1])
    else:
        return None
    is_box = rows.any(axis=1) | places.any(axis=1)
    return Boxes(rows[is_box], places[is_box])


def match_boxes(ours: tuple[str, str], theirs: Mapping[str, Array]) -> tuple[str, str] | None:
    """Returns the outputs of a reference that hold scores and coordinates: by name, else by shape.

    Args:
        ours: The names of these outputs of the model.
        theirs: The outputs of the reference.

    Returns:
        Their names; None if the reference has none of such shapes.
    """
    plain = {plain_name(name): name for name in theirs}
    named = [name if name in theirs else plain.get(plain_name(name), "") for name in ours]
    fitting = (
        (scores, places)
        for places in theirs
        for scores in theirs
        if scores != places
        and theirs[scores].dtype.kind == "f"
        and boxes_of(theirs[scores], theirs[places]) is not None
    )
    return min(fitting, key=lambda pair: sum(a != b for a, b in zip(pair, named, strict=True)), default=None)


def compare_boxes(
    names: tuple[str, str],
    others: tuple[str, str],
    boxes: tuple[Boxes, Boxes],
    tolerance: Tolerance,
) -> list[ComparedOutput]:
    """Compares scores and coordinates in float32.

    Args:
        names: The outputs of the model that hold scores and coordinates.
        others: Those of the reference.
        boxes: The boxes of the model, and of the reference.
        tolerance: How far they may be off. Boxes whose scores differ by less may be in any order.
    """
    ours, theirs = boxes
    if 1 in (ours.scores.shape[1], theirs.scores.shape[1]):
        ours, theirs = (Boxes(one.best[:, None], one.coordinates) for one in boxes)
    places = _places(ours, theirs, tolerance)
    left = len(ours.scores) - len(places), len(theirs.scores) - len(places)
    own, other = ([pair[side] for pair in places] for side in (0, 1))
    found = [
        compare_output(name, its, "fp32", (mine[own], right[other]), "boxes", tolerance, is_half=False)
        for name, its, mine, right in (
            (names[0], others[0], ours.scores, theirs.scores),
            (names[1], others[1], ours.coordinates, theirs.coordinates),
        )
    ]
    if not any(left):
        return found
    why = (
        f"keeps {len(ours.scores)} boxes, and the reference {len(theirs.scores)}:"
        f" {left[0]} and {left[1]} have no counterpart"
    )
    return [replace(one, passed=False, why=why) for one in found]


def _places(ours: Boxes, theirs: Boxes, tolerance: Tolerance) -> list[tuple[int, int]]:
    """Returns which boxes are the same: of those whose best scores tie, the nearest in all numbers.

    As many boxes on both sides that tie with none are paired in their order: their scores are wrong.
    """
    if ours.scores.shape[1] != theirs.scores.shape[1]:
        return []
    size = np.abs(theirs.best[np.isfinite(theirs.best)]).max(initial=0.0)
    tie = tolerance.atol + tolerance.relative(is_half=False) * size
    mine, right = (np.hstack([one.scores, one.coordinates]) for one in (ours, theirs))
    free = np.ones(len(right), bool)
    pairs: list[tuple[int, int]] = []
    for place, row in enumerate(mine):
        near = np.flatnonzero(free & (np.abs(theirs.best - ours.best[place]) <= tie))
        if near.size:
            nearest = int(near[np.abs(right[near] - row).sum(axis=1).argmin()])
            free[nearest] = False
            pairs.append((place, nearest))
    rest = sorted(set(range(len(mine))) - {pair[0] for pair in pairs})
    if len(mine) == len(right):
        pairs += zip(rest, np.flatnonzero(free).tolist(), strict=True)
    return sorted(pairs)
