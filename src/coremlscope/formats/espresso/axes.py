"""Axes of blobs: their numbers in the files, and the layouts of blobs.

The compiler numbers the axes of a blob from the innermost: width 0, height 1, channels 2, batch 3, sequence
4. Attributes whose name begins with `nd_` count from the outermost axis of the exact shape instead, or from
the end if negative.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.formats.espresso.translation import Translation
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.rank_5 import fold


def axis_from_end(number: int, rank: int) -> int:
    """Converts the compiler's number of an axis to a negative index.

    Raises:
        CannotTranslate: The tensor has no such axis.
    """
    if not 0 <= number < rank:
        raise CannotTranslate(f"its axis {number} is out of range for a tensor of rank {rank}")
    return -1 - number


def nd_axis(number: int, rank: int) -> int:
    """Checks an index from the outermost axis, or a negative one from the end.

    Raises:
        CannotTranslate: The tensor has no such axis.
    """
    if not -rank <= number < rank:
        raise CannotTranslate(f"its axis {number} is out of range for a tensor of rank {rank}")
    return number


def keep(result: Blob, source: Blob) -> Blob:
    """Marks a result as folded like the source, whose shape it has; see `Blob.sequence`."""
    return replace(result, sequence=source.sequence)


def refold(b: Builder, result: Blob, source: Blob) -> Blob:
    """Folds a result with five dimensions if the source was folded."""
    return result if source.sequence is None else fold(b, result)


def reduced_axes(t: Translation) -> list[int] | None:
    """Returns the axes along which the output has one element and the input more, as negative indices.

    Returns:
        The axes; None if the shapes file does not list both blobs with the same rank, or other axes differ.
    """
    given, result = t.shapes.get(t.layer.inputs[0]), t.expected[0]
    if given is None or result is None or given.rank != result.rank:
        return None
    pairs = list(zip(given.sizes, result.sizes, strict=True))
    if any(old != new and new != 1 for old, new in pairs):
        return None
    return [index - len(pairs) for index, (old, new) in enumerate(pairs) if old != new]


def grown_axis(t: Translation, inputs: Sequence[str], output: str) -> int | None:
    """Returns the only axis along which the output is as long as all inputs together, as a negative index.

    Returns:
        The axis; None if the shapes file does not determine it.
    """
    shapes = [t.shapes.get(name) for name in (*inputs, output)]
    sizes = [shape.sizes for shape in shapes if shape is not None]
    ranks = {shape.rank for shape in shapes if shape is not None}
    if len(sizes) < len(shapes) or len(sizes) < 3 or len(ranks) > 1:
        return None
    *parts, whole = sizes
    count = len(whole)
    fitting = [
        axis
        for axis in range(count)
        if whole[axis] == sum(part[axis] for part in parts)
        and all(part[i] == whole[i] for part in parts for i in range(count) if i != axis)
    ]
    return fitting[0] - count if len(fitting) == 1 else None
