"""Resizes and crops images with the same grid for every image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coremlscope.base.arrays import np
from coremlscope.model.ir import TensorType, ValueType
from coremlscope.ops.emit import F32, I64, Lowering, Tensor
from coremlscope.ops.spec import OpSpec, Work, moved, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

if TYPE_CHECKING:
    import numpy.typing as npt

#: ONNX's names of MIL's sampling modes; None where ONNX has none.
SAMPLING_MODES: dict[str, str | None] = {
    "DEFAULT": "asymmetric",
    "STRICT_ALIGN_CORNERS": "align_corners",
    "ALIGN_CORNERS": "align_corners",
    "UNALIGN_CORNERS": "half_pixel",
    "OFFSET_CORNERS": None,
}


def grid_points(mode: str, length: int, count: int) -> npt.NDArray[np.float64]:
    """The positions of `count` samples on an axis of `length`, by MIL's reference of resize_bilinear."""
    steps = np.arange(count, dtype=np.float64)
    match mode:
        case "DEFAULT":
            points = steps * (length / count)
        case "STRICT_ALIGN_CORNERS" | "ALIGN_CORNERS":
            points = steps * ((length - 1) / max(count - 1, 1))
            if mode == "ALIGN_CORNERS" and count == 1:
                points = np.array([(length - 1) / 2])
        case "UNALIGN_CORNERS":
            points = (steps + 0.5) * (length / count) - 0.5
        case "OFFSET_CORNERS":
            points = (steps + 0.5) * (max(1, length - 1) / count)
        case _:
            raise CannotLower(f"sampling mode {mode!r}")
    return np.clip(points, 0, length - 1)


def hat_matrix(points: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.float32]:
    """The matrix that interpolates an axis of `length` at `points`, with two weights per row at most."""
    weights = np.maximum(0, 1 - np.abs(points[:, None] - np.arange(length)))
    return np.asarray(weights, np.float32)


def _nearest_indices(mode: str | None, length: int, count: int) -> npt.NDArray[np.int64]:
    """Indices of the nearest elements; mode None truncates the positions of DEFAULT."""
    if mode is None:
        # In integers: a rounded scale could give a result just below a whole number.
        return np.arange(count, dtype=np.int64) * length // count
    # Halves round down or up, depending on the last bit of their computation.
    points = np.round(grid_points(mode, length, count), 9)
    points = np.ceil(points - 0.5) if mode == "DEFAULT" else np.floor(points + 0.5)
    return np.clip(points, 0, length - 1).astype(np.int64)


def _resize_along(op: Lowering, x: Tensor, axis: int, rank: int, matrix: npt.NDArray[np.float32]) -> Tensor:
    """`x` with `axis` multiplied by a matrix [new length, old length]."""
    if axis == rank - 2:
        return op.emit("MatMul", op.const(matrix, F32), x)
    swapped = [rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank)]
    x = op.transpose(x, swapped)
    return op.transpose(op.emit("MatMul", x, op.const(matrix.T, F32)), swapped)


def _engine_resize(
    op: Lowering, x: Tensor, targets: Sequence[int] | Tensor, dims: Sequence[int | None], **modes: str
) -> Tensor:
    """ONNX's Resize of the last two axes; ONNX Runtime has kernels for rank 4."""
    rank = len(dims)
    lead = [d or 0 for d in dims[:-2]]
    if rank > 4:
        if None in dims:
            raise CannotLower("the shape of the resized tensor is not known before run time")
        x = op.reshape(x, [1, math.prod(lead), *(d or 0 for d in dims[-2:])])
    else:
        x = op.unsqueeze(x, list(range(4 - rank)))
    # All axes are given: ONNX Runtime ignores `axes` in some places where it moves a transposition.
    if isinstance(targets, Tensor) or None in dims[:-2]:
        targets = targets if isinstance(targets, Tensor) else op.const(list(targets), I64)
        kept = op.emit("Shape", x, dtype=I64, start=0, end=2)
        sizes = op.emit("Concat", kept, targets, axis=0)
    else:
        kept_lengths = [1, math.prod(lead)] if rank > 4 else [1] * (4 - rank) + lead
        sizes = op.const([*kept_lengths, *targets], I64)
    x = op.emit("Resize", x, None, None, sizes, **modes)
    if rank <= 4:
        return op.squeeze(x, list(range(4 - rank)))
    if isinstance(targets, Tensor):
        return op.emit("Reshape", x, op.emit("Concat", op.const(lead, I64), targets, axis=0))
    return op.reshape(x, [*lead, *targets])


