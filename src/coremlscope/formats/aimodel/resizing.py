"""Resizing of images, to sizes that are known or are computed while a program runs.

An element of the result at `i` is taken from `(i + 0.5 - offset) / scale - 0.5`, or from the nearest whole
number, the even one of two. (Source: the scales and offsets that coreai-torch 0.4.3 writes, and the results
of the interpreter of coreai-core 1.0.0b3.)
"""

from __future__ import annotations

import numpy as np

from coremlscope.formats.aimodel.formulas import Formula, Formulas, combine
from coremlscope.formats.aimodel.translation import Operand, Translation, dims_of, known
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.model.ir import Constant, DType

#: Forms of resizing by the number of the attribute `interpolation_mode`.
_LINEAR, _NEAREST = 0, 1
#: How the relation of coordinates may differ from the exact one, which is stored as float32.
_TOLERANCE = 1e-4
#: Core ML's modes: the corners of images are aligned, or the centers of their outermost elements.
_CORNERS, _CENTERS = "UNALIGN_CORNERS", "STRICT_ALIGN_CORNERS"
_HEIGHT, _WIDTH = 2, 3


def resize(t: Translation, formulas: Formulas) -> Operand:
    """Resizes the last two axes of images.

    Args:
        t: The operation: the images, their new shape, and the scale and offset of each axis.
        formulas: Those of the sizes that are computed while the program runs.

    Raises:
        CannotTranslate: Core ML cannot resize in this way.
    """
    if len(t.inputs) != 4 or len(dims_of(t.x)) != 4:
        raise CannotTranslate("it does not resize images by 4 arguments")
    mode = t.choice("interpolation_mode")
    if mode not in (_LINEAR, _NEAREST):
        raise CannotTranslate(f"form {mode} of resizing is not known")
    if None not in dims_of(t.x) and all(known(t.tensor(index)) is not None for index in (1, 2, 3)):
        return _resize_known(t, mode)
    x, size, scale, offset = t.op.operands
    lead = [(formulas.element(size, axis), formulas.size(x, axis)) for axis in range(_HEIGHT)]
    if any(new != old for new, old in lead):
        raise CannotTranslate(_OTHER_AXES)
    axes = [
        _Axis(formulas.size(x, axis), *(formulas.element(one, axis) for one in (size, scale, offset)))
        for axis in (_HEIGHT, _WIDTH)
    ]
    factors = [axis.factor for axis in axes]
    if mode == _NEAREST:
        if None not in factors:
            return _upsample(t, *(factor or 1.0 for factor in factors))
        return _pick(t, _pick(t, t.x, _HEIGHT), _WIDTH)
    for sampling, holds in ((_CORNERS, _Axis.aligns_corners), (_CENTERS, _Axis.aligns_centers)):
        if all(map(holds, axes)):
            return _resize(t, _sizes(t), "LINEAR", sampling)
    raise CannotTranslate(_OTHER_COORDINATES)


_OTHER_AXES = "it resizes other axes than the last two of images"
_OTHER_COORDINATES = "Core ML has no resizing with these coordinates"


def _resize_known(t: Translation, mode: int) -> Operand:
    """Resizes where all sizes are known."""
    before, size = [dim or 0 for dim in dims_of(t.x)], t.integers(1)
    if len(size) != 4 or size[:_HEIGHT] != before[:_HEIGHT]:
        raise CannotTranslate(_OTHER_AXES)
    scale, offset = (t.array(index).reshape(-1).astype(np.float32) for index in (2, 3))
    half = np.float32(0.5)
    if min(size) < 1 or not scale.all():
        raise CannotTranslate(_OTHER_COORDINATES)
    points = [
        (np.arange(size[axis], dtype=np.float32) + half - offset[axis]) / scale[axis] - half
        for axis in (_HEIGHT, _WIDTH)
    ]
    lengths, new = before[_HEIGHT:], size[_HEIGHT:]
    if mode == _NEAREST:
        return _pick_known(t, points, lengths, new)
    wanted = [
        ((np.arange(after) + 0.5) * length / after - 0.5, np.linspace(0, length - 1, after))
        for length, after in zip(lengths, new, strict=True)
    ]
    for sampling, place in ((_CORNERS, 0), (_CENTERS, 1)):
        pairs = zip(points, wanted, lengths, strict=True)
        if all(np.allclose(found, exact[place], atol=_TOLERANCE * length) for found, exact, length in pairs):
            height, width = new
            return t.builder.op(
                "resize_bilinear",
                x=t.x,
                target_size_height=height,
                target_size_width=width,
                sampling_mode=sampling,
            )
    raise CannotTranslate(_OTHER_COORDINATES)


