"""Samples images at positions only known at run time: boxes, coordinates, affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from coremlscope.base.arrays import np
from coremlscope.model.ir import TensorType, ValueType
from coremlscope.ops.emit import F32, I64, Lowering, Tensor
from coremlscope.ops.resizing import SAMPLING_MODES
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

if TYPE_CHECKING:
    import numpy.typing as npt

#: Numbers known while lowering.
Vector: TypeAlias = "npt.NDArray[np.floating[Any]]"

#: From this opset on (iOS 16), samples outside the image are a constant; before, the nearest edge.
_PADDED = 6
#: From this opset on (iOS 17) there are `boxes` instead of `roi`; those that still use `roi` are layers
#: of neural networks, which have no such constant.
_BOXES = 7


# crop_resize

#: Where each box holds the height and width of its first and second point.
_BOX_MODES = {
    "CORNERS_HEIGHT_FIRST": (0, 1, 2, 3),
    "CORNERS_WIDTH_FIRST": (1, 0, 3, 2),
    "CENTER_SIZE_HEIGHT_FIRST": (0, 1, 2, 3),
    "CENTER_SIZE_WIDTH_FIRST": (1, 0, 3, 2),
}


def _infer_crop_resize(view: OpView) -> Sequence[ValueType]:
    x, size = view.shape("x"), (view.integer("target_height", 1), view.integer("target_width", 1))
    if len(x) != 4:
        raise CannotInfer(f"an image of rank {len(x)}, not 4")
    if view.has("boxes"):
        return [TensorType(view.type("x").dtype, (view.shape("boxes")[0], x[1], *size))]
    roi = view.shape("roi")
    # A box of five numbers gives the index of its image; one of four applies to every image.
    images = 1 if roi[2] == 5 else x[0]
    return [TensorType(view.type("x").dtype, (roi[0], images, x[1], *size))]


class _Axis:
    """One spatial axis of `crop_resize`: from the ends of the boxes to the positions of samples."""

    def __init__(self, op: Lowering, first: Tensor, second: Tensor, length: int, count: int) -> None:
        self.op, self.length, self.count = op, length, count
        view = op.view
        self.mode = view.text("sampling_mode", "DEFAULT")
        self.normalized = view.flag("normalized_coordinates", False)
        if self.mode not in SAMPLING_MODES:
            raise CannotLower(f"sampling mode {self.mode!r}")
        if view.text("box_coordinate_mode", "CORNERS_HEIGHT_FIRST").startswith("CENTER_SIZE"):
            half = self.times(second, 0.5)
            first, second = op.emit("Sub", first, half), op.emit("Add", first, half)
        scale = view.real("spatial_scale", 1.0)
        if self.normalized:
            # Half-pixel coordinates measure from edge to edge, the others between centres.
            scale *= length if self.mode == "UNALIGN_CORNERS" else length - 1
        self.first, self.second = self.times(first, scale), self.times(second, scale)

    def times(self, tensor: Tensor, factor: float) -> Tensor:
        return tensor if factor == 1 else self.op.emit("Mul", tensor, self.op.const(factor, F32))

    def points(self) -> Tensor:
        """`[boxes, count]`: the coordinates of the samples, in pixels."""
        op, count = self.op, self.count
        op.emitter.check_array(count)
        steps = np.arange(count, dtype=np.float32)
        span = op.emit("Sub", self.second, self.first)
        if self.mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
            fraction = steps / max(count - 1, 1)
            if self.mode == "ALIGN_CORNERS" and count == 1:
                fraction = np.array([0.5], np.float32)
            return self.along(span, fraction, 0.0)
        backwards = op.emit("Less", span, op.const(0, F32), dtype=bool)
        direction = op.emit("Where", backwards, op.const(-1, F32), op.const(1, F32), dtype=F32)
        if self.mode == "OFFSET_CORNERS":
            width = op.emit("Max", op.emit("Abs", span), op.const(1, F32))
            return self.along(op.emit("Mul", width, direction), (steps + 0.5) / count, 0.0)
        if self.mode == "UNALIGN_CORNERS":
            width = span if self.normalized else op.emit("Add", span, direction)
            return self.along(width, (steps + 0.5) / count, -0.5)
        return self.along(op.emit("Add", span, direction), steps / count, 0.0)

    def along(self, span: Tensor, fractions: Vector, shift: float) -> Tensor:
        op = self.op
        moved = op.emit("Mul", span, op.const(fractions[None], F32))
        points = op.emit("Add", self.first, moved)
        return op.emit("Add", points, op.const(shift, F32)) if shift else points

    def samples(self) -> tuple[Tensor, Tensor | None]:
        """Interpolation matrices `[boxes, count, length]`; where it matters, which samples are inside."""
        op, last = self.op, self.length - 1
        points, inside = self.points(), None
        half_pixel = self.mode == "UNALIGN_CORNERS"
        if half_pixel and self.normalized and op.view.has("roi"):
            points = self.mirrored(points)
        elif op.view.opset >= _PADDED and not (op.view.opset >= _BOXES and op.view.has("roi")):
            reach = 0.5 if half_pixel else 0.0
            above = op.emit("GreaterOrEqual", points, op.const(-reach, F32), dtype=bool)
            below = op.emit("LessOrEqual", points, op.const(last + reach, F32), dtype=bool)
            inside = op.emit("And", above, below)
        points = op.emit("Clip", points, op.const(0, F32), op.const(last, F32))
        distance = op.emit("Abs", op.emit("Sub", op.unsqueeze(points, [2]), op.counting(self.length, F32)))
        return op.emit("Relu", op.emit("Sub", op.const(1, F32), distance)), inside

    def mirrored(self, points: Tensor) -> Tensor:
        """Points outside the image, mirrored at its edges, half a pixel beyond the outer centres."""
        op, period = self.op, 2 * self.length
        from_edge = op.emit("Add", points, op.const(0.5, F32))
        turns = op.emit("Floor", op.emit("Div", from_edge, op.const(period, F32)))
        rest = op.emit("Sub", from_edge, op.emit("Mul", turns, op.const(period, F32)))
        back = op.emit("Sub", op.const(period, F32), rest)
        return op.emit("Sub", op.emit("Min", rest, back), op.const(0.5, F32))


def _boxes(op: Lowering) -> tuple[list[Tensor], Tensor | None]:
    """The four numbers of every box, `[boxes, 1]` each, height first; and the image index of each box."""
    view = op.view
    images = None
    if view.has("boxes"):
        boxes, offset = op.cast(op["boxes"], F32), 0
        if view.has("box_indices"):
            images = op.int64("box_indices")
        else:
            count = view.shape("boxes")[0]
            if count is None:
                raise CannotLower("the number of boxes is not known before run time")
            images = op.counting(count, I64)
    else:
        numbers = view.shape("roi")[2]
        boxes, offset = op.reshape(op["roi"], [0, -1]), int(numbers == 5)
        if offset:
            images = op.cast(op.emit("Gather", boxes, op.const(0, I64), axis=1), I64)
    mode = view.text("box_coordinate_mode", "CORNERS_HEIGHT_FIRST")
    if mode not in _BOX_MODES:
        raise CannotLower(f"box coordinate mode {mode!r}")
    columns = [op.const([offset + column], I64) for column in _BOX_MODES[mode]]
    return [op.emit("Gather", boxes, column, axis=1) for column in columns], images


def _lower_crop_resize(op: Lowering) -> Tensor:
    """Each axis is interpolated by one matrix product, in all modes."""
    view = op.view
    height, width = view.shape("x")[2:]
    if height is None or width is None:
        raise CannotLower("the size of the image is not known before run time")
    (top, left, bottom, right), images = _boxes(op)
    rows, rows_inside = _Axis(op, top, bottom, height, view.integer("target_height", 1)).samples()
    columns, columns_inside = _Axis(op, left, right, width, view.integer("target_width", 1)).samples()
    # Images are [boxes or 1, images or 1, C, H, W] from here on.
    x = op["x"]
    x = op.unsqueeze(x, [0]) if images is None else op.unsqueeze(op.emit("Gather", x, images, axis=0), [1])
    x = op.emit("MatMul", op.unsqueeze(rows, [1, 2]), x)
    x = op.emit("MatMul", x, op.unsqueeze(op.transpose(columns, [0, 2, 1]), [1, 2]))
    if rows_inside is not None and columns_inside is not None:
        inside = op.emit("And", op.unsqueeze(rows_inside, [1, 2, 4]), op.unsqueeze(columns_inside, [1, 2, 3]))
        x = op.emit("Where", inside, x, op.const(view.real("pad_value", 0.0), F32), dtype=F32)
    return op.squeeze(x, [1]) if view.has("boxes") else x


# resample, affine


def _infer_resample(view: OpView) -> Sequence[ValueType]:
    x, coordinates = view.shape("x"), view.shape("coordinates")
    if len(x) != 4 or len(coordinates) != 4 or coordinates[3] not in (2, None):
        raise CannotInfer(f"coordinates of shape {list(coordinates)} for an image of shape {list(x)}")
    return [TensorType(view.type("x").dtype, (*x[:2], *coordinates[1:3]))]


def _infer_affine(view: OpView) -> Sequence[ValueType]:
    x, size = view.shape("x"), (view.integer("output_height"), view.integer("output_width"))
    if len(x) != 4:
        raise CannotInfer(f"an image of rank {len(x)}, not 4")
    return [TensorType(view.type("x").dtype, (*x[:2], *size))]


#: MIL's padding modes: ONNX's, and whether its coordinates are aligned with corners. That decides what is
#: mirrored; None where it makes no difference.
_PADDING_MODES = {
    "constant": ("zeros", None),
    "border": ("border", None),
    "reflection": ("reflection", True),
    "symmetric": ("reflection", False),
}


def _sizes(view: OpView) -> tuple[int, int]:
    """Width and height of the image, in the order of coordinates."""
    height, width = view.shape("x")[2:]
    if height is None or width is None:
        raise CannotLower("the size of the image is not known before run time")
    return width, height


def _sample(op: Lowering, grid: Tensor, aligned: bool, coordinates: str) -> Tensor:
    """GridSample at coordinates of one of MIL's modes, `[B, H, W, 2]`."""
    view = op.view
    padding = view.text("padding_mode")
    if padding not in _PADDING_MODES:
        raise CannotLower(f"padding mode {padding!r}")
    mode, wants_aligned = _PADDING_MODES[padding]
    sizes = np.array(_sizes(view), np.float32)
    if wants_aligned is None:
        wants_aligned = aligned and coordinates != "unnormalized"
    wants_aligned = wants_aligned and bool((sizes > 1).all())
    factor, shift = _grid_map(sizes, coordinates, aligned, wants_aligned)
    grid = _mapped(op, grid, factor, shift)
    x, pad = op["x"], view.real("padding_value", 0.0)
    sampling = view.text("sampling_mode")
    if sampling not in ("bilinear", "nearest"):
        raise CannotLower(f"sampling mode {sampling!r}")
    if mode == "reflection" and sampling == "nearest":
        # ONNX rounds to a pixel before it mirrors, which differs half-way between two pixels.
        grid, mode = _mirrored(op, grid), "border"
    outside = op.const(pad, F32) if padding == "constant" and pad else None
    if outside is not None:
        x = op.emit("Sub", x, outside)
    interpolation = "linear" if sampling == "bilinear" else "nearest"
    y = op.emit(
        "GridSample", x, grid, mode=interpolation, padding_mode=mode, align_corners=int(wants_aligned)
    )
    return op.emit("Add", y, outside) if outside is not None else y


