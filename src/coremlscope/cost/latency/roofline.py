"""The time of kernels on a compute unit: a roofline model with effective ceilings per kind and shape."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coremlscope.cost.latency.calibration import UnitParameters
from coremlscope.cost.latency.kinds import KERNEL_KINDS, KernelKind
from coremlscope.cost.latency.table import Floats, KernelTable
from coremlscope.devices.catalog import all_chips
from coremlscope.devices.chip import Chip
from coremlscope.devices.unit import CPU, NEURAL_ENGINE, ComputeUnit

__all__ = ["KernelTimes", "Scale", "scale_of", "time_kernels"]

#: Neural Engine generations from H16 (A17 Pro, M4) on are specified by 8-bit operations.
_INT8_GENERATION = 16
#: From this generation on, dispatch costs less; see `dispatch_share`.
_SHORT_DISPATCH_GENERATION = 15
#: Dispatch through Core ML on M1 (maderix and others: less without Core ML); phones need more.
_MAC_DISPATCH_S = 0.268e-3
#: The limit of one Neural Engine where memory is faster: 51e9 to 70e9 on M1 to M5 (anemll-bench).
_STREAM_LIMIT_BPS = 70e9
#: For A12 to A15, where nothing is published for a chip or related chips.
_COMMON_BANDWIDTH_BPS = 34.1e9
_COMMON = {"performance_clock_Hz": 3.2e9, "fp16_FLOPps": 1.7e12, "fp32_FLOPps": 1.7e12}
#: Bytes of a number in the Neural Engine and, in practice, on the GPU.
_HALF = 2.0
#: Positions of a window of 3×3.
_WINDOW = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A chip relative to the reference chip of its unit's parameters.

    Attributes:
        speed: The ratio of compute and data rates.
        dispatch: The ratio of dispatch overheads.
        memory: The ratio of memory bandwidths.
        weights_Bps: The measured streaming rate of weights; None where it was not published.
        has_int8: True where 8-bit arithmetic is faster.
    """

    speed: float = 1.0
    dispatch: float = 1.0
    memory: float = 1.0
    weights_Bps: float | None = None  # noqa: N815
    has_int8: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """Seconds of each kernel, by component.

    Attributes:
        compute: Arithmetic.
        activations: Reading and writing of activations.
        weights: Streaming of weights that were not prefetched.
        extra: Added to the slowest of these: functions, gates, kernel overhead.
        total: The whole kernel.
        stream: Streaming of all weights, prefetched ones included: a lower bound for all kernels together.
    """

    compute: Floats
    activations: Floats
    weights: Floats
    extra: Floats
    total: Floats
    stream: Floats


def scale_of(unit: ComputeUnit, chip: Chip, reference: Chip, parameters: UnitParameters) -> Scale:
    """The scale of a chip, by its specification.

    Args:
        unit: The compute unit.
        chip: The chip.
        reference: The chip that the parameters are for.
        parameters: The unit's parameters; `progress` limits the effect of a higher specification.
    """
    ratio = _capability(unit, chip) / _capability(unit, reference)
    speed = ratio**parameters.progress
    memory = _bandwidth(chip) / _bandwidth(reference)
    if unit != NEURAL_ENGINE:
        return Scale(speed=speed, memory=memory)
    is_mac = chip.id.startswith("m")
    dispatch = _MAC_DISPATCH_S / parameters.dispatch_s if is_mac else 1.0
    if chip.neural_engine_generation >= _SHORT_DISPATCH_GENERATION:
        dispatch *= parameters.dispatch_share
    return Scale(
        speed=speed,
        dispatch=dispatch,
        memory=min(memory, _STREAM_LIMIT_BPS / parameters.weights_Bps),
        weights_Bps=chip.value(unit, "weight_stream_Bps") if is_mac else None,
        has_int8=chip.neural_engine_generation >= _INT8_GENERATION,
    )


def _bandwidth(chip: Chip) -> float:
    for relative in _relatives(chip):
        facts = relative.memory.get("bandwidth_Bps")
        if facts:
            return facts[0].value
    return _COMMON_BANDWIDTH_BPS


