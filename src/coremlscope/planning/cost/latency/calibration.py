"""Parameters of compute units, fitted to published measurements, and their uncertainty."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from coremlscope.devices.unit import ComputeUnit

#: Networks with like errors: of convolutions; of products and other kernels, such as transformers; and those
#: that take less than three launches of their unit.
Family = Literal["convolutional", "token", "small"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class UnitParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Effective ceilings of a compute unit, on the chip that it was calibrated on.

    Rates of arithmetic count a multiply-add as two operations. Rates of bytes count what is read and written.

    Attributes:
        dispatch_s: Fixed overhead of a prediction.
        kernel_s: Fixed overhead of each kernel.
        light_share: The share of this overhead for kernels that only move data or work on single elements:
            several of them may run as one.
        dense_FLOPps: Dense convolutions with windows larger than 1×1.
        pointwise_FLOPps: Dense convolutions of 1×1.
        window_gain: By how much Winograd's algorithm reduces the multiplications of dense 3×3 windows with
            stride 1.
        channels_step: Dense convolutions sum over multiples of this many channels; on CPUs, whose units for
            matrices take a window as one row, over multiples of this many numbers of a window.
        depthwise_FLOPps: Depthwise convolutions.
        grouped_FLOPps: Grouped convolutions.
        linear_share: The rate of `linear` relative to 1×1 convolutions.
        flat_rows: Flat rows, (1, N, C) instead of (1, H, W, C), that one pass over the weights serves. Fewer
            take as long; for more of them `linear` streams the weights again, which convolutions of 1×1 do
            not. 0 where this does not apply.
        product_FLOPps: Products of two computed tensors, those in attention included.
        batch_share: The rate of these products, and of softmax between them, for batches of several samples.
        attention_gain: By how much these products and softmax are faster from macOS 14 and iOS 17 on; see
            `on_system`.
        single_share: The rate of arithmetic in single precision relative to half precision.
        half_bytes: Bytes of a number of half precision as it is computed before macOS 15 and iOS 18; see
            `on_system`.
        activation_Bps: Inputs and results of convolutions and products.
        elementwise_Bps: Kernels of elementwise operations.
        norm_Bps: Normalizations of rows.
        softmax_Bps: Softmax.
        attention_Bps: Softmax within attention, per score.
        pool_Bps: Pooling.
        reduce_Bps: Reductions, those of normalizations over whole maps included.
        copy_Bps: Copies of whole rows: concatenation, splitting.
        channels_Bps: Transpositions that move the channels to the other end.
        reshape_Bps: Reshapes, which keep the order of elements.
        layout_Bps: Any other rearrangement, partial rows included.
        layout_gain: By how much these are faster from macOS 14 and iOS 17 on; see `on_system`.
        resize_Bps: Resampling.
        weights_Bps: Streaming of weights.
        weights_hidden: 1 where weights are streamed during the arithmetic, 0 where before it.
        prefetch_bytes: Weights of a kernel that are loaded during the previous kernel.
        spill_Bps: The additional cost of tensors that do not stay on the chip.
        on_chip_bytes: How much of a tensor stays on the chip.
        on_chip_gain: By how much more stays on it from H16 (A17 Pro, M4) on.
        function_Bps: Activation functions and sums at the end of a kernel, per result.
        gate_Bps: Gates (silu, hard-swish) at the end of a kernel, per result.
        int8_gain: The speedup of 8-bit arithmetic, where the chip has it.
        progress: How much of another chip's higher specification takes effect: the exponent of their ratio;
            of CPUs, that of their clusters of performance cores.
        generation_gain: The gain in speed of each generation beyond the specification.
        kernel_gain: The factor by which the overhead of kernels shrinks with each generation.
        matrix_gain: The gain of matrix products from units for them, where the chip has these and its
            reference does not.
        window_matrix_gain: The same for convolutions with windows.
        dispatch_share: The share of `dispatch_s` that remains from H15 (A16, M3) on. Published figures of
            these chips all come from iOS 17 or later, those of older chips from earlier systems, so the
            effects of system and chip cannot be separated.
        second_gain: How much faster than with one engine a kernel is with both of a dual Neural Engine; see
            `roofline`.
    """

    dispatch_s: float
    kernel_s: float
    light_share: float
    dense_FLOPps: float  # noqa: N815
    window_gain: float
    channels_step: float
    pointwise_FLOPps: float  # noqa: N815
    depthwise_FLOPps: float  # noqa: N815
    grouped_FLOPps: float  # noqa: N815
    linear_share: float
    flat_rows: float
    product_FLOPps: float  # noqa: N815
    batch_share: float
    attention_gain: float
    single_share: float
    half_bytes: float
    activation_Bps: float  # noqa: N815
    elementwise_Bps: float  # noqa: N815
    norm_Bps: float  # noqa: N815
    softmax_Bps: float  # noqa: N815
    attention_Bps: float  # noqa: N815
    pool_Bps: float  # noqa: N815
    reduce_Bps: float  # noqa: N815
    copy_Bps: float  # noqa: N815
    channels_Bps: float  # noqa: N815
    reshape_Bps: float  # noqa: N815
    layout_Bps: float  # noqa: N815
    layout_gain: float
    resize_Bps: float  # noqa: N815
    weights_Bps: float  # noqa: N815
    weights_hidden: float
    prefetch_bytes: float
    spill_Bps: float  # noqa: N815
    on_chip_bytes: float
    on_chip_gain: float
    function_Bps: float  # noqa: N815
    gate_Bps: float  # noqa: N815
    int8_gain: float
    progress: float
    generation_gain: float
    kernel_gain: float
    matrix_gain: float
    window_matrix_gain: float
    dispatch_share: float
    second_gain: float


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How far published latencies are from estimates: widths of 80 % intervals, as logarithms of factors.

    Attributes:
        widths: By platform and family: the factor to either end. Families with few measurements on a platform
            have that of all platforms, or of all families.
        older: By the first version of iOS, or of the same Core ML, that is no longer concerned: what older
            systems add in quadrature.
        mixed: Added in quadrature where two units share the time equally, in proportion where less.
        chips: The chips that were measured.
        calibrated: Those for which at least three publications, of several families of networks, are in
            the fit.
    """

    widths: Mapping[str, Mapping[Family, float]]
    older: Mapping[int, float] = {}
    mixed: float = 0.0
    chips: tuple[str, ...] = ()
    calibrated: tuple[str, ...] = ()


class FittedConstants(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of a unit, and what they are based on.

    Attributes:
        reference: The id of the chip that the constants are for; other chips scale them.
        constants: The constants on the reference chip.
        rows: The number of measurements in the fit.
        publications: The publications of these measurements.
        spreads: The standard deviation of the logarithm of each fitted constant, by name.
    """

    reference: str
    constants: UnitParameters
    rows: int
    publications: tuple[str, ...]
    spreads: Mapping[str, float]


