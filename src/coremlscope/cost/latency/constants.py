"""The constants of a compute unit on a chip: fitted on a reference chip, scaled by the specifications."""

from __future__ import annotations

import functools
from dataclasses import fields, replace

from coremlscope.cost.latency.calibration import Calibration, UnitParameters
from coremlscope.devices.catalog import all_chips
from coremlscope.devices.chip import Chip
from coremlscope.devices.unit import CPU, NEURAL_ENGINE, ComputeUnit

__all__ = ["constants_of", "faster", "scaled_to"]

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


def constants_of(known: Calibration, chip: Chip, unit: ComputeUnit) -> UnitParameters:
    """Returns the constants of a unit on a chip: its own where they were given, else its family's, scaled.

    Args:
        known: The calibration.
        chip: The chip.
        unit: The compute unit.
    """
    own = known.own.get((chip.id, unit))
    if own is not None:
        return own.constants
    family = known.family(chip, unit)
    return scaled_to(chip, unit, all_chips()[family.reference], family.constants)


def scaled_to(chip: Chip, unit: ComputeUnit, reference: Chip, constants: UnitParameters) -> UnitParameters:
    """Scales constants to another chip by its specification.

    Args:
        chip: The chip.
        unit: The compute unit.
        reference: The chip that the constants are for.
        constants: The constants; `progress` limits the effect of a higher specification.
    """
    speed = (_capability(unit, chip) / _capability(unit, reference)) ** constants.progress
    memory = _bandwidth(chip) / _bandwidth(reference)
    if unit != NEURAL_ENGINE:
        return faster(constants, speed, weights_Bps=constants.weights_Bps * memory, int8_gain=1.0)
    is_mac = chip.id.startswith("m")
    dispatch_s = _MAC_DISPATCH_S if is_mac else constants.dispatch_s
    if chip.neural_engine_generation >= _SHORT_DISPATCH_GENERATION:
        dispatch_s *= constants.dispatch_share
    streamed = chip.value(unit, "weight_stream_Bps") if is_mac else None
    return faster(
        constants,
        speed,
        dispatch_s=dispatch_s,
        weights_Bps=streamed or min(constants.weights_Bps * memory, _STREAM_LIMIT_BPS),
        int8_gain=constants.int8_gain if chip.neural_engine_generation >= _INT8_GENERATION else 1.0,
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
        field.name: getattr(constants, field.name) * speed
        for field in fields(constants)
        if field.name.endswith(("_FLOPps", "_Bps")) and field.name != "weights_Bps"
    }
    return replace(constants, **{**rates, "kernel_s": constants.kernel_s / speed, **changes})


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