def _mapped(op: Lowering, grid: Tensor, factor: Vector, shift: Vector) -> Tensor:
    if (factor != 1).any():
        grid = op.emit("Mul", grid, op.const(factor, F32))
    return op.emit("Add", grid, op.const(shift, F32)) if (shift != 0).any() else grid


def _mirrored(op: Lowering, grid: Tensor) -> Tensor:
    """Coordinates mirrored at -1 and 1, as often as needed."""
    period = op.emit("Sub", grid, op.const(1, F32))
    turns = op.emit("Floor", op.emit("Div", period, op.const(4, F32)))
    rest = op.emit("Sub", period, op.emit("Mul", turns, op.const(4, F32)))
    # Beyond 1, down to -1 and up again.
    return op.emit("Sub", op.emit("Abs", op.emit("Sub", rest, op.const(2, F32))), op.const(1, F32))


def _grid_map(sizes: Vector, coordinates: str, aligned: bool, wants_aligned: bool) -> tuple[Vector, Vector]:
    """Factor and offset from MIL's coordinates to ONNX's, which range from -1 to 1.

    Aligned: -1 and 1 are the centres of the outer pixels. Otherwise they are the edges of the image.
    """
    match coordinates:
        case "unnormalized":
            factor, shift = np.ones_like(sizes), np.zeros_like(sizes)
        case "normalized_minus_one_to_one":
            extent = sizes - 1 if aligned else sizes
            factor, shift = extent / 2, (sizes - 1) / 2
        case "normalized_zero_to_one":
            factor = sizes - 1 if aligned else sizes
            shift = np.zeros_like(sizes) if aligned else np.full_like(sizes, -0.5)
        case _:
            raise CannotLower(f"coordinates mode {coordinates!r}")
    # First to pixels, then to ONNX.
    if wants_aligned:
        return factor * 2 / (sizes - 1), shift * 2 / (sizes - 1) - 1
    return factor * 2 / sizes, (2 * shift + 1) / sizes - 1


