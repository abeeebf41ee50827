"""Outputs over a picture: masks, depth and other maps, points of poses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coremlscope.model.ir import Array
from coremlscope.reports.preview.hints import Hints
from coremlscope.reports.preview.pictures import class_colors, color_map, color_mask, encode_picture, shrink
from coremlscope.results.preview import LegendRow, OutputView, SeenPoint

#: Smaller matrices are no maps of a picture.
_SMALLEST = 8
#: Classes of a mask that are listed.
_LISTED = 12
#: Words in names of outputs and models.
_MASK_WORDS = ("seg", "mask", "semantic")
_DEPTH_WORDS = ("depth", "disparity")
_POSE_WORDS = ("pose", "heatmap", "heat_map", "keypoint", "hourglass", "joint", "landmark")
#: The joints of PoseNet in order, and the pairs that are joined (source: the README of TensorFlow's PoseNet).
_JOINTS = (
    *("nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder"),
    *("left elbow", "right elbow", "left wrist", "right wrist", "left hip", "right hip"),
    *("left knee", "right knee", "left ankle", "right ankle"),
)
_LIMBS = (
    *((5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12), (11, 12)),
    *((11, 13), (13, 15), (12, 14), (14, 16)),
)
#: Points that are less sure are left out.
_LEAST_SCORE = 0.1


def view_planes(name: str, array: Array, hints: Hints, about: str) -> OutputView | None:
    """Shows an output that is a matrix or a stack of matrices over the picture; None if it is neither.

    Args:
        name: The name of the output.
        array: The output.
        hints: What the metadata says.
        about: The name and the description of the model, which may say what the output is.
    """
    planes = _planes(array)
    if planes is None:
        return None
    words = f"{name} {about}".lower()
    is_mask = hints.type == "imageSegmenter" or any(word in words for word in _MASK_WORDS)
    if len(planes) == 1:
        if array.dtype.kind in "iu" and (is_mask or len(np.unique(planes[0])) <= 256):
            return _mask(name, planes[0].astype(np.int64), hints, "the class of each pixel")
        return _map(name, planes[0], hints, words)
    if _are_shares(planes) or (is_mask and hints.type != "poseEstimation"):
        note = f"the largest of {len(planes)} numbers of each pixel"
        return _mask(name, planes.argmax(axis=0), hints, note)
    if hints.type == "poseEstimation" or any(word in words for word in _POSE_WORDS):
        return _points(name, planes)
    return _colors(name, planes) if len(planes) == len("RGB") else None


def _planes(array: Array) -> Array | None:
    """Returns `[planes, height, width]` of at most a few hundred planes; None for other shapes."""
    shape = array.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 3 and shape[-1] < min(shape[:2]):
        array = array.reshape(shape).transpose(2, 0, 1)
        shape = array.shape
    if len(shape) not in (2, 3) or min(shape[-2:]) < _SMALLEST or (len(shape) == 3 and shape[0] > 512):
        return None
    return array.reshape(-1, *shape[-2:])


def _are_shares(planes: Array) -> bool:
    """Returns True if the numbers of each pixel are probabilities of classes."""
    return planes.dtype.kind == "f" and bool(
        planes.min() >= -1e-3 and np.abs(planes.sum(axis=0) - 1).max() < 0.02
    )


def _mask(name: str, classes: Array, hints: Hints, note: str) -> OutputView:
    numbers, counts = np.unique(classes, return_counts=True)
    order = [int(i) for i in np.argsort(-counts)]
    given = (hints.parameters or {}).get("colors", ())
    colors = class_colors(int(numbers.max()) + 1 if numbers.max() < 4096 else 0, given)
    shown = {int(numbers[i]): colors[int(numbers[i])] for i in order if 0 <= numbers[i] < len(colors)}
    if not shown:
        return OutputView(
            name=name, kind="values", title="Classes of pixels", note="too many classes to draw"
        )
    clear = 0 if 0 in shown and len(shown) > 1 else None
    legend = tuple(
        LegendRow(hints.label(int(numbers[i])), shown[int(numbers[i])], float(counts[i] / classes.size))
        for i in order[:_LISTED]
        if int(numbers[i]) in shown
    )
    more = f"; {len(order) - len(legend)} classes are not listed" if len(order) > len(legend) else ""
    unnamed = "" if hints.labels else "; the file does not name the classes"
    hidden = "; class 0 is not drawn" if clear is not None else ""
    return OutputView(
        name=name,
        kind="mask",
        title="Segmentation",
        note=note + hidden + unnamed + more,
        picture=encode_picture(color_mask(classes, shown, clear)),
        legend=legend,
    )


def _map(name: str, values: Array, hints: Hints, words: str) -> OutputView:
    is_depth = hints.type == "depthEstimation" or any(word in words for word in _DEPTH_WORDS)
    finite = values[np.isfinite(values)]
    return OutputView(
        name=name,
        kind="map",
        title="Depth" if is_depth else "Map",
        note="dark is low, bright is high"
        + ("; whether high is near, the file does not say" if is_depth else ""),
        picture=encode_picture(color_map(values)),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
    )


def _colors(name: str, planes: Array) -> OutputView | None:
    """Shows three planes as the red, green and blue of a picture; None if they are not finite."""
    from PIL import Image

    low, high = float(planes.min()), float(planes.max())
    if not np.isfinite((low, high)).all():
        return None
    # A little more than the range is usual: pictures are made by networks that do not end in a sigmoid.
    start, end = next(
        (
            span
            for span in ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
            if low >= span[0] - 0.1 * (span[1] - span[0]) and high <= span[1] + 0.1 * (span[1] - span[0])
        ),
        (low, high),
    )
    shares = ((planes.astype(np.float64) - start) / ((end - start) or 1.0)).clip(0, 1)
    pixels = (shares.transpose(1, 2, 0) * 255).round().astype(np.uint8)
    return OutputView(
        name=name,
        kind="image",
        title="Picture",
        note=f"three planes read as red, green and blue from {start:.4g} to {end:.4g}, which the file does"
        " not say",
        picture=encode_picture(shrink(Image.fromarray(pixels))),
        low=low,
        high=high,
    )


def _points(name: str, planes: Array) -> OutputView:
    """Shows the highest place of each map."""
    height, width = planes.shape[-2:]
    highest = planes.reshape(len(planes), -1).argmax(axis=1)
    points = tuple(
        SeenPoint(
            str(number),
            float(planes[number - 1].flat[place]),
            float((place % width + 0.5) / width),
            float((place // width + 0.5) / height),
        )
        for number, place in enumerate(map(int, highest), 1)
    )
    sure = tuple(point for point in points if point.score >= _LEAST_SCORE)
    note = f"the highest place of each of {len(planes)} maps, by number: the file does not name them"
    if len(sure) < len(points):
        best = max(point.score for point in points)
        note += (
            f"; {len(points) - len(sure)} are below {_LEAST_SCORE:g} and left out, the highest is {best:.2g}"
        )
    return OutputView(name=name, kind="points", title="Pose", note=note, points=sure)


def _named(arrays: Mapping[str, Array], word: str, channels: int) -> str | None:
    """Returns the name of the first array with a word in its name and a number of channels."""
    return next((n for n, a in arrays.items() if len(a) == channels and word in n.lower()), None)


def find_posenet(
    arrays: Mapping[str, Array], hints: Hints, size: tuple[int, int]
) -> tuple[OutputView, frozenset[str]] | None:
    """Returns the pose of one person from the outputs of PoseNet; None for other models.

    A joint is where its heat map is highest, moved by the offsets there, in pixels.

    Args:
        arrays: The outputs that are arrays, by name.
        hints: What the metadata says.
        size: The width and height of the picture in pixels.
    """
    squeezed = {
        name: array.reshape(array.shape[-3:])
        for name, array in arrays.items()
        if array.ndim >= 3 and set(array.shape[:-3]) <= {1}
    }
    count = len(_JOINTS)
    heat, offsets = _named(squeezed, "heat", count), _named(squeezed, "offset", 2 * count)
    if heat is None or offsets is None or squeezed[heat].shape[1:] != squeezed[offsets].shape[1:]:
        return None
    maps: Any = squeezed[heat].astype(np.float64)
    moves: Any = squeezed[offsets].astype(np.float64)
    if maps.min() < 0 or maps.max() > 1:
        maps = 1 / (1 + np.exp(-maps))
    rows, columns = int(maps.shape[1]), int(maps.shape[2])
    width, height = size
    stride = float((hints.parameters or {}).get("output_stride") or max(1.0, (height - 1) / max(1, rows - 1)))
    points = []
    for joint, label in enumerate(_JOINTS):
        row, column = divmod(int(maps[joint].argmax()), columns)
        y = row * stride + moves[joint, row, column]
        x = column * stride + moves[joint + count, row, column]
        points.append(SeenPoint(label, float(maps[joint, row, column]), float(x / width), float(y / height)))
    view = OutputView(
        name=f"{heat}, {offsets}",
        kind="points",
        title="Pose",
        note="the joints of one person, read as the outputs of PoseNet",
        points=tuple(points),
        lines=_LIMBS,
    )
    return view, frozenset(
        name for name in arrays if name in (heat, offsets) or "displacement" in name.lower()
    )
