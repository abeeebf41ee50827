"""Estimates of measurements that the fit did not see, and how far off they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.fit import Estimator, Fitted, fit
from benchmarks.latency.priors import REFERENCES
from coremlscope.cost.latency.calibration import UnitParameters
from coremlscope.cost.latency.roofline import scale_of, time_kernels
from coremlscope.cost.latency.table import Floats
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measurement and its estimates by fits that did not see it.

    Attributes:
        measurement: The measurement.
        without_publication: Milliseconds, by a fit without all that its publication measured.
        without_family: Milliseconds, by a fit without all networks of its family.
        without_chip: Milliseconds, by a fit without all measurements of its chip.
        unusual: The share of the time in kernels other than convolutions.
    """

    measurement: Measurement
    without_publication: float
    without_family: float
    without_chip: float
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
    """Fits repeatedly, each time without one publication, without one family, without one chip."""
    publication = _without(unit, measurements, networks, whole, lambda m: m.publication)
    family = _without(unit, measurements, networks, whole, lambda m: m.family)
    chip = _without(unit, measurements, networks, whole, lambda m: m.chip)
    unusual = unusual_shares(unit, measurements, networks, whole.parameters)
    columns = publication * 1e3, family * 1e3, chip * 1e3, unusual
    return [HeldOut(*row) for row in zip(measurements, *columns, strict=True)]


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
        total = time_kernels(table, unit, parameters, scale).total * times
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
    mine, theirs = [], []
    for medians in _published(measurements, chip).values():
        for name, value in medians.items():
            others = [v for other, v in medians.items() if other != name]
            if others:
                mine.append(value)
                theirs.append(float(np.median(others)))
    return errors(mine, theirs) if mine else None


def oracle(measurements: Sequence[Measurement], chip: str) -> Errors | None:
    """How far measurements are from the centre of all publications, their own among them."""
    centres = {n: float(np.median(list(m.values()))) for n, m in _published(measurements, chip).items()}
    pairs = [(m.ms, centres[m.network]) for m in measurements if m.chip == chip and m.precision == "fp16"]
    return errors(*zip(*pairs, strict=True)) if pairs else None


def _published(measurements: Iterable[Measurement], chip: str) -> dict[str, dict[str, float]]:
    """By network and publication: the median."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for m in measurements:
        if m.chip == chip and m.precision == "fp16":
            found[m.network][m.publication].append(m.ms)
    return {
        network: {name: float(np.median(values)) for name, values in publications.items()}
        for network, publications in found.items()
    }
