"""How far a unit of one chip is from our estimates, by measurements of that chip: a factor and its spread.

The model is that of a random effect. Measured and estimated times of a network differ by a factor of the unit
on that machine, which all networks share, and by a factor of the network:

    log(measured / estimated) = unit + network,  unit ~ N(0, between²),  network ~ N(0, within²)

`between` is the spread between publications that our estimates have, so few measurements move the factor a
part of the way, and many all the way. `within` begins at the spread of networks within one publication and
is updated by the scatter of the measurements (inverse-gamma prior). Measurements far from all others
are set apart and reported; they change nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

#: Weight of the prior of `within`, in measurements.
_PRIOR_WEIGHT = 6.0
#: Standard deviations from what the others predict, beyond which a measurement is set apart.
_FAR = 3.0
#: From this many models on, the start is their median; fewer cannot outvote each other.
_ENOUGH = 3
#: The median absolute deviation of a normal distribution, as a share of its standard deviation.
_MAD = 0.6745


class Refinement(msgspec.Struct, frozen=True, kw_only=True):
    """Correction of a unit of a chip, from measurements.

    Attributes:
        factor: Measured relative to estimated times, shrunk towards 1.
        factor_spread: Standard deviation of the logarithm of the factor.
        network_spread: Standard deviation of the logarithm of one network's time around its estimate.
        measurements: Number of measurements in use.
        models: Number of different models among them.
        apart: The measurements that were set apart, as indices, with the number of standard deviations from
            what the others predict.
    """

    factor: float
    factor_spread: float
    network_spread: float
    measurements: int
    models: int
    apart: Mapping[int, float]


def refine(log_ratios: Sequence[float], models: Sequence[str], between: float, within: float) -> Refinement:
    """Returns the factor of a unit on one machine.

    Measurements of one model count once, with their mean: what a model has of its own does not average out.

    Args:
        log_ratios: Logarithms of measured relative to estimated times.
        models: The model of each measurement.
        between: Standard deviation of the unit's factor before anything was measured; above 0.
        within: That of one network, likewise.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for place, model in enumerate(models):
        groups[model].append(place)
    means = np.array([np.mean([log_ratios[place] for place in places]) for places in groups.values()])
    used = _consistent(means, between, within)
    centre, variance, network = _posterior(means[used], between, within)
    members = list(groups.values())
    apart = {
        place: float(_distance(means, used, index, between, within))
        for index, places in enumerate(members)
        if not used[index]
        for place in places
    }
    count = int(used.sum())
    return Refinement(
        factor=math.exp(centre),
        factor_spread=math.sqrt(variance),
        network_spread=network,
        measurements=sum(len(members[index]) for index in np.flatnonzero(used)),
        models=count,
        apart=apart,
    )


def _posterior(values: _Floats, between: float, within: float) -> tuple[float, float, float]:
    """Returns the centre of the unit's factor, its variance, and the standard deviation of a network."""
    count = len(values)
    if not count:
        return 0.0, between**2, within
    scatter = float(((values - values.mean()) ** 2).sum())
    network = (_PRIOR_WEIGHT * within**2 + scatter) / (_PRIOR_WEIGHT + count - 1)
    variance = 1 / (1 / between**2 + count / network)
    return variance * float(values.sum()) / network, variance, math.sqrt(network)


def _distance(
    values: _Floats, used: npt.NDArray[np.bool_], index: int, between: float, within: float
) -> float:
    """Returns how many standard deviations a value is from what the other values in use predict."""
    others = used.copy()
    others[index] = False
    centre, variance, network = _posterior(values[others], between, within)
    return abs(float(values[index]) - centre) / math.sqrt(variance + network**2)


def _consistent(values: _Floats, between: float, within: float) -> npt.NDArray[np.bool_]:
    """Returns a mask of the values that agree with each other, or with the prior where they are few."""
    used = np.ones(len(values), dtype=np.bool_)
    if len(values) >= _ENOUGH:
        off = np.abs(values - np.median(values))
        spread = float(np.clip(np.median(off) / _MAD, within, 2 * within))
        used = off <= _FAR * spread
    for _ in range(2 * len(values)):
        far = [_distance(values, used, index, between, within) for index in range(len(values))]
        kept = np.array([distance <= _FAR for distance in far], dtype=np.bool_)
        wrong = [index for index in range(len(values)) if kept[index] != used[index]]
        if not wrong:
            break
        # One at a time, the worst first: each change moves what the others are compared with.
        worst = max(wrong, key=lambda index: abs(far[index] - _FAR))
        used[worst] = kept[worst]
    return used