def _lower_resample(op: Lowering) -> Tensor:
    view = op.view
    return _sample(
        op, op.cast(op["coordinates"], F32), view.flag("align_corners"), view.text("coordinates_mode")
    )


def _lower_affine(op: Lowering) -> Tensor:
    """Coordinates are the product of a constant grid of points and each image's matrix."""
    view = op.view
    if view.text("coordinates_mode") != "normalized_minus_one_to_one":
        raise CannotLower(f"coordinates mode {view.text('coordinates_mode')!r}")
    height, width = view.integer("output_height"), view.integer("output_width")
    aligned = view.flag("align_corners")
    op.emitter.check_array(height, width, 3)

    def line(count: int) -> Vector:
        steps = np.arange(count, dtype=np.float32)
        if aligned:
            return 2 * steps / max(count - 1, 1) - 1
        return (2 * steps + 1) / count - 1

    x, y = np.meshgrid(line(width), line(height))
    points = np.stack([x, y, np.ones_like(x)], -1).reshape(1, height * width, 3)
    matrix = op.transpose(op.reshape(op["transform_matrix"], [-1, 2, 3]), [0, 2, 1])
    grid = op.emit("MatMul", op.const(points, F32), matrix)
    grid = op.reshape(grid, [-1, height, width, 2])
    images = view.shape("x")[0]
    if view.shape("transform_matrix")[0] == 1 and images != 1:
        count = op.emit("Shape", op["x"], dtype=I64, start=0, end=1)
        grid = op.emit("Expand", grid, op.emit("Concat", count, op.const([1, 1, 1], I64), axis=0))
    return _sample(op, grid, aligned, "normalized_minus_one_to_one")


def _sampling_work(view: OpView) -> Work:
    """Four neighbours of an output element, a multiply-add each."""
    return moved(view, 8 * (view.output_type().elements or 0))


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="crop_resize",
        doc="Crops boxes from images and resizes them to one size, with linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_crop_resize,
        lower=_lower_crop_resize,
        work=_sampling_work,
    ),
    OpSpec(
        name="resample",
        doc="An image sampled at coordinates, nearest or with linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_resample,
        lower=_lower_resample,
        work=_sampling_work,
    ),
    OpSpec(
        name="affine",
        doc="An image rotated, translated, scaled or sheared by a matrix, with linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_affine,
        lower=_lower_affine,
        work=_sampling_work,
    ),
)
