"""The constants of a compute unit on a chip: fitted on a reference chip, scaled by the specifications."""

from __future__ import annotations

import functools
import math

from msgspec.structs import replace

from coremlscope.devices.catalog import all_chips
from coremlscope.devices.chip import Chip
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.latency.calibration import Calibration, UnitParameters

#: Neural Engine generations from H16 (A17 Pro, M4) on are specified by 8-bit operations.
_INT8_GENERATION = 16
#: From this generation on, 8-bit arithmetic is faster: on A16, ResNet50 takes 0.94 ms with 8-bit weights and
#: activations, 1.52 ms without (coremltools guide).
_INT8_ARITHMETIC = 15
#: GPUs have units for matrix products from A19 (H18) and M5 (H17) on (Apple, announcements of both).
_MATRIX_GENERATION, _MATRIX_MAC = 18, 17
#: Largest share of its specified rate that a GPU reaches: published predictions of M1 and M4 Pro reach 0.7.
_REACHED = 0.8
#: Half-precision operations in each cycle of a cluster's matrix unit: an M1 Max does 2.96e12 at 3.2e9 Hz with
#: one thread (corsix/amx, fma.md). Chips before A13 (H12) have none: three vector units of 128 bits a core.
_MATRIX_OF_CLUSTER, _FIRST_MATRIX_UNIT = 2.96e12 / 3.2e9, 12
_VECTOR_OF_CORE = 3 * 8 * 2
#: Clocks rise from one generation to the next where they are not published: from M1 to M2 by 1.09.
_CLOCK_GAIN = 1.08
#: Cores of a cluster at most (eclecticlight.co, Inside M4 chips: P cores), where their clusters are not
#: published.
_CORES_OF_CLUSTER = 6
#: From this generation on, dispatch costs less; see `dispatch_share`.
_SHORT_DISPATCH_GENERATION = 15
#: From this generation on, more stays on the chip; see `on_chip_gain`.
_LARGE_MEMORY_GENERATION = 16
#: Dispatch through Core ML on M1 (maderix and others: less without Core ML); phones need more.
_MAC_DISPATCH_S = 0.268e-3
#: The iOS version (macOS 14) from which on the Neural Engine's compiler rearranges tensors while it reads and
#: writes them. Measurements of macOS 26 show the effect, those of macOS 13 do not; in between there are none.
_FASTER_LAYOUTS = 17
#: The iOS version (macOS 15) from which on CPUs compute in half precision; before it, half precision takes
#: what single precision does. Core ML's graphs of BNNS date from this version. Eight networks of MobileCLIP
#: on an M1 with macOS 14 are 13 % off with this step (median), 33 % without; no constant is fitted to them.
_HALF_PRECISION = 18
#: The limit of one Neural Engine where memory is faster: 51e9 to 70e9 on M1 to M5 (anemll-bench).
_STREAM_LIMIT_BPS = 70e9
#: For A12 to A15, where nothing is published for a chip or related chips.
_COMMON_BANDWIDTH_BPS = 34.1e9
_COMMON = {"performance_clock_Hz": 3.2e9, "fp16_FLOPps": 1.7e12, "fp32_FLOPps": 1.7e12}


def constants_of(known: Calibration, chip: Chip, unit: ComputeUnit) -> UnitParameters:
    """Returns the constants of a unit on a chip: its own if given, else the reference chip's, scaled.

    Args:
        known: The calibration.
        chip: The chip.
        unit: The compute unit.
    """
    own = known.own.get((chip.id, unit))
    if own is not None:
        return own.constants
    fitted = known.units[unit]
    return scaled_to(chip, unit, all_chips()[fitted.reference], fitted.constants)


