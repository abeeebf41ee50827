"""The time of kernels on a compute unit: a roofline model with effective ceilings per kind and shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.devices.unit import CPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.latency.calibration import UnitParameters
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS, KernelKind
from coremlscope.planning.cost.latency.table import Floats, KernelTable

#: Bytes of a number in the Neural Engine and, in practice, on the GPU.
_HALF = 2.0
#: Kernels that only move data or work on single elements.
_LIGHT: tuple[KernelKind, ...] = ("elementwise", "layout", "channels", "reshape", "copy")
#: Positions of a window of 3×3.
_WINDOW = 9
#: Numbers that a row of the Neural Engine is filled up to a multiple of: 64 bytes (coremltools, and Apple's
#: article on transformers for the Neural Engine).
_ROW_STEP = 32


#: What a kernel takes on one engine before the second one of a dual Neural Engine helps: against an M4, an M6
#: gains 1.42 on ResNet-50 and 2.3 at batch 16 (751K, Microarchitecture of the Apple M6 Neural Engine).
_ALONE_S = 20e-6


class KernelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of each kernel: four terms that add up to the whole.

    Where two terms run at the same time, only the slower one counts, and the other is zero.

    Attributes:
        compute: Arithmetic.
        activations: Reading and writing of activations.
        weights: Streaming of weights that were not prefetched.
        operations: Overheads: of starting a kernel, of functions and gates at its end.
        stream: Streaming of all weights, prefetched ones included: a lower bound for all kernels together.
    """

    compute: Floats
    activations: Floats
    weights: Floats
    operations: Floats
    stream: Floats

    @property
    def total(self) -> Floats:
        """The whole of each kernel."""
        return self.compute + self.activations + self.weights + self.operations


def time_kernels(table: KernelTable, unit: ComputeUnit, parameters: UnitParameters) -> KernelTimes:
    """The time of each kernel.

    Args:
        table: The kernels.
        unit: The unit that runs them.
        parameters: The unit's constants on the chip; see `constants_of`.
    """
    p = parameters
    size = np.full(len(table), _HALF)
    if unit == CPU:
        is_half = table.element_bytes == _HALF
        size = np.where(is_half, p.half_bytes, table.element_bytes)
    gain = np.where(table.int8 > 0, p.int8_gain, 1.0)
    single = np.where(size > _HALF, p.single_share, 1.0)
    compute = 2 * _multiplications(table, unit, p) / (_arithmetic(table, p) * gain * single)
    size = np.where((table.int8 > 0) & (p.int8_gain > 1), size / 2, size)
    attention = table.is_kind("attention")
    spilled = np.maximum(size * table.inputs - p.on_chip_bytes, 0) + np.maximum(
        size * table.outputs - p.on_chip_bytes, 0
    )
    activations = _moving(table, p, size) + spilled / p.spill_Bps
    streamed = table.weight_bytes * np.where(
        unit == CPU, np.maximum(size / table.element_bytes, 1.0), np.minimum(_HALF / table.element_bytes, 1.0)
    )
    # A step of a recurrence waits for the one before it: it starts by itself, and reads the weights again
    # that do not stay on the chip.
    in_turn = np.where(table.is_kind("recurrent"), np.maximum(table.height, 1.0), 1.0)
    again = np.maximum(streamed - p.on_chip_bytes, 0) * (_passes(table, p) * in_turn - 1)
    weights = np.maximum(streamed + again - p.prefetch_bytes, 0) / p.weights_Bps
    softmax_Bps = np.where(_are_batched(table), p.batch_share, 1.0) * p.attention_Bps  # noqa: N806
    passes = size * table.vector / np.where(attention, softmax_Bps, p.function_Bps)
    passes = passes + size * table.gated / p.gate_Bps
    if p.second_gain:
        work = np.maximum(np.maximum(compute, activations), _ALONE_S)
        together = (_ALONE_S + (work - _ALONE_S) / (1 + p.second_gain)) / work
        compute, activations = compute * together, activations * together
    hidden = weights if p.weights_hidden else 0.0
    slowest = np.maximum(np.maximum(compute, activations), hidden)
    by_compute = compute >= slowest
    by_weights = (~by_compute & (hidden > activations)) | (not p.weights_hidden)
    by_activations = ~by_compute & (activations >= slowest)
    overhead = np.where(table.is_kind(*_LIGHT), p.light_share, 1.0) * p.kernel_s
    return KernelTimes(
        compute=np.where(by_compute, compute, 0.0),
        activations=np.where(by_activations, activations, 0.0),
        weights=np.where(by_weights, weights, 0.0),
        operations=passes + overhead + p.light_share * p.kernel_s * (in_turn - 1),
        stream=streamed / p.weights_Bps,
    )


