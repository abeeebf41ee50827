"""What a unit can do, in a few numbers that were fitted to published measurements, and how sure they are."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from coremlscope.devices.unit import ComputeUnit

__all__ = ["Calibration", "Spread", "UnitParameters", "load_calibration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitParameters:
    """Effective ceilings of a compute unit, on the chip that it was calibrated on.

    Rates of arithmetic count a multiply-add as two operations. Rates of bytes count what is read and written.

    Attributes:
        dispatch_s: What a prediction costs before anything is computed.
        kernel_s: What each kernel costs besides.
        dense_FLOPps: Dense convolutions with windows.
        pointwise_FLOPps: Dense convolutions of 1×1.
        window_gain: How many times fewer multiplications dense windows of 3×3 need that move by one
            (Winograd's algorithm).
        channels_step: Dense convolutions sum over multiples of so many channels.
        depthwise_FLOPps: Convolutions that keep channels apart.
        grouped_FLOPps: Convolutions in groups.
        linear_share: `linear` as a share of 1×1 convolutions.
        flat_share: What is left of that where all rows lie in one line: (1, N, C) instead of (1, H, W, C).
        product_FLOPps: Products of two tensors that are both computed, attention's among them.
        activation_Bps: Inputs and results of convolutions and products.
        elementwise_Bps: Element-wise operations by themselves.
        norm_Bps: Normalisations of rows.
        softmax_Bps: Softmax, attention's included.
        pool_Bps: Pooling.
        reduce_Bps: Reductions, those of normalisations over whole maps among them.
        copy_Bps: Copies of whole rows: concatenation, splitting.
        channels_Bps: Moving the channels to the other end.
        reshape_Bps: Other shapes over the same order of elements.
        layout_Bps: Any other rearrangement, rows that are cut among them.
        resize_Bps: Resampling.
        weights_Bps: Streaming of weights; it follows the bandwidth of a chip's memory.
        prefetch_bytes: Weights of a kernel that are there before it begins: they came during the one before.
        spill_Bps: What a tensor costs besides that does not stay on the chip.
        on_chip_bytes: How much of a tensor stays there.
        function_Bps: Activation functions and sums at the end of a kernel, per result.
        gate_Bps: Gates (silu, hard-swish) at the end of a kernel, per result.
        int8_gain: How much faster eight-bit arithmetic is, where the chip has it.
        progress: How much of a newer chip's higher specification arrives: the exponent of their ratio.
        dispatch_share: What is left of `dispatch_s` from H15 (A16, M3) on. Published figures of these chips
            were all taken with iOS 17 or later, and of older ones before: what is the system's doing and
            what the chip's cannot be told apart.
    """

    dispatch_s: float
    kernel_s: float
    dense_FLOPps: float  # noqa: N815
    window_gain: float
    channels_step: float
    pointwise_FLOPps: float  # noqa: N815
    depthwise_FLOPps: float  # noqa: N815
    grouped_FLOPps: float  # noqa: N815
    linear_share: float
    flat_share: float
    product_FLOPps: float  # noqa: N815
    activation_Bps: float  # noqa: N815
    elementwise_Bps: float  # noqa: N815
    norm_Bps: float  # noqa: N815
    softmax_Bps: float  # noqa: N815
    pool_Bps: float  # noqa: N815
    reduce_Bps: float  # noqa: N815
    copy_Bps: float  # noqa: N815
    channels_Bps: float  # noqa: N815
    reshape_Bps: float  # noqa: N815
    layout_Bps: float  # noqa: N815
    resize_Bps: float  # noqa: N815
    weights_Bps: float  # noqa: N815
    prefetch_bytes: float
    spill_Bps: float  # noqa: N815
    on_chip_bytes: float
    function_Bps: float  # noqa: N815
    gate_Bps: float  # noqa: N815
    int8_gain: float
    progress: float
    dispatch_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far published latencies lie from estimates: standard deviations of the logarithm of their ratio.

    Attributes:
        base: Of a network of convolutions on a chip with many measurements.
        unusual: Added per share of the time that goes into kernels other than convolutions.
        by_chip: Added in squares for chips by id, where the sources themselves disagree or are few.
        extrapolated: Added in squares for chips without measurements.
        mixed: Added in squares where two units share the time equally, in proportion where less.
        below: How many standard deviations below an estimate its interval begins.
        above: How many above it ends.
    """

    base: float
    unusual: float
    by_chip: Mapping[str, float]
    extrapolated: float
    mixed: float
    below: float
    above: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All that was fitted.

    Attributes:
        units: The parameters of each unit.
        references: The id of the chip that each unit's parameters are for.
        spreads: How sure each unit's estimates are.
        switch_s: What a change of the unit costs.
        convert_Bps: Conversion of inputs and outputs that are not in half precision.
        rows: How many measurements it was fitted to.
    """

    units: Mapping[ComputeUnit, UnitParameters]
    references: Mapping[ComputeUnit, str]
    spreads: Mapping[ComputeUnit, Spread]
    switch_s: float
    convert_Bps: float  # noqa: N815
    rows: int


@functools.cache
def load_calibration() -> Calibration:
    """The calibration that comes with the project."""
    file = resources.files("coremlscope.cost.latency") / "data" / "calibration.json"
    return calibration_of(json.loads(file.read_text(encoding="utf-8")))


def calibration_of(table: Mapping[str, object]) -> Calibration:
    """A calibration out of what its file holds."""
    data: dict[str, object] = dict(table)
    units = data["units"]
    spreads = data["spreads"]
    references = data["references"]
    assert isinstance(units, dict)
    assert isinstance(spreads, dict)
    assert isinstance(references, dict)
    return Calibration(
        units={unit: UnitParameters(**values) for unit, values in units.items()},
        references=references,
        spreads={unit: Spread(**values) for unit, values in spreads.items()},
        switch_s=float(str(data["switch_s"])),
        convert_Bps=float(str(data["convert_Bps"])),
        rows=int(str(data["rows"])),
    )
