"""Cross-validation: estimates of held-out measurements and their errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.fit import Estimator, Fitted, fit
from benchmarks.latency.priors import REFERENCES
from coremlscope.cost.latency.calibration import UnitParameters
from coremlscope.cost.latency.constants import scaled_to
from coremlscope.cost.latency.roofline import time_kernels
from coremlscope.cost.latency.table import Floats
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measurement and its estimates from fits without it.

    Attributes:
        measurement: The measurement.
        without_publication: Milliseconds, from a fit without the measurements of its publication.
        without_family: Milliseconds, from a fit without the networks of its family.
        without_chip: Milliseconds, from a fit without the measurements of its chip.
        unusual: The share of the time in kernels other than convolutions.
    """

    measurement: Measurement
    without_publication: float
    without_family: float
    without_chip: float
    unusual: float


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of estimates.

    Attributes:
        count: Number of estimates.
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
    """Selects the calibration data of a unit: grade A of the Neural Engine, grade B of the other units."""
    if unit == NEURAL_ENGINE:
        chips = ("a14", "a15", "a16", "a17-pro")
        return [m for m in measurements if m.unit == unit and m.grade == "A" and m.chip in chips]
    return [m for m in measurements if m.unit == unit and m.grade == "B" and m.precision == "fp32"]


def hold_out(
    unit: ComputeUnit, measurements: Sequence[Measurement], networks: Mapping[str, Network], whole: Fitted
) -> list[HeldOut]:
    """Estimates every measurement from fits without its publication, without its family, without its chip."""
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
    """Returns the share of each network's time in kernels other than convolutions."""
    shares = []
    reference = all_chips()[REFERENCES[unit]]
    for m in measurements:
        table, times, _ = concatenate([networks[m.network]], m.precision)
        constants = scaled_to(all_chips()[m.chip], unit, reference, parameters)
        total = time_kernels(table, unit, constants).total * times
        plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
        shares.append(float(total[~plain].sum() / (total.sum() + constants.dispatch_s)))
    return shares


def errors(measured: Sequence[float], estimated: Sequence[float]) -> Errors:
    """Returns the errors of estimates, ignoring NaN."""
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
    """Returns ranks; equal values have equal ranks."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[place])


def noise_floor(measurements: Iterable[Measurement], chip: str) -> Errors | None:
    """Returns the errors of publications relative to the median of the others, for networks with several."""
    mine, theirs = [], []
    for medians in _published(measurements, chip).values():
        for name, value in medians.items():
            others = [v for other, v in medians.items() if other != name]
            if others:
                mine.append(value)
                theirs.append(float(np.median(others)))
    return errors(mine, theirs) if mine else None


def oracle(measurements: Sequence[Measurement], chip: str) -> Errors | None:
    """Returns the errors of the median of all publications, including the measurement's own."""
    centres = {n: float(np.median(list(m.values()))) for n, m in _published(measurements, chip).items()}
    pairs = [(m.ms, centres[m.network]) for m in measurements if m.chip == chip and m.precision == "fp16"]
    return errors(*zip(*pairs, strict=True)) if pairs else None


def _published(measurements: Iterable[Measurement], chip: str) -> dict[str, dict[str, float]]:
    """Returns the median by network and publication."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for m in measurements:
        if m.chip == chip and m.precision == "fp16":
            found[m.network][m.publication].append(m.ms)
    return {
        network: {name: float(np.median(values)) for name, values in publications.items()}
        for network, publications in found.items()
    }