class OwnConstants(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of a unit on one chip that replace those scaled to it.

    Attributes:
        constants: The constants on this chip.
        spread: The uncertainty of estimates with them; None for the unit's.
        label: Where they come from, for notes on estimates.
        slower: The factor of what belongs to no unit, where this one does most of the work: changes of the
            unit, and the conversion of inputs and outputs.
    """

    constants: UnitParameters
    spread: Spread | None
    label: str
    slower: float = 1.0


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of all units, and the uncertainty of estimates with them.

    Attributes:
        units: The constants of each unit.
        spreads: The uncertainty of each unit's estimates.
        switch_s: The round trip of coming back to an accelerator.
        convert_Bps: Conversion of inputs and outputs that are not in half precision, and transfers of
            tensors between units.
        own: Constants by chip and unit that replace those scaled to it: a user's calibration.
    """

    units: Mapping[ComputeUnit, FittedConstants]
    spreads: Mapping[ComputeUnit, Spread]
    switch_s: float
    convert_Bps: float  # noqa: N815
    own: Mapping[tuple[str, ComputeUnit], OwnConstants] = msgspec.field(default_factory=dict)

    def with_own(
        self,
        chip: str,
        unit: ComputeUnit,
        constants: UnitParameters,
        spread: Spread | None = None,
        label: str = "",
        slower: float = 1.0,
    ) -> Calibration:
        """Returns a calibration in which a unit of a chip has constants of its own.

        Args:
            chip: The chip's id.
            unit: The compute unit.
            constants: The constants on this chip.
            spread: The uncertainty of estimates with them; None for the unit's.
            label: Where they come from, for notes on estimates.
            slower: The factor of what belongs to no unit; see `OwnConstants`.
        """
        own = OwnConstants(constants=constants, spread=spread, label=label, slower=slower)
        return replace(self, own={**self.own, (chip, unit): own})


@functools.cache
def load_calibration() -> Calibration:
    """The calibration included in the package."""
    file = Path(__file__).parent / "data" / "calibration.json"
    return calibration_of(json.loads(file.read_text(encoding="utf-8")))


def calibration_of(table: Mapping[str, Any]) -> Calibration:
    """The calibration in the content of its file."""
    return Calibration(
        units={unit: _fitted(fitted) for unit, fitted in table["units"].items()},
        spreads={
            unit: msgspec.convert(values, Spread, strict=False) for unit, values in table["spreads"].items()
        },
        switch_s=table["switch_s"],
        convert_Bps=table["convert_Bps"],
    )


def _fitted(table: Mapping[str, Any]) -> FittedConstants:
    return FittedConstants(
        **{
            **table,
            "constants": UnitParameters(**table["constants"]),
            "publications": tuple(table["publications"]),
        }
    )