def _linear(op: Lowering, x: Tensor, targets: Sequence[int], mode: str) -> Tensor:
    """Linear interpolation of the last axes to known lengths."""
    dims, count = op.view.shape("x"), len(targets)
    if list(dims[-count:]) == list(targets) and mode in SAMPLING_MODES and mode != "OFFSET_CORNERS":
        return x  # every sample is a pixel
    coordinates = SAMPLING_MODES.get(mode)
    if mode == "ALIGN_CORNERS" and 1 in targets:
        coordinates = None
    if coordinates is not None and count <= 2:
        if count == 1:
            x = op.unsqueeze(x, [len(dims) - 1])
            dims, targets = (*dims[:-1], 1, dims[-1]), [1, *targets]
        modes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        x = _engine_resize(op, x, targets, dims, **modes)
        return op.squeeze(x, [len(dims) - 2]) if count == 1 else x
    for axis, target in zip(range(len(dims) - count, len(dims)), targets, strict=True):
        length = _known(dims[axis])
        op.emitter.check_array(target, length)
        x = _resize_along(op, x, axis, len(dims), hat_matrix(grid_points(mode, length, target), length))
    return x


def _nearest(op: Lowering, x: Tensor, targets: Sequence[int], mode: str | None) -> Tensor:
    """The nearest elements along the last axes, for known lengths."""
    dims, count = op.view.shape("x"), len(targets)
    multiples = all(d and t % d == 0 for d, t in zip(dims[-count:], targets, strict=True))
    if mode is None and count == 2 and multiples and x.dtype == F32:
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return _engine_resize(op, x, targets, dims, mode="nearest", **modes)
    for axis, target in zip(range(len(dims) - count, len(dims)), targets, strict=True):
        length = _known(dims[axis])
        if length != target:
            op.emitter.check_array(target)
            indices = _nearest_indices(mode, length, target)
            x = op.emit("Gather", x, op.const(indices, I64), axis=axis)
    return x


def _known(dim: int | None) -> int:
    if dim is None:
        raise CannotLower("the length of a resized axis is not known before run time")
    return dim


# Rows with two spatial axes


def _spatial(view: OpView, height: int | None, width: int | None) -> Sequence[ValueType]:
    shape = view.shape("x")
    if len(shape) < 3:
        raise CannotInfer(f"an image of rank {len(shape)}")
    return [TensorType(view.type("x").dtype, (*shape[:-2], height, width))]


def _infer_target(view: OpView) -> Sequence[ValueType]:
    return _spatial(view, view.integer("target_size_height", 1), view.integer("target_size_width", 1))


def _infer_scaled(view: OpView) -> Sequence[ValueType]:
    def scaled(dim: int | None, name: str) -> int | None:
        if dim is None:
            return None
        # In the precision of the argument: 3 · fp32(0.67) decides.
        factor = view.value(name, np.int32(1)).reshape(-1)[0]
        with np.errstate(over="raise"):
            return int(np.floor(factor * dim))

    height, width = view.shape("x")[-2:]
    return _spatial(view, scaled(height, "scale_factor_height"), scaled(width, "scale_factor_width"))


def _targets(view: OpView) -> list[int]:
    return [_known(d) for d in (view.output_type().shape or ())[-2:]]


def _lower_nearest(op: Lowering) -> Tensor:
    return _nearest(op, op["x"], _targets(op.view), None)


def _lower_resize_bilinear(op: Lowering) -> Tensor:
    return _linear(op, op["x"], _targets(op.view), op.view.text("sampling_mode", "DEFAULT"))


def _lower_upsample_bilinear(op: Lowering) -> Tensor:
    aligned = op.view.flag("align_corners", True)
    if aligned:
        mode = "STRICT_ALIGN_CORNERS"
    else:
        mode = "UNALIGN_CORNERS" if op.view.flag("half_pixel_centers", True) else "DEFAULT"
    return _linear(op, op["x"], _targets(op.view), mode)


# resize


def _resize_targets(view: OpView) -> list[int | None]:
    """The new lengths of the last axes; None where not known."""
    shape, count = view.shape("x"), view.integer("resized_dims")
    given = view.shape("shape")[0]
    if count > len(shape) or (given is not None and count > given):
        raise CannotInfer(f"{count} resized axes, of a tensor of rank {len(shape)}, from {given} lengths")
    if not view.is_known("shape"):
        return [None] * count
    own = shape[len(shape) - count :]
    wanted = view.integers("shape")
    return [d or own[i] for i, d in enumerate(wanted[len(wanted) - count :])]


def _infer_resize(view: OpView) -> Sequence[ValueType]:
    shape, targets = view.shape("x"), _resize_targets(view)
    return [TensorType(view.type("x").dtype, (*shape[: len(shape) - len(targets)], *targets))]


