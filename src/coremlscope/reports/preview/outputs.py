"""How the outputs of a prediction are shown, by the model's type and the kinds of its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coremlscope.model.features import describe_feature
from coremlscope.model.features.images import is_image
from coremlscope.model.ir import Array, Feature
from coremlscope.reports.preview.boxes import find_boxes
from coremlscope.reports.preview.hints import Hints
from coremlscope.reports.preview.maps import find_posenet, view_planes
from coremlscope.reports.preview.pictures import color_map, encode_picture, shrink
from coremlscope.results.preview import OutputView, ScoredClass

_BEST, _FIRST, _CURVE = 10, 12, 512
#: Outputs with more numbers in a row than this are drawn as a curve.
_FEWEST = 8
#: Scores of so many classes with names are a classifier's.
_FEWEST_CLASSES = 2


def view_outputs(
    results: Mapping[str, Any],
    features: Mapping[str, Feature],
    hints: Hints,
    size: tuple[int, int],
    about: str = "",
) -> tuple[OutputView, ...]:
    """Chooses how each output is shown.

    Args:
        results: The outputs by name.
        features: Their features.
        hints: What the metadata says.
        size: The width and height of the picture in pixels; zeros if the model takes none.
        about: The name and the description of the model.
    """
    arrays = {name: np.asarray(v) for name, v in results.items() if isinstance(v, np.ndarray)}
    views: list[OutputView] = []
    taken: set[str] = set()
    if size[0]:
        if (pose := find_posenet(arrays, hints, size)) is not None:
            views.append(pose[0])
            taken |= pose[1]
        elif (boxes := find_boxes(arrays, hints, size)) is not None:
            views.append(boxes)
            taken |= {name for name in arrays if name in boxes.name.split(", ")}
    has_scores = any(isinstance(value, Mapping) for value in results.values())
    for name, value in results.items():
        if name in taken or (has_scores and isinstance(value, str)):  # the best class, which the scores tell
            continue
        views.append(_view(name, value, hints, size, about))
    return tuple(_with_type(view, features) for view in views)


def _with_type(view: OutputView, features: Mapping[str, Feature]) -> OutputView:
    names = view.name.split(", ") if view.name not in features else [view.name]
    types = ", ".join(
        dict.fromkeys(describe_feature(features[name].type) for name in names if name in features)
    )
    fields = {name: getattr(view, name) for name in OutputView.__struct_fields__}
    return OutputView(**{**fields, "type": types})


def _view(name: str, value: Any, hints: Hints, size: tuple[int, int], about: str) -> OutputView:
    if isinstance(value, np.ndarray):
        return _view_array(name, value, hints, size, about)
    if isinstance(value, Mapping):
        return _classes(name, {str(key): float(score) for key, score in value.items()})
    if is_image(value):
        is_depth = hints.type == "depthEstimation" or "depth" in name.lower()
        title = "Depth" if is_depth else "Picture"
        return OutputView(name=name, kind="image", title=title, picture=encode_picture(shrink(value)))
    if isinstance(value, list):
        return OutputView(name=name, kind="text", title="Text", text=", ".join(map(str, value[:100])))
    title = "Text" if isinstance(value, str) else "Number"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return OutputView(name=name, kind="text", title=title, text=text)


def _classes(name: str, scores: Mapping[str, float], note: str = "") -> OutputView:
    best = sorted(scores.items(), key=lambda item: -item[1])[:_BEST]
    return OutputView(
        name=name,
        kind="classes",
        title="Classes",
        note=note,
        classes=tuple(ScoredClass(label, score) for label, score in best),
        classes_in_all=len(scores),
        low=min(scores.values(), default=None),
        high=max(scores.values(), default=None),
    )


def _view_array(name: str, array: Array, hints: Hints, size: tuple[int, int], about: str) -> OutputView:
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return OutputView(name=name, kind="values", title="Numbers", text="no finite number")
    if size[0] and (view := view_planes(name, array, hints, about)) is not None:
        return view
    if array.size == len(hints.labels) >= _FEWEST_CLASSES:
        return _classes(name, dict(zip(hints.labels, numbers.reshape(-1).tolist(), strict=True)))
    low, high = float(finite.min()), float(finite.max())
    long = [d for d in array.shape if d != 1]
    odd = f"{array.size - finite.size} numbers are not finite" if finite.size < array.size else ""
    if len(long) == 2 and min(long) >= _FEWEST:
        picture = encode_picture(color_map(numbers.reshape(long)))
        note = "; ".join(
            filter(None, (f"{long[0]} rows, {long[1]} columns; dark is low, bright is high", odd))
        )
        return OutputView(
            name=name, kind="map", title="Numbers", note=note, picture=picture, low=low, high=high
        )
    if len(long) == 1 and long[0] >= _FEWEST and finite.size == array.size:
        return _row(name, numbers.reshape(-1), low, high)
    first = ", ".join(f"{value:.4g}" for value in numbers.reshape(-1)[:_FIRST].tolist())
    more = f", … ({array.size} in all)" if array.size > _FIRST else ""
    if array.size == 1:
        return OutputView(name=name, kind="values", title="Number", text=first)
    return OutputView(
        name=name, kind="values", title="Numbers", note=odd, low=low, high=high, text=first + more
    )


def _row(name: str, numbers: Array, low: float, high: float) -> OutputView:
    """Shows a row of numbers as a curve, with its largest number."""
    places = np.linspace(0, len(numbers) - 1, min(len(numbers), _CURVE)).round().astype(int)
    largest = int(numbers.argmax())
    note = f"{len(numbers)} numbers; the largest is number {largest} (from 0), {numbers[largest]:.4g}"
    if len(places) < len(numbers):
        note += f"; {len(places)} of them are drawn"
    curve = tuple(float(f"{value:.5g}") for value in numbers[places])
    return OutputView(name=name, kind="curve", title="Numbers", note=note, curve=curve, low=low, high=high)
