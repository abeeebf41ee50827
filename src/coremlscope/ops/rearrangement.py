"""Moves blocks of elements between an image's channels, pixels and batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coremlscope.model.ir import Shape, TensorType, ValueType
from coremlscope.ops.emit import I64, Lowering, Tensor
from coremlscope.ops.spec import Infer, OpSpec, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView


def _image(view: OpView) -> Shape:
    shape = view.shape("x")
    if len(shape) != 4:
        raise CannotInfer(f"an image of rank {len(shape)}, not 4")
    return shape


def _times(dim: int | None, factor: int) -> int | None:
    return None if dim is None else dim * factor


def _over(dim: int | None, divisor: int) -> int | None:
    if dim is not None and (divisor < 1 or dim % divisor):
        raise CannotInfer(f"{dim} is not divisible by {divisor}")
    return None if dim is None else dim // divisor


def _to_space(parameter: str) -> Infer:
    def infer(view: OpView) -> Sequence[ValueType]:
        n, c, h, w = _image(view)
        size = view.integer(parameter)
        return [TensorType(view.type("x").dtype, (n, _over(c, size**2), _times(h, size), _times(w, size)))]

    return infer


def _to_depth(parameter: str) -> Infer:
    def infer(view: OpView) -> Sequence[ValueType]:
        n, c, h, w = _image(view)
        size = view.integer(parameter)
        return [TensorType(view.type("x").dtype, (n, _times(c, size**2), _over(h, size), _over(w, size)))]

    return infer


def _lower_to_space(parameter: str, mode: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit("DepthToSpace", op["x"], blocksize=op.view.integer(parameter), mode=mode)


def _lower_space_to_depth(op: Lowering) -> Tensor:
    return op.emit("SpaceToDepth", op["x"], blocksize=op.view.integer("block_size"))


def _static(view: OpView, axes: Sequence[int]) -> list[int]:
    """The image's lengths, which must be known to split its axes."""
    dims = [view.shape("x")[axis] for axis in axes]
    if None in dims:
        raise CannotLower("the size of the image is not known before run time")
    return [d or 0 for d in dims]


def _lower_pixel_unshuffle(op: Lowering) -> Tensor:
    """Unlike in SpaceToDepth, the pixels of a block stay together within their channel."""
    size = op.view.integer("downscale_factor")
    c, h, w = _static(op.view, [1, 2, 3])
    x = op.reshape(op["x"], [0, c, h // size, size, w // size, size])
    x = op.transpose(x, [0, 1, 3, 5, 2, 4])
    return op.reshape(x, [0, c * size * size, h // size, w // size])


def _pairs(view: OpView, name: str) -> list[list[int]]:
    flat = view.integers(name)
    if len(flat) != 4:
        raise CannotInfer(f"`{name}` holds {len(flat)} elements, not 2 · 2")
    return [flat[:2], flat[2:]]


def _block(view: OpView) -> tuple[int, int]:
    block = view.integers("block_shape")
    if len(block) != 2:
        raise CannotInfer(f"`block_shape` holds {len(block)} elements, not 2")
    return block[0], block[1]


def _infer_space_to_batch(view: OpView) -> Sequence[ValueType]:
    n, c, *size = _image(view)
    block = _block(view)
    padded = [
        None if d is None else _over(d + sum(p), b)
        for d, p, b in zip(size, _pairs(view, "paddings"), block, strict=True)
    ]
    return [TensorType(view.type("x").dtype, (_times(n, block[0] * block[1]), c, *padded))]


def _lower_space_to_batch(op: Lowering) -> Tensor:
    """Pixel `(i, j)` of each block goes to the images from `(i · width + j) · n` on."""
    view = op.view
    (rows, columns), pads = _block(view), _pairs(view, "paddings")
    c, h, w = _static(view, [1, 2, 3])
    x = op["x"]
    if any(map(any, pads)):
        amounts = [0, 0, pads[0][0], pads[1][0], 0, 0, pads[0][1], pads[1][1]]
        x = op.emit("Pad", x, op.const(amounts, I64))
    h, w = (h + sum(pads[0])) // rows, (w + sum(pads[1])) // columns
    x = op.transpose(op.reshape(x, [-1, c, h, rows, w, columns]), [3, 5, 0, 1, 2, 4])
    return op.reshape(x, [-1, c, h, w])


def _infer_batch_to_space(view: OpView) -> Sequence[ValueType]:
    n, c, *size = _image(view)
    block = _block(view)
    cropped = [
        None if d is None else d * b - sum(p)
        for d, p, b in zip(size, _pairs(view, "crops"), block, strict=True)
    ]
    return [TensorType(view.type("x").dtype, (_over(n, block[0] * block[1]), c, *cropped))]


def _lower_batch_to_space(op: Lowering) -> Tensor:
    view = op.view
    (rows, columns), crops = _block(view), _pairs(view, "crops")
    c, h, w = _static(view, [1, 2, 3])
    x = op.transpose(op.reshape(op["x"], [rows, columns, -1, c, h, w]), [2, 3, 4, 0, 5, 1])
    x = op.reshape(x, [-1, c, h * rows, w * columns])
    if not any(map(any, crops)):
        return x
    ends = [h * rows - crops[0][1], w * columns - crops[1][1]]
    begins = [crops[0][0], crops[1][0]]
    return op.emit("Slice", x, op.const(begins, I64), op.const(ends, I64), op.const([2, 3], I64))


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="depth_to_space",
        doc="Channels moved into blocks of pixels; the blocks' channels lie together.",
        traits=Trait.REARRANGEMENT,
        infer=_to_space("block_size"),
        lower=_lower_to_space("block_size", "DCR"),
        work=moved_output,
    ),
    OpSpec(
        name="space_to_depth",
        doc="Blocks of pixels moved into channels; the blocks' channels lie together.",
        traits=Trait.REARRANGEMENT,
        infer=_to_depth("block_size"),
        lower=_lower_space_to_depth,
        work=moved_output,
    ),
    OpSpec(
        name="pixel_shuffle",
        doc="Channels moved into blocks of pixels; the pixels of a channel lie together.",
        traits=Trait.REARRANGEMENT,
        infer=_to_space("upscale_factor"),
        lower=_lower_to_space("upscale_factor", "CRD"),
        work=moved_output,
    ),
    OpSpec(
        name="pixel_unshuffle",
        doc="Blocks of pixels moved into channels; the pixels of a channel lie together.",
        traits=Trait.REARRANGEMENT,
        infer=_to_depth("downscale_factor"),
        lower=_lower_pixel_unshuffle,
        work=moved_output,
    ),
    OpSpec(
        name="space_to_batch",
        doc="Blocks of pixels moved into the batch, after padding.",
        traits=Trait.REARRANGEMENT,
        infer=_infer_space_to_batch,
        lower=_lower_space_to_batch,
        work=moved_output,
    ),
    OpSpec(
        name="batch_to_space",
        doc="The batch moved back into blocks of pixels, then cropped.",
        traits=Trait.REARRANGEMENT,
        infer=_infer_batch_to_space,
        lower=_lower_batch_to_space,
        work=moved_output,
    ),
)
