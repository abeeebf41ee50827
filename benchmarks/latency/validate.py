"""Estimates of measurements that the fit did not see, and how far off they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.fit import Estimator, Fitted, fit
from benchmarks.latency.priors import REFERENCES
from coremlscope.cost.calibration import Spread, UnitParameters
from coremlscope.cost.latency import spread_of
from coremlscope.cost.pricing import price_kernels, scale_of
from coremlscope.cost.table import Floats
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips

_Z80 = 1.2816
#: What the intervals aim to hold of measurements that were held out.
_AIM = 0.82
#: Chips and units that are never calibrated on, and those where more than one unit works.
_EXTRAPOLATED, _MIXED = 0.3, 0.4


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measurement and its estimates by fits that did not see it.

    Attributes:
        measurement: The measurement.
        without_publication: Milliseconds, by a fit without all that its publication measured.
        without_family: Milliseconds, by a fit without all networks of its family.
        unusual: The share of the time in kernels other than convolutions.
    """

    measurement: Measurement
    without_publication: float
    without_family: float
    unusual: float


@dataclass(frozen=True, slots=True)
class Errors:
    """How far estimates are off.

    Attributes:
        count: How many.
        median: Median of |estimate / measured - 1|.
        p90: Its 90th percentile.
        bias: Median of the logarithm of their ratio.
        rank: Spearman's rank correlation.
    """

    count: int
    median: float
    p90: float
    bias: float
    rank: float


def choose(measurements: Iterable[Measurement], unit: ComputeUnit) -> list[Measurement]:
    """What a unit is calibrated on: grade A of the Neural Engine, grade B of the others, which have no A."""
    if unit == NEURAL_ENGINE:
        chips = ("a14", "a15", "a16", "a17-pro")
        return [m for m in measurements if m.unit == unit and m.grade == "A" and m.chip in chips]
    return [m for m in measurements if m.unit == unit and m.grade == "B" and m.precision == "fp32"]


def hold_out(
    unit: ComputeUnit, measurements: Sequence[Measurement], networks: Mapping[str, Network], whole: Fitted
) -> list[HeldOut]:
    """Fits again and again, each time without one publication, then without one family."""
    publication = _without(unit, measurements, networks, whole, lambda m: m.publication)
    family = _without(unit, measurements, networks, whole, lambda m: m.family)
    unusual = unusual_shares(unit, measurements, networks, whole.parameters)
    return [HeldOut(*row) for row in zip(measurements, publication * 1e3, family * 1e3, unusual, strict=True)]


def _without(
    unit: ComputeUnit,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    whole: Fitted,
    key: Callable[[Measurement], str],
) -> Floats:
    result = np.full(len(measurements), np.nan)
    for group in sorted({key(m) for m in measurements}):
        seen = [m for m in measurements if key(m) != group]
        places = [place for place, m in enumerate(measurements) if key(m) == group]
        if not seen:
            continue
        fitted = fit(unit, seen, networks, whole.logs)
        hidden = [measurements[place] for place in places]
        result[places] = Estimator(unit, hidden, networks).seconds(fitted.parameters)
    return result


def unusual_shares(
    unit: ComputeUnit,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    parameters: UnitParameters,
) -> list[float]:
    """The share of each network's time in kernels other than convolutions."""
    shares = []
    reference = all_chips()[REFERENCES[unit]]
    for m in measurements:
        table, times, _ = concatenate([networks[m.network]], m.precision)
        scale = scale_of(unit, all_chips()[m.chip], reference, parameters)
        total = price_kernels(table, unit, parameters, scale).total * times
        plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
        shares.append(float(total[~plain].sum() / (total.sum() + parameters.dispatch_s * scale.dispatch)))
    return shares


def errors(measured: Sequence[float], estimated: Sequence[float]) -> Errors:
    """The errors of estimates; those that are not numbers are left out."""
    pairs = [(m, e) for m, e in zip(measured, estimated, strict=True) if e == e]
    if not pairs:
        return Errors(0, *[float("nan")] * 4)
    m, e = np.array(pairs).T
    off = np.abs(e / m - 1)
    rank = (
        float(np.corrcoef(_ranks(m), _ranks(e))[0, 1])
        if len(pairs) > 2 and np.ptp(m) and np.ptp(e)
        else float("nan")
    )
    return Errors(
        len(pairs), float(np.median(off)), float(np.quantile(off, 0.9)), float(np.median(np.log(e / m))), rank
    )


def _ranks(values: Floats) -> Floats:
    """Ranks; equal values share theirs."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[place])


def noise_floor(measurements: Iterable[Measurement], chip: str) -> Errors | None:
    """How far publications are from the median of the others, on networks that several measured."""
    by_network: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for m in measurements:
        if m.chip == chip and m.precision == "fp16":
            by_network[m.network][m.publication].append(m.ms)
    mine, theirs = [], []
    for publications in by_network.values():
        medians = {name: float(np.median(values)) for name, values in publications.items()}
        for name, value in medians.items():
            others = [v for other, v in medians.items() if other != name]
            if others:
                mine.append(value)
                theirs.append(float(np.median(others)))
    return errors(mine, theirs) if mine else None


def fit_spread(held: Sequence[HeldOut], estimates: Sequence[float]) -> Spread:
    """How wide intervals must be to hold what was held out.

    Args:
        held: The measurements.
        estimates: Their estimates by fits that did not see them.
    """
    logs = np.abs(np.log(np.array([h.measurement.ms for h in held]) / np.array(estimates)))
    unusual = np.array([h.unusual for h in held])
    chips = np.array([h.measurement.chip for h in held])
    good = np.isfinite(logs)
    most = max(set(chips[good]), key=lambda chip: int(np.sum(chips[good] == chip)))
    own = good & (chips == most)
    base, slope = _quantile_line(unusual[own], logs[own] / _Z80)
    by_chip = {}
    for chip in sorted(set(chips)):
        here = good & (chips == chip)
        sigma = base + slope * unusual[here]
        by_chip[str(chip)] = (
            round(_widening(logs[here] / _Z80, sigma), 3) if here.sum() > 5 else _EXTRAPOLATED
        )
    return Spread(round(base, 3), round(slope, 3), by_chip, _EXTRAPOLATED, _MIXED)


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


def _widening(errors_: Floats, sigma: Floats) -> float:
    """What must be added in squares for the aimed share to lie within."""
    for extra in np.arange(0.0, 1.0, 0.01):
        if np.mean(errors_ <= np.hypot(sigma, extra)) >= _AIM:
            return float(extra)
    return 1.0


def coverage(held: Sequence[HeldOut], estimates: Sequence[float], spread: Spread) -> float:
    """The share of measurements within the 80 % intervals around estimates that did not see them."""
    inside = [
        abs(np.log(h.measurement.ms / e))
        <= _Z80 * spread_of(spread, all_chips()[h.measurement.chip], h.unusual)
        for h, e in zip(held, estimates, strict=True)
        if e == e
    ]
    return float(np.mean(inside)) if inside else float("nan")
