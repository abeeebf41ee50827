"""Refines the constants of chips by a user's own measurements of them.

A measurement is compared with our estimate of the same kernels on the same unit. All measurements of a unit
of a chip give one factor, by which all its constants become slower or faster; see `refinement`. Single rates
are not fitted: a handful of networks cannot tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Figure
from coremlscope.devices import UNITS, Chip, ComputeUnit, Device, all_chips
from coremlscope.devices.catalog import find_device
from coremlscope.planning.cost.latency.calibration import (
    FAMILIES,
    Calibration,
    UnitParameters,
    load_calibration,
)
from coremlscope.planning.cost.latency.constants import constants_of, faster
from coremlscope.planning.cost.latency.recorded import estimate_recorded, is_current, on_unit
from coremlscope.planning.cost.latency.refinement import Refinement, refine
from coremlscope.results.calibration import (
    CheckedMeasurement,
    OwnCalibration,
    OwnMeasurement,
    UnitCorrection,
)
from coremlscope.results.estimate import Estimate

#: Standard deviations of an 80 % interval of a normal distribution.
_Z80 = 1.2816
#: Standard deviation between publications of a chip.
_PUBLICATIONS = 0.2
#: Standard deviation between machines and tools of one chip, where publications of it agree.
_MACHINES = 0.2
#: Networks scatter around their estimates at least this much.
_LEAST_NETWORK = 0.15
#: Units with a smaller share of an estimate's time do not decide what it is based on.
_MATTERS = 0.1
#: Another unit is the likelier one if its estimate is this much nearer, as a factor.
_LIKELIER = 1.5


class Own(msgspec.Struct, frozen=True):
    """The constants with a user's measurements, and what these say.

    Attributes:
        calibration: The constants; None for those included in the package.
        corrections: What the measurements of each unit of a chip say.
        stale: Measurements that were recorded by another version.
    """

    calibration: Calibration | None = None
    corrections: tuple[UnitCorrection, ...] = ()
    stale: tuple[OwnMeasurement, ...] = ()

    def label(self, estimate: Estimate) -> OwnCalibration | None:
        """Returns which measurements an estimate uses; None if it uses none."""
        units = {unit for unit, share in estimate.placement.items() if share >= _MATTERS}
        used = [
            one for one in self.corrections if one.chip == estimate.chip and one.unit in units and one.models
        ]
        if not used:
            return None
        return OwnCalibration(
            measurements=sum(one.measurements for one in used),
            models=sum(one.models for one in used),
            factors={one.unit: one.factor.value for one in used},
        )


NOTHING_OWN = Own()


class _Group(msgspec.Struct):
    """The measurements of a unit of a chip, and the logarithms of their ratios to our estimates."""

    chip: Chip
    unit: ComputeUnit
    rows: list[OwnMeasurement] = msgspec.field(default_factory=list)
    estimated_s: list[float] = msgspec.field(default_factory=list)

    @property
    def log_ratios(self) -> list[float]:
        pairs = zip(self.rows, self.estimated_s, strict=True)
        return [math.log(row.measured_s / seconds) for row, seconds in pairs]


def calibrate(measurements: Sequence[OwnMeasurement], known: Calibration | None = None) -> Own:
    """Refines constants by measurements.

    Args:
        measurements: The measurements, of any chips and units.
        known: The constants that are refined; None for those included in the package.
    """
    known = known or load_calibration()
    groups: dict[tuple[str, ComputeUnit], _Group] = {}
    stale = []
    for row in measurements:
        if not is_usable(row):
            stale.append(row)
            continue
        group = groups.setdefault((row.chip, row.unit), _Group(all_chips()[row.chip], row.unit))
        group.rows.append(row)
        group.estimated_s.append(_estimate_s(row, known))
    refined, corrections = known, []
    for group in groups.values():
        between, within = _prior(group, known)
        found = refine(group.log_ratios, [row.structure for row in group.rows], between, within)
        if found.models:
            refined = _refined(refined, known, group, found)
        corrections.append((group, found))
    return Own(
        calibration=refined,
        corrections=tuple(_correction(group, found, known, refined) for group, found in corrections),
        stale=tuple(stale),
    )


def is_usable(row: OwnMeasurement) -> bool:
    """Returns whether a measurement can be compared with an estimate by this version."""
    has_time = math.isfinite(row.measured_s) and row.measured_s > 0
    return has_time and row.chip in all_chips() and is_current(row.kernels)


def _estimate_s(row: OwnMeasurement, known: Calibration) -> float:
    return estimate_recorded(row.kernels, device_of(row), row.compute_units, known).latency.value


def device_of(row: OwnMeasurement) -> Device:
    """Returns the chip of a measurement with its system; with the newest one where it is not known."""
    try:
        return find_device(row.chip, row.os or None)
    except UsageError:
        return find_device(row.chip)


def _prior(group: _Group, known: Calibration) -> tuple[float, float]:
    """Returns the spread of a unit's factor before anything was measured, and that of one network."""
    widths = known.spreads[group.unit].widths[group.chip.platform]
    whole = min(widths.values()) / _Z80
    between = math.hypot(_PUBLICATIONS, _MACHINES)
    return between, max(math.sqrt(max(whole**2 - _PUBLICATIONS**2, 0.0)), _LEAST_NETWORK)


