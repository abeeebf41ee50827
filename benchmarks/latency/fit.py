"""Fits the parameters of a compute unit to measurements, with priors from micro-benchmarks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, concatenate
from benchmarks.latency.minimise import minimise
from benchmarks.latency.priors import PRIORS, REFERENCES, Prior
from coremlscope.cost.latency.calibration import UnitParameters
from coremlscope.cost.latency.constants import scaled_to
from coremlscope.cost.latency.roofline import time_kernels
from coremlscope.cost.latency.table import Floats
from coremlscope.devices import ComputeUnit, all_chips

#: Standard deviation between runs of one network on one chip, in addition to rounding.
_RUN = 0.06
#: Standard deviation between publications, due to tools, systems and phones: the value of A15. On A14 they
#: differ less, which the fit derives from the measurements.
_PUBLICATION = 0.26
#: Standard deviation of the centre of all publications of a chip.
_CENTRE = 0.03
#: Threshold of the Huber loss, in standard deviations: larger errors have a linear, not a quadratic loss.
_HUBER = 1.5


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of a fit.

    Attributes:
        parameters: The parameters.
        logs: The logarithms of the free parameters, as the start of another fit.
        offsets: By publication and chip: the logarithm of its measurements relative to the centre.
    """

    parameters: UnitParameters
    logs: Floats
    offsets: Mapping[tuple[str, str], float]


class Estimator:
    """Vectorised estimates of all measurements of one unit, for any parameters."""

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
        """Returns the estimate of each measurement, in seconds."""
        result = np.zeros(self.count)
        reference = all_chips()[REFERENCES[self.unit]]
        for chip, table, times, begins, places, which in self.groups:
            constants = scaled_to(chip, self.unit, reference, parameters)
            seconds = time_kernels(table, self.unit, constants)
            kernels = np.add.reduceat(seconds.total * times, begins)
            sums = np.maximum(kernels, np.add.reduceat(seconds.stream * times, begins))
            result[places] = sums[which] + constants.dispatch_s
        return result


def fit(
    unit: ComputeUnit,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    start: Floats | None = None,
) -> Fitted:
    """Fits the parameters of a unit: robust logarithmic errors, priors, and one offset per publication."""
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
    """Returns standard deviations, larger for repeated measurements of one network by one publication."""
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
