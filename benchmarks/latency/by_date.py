"""Scores each publication by a fit of the publications dated before it: what a user would have been told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.latency.dataset import Measurement, Network
from benchmarks.latency.fit import fit
from benchmarks.latency.intervals import fit_spread, is_inside
from benchmarks.latency.priors import PRIORS
from benchmarks.latency.validate import HeldOut, choose, errors, estimate_all, kind_of
from coremlscope.devices import UNITS, ComputeUnit
from coremlscope.planning.cost.latency.calibration import FAMILIES, Spread

#: Widths before this many measurements were scored: a factor of two, as where nothing was measured.
_FEW = 8
_AT_FIRST = Spread(widths=dict.fromkeys(("iOS", "macOS"), dict.fromkeys(FAMILIES, 0.69)))
_NAMES: Mapping[ComputeUnit, str] = {"neural_engine": "Neural Engine", "cpu": "CPU", "gpu": "CPU and GPU"}


@dataclass(frozen=True, slots=True)
class Scored:
    """A measurement, estimated by a fit of earlier publications.

    Attributes:
        held: The measurement and its estimate.
        is_inside: Whether it is in the 80 % interval, whose width is that of the errors of earlier estimates.
    """

    held: HeldOut
    is_inside: bool


def score_by_date(
    unit: ComputeUnit, measurements: Sequence[Measurement], networks: Mapping[str, Network]
) -> list[Scored]:
    """Scores the measurements of a unit, the earliest first.

    Args:
        unit: The unit.
        measurements: All measurements.
        networks: The networks by name.
    """
    known = PRIORS[unit]
    usable = choose(measurements, unit, every=True)
    found: list[Scored] = []
    for date in sorted({m.date for m in usable}):
        seen = [m for m in usable if m.date < date and m.is_fitted]
        here = [m for m in usable if m.date == date]
        parameters = fit(unit, known, seen, networks).parameters
        held = estimate_all(unit, known, here, networks, parameters)
        before = [one.held for one in found]
        spread = fit_spread(before) if len(before) >= _FEW else _AT_FIRST
        found += [Scored(h, is_inside(h, spread)) for h in held]
    return found


def render_by_date(scored: Mapping[ComputeUnit, Sequence[Scored]]) -> Iterator[str]:
    """Yields the tables by unit, by kind of network and by publication, in Markdown."""
    units = [(_NAMES[unit], scored[unit]) for unit in UNITS if unit in scored]
    yield from _table("unit", units)
    yield ""
    every = [(unit, one) for unit in UNITS for one in scored.get(unit, ())]
    groups = {(_NAMES[unit], _kind(one.held.measurement)) for unit, one in every}
    yield from _table(
        "unit, kind of networks",
        [
            (
                f"{name}, {kind}",
                [o for u, o in every if (_NAMES[u], _kind(o.held.measurement)) == (name, kind)],
            )
            for name, kind in sorted(groups)
        ],
    )
    yield ""
    publications = {(m.date, m.publication) for m in (one.held.measurement for _, one in every)}
    yield from _table(
        "date, publication, unit",
        [
            (f"{date}, {publication}, {_NAMES[unit]}", rows)
            for date, publication in sorted(publications)
            for unit in UNITS
            if (rows := [o for u, o in every if u == unit and _of(o) == (date, publication)])
        ],
    )


def _of(one: Scored) -> tuple[str, str]:
    return one.held.measurement.date, one.held.measurement.publication


def _kind(m: Measurement) -> str:
    try:
        return kind_of(m)
    except StopIteration:
        return "convolutions and attention" if m.family == "mobileclip" else "others"


def _table(title: str, groups: Sequence[tuple[str, Sequence[Scored]]]) -> Iterator[str]:
    yield f"| {title} | n | median | p90 | bias | within |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, rows in groups:
        e = errors([o.held.measurement.ms for o in rows], [o.held.ms for o in rows])
        inside = np.mean([o.is_inside for o in rows])
        yield f"| {name} | {e.count} | {e.median:.0%} | {e.p90:.0%} | {e.bias:+.2f} | {inside:.0%} |"