def _refined(
    refined: Calibration,
    known: Calibration,
    group: _Group,
    found: Refinement,
) -> Calibration:
    """Returns a calibration with the factor of a unit, and with the interval that its evidence allows."""
    width = _Z80 * math.hypot(found.network_spread, found.factor_spread)
    own = replace(
        known.spreads[group.unit],
        widths={group.chip.platform: dict.fromkeys(FAMILIES, width)},
        older={},
    )
    constants = _slower(constants_of(known, group.chip, group.unit), found.factor)
    label = f"{found.measurements} of your measurements"
    return refined.with_own(group.chip.id, group.unit, constants, own, label, found.factor)


def _slower(constants: UnitParameters, factor: float) -> UnitParameters:
    """Returns constants with which every term of a unit takes longer by a factor."""
    slowed = faster(constants, 1 / factor)
    return replace(
        slowed, dispatch_s=constants.dispatch_s * factor, weights_Bps=constants.weights_Bps / factor
    )


def _correction(group: _Group, found: Refinement, known: Calibration, refined: Calibration) -> UnitCorrection:
    half = math.exp(_Z80 * found.factor_spread)
    checked = []
    for place, (row, seconds) in enumerate(zip(group.rows, group.estimated_s, strict=True)):
        apart = found.apart.get(place)
        checked.append(
            CheckedMeasurement(
                measurement=row,
                estimated_s=seconds,
                refined_s=_estimate_s(row, refined),
                apart=apart,
                like=None if apart is None else _likelier(row, seconds, known),
            )
        )
    return UnitCorrection(
        chip=group.chip.id,
        unit=group.unit,
        factor=Figure(found.factor, found.factor / half, found.factor * half, "estimated"),
        network_spread=found.network_spread,
        measurements=found.measurements,
        models=found.models,
        checked=tuple(checked),
    )


def _likelier(row: OwnMeasurement, seconds: float, known: Calibration) -> ComputeUnit | None:
    """Returns another unit that a measurement is nearer to, if there is one."""
    off: Mapping[ComputeUnit, float] = {
        unit: abs(
            math.log(row.measured_s / _estimate_s(replace(row, kernels=on_unit(row.kernels, unit)), known))
        )
        for unit in UNITS
        if unit != row.unit
    }
    nearest = min(off, key=lambda unit: off[unit])
    mine = abs(math.log(row.measured_s / seconds))
    return nearest if off[nearest] + math.log(_LIKELIER) < mine else None
