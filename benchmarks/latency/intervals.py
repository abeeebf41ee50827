"""Fits the width of the prediction intervals to the errors of held-out estimates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.latency.dataset import Measurement, device_of
from benchmarks.latency.validate import HeldOut
from coremlscope.devices import all_chips
from coremlscope.planning.cost.latency.calibration import Spread
from coremlscope.planning.cost.latency.model import interval_factors
from coremlscope.planning.cost.latency.table import Floats

#: A normal distribution holds 80 % of its mass within this many standard deviations.
_Z80 = 1.2816
#: Target coverage of held-out measurements: slightly more than 80 %, because widths are fitted, too.
_AIM = 0.82
#: Chips of phones with fewer measurements than this share a width with all chips of their platform.
_FEW = 12
#: Chips with at least this many measurements have a width of their own where their platform's is too small,
#: and the share of their measurements that it aims at: a few that one publication made are no sample of 80 %.
_OWN, _OWN_AIM = 4, 0.7
#: The least standard deviation of a chip, base included, which few publications would understate; and of one
#: that fewer publications measured than calibration needs: those of a chip differ by 0.2 to 0.25.
_BETWEEN, _UNKNOWN_BETWEEN = 0.17, 0.2
#: The least widening per share of kernels other than convolutions: publications differ more on transformers.
_UNUSUAL = 0.1
#: Widening where more than one unit works: no published latencies include the placement.
_MIXED = 0.3
#: Publications that a chip needs to count as calibrated, and families of networks.
_PUBLICATIONS, _FAMILIES = 3, 3


def fit_spread(held: Sequence[HeldOut], unfitted: Sequence[HeldOut] = ()) -> Spread:
    """Fits the spread to the target coverage of held-out measurements (split conformal prediction).

    The group of chips whose estimates are best determines the base; each other group widens it. Estimates are
    held out together with their publication and their family of networks, so that widths include what both
    have in common.

    Args:
        held: The measurements, with held-out estimates.
        unfitted: Measurements of systems too old for the fit, which tell how much systems differ.
    """
    kept = [h for h in held if np.isfinite(h.ms)]
    groups = _groups(kept)
    off, unusual, weights = _off(kept), np.array([h.unusual for h in kept]), _weights(kept)
    places = {name: np.array([groups[p] == name for p in range(len(kept))]) for name in set(groups)}
    sized = {name: here for name, here in places.items() if here.sum() >= _FEW} or places
    best = min(sized, key=lambda name: _quantile(np.abs(off[sized[name]]), weights[sized[name]]))
    here = sized[best]
    base, slope = _quantile_line(unusual[here], np.abs(off[here]) / _Z80, weights[here])
    sigma = base + slope * unusual
    by_group = {name: _widening(off[at], sigma[at], weights[at]) for name, at in places.items()}
    chips = sorted({h.measurement.chip for h in kept})
    group_of = {h.measurement.chip: group for h, group in zip(kept, groups, strict=True)}
    rows = {chip: np.array([h.measurement.chip == chip for h in kept]) for chip in chips}
    own = {
        chip: _widening(off[at], sigma[at], weights[at], _OWN_AIM)
        for chip, at in rows.items()
        if at.sum() >= _OWN
    }
    calibrated = tuple(chip for chip in chips if _is_calibrated(kept, chip))
    known, least = (
        round(float(np.sqrt(max(total**2 - base**2, 0.0))), 2) for total in (_BETWEEN, _UNKNOWN_BETWEEN)
    )
    by_chip = {
        chip: max(by_group[group_of[chip]], own.get(chip, 0.0), known if chip in calibrated else least)
        for chip in chips
    }
    since = _first_system([h.measurement for h in kept])
    old = [h for h in [*kept, *unfitted] if h.measurement.release.core_ml[0] < since]
    widths = [math.hypot(base + slope * h.unusual, by_chip.get(h.measurement.chip, 0.0)) for h in old]
    return Spread(
        base=round(base, 3),
        unusual=round(slope, 3),
        by_chip=by_chip,
        extrapolated=max(*by_group.values(), least),
        mixed=_MIXED,
        below=_Z80,
        above=_Z80,
        since=since,
        older=_between_systems(old, widths),
        calibrated=calibrated,
    )


def _first_system(measurements: Sequence[Measurement]) -> int:
    """Returns the oldest version of iOS, or of its Core ML, that several publications measured."""
    by_system: dict[int, set[str]] = defaultdict(set)
    for m in measurements:
        by_system[m.release.core_ml[0]].add(m.publication)
    return min((system for system, some in by_system.items() if len(some) >= _PUBLICATIONS), default=0)


def _between_systems(held: Sequence[HeldOut], widths: Sequence[float]) -> float:
    """Returns the standard deviation that older systems add to widths; each publication counts once."""
    more: dict[str, list[float]] = defaultdict(list)
    for h, width, off in zip(held, widths, _off(held), strict=True):
        more[h.measurement.publication].append(off**2 - width**2)
    variance = float(np.mean([np.mean(some) for some in more.values()])) if more else 0.0
    return round(math.sqrt(max(variance, 0.0)), 2)


def _groups(held: Sequence[HeldOut]) -> list[str]:
    """Returns for each measurement its chip, or its platform where chips have few measurements."""
    counts: dict[str, int] = defaultdict(int)
    for h in held:
        counts[h.measurement.chip] += 1
    chips = all_chips()
    return [
        chip if counts[chip] >= _FEW and chips[chip].platform == "iOS" else chips[chip].platform
        for chip in (h.measurement.chip for h in held)
    ]


def _weights(held: Sequence[HeldOut]) -> Floats:
    """Returns weights with which each network of a publication on a chip counts once."""
    keys = [(h.measurement.publication, h.measurement.network, h.measurement.chip) for h in held]
    return np.array([1 / keys.count(key) for key in keys])


def _is_calibrated(held: Sequence[HeldOut], chip: str) -> bool:
    mine = [h.measurement for h in held if h.measurement.chip == chip]
    return len({m.publication for m in mine}) >= _PUBLICATIONS and len({m.family for m in mine}) >= _FAMILIES


def coverage(held: Sequence[HeldOut], spread: Callable[[HeldOut], Spread]) -> float:
    """Returns the share of measurements within the 80 % intervals around their held-out estimates.

    Args:
        held: The measurements.
        spread: Returns the spread for the interval of a measurement.
    """
    inside = [is_inside(h, spread(h)) for h in held if np.isfinite(h.ms)]
    return float(np.mean(inside)) if inside else float("nan")


def is_inside(h: HeldOut, spread: Spread) -> bool:
    """True where a measurement is within the interval around its held-out estimate."""
    below, above = interval_factors(spread, device_of(h.measurement), h.unusual)
    return below <= h.measurement.ms / h.ms <= above


def unseen_spreads(held: Sequence[HeldOut], key: Callable[[Measurement], str]) -> Mapping[str, Spread]:
    """Returns for each group the spread fitted to the other groups only."""
    groups = {key(h.measurement) for h in held}
    found = {}
    for group in groups:
        rest = [h for h in held if key(h.measurement) != group]
        found[group] = fit_spread(rest if rest else held)
    return found


def _off(held: Sequence[HeldOut]) -> Floats:
    """Returns the logarithms of the ratios of measurements to estimates."""
    return np.array([np.log(h.measurement.ms / h.ms) for h in held])


def _quantile(values: Floats, weights: Floats) -> float:
    """Returns the quantile that the target coverage needs, with weights."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), _AIM * weights.sum()))
    return float(values[order][min(place, len(values) - 1)])


def _quantile_line(x: Floats, y: Floats, weights: Floats) -> tuple[float, float]:
    """Fits the line below which the target share of the points is, by quantile regression."""
    best = (np.inf, 0.1, _UNUSUAL)
    for slope in np.arange(_UNUSUAL, 1.01, 0.05):
        rest = y - slope * x
        base = max(_quantile(rest, weights), 0.02)
        error = rest - base
        loss = float(np.sum(weights * np.maximum(_AIM * error, (_AIM - 1) * error)))
        best = min(best, (loss, base, float(slope)))
    return best[1], best[2]


def _widening(off: Floats, sigma: Floats, weights: Floats, aim: float = _AIM) -> float:
    """Returns the standard deviation to add in quadrature for a target coverage."""
    for extra in np.arange(0.0, 1.5, 0.01):
        inside = np.abs(off) <= _Z80 * np.hypot(sigma, extra)
        if np.sum(weights * inside) >= aim * weights.sum():
            return round(float(extra), 2)
    return 1.5
