"""Compares published latencies of Macs with all compute units with estimates that follow our plan.

The plan decides which unit runs each operation, so these estimates add its errors to those of the latency
model. The constants of every unit come from a fit without the publication and without the family of networks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.latency.dataset import Measurement, device_of, load_networks
from benchmarks.latency.extract import package_of
from benchmarks.latency.fit import Linear, fit, linearize
from benchmarks.latency.priors import PRIORS
from benchmarks.latency.validate import CONTRADICTED, choose
from coremlscope.devices import ComputeUnit, all_chips
from coremlscope.formats import container
from coremlscope.planning.cost.latency.calibration import (
    Calibration,
    FittedConstants,
    Spread,
    load_calibration,
)
from coremlscope.planning.cost.latency.recorded import estimate_recorded
from coremlscope.planning.forecast.planner import record_prediction
from coremlscope.results.estimate import Estimate

__all__ = ["MODELS", "PlannedEstimate", "estimate_planned", "render_planned"]

MODELS = Path(__file__).parents[3] / "shared" / "knowledge" / "latency" / "models"


@dataclass(frozen=True, slots=True)
class PlannedEstimate:
    """A measurement with all units, and the estimates that follow our plan.

    Attributes:
        measurement: The measurement.
        held: The estimate with constants from a fit without its publication and its family of networks.
        seen: The estimate with constants from a fit to all measurements.
        is_sound: Whether the measurement is neither contradicted nor of a publication whose GPU was at the
            low clock of idleness.
    """

    measurement: Measurement
    held: Estimate
    seen: Estimate
    is_sound: bool = True

    @property
    def ratios(self) -> tuple[float, float]:
        """The held-out and the other estimate, relative to the measurement."""
        ms = self.measurement.ms
        return self.held.latency.value * 1e3 / ms, self.seen.latency.value * 1e3 / ms

    @property
    def is_inside(self) -> bool:
        """Whether the measurement is within the interval of the held-out estimate."""
        found = self.held.latency
        return found.low * 1e3 <= self.measurement.ms <= found.high * 1e3


def estimate_planned(
    measurements: Sequence[Measurement], spreads: Mapping[ComputeUnit, Spread]
) -> list[PlannedEstimate]:
    """Estimates the measurements of Macs with all units; empty without the models.

    Args:
        measurements: All measurements.
        spreads: The widths of the intervals.
    """
    if not MODELS.is_dir():
        return []
    return [
        _estimate(m, tuple(measurements), spreads)
        for m in measurements
        if m.setting == "all"
        and all_chips()[m.chip].platform == "macOS"
        and package_of(MODELS, m.network) is not None
    ]


def _is_sound(measurement: Measurement, others: Sequence[Measurement]) -> bool:
    idle = {(m.publication, m.chip) for m in others if m.ran_on == "idle"}
    m = measurement
    return (m.publication, m.chip) not in idle and (m.chip, m.network) not in CONTRADICTED


def _estimate(
    m: Measurement, measurements: tuple[Measurement, ...], spreads: Mapping[ComputeUnit, Spread]
) -> PlannedEstimate:
    device, package = device_of(m), package_of(MODELS, m.network)
    assert package is not None
    recorded = record_prediction(container.read(package), device, "all")
    held, seen = (
        estimate_recorded(recorded, device, "all", replace(_fitted(measurements, *left_out), spreads=spreads))
        for left_out in ((m.publication, m.family), ("", ""))
    )
    return PlannedEstimate(m, held, seen, _is_sound(m, measurements))


@functools.cache
def _fitted(measurements: tuple[Measurement, ...], publication: str, kind: str) -> Calibration:
    """Returns the constants of all units, fitted without a publication and a family of networks."""
    known, networks = load_calibration(), load_networks()
    units: dict[ComputeUnit, FittedConstants] = {}
    for unit, one in known.units.items():
        chosen, around = _whole(measurements, unit)
        seen = [p for p, m in enumerate(chosen) if m.publication != publication and m.family != kind]
        found = fit(unit, PRIORS[unit], [chosen[p] for p in seen], networks, around.of(seen))
        units[unit] = replace(one, constants=found.parameters)
    return replace(known, units=units)


@functools.cache
def _whole(measurements: tuple[Measurement, ...], unit: ComputeUnit) -> tuple[list[Measurement], Linear]:
    """Returns the measurements of a unit, and their estimates around the fit to all of them."""
    networks, chosen = load_networks(), choose(measurements, unit)
    whole = fit(unit, PRIORS[unit], chosen, networks)
    return chosen, linearize(unit, PRIORS[unit], chosen, networks, whole.logs)


def render_planned(found: Sequence[PlannedEstimate]) -> Iterator[str]:
    """Yields the section of the page in Markdown."""
    if not found:
        return
    yield from (
        "",
        "## All units of Macs",
        "",
        "Published latencies with all compute units, beside estimates that follow our plan, whose errors are"
        " part of these. *In sample* are constants from a fit to all measurements. Chips are without the"
        " measurements of publications whose GPU was at a low clock between predictions, and without those"
        " that others contradict by a factor of five or more. What changes of unit take, 0.4 ms for coming"
        " back to an accelerator and 20 GB/s for tensors that are read on another unit, was chosen with the"
        " rows that change the unit twice or more known.",
        "",
        "| measurements | n | median | median in sample | within |",
        "|---|---:|---:|---:|---:|",
    )
    sound = [one for one in found if one.is_sound]
    groups = [("all", list(found)), ("without low clocks and contradicted ones", sound)]
    groups += [
        (all_chips()[chip].name, [one for one in sound if one.measurement.chip == chip])
        for chip in sorted({one.measurement.chip for one in sound})
    ]
    for name, group in groups:
        held, seen = (
            np.median(np.abs(np.array(r) - 1)) for r in zip(*(g.ratios for g in group), strict=True)
        )
        inside = np.mean([one.is_inside for one in group])
        yield f"| {name} | {len(group)} | {held:.1%} | {seen:.1%} | {inside:.0%} |"