def _multiplications(table: KernelTable, unit: ComputeUnit, p: UnitParameters) -> Floats:
    """Multiply-adds as computed: with padded channels and heads, and fewer for windows of 3×3."""
    # A CPU's matrix unit takes the numbers of a window as one row.
    depth = table.in_channels * np.where(table.is_kind("conv") & (unit == CPU), np.maximum(table.taps, 1), 1)
    filled = table.macs * _filled(depth, p.channels_step)
    macs = np.where(table.is_kind("conv", "pointwise", "linear"), filled, table.macs)
    if unit == NEURAL_ENGINE:
        macs = np.where(
            table.is_kind("attention", "matmul"), macs * _filled(table.in_channels, _ROW_STEP), macs
        )
    plain_windows = table.is_kind("conv") & (table.taps == _WINDOW) & (table.stride == 1)
    return np.where(plain_windows, macs / p.window_gain, macs)


def _filled(depth: Floats, step: float) -> Floats:
    """By what factor sums grow that are padded to a multiple of a number."""
    return np.asarray(np.ceil(depth / step) * step / np.maximum(depth, 1))


def _moving(table: KernelTable, p: UnitParameters, size: Floats) -> Floats:
    """Seconds of reading and writing activations on the chip."""
    moved = size * (table.inputs + table.outputs)
    # The mean of a map, the mean of its squares, then a pass over the elements.
    twice = 2 * size * table.inputs / p.reduce_Bps + moved / p.elementwise_Bps
    return np.where(table.is_kind("map_norm"), twice, moved / _movement(table, p))


def _arithmetic(table: KernelTable, p: UnitParameters) -> Floats:
    """The ceiling of each kernel's arithmetic."""
    linear = p.pointwise_FLOPps * p.linear_share
    rate = _by_kind(
        table,
        p.product_FLOPps,
        {
            "conv": p.dense_FLOPps,
            "pointwise": p.pointwise_FLOPps,
            "depthwise": p.depthwise_FLOPps,
            "grouped": p.grouped_FLOPps,
            "linear": linear,
            "recurrent": linear,
        },
    )
    few = _are_flat(table, p, "linear", "recurrent", "pointwise") & (table.width < p.flat_rows)
    rate[few] *= table.width[few] / p.flat_rows
    rate[_are_batched(table)] *= p.batch_share
    return rate


def _passes(table: KernelTable, p: UnitParameters) -> Floats:
    """How often each kernel reads its weights: `linear` once for each block of flat rows."""
    many = _are_flat(table, p, "linear", "recurrent") & (table.width > p.flat_rows)
    return np.divide(table.width, p.flat_rows, out=np.ones(len(table)), where=many)


def _are_batched(table: KernelTable) -> npt.NDArray[np.bool_]:
    """True for products of tensors of several samples."""
    return np.asarray(table.is_kind("attention", "matmul") & (table.height > 1))


def _are_flat(table: KernelTable, p: UnitParameters, *kinds: KernelKind) -> npt.NDArray[np.bool_]:
    """True for kernels of these kinds with several flat rows, on units where their form matters."""
    flat = (table.height == 1) & (table.width > 1) & (p.flat_rows > 0)
    return np.asarray(table.is_kind(*kinds) & flat)


def _movement(table: KernelTable, p: UnitParameters) -> Floats:
    """The ceiling of each kernel's movement of activations."""
    return _by_kind(
        table,
        p.activation_Bps,
        {
            "elementwise": p.elementwise_Bps,
            "softmax": p.softmax_Bps,
            "norm": p.norm_Bps,
            "reduce": p.reduce_Bps,
            "pool": p.pool_Bps,
            "copy": p.copy_Bps,
            "channels": p.channels_Bps,
            "reshape": p.reshape_Bps,
            "layout": p.layout_Bps,
            "resize": p.resize_Bps,
            "other": p.layout_Bps,
        },
    )


def _by_kind(table: KernelTable, common: float, others: Mapping[KernelKind, float]) -> Floats:
    """One value for each kernel, by its kind."""
    values = np.full(len(KERNEL_KINDS), common)
    for kind, value in others.items():
        values[KERNEL_KINDS.index(kind)] = value
    return values[table.kind]
