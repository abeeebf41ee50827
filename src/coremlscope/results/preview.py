"""Previews: the outputs of a model for one input, in displayable form."""

from __future__ import annotations

from typing import Literal

import msgspec

#: Name and version of the schema of a page of a prediction.
PREVIEW = "coremlscope.preview/1"
#: How an output is shown.
ViewKind = Literal["classes", "boxes", "mask", "map", "points", "image", "text", "curve", "values"]


class ScoredClass(msgspec.Struct, frozen=True):
    """A class with its score.

    Attributes:
        label: The name of the class, or its number.
        score: The score; a probability where all scores of the output are from 0 to 1.
    """

    label: str
    score: float


class SeenBox(msgspec.Struct, frozen=True, kw_only=True):
    """A box over the picture; all lengths are shares of its width or height.

    Attributes:
        label: The class.
        score: The score.
        left: The left edge.
        top: The upper edge.
        width: The width.
        height: The height.
    """

    label: str
    score: float
    left: float
    top: float
    width: float
    height: float


class SeenPoint(msgspec.Struct, frozen=True):
    """A point over the picture.

    Attributes:
        label: What it marks.
        score: The height of its map there.
        x: From the left edge, as a share of the width.
        y: From the upper edge, as a share of the height.
    """

    label: str
    score: float
    x: float
    y: float


class LegendRow(msgspec.Struct, frozen=True):
    """A class of a mask.

    Attributes:
        label: The name of the class, or its number.
        color: Its colour, `#rrggbb`.
        share: The share of the pixels, from 0 to 1.
    """

    label: str
    color: str
    share: float


class OutputView(msgspec.Struct, frozen=True, kw_only=True):
    """One output, or several that belong together, and how they are shown.

    Attributes:
        name: The names of the outputs.
        kind: How they are shown.
        title: What they are: `Classes`, `Boxes`, `Segmentation`, `Depth`, `Pose`, …
        type: Their types, as `inspect` writes them.
        note: How the numbers were read, and what is not known; empty if nothing is unusual.
        classes: The best classes, the best first.
        classes_in_all: The number of all classes.
        boxes: The boxes, the most confident first.
        points: The points.
        lines: Pairs of points that are joined.
        picture: A picture as the address of its data (PNG); empty if there is none. A mask and a map are as
            large as the output, and cover the picture of the input.
        legend: The classes of a mask, the largest first.
        curve: The numbers of a row, at most 512.
        low: The smallest number; None if it is not known.
        high: The largest number; None if it is not known.
        text: A text, or the first numbers.
    """

    name: str
    kind: ViewKind
    title: str
    type: str = ""
    note: str = ""
    classes: tuple[ScoredClass, ...] = ()
    classes_in_all: int = 0
    boxes: tuple[SeenBox, ...] = ()
    points: tuple[SeenPoint, ...] = ()
    lines: tuple[tuple[int, int], ...] = ()
    picture: str = ""
    legend: tuple[LegendRow, ...] = ()
    curve: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    text: str = ""


class GivenInput(msgspec.Struct, frozen=True):
    """An input of the prediction.

    Attributes:
        name: Its name.
        type: Its type, as `inspect` writes it.
        source: The file, `typed`, or `synthetic` for generated values.
        note: What was done with it: how it was resized or resampled.
    """

    name: str
    type: str
    source: str
    note: str = ""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction, as it is shown to a person.

    Attributes:
        inputs: What was given to the model.
        outputs: What it made of it.
        picture: The picture that the model got, as the address of its data (PNG); empty if it takes none.
        picture_size: Its width and height in pixels; zeros if there is none.
        measured_by: Who ran the model: `ONNX Runtime 1.31.1 on Apple M1`.
        predict_s: Seconds of the predictions, without loading; the last ones where there are several.
        load_s: Seconds to compile, load and predict for the first time.
    """

    inputs: tuple[GivenInput, ...]
    outputs: tuple[OutputView, ...]
    picture: str = ""
    picture_size: tuple[int, int] = (0, 0)
    measured_by: str = ""
    predict_s: tuple[float, ...] = ()
    load_s: float = 0.0