def scaled_to(chip: Chip, unit: ComputeUnit, reference: Chip, constants: UnitParameters) -> UnitParameters:
    """Scales constants to another chip by its specification.

    Args:
        chip: The chip.
        unit: The compute unit.
        reference: The chip that the constants are for.
        constants: The constants; `progress` limits the effect of a higher specification.
    """
    newer = chip.neural_engine_generation - reference.neural_engine_generation
    is_mac = chip.platform == "macOS"
    speed = (_capability(unit, chip) / _capability(unit, reference)) ** constants.progress
    if unit == NEURAL_ENGINE and not is_mac:
        # Phones gain nothing beyond their specification from A14 to A17 Pro; later ones are not specified.
        newer_than_specified = max(chip.neural_engine_generation - _INT8_GENERATION, 0)
        speed *= constants.generation_gain**newer_than_specified
    else:
        speed *= constants.generation_gain**newer
    memory = _bandwidth(chip) / _bandwidth(reference)
    kernel_s = constants.kernel_s / constants.kernel_gain**newer
    if unit == CPU:
        # One cluster streams no faster than on the reference chip, and slower from a slower memory.
        weights_Bps = constants.weights_Bps * min(memory, 1.0)  # noqa: N806
        scaled = faster(constants, speed, kernel_s=kernel_s, weights_Bps=weights_Bps, int8_gain=1.0)
        return _within_specification(scaled, peak_FLOPps(chip, unit))
    if unit == GPU:
        scaled = faster(
            constants, speed, kernel_s=kernel_s, weights_Bps=constants.weights_Bps * memory, int8_gain=1.0
        )
        scaled = _within_specification(scaled, _REACHED * _capability(unit, chip))
        return _with_matrix_units(scaled) if _has_matrix_units(chip) else scaled
    dispatch_s = _MAC_DISPATCH_S if is_mac else constants.dispatch_s
    if chip.neural_engine_generation >= _SHORT_DISPATCH_GENERATION:
        dispatch_s *= constants.dispatch_share
    is_large = chip.neural_engine_generation >= _LARGE_MEMORY_GENERATION
    streamed = _stream_Bps(chip) if is_mac else None
    scaled = faster(
        constants,
        speed,
        dispatch_s=dispatch_s,
        kernel_s=kernel_s,
        weights_Bps=streamed or min(constants.weights_Bps * memory, _STREAM_LIMIT_BPS),
        on_chip_bytes=constants.on_chip_bytes * (constants.on_chip_gain if is_large else 1.0),
        second_gain=(chip.value(unit, "dual_speedup") or 1.0) - 1.0,
        int8_gain=constants.int8_gain if chip.neural_engine_generation >= _INT8_ARITHMETIC else 1.0,
    )
    # The reference chip's constants are measured ones.
    is_reference = chip.id == reference.id
    return scaled if is_reference else _within_specification(scaled, peak_FLOPps(chip, unit))


def peak_FLOPps(chip: Chip, unit: ComputeUnit) -> float:  # noqa: N802
    """Returns the half-precision operations per second that one unit can do at most.

    Args:
        chip: The chip.
        unit: The unit: one engine of a dual Neural Engine, the shader cores of a GPU without their units for
            matrix products, a CPU's performance cores.
    """
    if unit != CPU:
        return _capability(unit, chip)
    if chip.neural_engine_generation < _FIRST_MATRIX_UNIT:
        return _clock_Hz(chip) * _VECTOR_OF_CORE * (chip.value(CPU, "performance_cores") or 1.0)
    return _clock_Hz(chip) * _MATRIX_OF_CLUSTER * _clusters(chip)


def _clock_Hz(chip: Chip) -> float:  # noqa: N802
    """Returns the clock of performance cores, or that of the closest relative with a gain per generation."""
    for relative in _relatives(chip):
        clock = relative.value(CPU, "performance_clock_Hz")
        if clock:
            newer = chip.neural_engine_generation - relative.neural_engine_generation
            return float(clock * _CLOCK_GAIN**newer)
    return _COMMON["performance_clock_Hz"]


def _clusters(chip: Chip) -> float:
    """Returns how many clusters of performance cores a chip has: each has one unit for matrix products."""
    cores = chip.value(CPU, "performance_cores") or 1.0
    return chip.value(CPU, "performance_clusters") or math.ceil(cores / _CORES_OF_CLUSTER)


