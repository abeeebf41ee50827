"""Checks calibration by own measurements with published ones: each publication plays the user.

Of every publication with enough networks on one chip and unit, some networks are "measured" and calibrate the
estimates, and the others are estimated. The model itself was fitted to these rows, except where the chip or
publication is not in the fit, so what counts is the change, and that intervals hold.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks.latency.dataset import Measurement, Network, in_precision, load_measurements, load_networks
from coremlscope.devices import CPU, GPU, UNITS, ComputeUnit, ComputeUnits
from coremlscope.planning.cost.latency.own import calibrate, device_of
from coremlscope.planning.cost.latency.recorded import estimate_recorded, structure_digest
from coremlscope.planning.cost.latency.table import KernelTable
from coremlscope.results.calibration import KernelColumns, OwnMeasurement

__all__ = ["Outcome", "play", "render"]

#: Networks that the "user" measures, and the least number of others.
_MEASURED, _LEAST_OTHERS = 5, 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimate of a network that was not measured, without and with those that were.

    Attributes:
        unit: The unit.
        before: Logarithm of estimated relative to measured times, without.
        after: The same with.
        holds: Whether the interval holds the measured time, without.
        still_holds: The same with.
        narrower: Width of the interval with, relative to that without, both as logarithms.
    """

    unit: str
    before: float
    after: float
    holds: bool
    still_holds: bool
    narrower: float


def play(draws: int = 4, *, seed: int = 0, publications: Collection[str] = ()) -> list[Outcome]:
    """Returns the outcomes of publications.

    Args:
        draws: How often other networks of a publication are the measured ones.
        seed: Seed of the draws.
        publications: Their names; all of them if empty.
    """
    draw, networks = random.Random(seed), load_networks()
    groups: dict[tuple[str, str, str], dict[str, OwnMeasurement]] = defaultdict(dict)
    for m in load_measurements():
        unit = m.ran_on
        if unit not in ("", "idle") and m.is_fitted and (not publications or m.publication in publications):
            groups[m.publication, m.chip, unit].setdefault(m.network, _own(m, unit, networks[m.network]))
    found: list[Outcome] = []
    for rows in groups.values():
        if len(rows) < _MEASURED + _LEAST_OTHERS:
            continue
        for _ in range(draws):
            shuffled = draw.sample(list(rows.values()), len(rows))
            found += _outcomes(shuffled[:_MEASURED], shuffled[_MEASURED:])
    return found


def _outcomes(measured: Sequence[OwnMeasurement], others: Sequence[OwnMeasurement]) -> list[Outcome]:
    known = calibrate(measured).calibration
    found = []
    for row in others:
        device = device_of(row)
        plain = estimate_recorded(row.kernels, device, row.compute_units).latency
        own = estimate_recorded(row.kernels, device, row.compute_units, known).latency
        found.append(
            Outcome(
                row.unit,
                math.log(plain.value / row.measured_s),
                math.log(own.value / row.measured_s),
                plain.low <= row.measured_s <= plain.high,
                own.low <= row.measured_s <= own.high,
                math.log(own.high / own.low) / math.log(plain.high / plain.low),
            )
        )
    return found


def _own(m: Measurement, unit: ComputeUnit, network: Network) -> OwnMeasurement:
    """A published latency in the form of a user's."""
    table = in_precision(network.table, m.precision)
    columns = {name: tuple(float(x) for x in getattr(table, name)) for name in KernelTable.__struct_fields__}
    columns["steps"] = tuple(float(times) for times in network.times)
    columns["unit"] = (float(UNITS.index(unit)),) * len(table)
    kernels = KernelColumns(columns=columns, order=tuple(range(len(table))))
    settings: dict[str, ComputeUnits] = {CPU: "cpu_only", GPU: "cpu_and_gpu"}
    return OwnMeasurement(
        id=m.row,
        structure=structure_digest(kernels),
        chip=m.chip,
        os=str(m.release),
        compute_units=settings.get(unit, "cpu_and_ne"),
        unit=unit,
        measured_s=m.ms * 1e-3,
        kernels=kernels,
    )


def render(outcomes: Sequence[Outcome]) -> str:
    """Returns the figures as a table."""
    lines = [
        "| unit | n | median error, before | after | within the interval, before | after | width |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for unit in [*UNITS, ""]:
        here = [one for one in outcomes if unit in ("", one.unit)]
        if here:
            before, after = (
                statistics.median(abs(math.expm1(x)) for x in column)
                for column in ([one.before for one in here], [one.after for one in here])
            )
            held = [
                statistics.mean(column)
                for column in zip(*((o.holds, o.still_holds) for o in here), strict=True)
            ]
            cells = [f"{before:.1%}", f"{after:.1%}", *(f"{share:.0%}" for share in held)]
            width = statistics.median(one.narrower for one in here)
            lines.append(f"| {unit or 'all'} | {len(here)} | {' | '.join(cells)} | × {width:.2f} |")
    return "\n".join(lines) + "\n"
