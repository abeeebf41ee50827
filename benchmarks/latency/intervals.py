"""How wide intervals must be, by how far estimates were off that did not see what they estimate."""

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
#: An interval goes at least this many standard deviations to either side.
_LEAST = 0.25
#: What the intervals aim to hold of measurements that were held out: a little more than 80 %, as some of them
#: are of publications and some of families that nobody has seen.
_AIM = 0.82
#: Chips with fewer measurements than this are taken to be as unsure as those without any.
_FEW = 6
#: What chips without measurements are widened by at least: too few chips were measured to know it better.
_INHERITED = 0.3
#: Where more than one unit works: nobody published latencies with the placement beside them.
_MIXED = 0.4


def fit_spread(held: Sequence[HeldOut]) -> Spread:
    """The spread that holds the aimed share of what was held out, chip by chip (conformal prediction).

    Whoever estimates a network has one of a family and by a publication that the calibration may not know:
    the errors of both ways of holding out count, alike. How far an interval goes up and down is told by the
    chip with most measurements; others are wider. Chips without measurements are as unsure as those are that
    were held out as a whole.

    Args:
        held: The measurements, with estimates that did not see them.
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
    # Whatever a chip inherits is less sure than what was measured on any.
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
    """The share of measurements within the 80 % intervals around estimates that did not see them.

    Args:
        held: The measurements.
        estimate: Which of the estimates.
        spread: Gives the spread that a measurement's interval is made with.
    """
    inside = [_is_inside(h, estimate(h), spread(h)) for h in held if np.isfinite(estimate(h))]
    return float(np.mean(inside)) if inside else float("nan")


def _is_inside(h: HeldOut, estimate: float, spread: Spread) -> bool:
    sigma = spread_of(spread, all_chips()[h.measurement.chip], h.unusual)
    return bool(-spread.below * sigma <= np.log(h.measurement.ms / estimate) <= spread.above * sigma)


def unseen_spreads(held: Sequence[HeldOut], key: Callable[[Measurement], str]) -> dict[str, Spread]:
    """By group: the spread that the other groups alone would have given."""
    groups = {key(h.measurement) for h in held}
    found = {}
    for group in groups:
        rest = [h for h in held if key(h.measurement) != group]
        found[group] = fit_spread(rest if rest else held)
    return found


def _off(held: Iterable[HeldOut], estimate: Callable[[HeldOut], float]) -> Floats:
    """How far measurements are above estimates, as logarithms."""
    return np.array([np.log(h.measurement.ms / estimate(h)) for h in held])


def _quantile_line(x: Floats, y: Floats) -> tuple[float, float]:
    """The line below which the aimed share of the points lies, by the loss of quantile regression."""
    best = (np.inf, 0.1, 0.0)
    for slope in np.arange(0.0, 1.01, 0.05):
        rest = y - slope * x
        base = max(float(np.quantile(rest, _AIM)), 0.02)
        error = rest - base
        loss = float(np.sum(np.maximum(_AIM * error, (_AIM - 1) * error)))
        best = min(best, (loss, base, float(slope)))
    return best[1], best[2]


def _widening(off: Floats, sigma: Floats, below: float, above: float) -> float:
    """What must be added in squares for the aimed share to lie within."""
    for extra in np.arange(0.0, 1.5, 0.01):
        wide = np.hypot(sigma, extra)
        if np.mean((-below * wide <= off) & (off <= above * wide)) >= _AIM:
            return round(float(extra), 2)
    return 1.5
