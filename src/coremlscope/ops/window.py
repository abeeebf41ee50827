"""Sliding windows of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coremlscope.model.ir import Shape
from coremlscope.ops.view import CannotInfer, OpView

#: How much is added before and after an axis.
Padding = tuple[int, int]


def interleaved(pads: Sequence[Padding]) -> list[int]:
    """Paddings in ONNX's order: first all before the axes, then all after them."""
    return [before for before, _ in pads] + [after for _, after in pads]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A window that slides over the spatial axes.

    Attributes:
        kernel: Its size along each axis.
        strides: Its step along each axis.
        dilations: The distance between its elements along each axis.
        pad_type: `valid`, `same`, `same_lower` or `custom`.
        custom: The padding along each axis where `pad_type` is `custom`.
        ceil_mode: True where a last, incomplete window counts.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pad_type: str
    custom: tuple[Padding, ...]
    ceil_mode: bool = False

    @classmethod
    def of(cls, view: OpView, kernel: Sequence[int], ceil_mode: bool = False) -> Window:
        """The window that an operation's parameters describe.

        Raises:
            CannotInfer: They do not fit the kernel's rank, or `pad_type` is unknown.
        """
        key = (cls, tuple(kernel), ceil_mode)
        return view.remember(key, lambda: cls._of(view, kernel, ceil_mode))

    @classmethod
    def _of(cls, view: OpView, kernel: Sequence[int], ceil_mode: bool) -> Window:
        rank = len(kernel)
        strides = view.integers("strides", [1] * rank)
        dilations = view.integers("dilations", [1] * rank)
        pad_type = view.text("pad_type", "valid").lower()
        if pad_type not in ("valid", "same", "same_lower", "custom"):
            raise CannotInfer(f"`pad_type` is {pad_type!r}")
        flat = view.integers("pad", [0] * (2 * rank)) if pad_type == "custom" else [0] * (2 * rank)
        if (len(strides), len(dilations), len(flat)) != (rank, rank, 2 * rank) or 0 in strides:
            raise CannotInfer(f"strides {strides}, dilations {dilations} and pad {flat} of a {rank}-D window")
        custom = tuple(zip(flat[::2], flat[1::2], strict=True))
        return cls(
            kernel=tuple(kernel),
            strides=tuple(strides),
            dilations=tuple(dilations),
            pad_type=pad_type,
            custom=custom,
            ceil_mode=ceil_mode,
        )

    def extent(self, axis: int) -> int:
        """The extent of the window along an axis, dilation included."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def padding(self, axis: int, size: int | None) -> Padding | None:
        """The padding along an axis of `size` elements; None where it depends on a size that is not known."""
        if not self.pad_type.startswith("same"):
            return self.custom[axis]
        stride, extent = self.strides[axis], self.extent(axis)
        if stride == 1:
            total = extent - 1
        elif size is None:
            return None
        else:
            total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        less, more = total // 2, total - total // 2
        return (less, more) if self.pad_type == "same" else (more, less)

    def paddings(self, spatial: Shape) -> list[Padding] | None:
        """The padding along every axis; None where one of them is not known."""
        pads = [self.padding(axis, size) for axis, size in enumerate(spatial)]
        known = [pad for pad in pads if pad is not None]
        return known if len(known) == len(pads) else None

    def attributes(self, spatial: Shape) -> dict[str, Any]:
        """The ONNX attributes that place the window; all but the kernel's own shape."""
        pads = self.paddings(spatial)
        placed: dict[str, Any] = {"strides": list(self.strides)}
        if any(dilation != 1 for dilation in self.dilations):
            placed["dilations"] = list(self.dilations)
        if pads is None:
            placed["auto_pad"] = "SAME_UPPER" if self.pad_type == "same" else "SAME_LOWER"
        else:
            placed["pads"] = interleaved(pads)
        return placed

    def output(self, spatial: Shape) -> Shape:
        """How many windows fit along each axis.

        Raises:
            CannotInfer: None fits, or `spatial` has another rank than the window.
        """
        if len(spatial) != len(self.kernel):
            raise CannotInfer(f"a {len(self.kernel)}-D window over {len(spatial)} spatial axes")
        return tuple(self._count(axis, size) for axis, size in enumerate(spatial))

    def _count(self, axis: int, size: int | None) -> int | None:
        if size is None:
            return None
        stride = self.strides[axis]
        if self.pad_type.startswith("same"):
            return -(-size // stride)
        before, after = self.custom[axis]
        room = size + before + after - self.extent(axis)
        count = room // stride + 1
        if self.ceil_mode:
            count = -(-room // stride) + 1
            # A window must not start in the padding behind the data.
            if (count - 1) * stride >= size + before and before + after > 0:
                count -= 1
        if count <= 0:
            raise CannotInfer(f"a window of {self.extent(axis)} over {size} elements")
        return count
