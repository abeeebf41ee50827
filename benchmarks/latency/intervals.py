"""Fits the width of the prediction intervals to the errors of held-out estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.latency.dataset import Measurement
from benchmarks.latency.validate import HeldOut
from coremlscope.cost.latency.calibration import Spread
from coremlscope.cost.latency.model import spread_of
from coremlscope.cost.latency.table import Floats
from coremlscope.devices import all_chips

#: A normal distribution holds 80 % of its mass within this many standard deviations.
_Z80 = 1.2816
#: Minimum extent of an interval to either side, in standard deviations.
_LEAST = 0.25
#: Target coverage of held-out measurements: slightly more than 80 %, because both the publication and the
#: family of a new network may be unseen.
_AIM = 0.82
#: Chips with fewer measurements than this get the uncertainty of chips without measurements.
_FEW = 6
#: Minimum widening for chips without measurements: too few chips were measured for a better estimate.
_INHERITED = 0.3
#: Widening where more than one unit works: no published latencies include the placement.
_MIXED = 0.4


def fit_spread(held: Sequence[HeldOut]) -> Spread:
    """Fits the spread to the target coverage of held-out measurements, chip by chip (conformal prediction).

    A new network may be of a family, and measured by a publication, that are not in the calibration data, so
    the errors of both kinds of hold-out have equal weight. The chip with the most measurements determines the
    lower and upper extent of the intervals; the other chips widen them. Chips without measurements get the
    uncertainty of chips that were held out as a whole.

    Args:
        held: The measurements, with held-out estimates.
    """
    chips = np.array([h.measurement.chip for h in held] * 2)
    unusual = np.array([h.unusual for h in held] * 2)
    off = np.concatenate(
        [_off(held, lambda h: h.without_publication), _off(held, lambda h: h.without_family)]
    )
    good = np.isfinite(off)
    most = max(set(chips[good]), key=lambda chip: int(np.sum(chips[good] == chip)))
    own = good & (chips == most)
    base, slope = _quantile_line(unusual[own], np.abs(off[own]) / _Z80)
    sigma = base + slope * unusual
    ends = np.quantile(off[own] / sigma[own], [(1 - _AIM) / 2, (1 + _AIM) / 2])
    below, above = max(-ends[0], _LEAST), max(ends[1], _LEAST)
    apart = _off(held, lambda h: h.without_chip)
    inherited = np.isfinite(apart)
    by_chip = {}
    for chip in sorted(set(chips)):
        here = good & (chips == chip)
        if here.sum() >= 2 * _FEW:
            by_chip[str(chip)] = _widening(off[here], sigma[here], below, above)
    # Inherited parameters are less certain than those measured on any chip.
    inheriting = _widening(apart[inherited], sigma[: len(held)][inherited], below, above)
    extrapolated = max(inheriting, _INHERITED, *by_chip.values())
    by_chip |= {str(chip): extrapolated for chip in set(chips) if chip not in by_chip}
    return Spread(
        base=round(base, 3),
        unusual=round(slope, 3),
        by_chip=by_chip,
        extrapolated=extrapolated,
        mixed=_MIXED,
        below=round(float(below), 3),
        above=round(float(above), 3),
    )


def coverage(
    held: Sequence[HeldOut], estimate: Callable[[HeldOut], float], spread: Callable[[HeldOut], Spread]
) -> float:
    """Returns the share of measurements within the 80 % intervals around their held-out estimates.

    Args:
        held: The measurements.
        estimate: Selects one of the held-out estimates.
        spread: Returns the spread for the interval of a measurement.
    """
    inside = [_is_inside(h, estimate(h), spread(h)) for h in held if np.isfinite(estimate(h))]
    return float(np.mean(inside)) if inside else float("nan")


def _is_inside(h: HeldOut, estimate: float, spread: Spread) -> bool:
    sigma = spread_of(spread, all_chips()[h.measurement.chip], h.unusual)
    return bool(-spread.below * sigma <= np.log(h.measurement.ms / estimate) <= spread.above * sigma)


def unseen_spreads(held: Sequence[HeldOut], key: Callable[[Measurement], str]) -> dict[str, Spread]:
    """Returns for each group the spread fitted to the other groups only."""
    groups = {key(h.measurement) for h in held}
    found = {}
    for group in groups:
        rest = [h for h in held if key(h.measurement) != group]
        found[group] = fit_spread(rest if rest else held)
    return found


def _off(held: Iterable[HeldOut], estimate: Callable[[HeldOut], float]) -> Floats:
    """Returns the logarithms of the ratios of measurements to estimates."""
    return np.array([np.log(h.measurement.ms / estimate(h)) for h in held])


def _quantile_line(x: Floats, y: Floats) -> tuple[float, float]:
    """Fits the line below which the target share of the points is, by quantile regression."""
    best = (np.inf, 0.1, 0.0)
    for slope in np.arange(0.0, 1.01, 0.05):
        rest = y - slope * x
        base = max(float(np.quantile(rest, _AIM)), 0.02)
        error = rest - base
        loss = float(np.sum(np.maximum(_AIM * error, (_AIM - 1) * error)))
        best = min(best, (loss, base, float(slope)))
    return best[1], best[2]


def _widening(off: Floats, sigma: Floats, below: float, above: float) -> float:
    """Returns the standard deviation to add in quadrature for the target coverage."""
    for extra in np.arange(0.0, 1.5, 0.01):
        wide = np.hypot(sigma, extra)
        if np.mean((-below * wide <= off) & (off <= above * wide)) >= _AIM:
            return round(float(extra), 2)
    return 1.5
