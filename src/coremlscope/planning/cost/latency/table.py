"""Kernels as columns of numbers, so that all kernels of a network are evaluated at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.planning.cost.latency.kernels import Kernel
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS, KernelKind

Floats = npt.NDArray[np.float64]


#: Stands for larger numbers, which shapes of damaged files multiply to.
_LARGEST = 1e300


def _floats(numbers: Sequence[float]) -> Floats:
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError:
        return np.array([min(number, _LARGEST) for number in numbers], dtype=np.float64)


class KernelTable(msgspec.Struct, frozen=True, kw_only=True):
    """One column per number of a kernel; see `Kernel` and `Geometry`.

    Attributes:
        kind: The index of the kernel's kind in `KERNEL_KINDS`.
        macs: Multiply-adds.
        height: Rows of the result.
        width: The innermost extent of the result.
        in_channels: Channels that each result sums over.
        taps: Positions of the window.
        stride: Step of the window.
        inputs: Elements read, constants excluded.
        outputs: Elements written.
        vector: Elements processed by the operations behind the head.
        gated: Elements processed by a gate `x * gate(x)`.
        element_bytes: Bytes of an element in the program.
        weights: Elements of the constants.
        weight_bytes: Bytes of the constants, compressed.
        int8: 1 where weights and inputs are quantized to 8 bits, else 0.
    """

    kind: npt.NDArray[np.int64]
    macs: Floats
    height: Floats
    width: Floats
    in_channels: Floats
    taps: Floats
    stride: Floats
    inputs: Floats
    outputs: Floats
    vector: Floats
    gated: Floats
    element_bytes: Floats
    weights: Floats
    weight_bytes: Floats
    int8: Floats

    @classmethod
    def of(cls, kernels: Sequence[Kernel]) -> KernelTable:
        """The table of kernels, in their order."""
        rows = [_numbers(kernel) for kernel in kernels]
        return cls.of_columns({name: [row[name] for row in rows] for name in cls.__struct_fields__})

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[float]]) -> KernelTable:
        """The table of columns by name, each with one number per kernel."""
        kinds = np.array(columns["kind"], dtype=np.int64)
        others = {name: _floats(columns[name]) for name in cls.__struct_fields__ if name != "kind"}
        return cls(kind=kinds, **others)

    def take(self, rows: Sequence[int]) -> KernelTable:
        """Returns some of the rows, in this order."""
        places = np.array(rows, dtype=np.int64)
        return KernelTable(**{name: getattr(self, name)[places] for name in self.__struct_fields__})

    def joined(self, other: KernelTable) -> KernelTable:
        """Returns the rows of both."""
        columns = self.__struct_fields__
        return KernelTable(**{n: np.concatenate([getattr(self, n), getattr(other, n)]) for n in columns})

    def __len__(self) -> int:
        return len(self.kind)

    def is_kind(self, *kinds: KernelKind) -> npt.NDArray[np.bool_]:
        """Returns a mask of the kernels of these kinds."""
        wanted = np.zeros(len(KERNEL_KINDS), dtype=np.bool_)
        wanted[[KERNEL_KINDS.index(kind) for kind in kinds]] = True
        return wanted[self.kind]


def _numbers(kernel: Kernel) -> dict[str, float]:
    """The row of a kernel."""
    geometry = kernel.geometry
    return {
        "kind": KERNEL_KINDS.index(kernel.kind),
        "macs": geometry.macs,
        "height": geometry.height,
        "width": geometry.width,
        "in_channels": geometry.in_channels,
        "taps": geometry.taps,
        "stride": geometry.stride,
        "inputs": kernel.inputs,
        "outputs": kernel.outputs,
        "vector": kernel.vector,
        "gated": kernel.gated,
        "element_bytes": kernel.element_bytes,
        "weights": kernel.weights,
        "weight_bytes": kernel.weight_bytes,
        "int8": kernel.is_int8,
    }