def _pick_known(t: Translation, points: list[np.ndarray], lengths: list[int], new: list[int]) -> Operand:
    """Takes the nearest elements: by Core ML's own operations if they take the same ones."""
    pairs = list(zip(points, lengths, new, strict=True))
    places = [np.clip(np.rint(one), 0, length - 1).astype(np.int32) for one, length, _ in pairs]
    if all(
        np.array_equal(place, np.arange(after) * length // after)
        for place, (_, length, after) in zip(places, pairs, strict=True)
    ):
        height, width = new
        return t.builder.op(
            "resize_nearest_neighbor", x=t.x, target_size_height=height, target_size_width=width
        )
    up = [np.floor((np.arange(after) + 0.5) * length / after + 1e-9) for _, length, after in pairs]
    if all(np.array_equal(place, one) for place, one in zip(places, up, strict=True)):
        return _resize(t, new, "NEAREST_NEIGHBOR", _CORNERS)
    x: Operand = t.x
    for axis, (place, (_, length, _)) in enumerate(zip(places, pairs, strict=True), _HEIGHT):
        if not np.array_equal(place, np.arange(length)):
            x = t.builder.op("gather", x=_tensor(x), indices=place, axis=axis)
    return x


# Sizes that are computed


class _Axis:
    """The formulas of an axis.

    Args:
        before: Those of its length before.
        after: That of its length after.
        scale: That of its scale.
        offset: That of its offset.
    """

    def __init__(self, before: Formula, after: Formula, scale: Formula, offset: Formula) -> None:
        self._before, self._after, self._scale, self._offset = before, after, scale, offset

    @property
    def factor(self) -> float | None:
        """The whole number by which the axis becomes longer; None if it is not known to."""
        scale = self._scale
        if not isinstance(scale, float) or not scale.is_integer() or scale < 1 or self._offset != 0:
            return None
        return scale if self._after == combine("mul", self._before, scale) else None

    def aligns_corners(self) -> bool:
        """True if the corners of both images are at the same place."""
        ratio = combine("divide", self._after, self._before)
        return self._offset == 0 and (self.factor is not None or _equal(self._scale, ratio))

    def aligns_centers(self) -> bool:
        """True if the centers of the outermost elements of both images are at the same place."""
        ratio = combine("divide", combine("sub", self._after, 1.0), combine("sub", self._before, 1.0))
        offset = combine("mul", 0.5, combine("sub", 1.0, self._scale))
        return self.factor == 1 or (_equal(self._scale, ratio) and _equal(self._offset, offset))


def _equal(a: Formula, b: Formula) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE))
    return a == b


def _resize(t: Translation, sizes: Blob | list[int], interpolation: str, sampling: str) -> Operand:
    return t.builder.op(
        "resize",
        x=t.x,
        shape=sizes,
        resized_dims=np.asarray(2, np.uint32),
        interpolation_mode=interpolation,
        sampling_mode=sampling,
    )


def _upsample(t: Translation, height: float, width: float) -> Operand:
    return t.builder.op(
        "upsample_nearest_neighbor", x=t.x, scale_factor_height=height, scale_factor_width=width
    )


def _sizes(t: Translation) -> Blob | list[int]:
    """Returns the new height and width."""
    sizes = t.shape_of(1)
    if isinstance(sizes, list):
        return sizes[_HEIGHT:]
    return t.builder.op("slice_by_index", x=sizes, begin=[_HEIGHT], end=[_WIDTH + 1])


def _pick(t: Translation, x: Operand, axis: int) -> Operand:
    """Takes the nearest elements along an axis, whose places are computed."""
    b = t.builder
    half, one = np.asarray(0.5, np.float32), [axis + 1]

    def number(index: int) -> Blob:
        return b.op("slice_by_index", x=t.tensor(index), begin=[axis], end=one)

    end = b.op("squeeze", x=b.cast(number(1), DType.INT32), axes=[0])
    places = b.cast(b.op("range_1d", start=0, end=end, step=1), DType.FP32)
    places = b.op("sub", x=b.op("add", x=places, y=half), y=b.cast(number(3), DType.FP32))
    places = b.op("sub", x=b.op("real_div", x=places, y=b.cast(number(2), DType.FP32)), y=half)
    places = b.op("cast", x=b.op("round", x=places), dtype=DType.INT32.value)
    length = b.op("slice_by_index", x=b.op("shape", x=t.x), begin=[axis], end=one)
    last = b.op("sub", x=length, y=1)
    places = b.op("minimum", x=b.op("maximum", x=places, y=0), y=last)
    return b.op("gather", x=_tensor(x), indices=places, axis=axis)


def _tensor(x: Operand) -> Blob | Constant:
    assert isinstance(x, (Blob, Constant))
    return x
