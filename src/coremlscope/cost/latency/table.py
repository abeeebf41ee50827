"""Kernels as columns of numbers, so that a network is priced for a chip in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from coremlscope.cost.latency.kernels import Kernel
from coremlscope.cost.latency.kinds import KINDS, Kind

__all__ = ["Floats", "KernelTable"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KernelTable:
    """One column per number of a kernel; see `Kernel` and `Geometry` for what they mean.

    Attributes:
        kind: The place of the kernel's kind in `KINDS`.
        macs: Multiply-adds.
        height: Rows of the result.
        width: The innermost extent of the result.
        in_channels: Channels that each result sums over.
        taps: Positions of the window.
        stride: Step of the window.
        inputs: Elements that are read, constants excluded.
        outputs: Elements that are written.
        vector: Elements that the operations behind the head go over.
        gated: Elements that a gate `x * gate(x)` goes over.
        element_bytes: Bytes of an element, as the program has it.
        weights: Elements of the constants.
        weight_bytes: Bytes of the constants, compressed.
        int8: One where weights and inputs are quantised to eight bits, else zero.
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
        rows = [
            (
                KINDS.index(k.kind), k.geometry.macs, k.geometry.height, k.geometry.width,
                k.geometry.in_channels, k.geometry.taps, k.geometry.stride, k.inputs, k.outputs, k.vector,
                k.gated, k.element_bytes, k.weights, k.weight_bytes, k.is_int8,
            )
            for k in kernels
        ]  # fmt: skip
        return cls.of_rows(rows)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> KernelTable:
        """The table of rows that hold the columns in order."""
        columns = np.array(rows, dtype=np.float64).reshape(-1, len(fields(cls))).T
        return cls(columns[0].astype(np.int64), *columns[1:])

    def __len__(self) -> int:
        return len(self.kind)

    def is_kind(self, *kinds: Kind) -> npt.NDArray[np.bool_]:
        """Which kernels are of one of these kinds."""
        wanted = np.zeros(len(KINDS), dtype=np.bool_)
        wanted[[KINDS.index(kind) for kind in kinds]] = True
        return wanted[self.kind]
