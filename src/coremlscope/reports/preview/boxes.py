"""Boxes of detectors, from the layouts of outputs that training tools write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coremlscope.model.ir import Array
from coremlscope.reports.preview.hints import Hints
from coremlscope.results.preview import OutputView, SeenBox

#: Boxes below this score are left out; of boxes that overlap by more than this the best is kept.
_LEAST_SCORE, _MOST_OVERLAP = 0.25, 0.45
_MOST_BOXES, _MOST_CANDIDATES = 50, 2000
#: Names of outputs that hold scores, and of those that hold boxes.
_SCORES, _BOXES = ("confidence", "score", "prob"), ("coordinates", "box", "bbox")
#: The fewest candidates of a detector whose one output holds boxes and scores.
_FEWEST = 64


def find_boxes(arrays: Mapping[str, Array], hints: Hints, size: tuple[int, int]) -> OutputView | None:
    """Returns the boxes of a detector; None if the outputs are not those of one.

    Args:
        arrays: The outputs that are arrays, by name.
        hints: What the metadata says.
        size: The width and height of the picture in pixels.
    """
    scores_name = next((n for n in arrays if any(word in n.lower() for word in _SCORES)), None)
    boxes_name = next((n for n in arrays if any(word in n.lower() for word in _BOXES)), None)
    if scores_name is not None and boxes_name is not None:
        boxes = _matrix(arrays[boxes_name])
        scores = _matrix(arrays[scores_name])
        if boxes is None or scores is None or boxes.shape[1:] != (4,) or len(boxes) != len(scores):
            return None
        is_centred = "coordinates" in boxes_name.lower()
        return _view(f"{scores_name}, {boxes_name}", boxes, scores, hints, size, is_centred=is_centred)
    for name, array in arrays.items():
        if (found := _of_one(array, hints)) is not None:
            return _view(name, *found, hints, size, is_centred=True)
    return None


def _matrix(array: Array) -> Array | None:
    """Returns an array `[boxes, numbers]` without its axes of one element."""
    shape = [d for d in array.shape[:-1] if d != 1]
    return array.reshape(-1, array.shape[-1]) if len(shape) <= 1 and array.ndim else None


def _of_one(array: Array, hints: Hints) -> tuple[Array, Array] | None:
    """Splits `[1, 4 + classes, boxes]` of YOLO (version 8 and later), if the names of the classes say so."""
    classes = len(hints.labels)
    if not classes or array.ndim != 3 or array.shape[0] != 1:
        return None
    table = array[0].T if array.shape[1] == 4 + classes else array[0]
    if table.shape[1] != 4 + classes or len(table) < _FEWEST:
        return None
    return table[:, :4], table[:, 4:]


def _view(
    name: str, boxes: Array, scores: Array, hints: Hints, size: tuple[int, int], *, is_centred: bool
) -> OutputView:
    boxes, scores = np.asarray(boxes, np.float64), np.asarray(scores, np.float64)
    # A detector with a class for "nothing" has one more score than classes with names, the first one.
    if hints.labels and scores.shape[1] == len(hints.labels) + 1:
        scores = scores[:, 1:]
    best, classes = scores.max(axis=1, initial=0.0), scores.argmax(axis=1) if scores.shape[1] else None
    title = "Boxes"
    corners, how = _corners(boxes, size, is_centred=is_centred)
    if corners is None or classes is None:
        return OutputView(
            name=name,
            kind="values",
            title=title,
            note="the numbers are not boxes inside the picture: they seem to be offsets from anchors, which"
            " the file does not have",
            text=f"the best of {len(boxes)} scores is {best.max(initial=0.0):.3g}",
        )
    order = [int(i) for i in np.argsort(-best)[:_MOST_CANDIDATES] if best[i] >= _LEAST_SCORE]
    kept = _suppress(corners, classes, order)
    shown = tuple(
        SeenBox(
            label=hints.label(int(classes[i])),
            score=float(best[i]),
            left=float(corners[i, 0]),
            top=float(corners[i, 1]),
            width=float(corners[i, 2] - corners[i, 0]),
            height=float(corners[i, 3] - corners[i, 1]),
        )
        for i in kept[:_MOST_BOXES]
    )
    note = f"{how}; scores from {_LEAST_SCORE:g}, of boxes that overlap the best"
    if not shown:
        note = f"none of {len(boxes)} boxes has a score of {_LEAST_SCORE:g} or more; {how}"
    return OutputView(name=name, kind="boxes", title=title, note=note, boxes=shown)


def _corners(boxes: Any, size: tuple[int, int], *, is_centred: bool) -> tuple[Array | None, str]:
    """Returns left, top, right and bottom as shares of the picture, and how the numbers were read."""
    if not len(boxes) or not np.isfinite(boxes).all():
        return (boxes, "no boxes") if not len(boxes) else (None, "")
    unit = "shares of the picture"
    if np.quantile(np.abs(boxes), 0.9) > 2:
        boxes = np.divide(boxes, np.array([*size, *size]))
        unit = "pixels"
    if is_centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        corners = np.concatenate([middle - half, middle + half], axis=1)
        how = f"read as centre, width and height in {unit}"
    else:
        corners, how = boxes, f"read as corners in {unit}"
    is_inside = (corners[:, 2:] > corners[:, :2] - 1e-6).all(axis=1) & (np.abs(corners - 0.5) < 1.5).all(
        axis=1
    )
    return (corners if is_inside.mean() > 0.9 else None), how


def _suppress(corners: Array, classes: Array, order: list[int]) -> list[int]:
    """Returns the boxes that no better box of their class overlaps."""
    kept: list[int] = []
    for i in order:
        if not any(
            classes[j] == classes[i] and _overlap(corners[i], corners[j]) > _MOST_OVERLAP for j in kept
        ):
            kept.append(i)
        if len(kept) >= _MOST_BOXES:
            break
    return kept


def _overlap(a: Any, b: Any) -> float:
    """Returns the intersection over the union of two boxes."""
    inner = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    whole = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner
    return float(inner / whole) if whole > 0 else 0.0