def _capability(unit: ComputeUnit, chip: Chip) -> float:
    """Operations per second by specification, of the same kind for every chip."""
    if unit == NEURAL_ENGINE:
        peak = chip.value(unit, "peak_OPps")
        generation = chip.neural_engine_generation
        # Two engines of an Ultra do not share a prediction.
        engines = max((chip.value(unit, "cores") or 16) / 16, 1)
        if peak is None:
            # Not specified: A13 is 20 % above A12's 5e12; later chips are assumed to equal their
            # neighbours.
            return {12: 6e12}.get(generation, 19e12 if generation > _INT8_GENERATION else 16e12)
        return peak / engines / (2 if generation >= _INT8_GENERATION else 1)
    if unit == CPU:
        return _of_relatives(chip, unit, "performance_clock_Hz") * (
            chip.value(unit, "performance_cores") or 2
        )
    name = "fp16_FLOPps" if chip.value(unit, "fp16_FLOPps") else "fp32_FLOPps"
    return _of_relatives(chip, unit, name, "cores")


def _of_relatives(chip: Chip, unit: ComputeUnit, name: str, per: str = "") -> float:
    """A number of a chip, or of its closest published relative, scaled by `per`."""
    for relative in _relatives(chip):
        value = relative.value(unit, name)
        mine, theirs = (c.value(unit, per) if per else 1.0 for c in (chip, relative))
        if value and mine and theirs:
            return value * mine / theirs
    return _COMMON[name]


@functools.cache
def _relatives_of(id_: str) -> tuple[Chip, ...]:
    chips = all_chips()
    me = chips[id_]

    def distance(other: Chip) -> tuple[bool, bool, int]:
        return other.id != id_, other.family != me.family, -other.neural_engine_generation

    older = [
        other
        for other in chips.values()
        if other.platform == me.platform
        and (other.family == me.family or other.neural_engine_generation < me.neural_engine_generation)
    ]
    return tuple(sorted(older, key=distance))


def _relatives(chip: Chip) -> tuple[Chip, ...]:
    """A chip, those of its family, and older ones of its platform, the latest first."""
    return _relatives_of(chip.id) if chip.id in all_chips() else (chip,)


def time_kernels(
    table: KernelTable, unit: ComputeUnit, parameters: UnitParameters, scale: Scale
) -> KernelTimes:
    """The time of each kernel.

    Args:
        table: The kernels.
        unit: The unit that runs them.
        parameters: The unit's parameters.
        scale: The chip relative to the reference chip.
    """
    p = parameters
    size = table.element_bytes if unit == CPU else np.full(len(table), _HALF)
    gain = np.where(table.int8 > 0, p.int8_gain if scale.has_int8 else 1.0, 1.0)
    compute = 2 * _multiplications(table, p) / (_arithmetic(table, p) * gain)
    size = np.where((table.int8 > 0) & scale.has_int8, size / 2, size)
    attention = table.is_kind("attention")
    activations = _moving(table, p, size)
    spilled = np.maximum(size * table.inputs - p.on_chip_bytes, 0) + np.maximum(
        size * table.outputs - p.on_chip_bytes, 0
    )
    streamed = table.weight_bytes * (1.0 if unit == CPU else np.minimum(_HALF / table.element_bytes, 1.0))
    stream_Bps = scale.weights_Bps or p.weights_Bps * scale.memory  # noqa: N806
    weights = np.maximum(streamed - p.prefetch_bytes, 0) / stream_Bps
    passes = np.where(attention, size * table.vector / p.softmax_Bps, size * table.vector / p.function_Bps)
    passes = passes + size * table.gated / p.gate_Bps
    compute, activations = compute / scale.speed, (activations + spilled / p.spill_Bps) / scale.speed
    extra = (passes + p.kernel_s) / scale.speed
    total = np.maximum(np.maximum(compute, activations), weights) + extra
    return KernelTimes(
        compute=compute,
        activations=activations,
        weights=weights,
        extra=extra,
        total=total,
        stream=streamed / stream_Bps,
    )


def _multiplications(table: KernelTable, p: UnitParameters) -> Floats:
    """Multiply-adds as computed: with padded channels, and fewer for windows of 3×3."""
    step = p.channels_step
    filled = np.ceil(table.in_channels / step) * step / np.maximum(table.in_channels, 1)
    macs = np.where(table.is_kind("conv", "pointwise", "linear"), table.macs * filled, table.macs)
    plain_windows = table.is_kind("conv") & (table.taps == _WINDOW) & (table.stride == 1)
    return np.where(plain_windows, macs / p.window_gain, macs)


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
    flat = table.is_kind("linear", "recurrent") & (table.height == 1) & (table.width > 1)
    rate[flat] *= p.flat_share
    return rate


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