def on_system(constants: UnitParameters, release: OSRelease) -> UnitParameters:
    """Returns constants with the effects of a system.

    Before macOS 15 and iOS 18, a CPU takes as long for half precision as for single precision.

    Transformers split and merge heads, which rearranges tensors. That takes less time in measurements with
    macOS 26, on M1 to M5, than in those with macOS 13 and iOS 16, and so does the attention in between.

    Args:
        constants: The constants of a unit on a chip, without effects of systems.
        release: The system.
    """
    if release.core_ml[0] >= _HALF_PRECISION:
        constants = replace(constants, half_bytes=2.0)
    if release.core_ml[0] < _FASTER_LAYOUTS:
        return constants
    gain = constants.attention_gain
    return replace(
        constants,
        layout_Bps=constants.layout_Bps * constants.layout_gain,
        product_FLOPps=constants.product_FLOPps * gain,
        attention_Bps=constants.attention_Bps * gain,
        softmax_Bps=constants.softmax_Bps * gain,
    )


def faster(constants: UnitParameters, speed: float, **changes: float) -> UnitParameters:
    """Returns constants with all rates of kernels multiplied by a factor, and with some values replaced.

    Streaming of weights and the dispatch of a prediction depend on other parts of a chip and stay.

    Args:
        constants: The constants.
        speed: The factor.
        changes: New values by name.
    """
    rates = {
        field: getattr(constants, field) * speed
        for field in constants.__struct_fields__
        if field.endswith(("_FLOPps", "_Bps")) and field != "weights_Bps"
    }
    return replace(constants, **{**rates, "kernel_s": constants.kernel_s / speed, **changes})


def _stream_Bps(chip: Chip) -> float | None:  # noqa: N802
    """Returns the measured streaming of weights, of a chip or of a Pro, Max or Ultra of its family."""
    siblings = [other for other in all_chips().values() if other.family == chip.family != other.id]
    candidates = [chip, *(siblings if chip.family != chip.id else [])]
    measured = (one.value(NEURAL_ENGINE, "weight_stream_Bps") for one in candidates)
    return next((value for value in measured if value), None)


def _has_matrix_units(chip: Chip) -> bool:
    """True for GPUs whose cores have units for matrix products: those of A19 and M5."""
    return chip.neural_engine_generation >= (_MATRIX_GENERATION if chip.platform == "iOS" else _MATRIX_MAC)


def _within_specification(constants: UnitParameters, limit: float) -> UnitParameters:
    """Returns constants whose rates of arithmetic do not exceed a limit."""
    return replace(
        constants,
        dense_FLOPps=min(constants.dense_FLOPps, limit),
        pointwise_FLOPps=min(constants.pointwise_FLOPps, limit / max(constants.linear_share, 1.0)),
        product_FLOPps=min(constants.product_FLOPps, limit),
        grouped_FLOPps=min(constants.grouped_FLOPps, limit),
        depthwise_FLOPps=min(constants.depthwise_FLOPps, limit),
    )


def _with_matrix_units(constants: UnitParameters) -> UnitParameters:
    products, windows = constants.matrix_gain, constants.window_matrix_gain
    return replace(
        constants,
        pointwise_FLOPps=constants.pointwise_FLOPps * products,
        product_FLOPps=constants.product_FLOPps * products,
        dense_FLOPps=constants.dense_FLOPps * windows,
    )


def crossing_share(chip: Chip) -> float:
    """Returns the rate at which tensors change the unit, relative to Macs, whose memories do not limit it."""
    return min(_bandwidth(chip) / _bandwidth(all_chips()["m1"]), 1.0)


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
        # Two engines of an Ultra do not share a prediction; for those of a dual one see `second_gain`.
        engines = max((chip.value(unit, "cores") or 16) / 16, 1)
        if peak is None:
            # Not specified: A13 is 20 % above A12's 5e12; later chips are assumed to equal their
            # neighbours.
            return {12: 6e12}.get(generation, 19e12 if generation > _INT8_GENERATION else 16e12)
        return peak / engines / (2 if generation >= _INT8_GENERATION else 1)
    if unit == CPU:
        # Phones have one cluster, as M1 has, and are as fast: their fewer cores share the same kind of unit.
        return _clusters(chip)
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