def _lower_resize(op: Lowering) -> Tensor:
    view = op.view
    linear = _is_linear(view)
    mode = view.text("sampling_mode", "DEFAULT")
    # An integer image is interpolated as floats.
    x = op.cast(op["x"], F32) if linear else op["x"]
    targets = _resize_targets(view)
    known = [t for t in targets if t is not None]
    if len(known) < len(targets):
        resized = _resize_at_run_time(op, x, mode, linear)
    elif not targets:
        resized = x
    else:
        resized = _linear(op, x, known, mode) if linear else _nearest(op, x, known, mode)
    return op.cast(resized, op["x"].dtype)


def _resize_at_run_time(op: Lowering, x: Tensor, mode: str, linear: bool) -> Tensor:
    """Resizes to lengths known at run time only, for the modes that ONNX has."""
    view = op.view
    dims, count = view.shape("x"), view.integer("resized_dims")
    coordinates = SAMPLING_MODES.get(mode)
    if count != 2 or coordinates is None:
        raise CannotLower(f"{count} axes in mode {mode} to lengths that are only known at run time")
    end = op.const([np.iinfo(np.int64).max], I64)
    sizes = op.emit("Slice", op.int64("shape"), op.const([-2], I64), end)
    own = op.emit("Shape", x, dtype=I64, start=-2)
    kept = op.emit("Equal", sizes, op.const(0, I64), dtype=bool)
    sizes = op.emit("Where", kept, own, sizes)
    modes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    if not linear:
        nearest = "round_prefer_floor" if mode == "DEFAULT" else "round_prefer_ceil"
        modes |= {"mode": "nearest", "nearest_mode": nearest}
    return _engine_resize(op, x, sizes, dims, **modes)


def _is_linear(view: OpView) -> bool:
    mode = view.text("interpolation_mode", "LINEAR")
    if mode not in ("LINEAR", "NEAREST_NEIGHBOR"):
        raise CannotInfer(f"unknown interpolation mode {mode!r}")
    return mode == "LINEAR"


# crop


def _crop(view: OpView) -> list[tuple[int, int]]:
    """Rows and columns that are cut off, before and after."""
    pairs = []
    for name in ("crop_height", "crop_width"):
        given = view.integers(name)
        if len(given) != 2:
            raise CannotInfer(f"`{name}` holds {len(given)} elements, not 2")
        pairs.append((given[0], given[1]))
    return pairs


def _infer_crop(view: OpView) -> Sequence[ValueType]:
    dims = [None if d is None else d - sum(p) for d, p in zip(view.shape("x")[-2:], _crop(view), strict=True)]
    if any(d is not None and d < 1 for d in dims):
        raise CannotInfer("the crop is larger than the image")
    return _spatial(view, *dims)


def _lower_crop(op: Lowering) -> Tensor:
    pairs = _crop(op.view)
    begin = [before for before, _ in pairs]
    end = [-after if after else np.iinfo(np.int64).max for _, after in pairs]
    return op.emit("Slice", op["x"], op.const(begin, I64), op.const(end, I64), op.const([-2, -1], I64))


def _interpolation_work(axes: Callable[[OpView], int]) -> Callable[[OpView], Work]:
    """A multiply-add for each of the neighbours of an output element: two an axis."""

    def work(view: OpView) -> Work:
        return moved(view, 2 * 2 ** axes(view) * (view.output_type().elements or 0))

    return work


def _resize_work(view: OpView) -> Work:
    """A multiply-add for each neighbour of an output element, two an axis; none for the nearest."""
    if not _is_linear(view):
        return moved(view)
    return _interpolation_work(lambda v: v.integer("resized_dims"))(view)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="upsample_nearest_neighbor",
        doc="An image scaled by factors, with the nearest pixel of the original.",
        traits=Trait.RESIZING,
        infer=_infer_scaled,
        lower=_lower_nearest,
        work=moved,
    ),
    OpSpec(
        name="upsample_bilinear",
        doc="An image scaled by factors, with linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_scaled,
        lower=_lower_upsample_bilinear,
        work=_interpolation_work(lambda view: 2),
    ),
    OpSpec(
        name="resize_nearest_neighbor",
        doc="An image resized to another size, with the nearest pixel of the original.",
        traits=Trait.RESIZING,
        infer=_infer_target,
        lower=_lower_nearest,
        work=moved,
    ),
    OpSpec(
        name="resize_bilinear",
        doc="An image resized to another size, with linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_target,
        lower=_lower_resize_bilinear,
        work=_interpolation_work(lambda view: 2),
    ),
    OpSpec(
        name="resize",
        doc="A tensor with its last axes resized, by nearest neighbour or linear interpolation.",
        traits=Trait.RESIZING,
        infer=_infer_resize,
        lower=_lower_resize,
        work=_resize_work,
    ),
    OpSpec(
        name="crop",
        doc="An image with rows and columns cut off at its edges.",
        traits=Trait.RESIZING,
        infer=_infer_crop,
        lower=_lower_crop,
        work=moved_output,
    ),
)
