"""Fits the parameters of a compute unit to measurements, within what micro-benchmarks say of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.minimise import minimise
from benchmarks.latency.priors import PRIORS, REFERENCES, Prior
from coremlscope.cost.latency.calibration import UnitParameters
from coremlscope.cost.latency.roofline import scale_of, time_kernels
from coremlscope.cost.latency.table import Floats
from coremlscope.devices import ComputeUnit, all_chips

#: What measurements of one network on one chip differ by, from run to run, beyond rounding.
_RUN = 0.06
#: What publications differ by, each as a whole: their tools, systems and phones. As much as on A15; on A14
#: they differ less, and the measurements say so by themselves.
_PUBLICATION = 0.26
#: What the centre of all publications of a chip may be off by.
_CENTRE = 0.03
#: Beyond this many standard deviations an error counts by its size, not by its square.
_HUBER = 1.5


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit.

    Attributes:
        parameters: The parameters.
        logs: The logarithms of those that were free; where the next fit may begin.
        offsets: By publication and chip: how much slower it measures than the centre, as a logarithm.
    """

    parameters: UnitParameters
    logs: Floats
    offsets: Mapping[tuple[str, str], float]


class Estimator:
    """Estimates all measurements of one unit at once, for any parameters."""

    def __init__(
        self, unit: ComputeUnit, measurements: Sequence[Measurement], networks: Mapping[str, Network]
    ) -> None:
        self.unit = unit
        self.count = len(measurements)
        groups: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, m in enumerate(measurements):
            groups[m.chip, m.precision].append(place)
        self.groups = []
        for (chip, precision), places in groups.items():
            names = sorted({measurements[place].network for place in places})
            table, times, begins = concatenate([networks[name] for name in names], precision)
            which = np.array([names.index(measurements[place].network) for place in places])
            self.groups.append((all_chips()[chip], table, times, begins, np.array(places), which))

    def seconds(self, parameters: UnitParameters) -> Floats:
        """The estimate of each measurement."""
        result = np.zeros(self.count)
        reference = all_chips()[REFERENCES[self.unit]]
        for chip, table, times, begins, places, which in self.groups:
            scale = scale_of(self.unit, chip, reference, parameters)
            seconds = time_kernels(table, self.unit, parameters, scale)
            kernels = np.add.reduceat(seconds.total * times, begins)
            sums = np.maximum(kernels, np.add.reduceat(seconds.stream * times, begins))
            result[places] = sums[which] + parameters.dispatch_s * scale.dispatch
        return result


def fit(
    unit: ComputeUnit,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    start: Floats | None = None,
) -> Fitted:
    """Fits a unit's parameters: logarithmic errors, robust, around priors, one offset a publication."""
    priors = PRIORS[unit]
    free = [name for name, prior in priors.items() if prior.spread]
    centre = np.log([priors[name].value for name in free])
    spread = np.array([priors[name].spread for name in free])
    estimator = Estimator(unit, measurements, networks)
    target = np.log([m.ms * 1e-3 for m in measurements])
    sigma = _sigmas(measurements)
    keys = [(m.publication, m.chip) for m in measurements]
    publications = sorted(set(keys))
    owner = np.array([publications.index(key) for key in keys])
    centres = np.array(
        [[chip == c for _, chip in publications] for c in sorted({m.chip for m in measurements})]
    )
    centres = centres * np.array([keys.count(key) for key in publications])
    centres = centres / centres.sum(1, keepdims=True)

    def residuals(vector: Floats) -> Floats:
        logs, offsets = vector[: len(free)], vector[len(free) :]
        estimate = np.log(estimator.seconds(_parameters(priors, free, logs)))
        errors = (estimate + offsets[owner] - target) / sigma
        return np.concatenate(
            [_huber(errors), (logs - centre) / spread, offsets / _PUBLICATION, centres @ offsets / _CENTRE]
        )

    first = centre if start is None else start
    vector = np.concatenate([first, np.zeros(len(publications))])
    solution = minimise(residuals, vector, 40 if start is None else 12)
    logs = solution[: len(free)]
    offsets = dict(zip(publications, map(float, solution[len(free) :]), strict=True))
    return Fitted(_parameters(priors, free, logs), logs, offsets)


def _parameters(priors: Mapping[str, Prior], free: Sequence[str], logs: Floats) -> UnitParameters:
    values = {name: prior.value for name, prior in priors.items()}
    values.update(zip(free, map(float, np.exp(logs)), strict=True))
    return UnitParameters(**{field.name: values[field.name] for field in fields(UnitParameters)})


def _sigmas(measurements: Sequence[Measurement]) -> Floats:
    """How sure each measurement is; many of one network by one publication count as few."""
    same: dict[tuple[str, str, str, bool], int] = defaultdict(int)
    keys = [(m.network, m.chip, m.publication, m.precision in ("fp16", "fp32")) for m in measurements]
    for key in keys:
        same[key] += 1
    rounding = np.array([m.rounding / m.ms for m in measurements]) / np.sqrt(3)
    grade = np.array([1.0 if m.grade == "A" else 2.0 for m in measurements])
    return np.hypot(_RUN, rounding) * np.sqrt([same[key] for key in keys]) * grade


def _huber(errors: Floats) -> Floats:
    size = np.abs(errors)
    return np.where(
        size < _HUBER, errors, np.sign(errors) * np.sqrt(2 * _HUBER * np.maximum(size, _HUBER) - _HUBER**2)
    )
