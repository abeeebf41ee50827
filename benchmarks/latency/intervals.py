"""Fits the width of the prediction intervals to the errors of held-out estimates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.latency.dataset import Measurement, device_of
from benchmarks.latency.validate import OLDEST, HeldOut
from coremlscope.devices import all_chips
from coremlscope.planning.cost.latency.calibration import FAMILIES, Family, Spread
from coremlscope.planning.cost.latency.model import width_of
from coremlscope.planning.cost.latency.table import Floats

#: A normal distribution holds 80 % of its mass within this many standard deviations.
_Z80 = 1.2816
_PLATFORMS = ("iOS", "macOS")
#: The share of held-out measurements that intervals hold: more than 80 %, because widths are fitted, too, and
#: what publications to come have in common is not among them.
_AIM = 0.88
#: The fewest publications of a family on a platform, and the fewest measurements of it on all platforms, for
#: a width of their own.
_FEW = 8
#: The least width, which few publications would understate: those of a chip differ by a standard deviation of
#: 0.2 to 0.25.
_LEAST = _Z80 * 0.22
#: The width on a platform that fewer publications measured than a calibrated chip needs: a factor of two.
_UNMEASURED = 0.69
#: What systems add at least that few publications measured: a factor of 1.28, as from one system to another.
_UNPUBLISHED = 0.25
#: Widening where more than one unit works: no published latencies include the placement.
_MIXED = 0.38
#: Publications that a chip needs to count as calibrated, and families of networks.
_PUBLICATIONS, _FAMILIES = 3, 3


def fit_spread(held: Sequence[HeldOut], unfitted: Sequence[HeldOut] = ()) -> Spread:
    """Fits the spread to the target coverage of held-out measurements (split conformal prediction).

    Estimates are held out with their publication and their family of networks, so that widths include what
    both have in common. Every publication on a chip counts once. Chips without measurements have the
    widths of their platform: held out together with their chip, estimates are as good.

    Args:
        held: The measurements, with held-out estimates.
        unfitted: Measurements of systems too old for the fit, which tell how much systems differ.
    """
    kept = [h for h in held if np.isfinite(h.ms)]
    widths = {platform: _widths(kept, platform) for platform in _PLATFORMS}
    chips = sorted({h.measurement.chip for h in kept})
    since = _first_system([h.measurement for h in kept])
    old = [h for h in kept if h.measurement.release.core_ml[0] < since]
    more = {
        since: max(_between_systems(old, widths), _UNPUBLISHED),
        OLDEST: _between_systems(unfitted, widths),
    }
    return Spread(
        widths=widths,
        older={version: width for version, width in more.items() if width},
        mixed=_MIXED,
        chips=tuple(chips),
        calibrated=tuple(chip for chip in chips if _is_calibrated(kept, chip)),
    )


def _widths(held: Sequence[HeldOut], platform: str) -> dict[Family, float]:
    """Returns the widths of a platform by family, each of the nearest group with enough measurements."""
    here = [h for h in held if all_chips()[h.measurement.chip].platform == platform]
    is_measured = len({h.measurement.publication for h in here}) >= _PUBLICATIONS
    found: dict[Family, float] = {}
    for family in FAMILIES:
        near, every = ([h for h in several if h.family == family] for several in (here, held))
        several = len({(h.measurement.publication, h.measurement.chip) for h in near}) >= _FEW
        group = near if several else every if len(every) >= _FEW else held
        width = max(_quantile(np.abs(_off(group)), _weights(group)), _LEAST)
        found[family] = round(width if is_measured else max(width, _UNMEASURED), 3)
    return found


def _first_system(measurements: Sequence[Measurement]) -> int:
    """Returns the oldest version of iOS, or of its Core ML, that several publications measured."""
    by_system: dict[int, set[str]] = defaultdict(set)
    for m in measurements:
        by_system[m.release.core_ml[0]].add(m.publication)
    return min((system for system, some in by_system.items() if len(some) >= _PUBLICATIONS), default=0)


def _between_systems(held: Sequence[HeldOut], widths: Mapping[str, Mapping[Family, float]]) -> float:
    """Returns what older systems add to widths; each publication counts once."""
    more: dict[str, list[float]] = defaultdict(list)
    for h, off in zip(held, _off(held), strict=True):
        width = widths[all_chips()[h.measurement.chip].platform][h.family]
        more[h.measurement.publication].append((_Z80 * off) ** 2 - width**2)
    variance = float(np.mean([np.mean(some) for some in more.values()])) if more else 0.0
    return round(math.sqrt(max(variance, 0.0)), 2)


def _weights(held: Sequence[HeldOut]) -> Floats:
    """Returns weights with which each publication on a chip counts once."""
    keys = [(h.measurement.publication, h.measurement.chip) for h in held]
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
    width = width_of(spread, device_of(h.measurement), h.family)
    return abs(math.log(h.measurement.ms / h.ms)) <= width


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
