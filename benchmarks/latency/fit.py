"""Fits the constants of a compute unit to measurements, with priors from micro-benchmarks.

The model is hierarchical. Constants belong to a reference chip; other chips scale them by their
specifications. A publication is a random effect: all its measurements on a chip share an offset. The
fit finds the mode of the posterior with SciPy's trust-region least squares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from benchmarks.latency.dataset import Measurement, Network, concatenate, device_of
from benchmarks.latency.priors import Prior, UnitPriors
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, OSRelease, all_chips
from coremlscope.planning.cost.latency.calibration import UnitParameters
from coremlscope.planning.cost.latency.constants import on_system, scaled_to
from coremlscope.planning.cost.latency.roofline import time_kernels
from coremlscope.planning.cost.latency.table import Floats

#: Standard deviation between networks of one publication on one chip, in addition to rounding: what the form
#: of the model leaves.
_RUN: dict[ComputeUnit, float] = {NEURAL_ENGINE: 0.06, CPU: 0.2, GPU: 0.3}
#: Standard deviation between publications, due to tools, systems and devices: that of A15 on the Neural
#: Engine, and that of Macs on the other units. On A14 they differ less, which the fit derives.
_PUBLICATION = 0.25
#: Standard deviation of the centre of all publications of a chip with several.
_CENTRE = 0.03
#: Threshold of the robust loss, in standard deviations: larger errors have a linear, not a quadratic loss.
_HUBER = 1.5
#: Estimates are linear around a point, up to this change of a constant's logarithm.
_REACH = 0.5
_STEP = 1e-4
#: Changes of logarithms below which the fit ends.
_ENOUGH = 5e-3
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of a fit.

    Attributes:
        parameters: The constants.
        logs: The logarithms of the free constants, as the start of another fit.
        spreads: The standard deviation of each free constant's logarithm, by name.
        offsets: By publication and chip: the logarithm of its measurements relative to the centre.
    """

    parameters: UnitParameters
    logs: Floats
    spreads: Mapping[str, float]
    offsets: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Linear:
    """Estimates as linear functions of the logarithms of the free constants.

    Attributes:
        logs: The point around which they are linear.
        here: The logarithms of the estimates there.
        slopes: Their derivatives, a row for each measurement.
    """

    logs: Floats
    here: Floats
    slopes: Floats

    def of(self, places: Sequence[int]) -> Linear:
        """Returns the estimates of some of the measurements."""
        return Linear(self.logs, self.here[places], self.slopes[places])


class Estimator:
    """Vectorised estimates of all measurements of one unit, for any constants."""

    def __init__(
        self,
        unit: ComputeUnit,
        reference: str,
        measurements: Sequence[Measurement],
        networks: Mapping[str, Network],
    ) -> None:
        self.unit = unit
        self.reference = all_chips()[reference]
        self.count = len(measurements)
        groups: dict[tuple[str, str, OSRelease], list[int]] = defaultdict(list)
        for place, m in enumerate(measurements):
            groups[m.chip, m.precision, m.release].append(place)
        self.groups = []
        for (_, precision, _), places in groups.items():
            names = sorted({measurements[place].network for place in places})
            table, times, begins = concatenate([networks[name] for name in names], precision)
            which = np.array([names.index(measurements[place].network) for place in places])
            device = device_of(measurements[places[0]])
            self.groups.append((device, table, times, begins, np.array(places), which))

    def seconds(self, parameters: UnitParameters) -> Floats:
        """Returns the estimate of each measurement, in seconds."""
        result = np.zeros(self.count)
        for device, table, times, begins, places, which in self.groups:
            constants = scaled_to(device.chip, self.unit, self.reference, parameters)
            constants = on_system(constants, device.os)
            seconds = time_kernels(table, self.unit, constants)
            kernels = np.add.reduceat(seconds.total * times, begins)
            sums = np.maximum(kernels, np.add.reduceat(seconds.stream * times, begins))
            result[places] = sums[which] + constants.dispatch_s
        return result


def fit(
    unit: ComputeUnit,
    known: UnitPriors,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    near: Linear | None = None,
) -> Fitted:
    """Fits the constants of a unit: robust logarithmic errors, priors, offsets of publications.

    Args:
        unit: The unit.
        known: The priors of the unit.
        measurements: The measurements; none gives the priors.
        networks: The networks by name.
        near: The estimates of the measurements around a fit to almost the same ones, which this fit then
            stays near.
    """
    priors = known.priors
    free = _free(priors)
    centre = np.log([priors[name].value for name in free])
    spread = np.array([priors[name].spread for name in free])
    if not measurements:
        return Fitted(_parameters(priors, free, centre), centre, dict(zip(free, spread, strict=True)), {})
    estimator = Estimator(unit, known.reference, measurements, networks)
    target = np.log([m.ms * 1e-3 for m in measurements])
    sigma = _sigmas(unit, measurements)
    keys = [(m.publication, m.chip) for m in measurements]
    publications = sorted(set(keys))
    owner = np.array([publications.index(key) for key in keys])
    posterior = _Posterior(
        sigma=sigma,
        target=target,
        owner=np.equal.outer(owner, np.arange(len(publications))).astype(float),
        centre=centre,
        spread=spread,
        centres=_centres(publications, keys),
    )
    vector = np.concatenate([centre if near is None else near.logs, np.zeros(len(publications))])
    for _ in range(_ROUNDS if near is None else 1):
        around = near or _linear(estimator, priors, vector[: len(free)])
        reach = np.concatenate([np.full(len(free), _REACH), np.full(len(publications), np.inf)])
        solution = least_squares(
            posterior.residuals,
            vector,
            posterior.derivatives,
            bounds=(vector - reach, vector + reach),
            args=(around,),
        )
        change = np.max(np.abs(solution.x - vector)[: len(free)])
        vector = solution.x
        if change < _ENOUGH:
            break
    covariance = np.linalg.inv(solution.jac.T @ solution.jac)
    spreads = dict(zip(free, np.sqrt(np.diag(covariance))[: len(free)].tolist(), strict=True))
    logs = vector[: len(free)]
    offsets = dict(zip(publications, map(float, vector[len(free) :]), strict=True))
    return Fitted(_parameters(priors, free, logs), logs, spreads, offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posterior:
    """The residuals of a posterior whose estimates are linear around a point.

    Attributes:
        sigma: Standard deviations of the measurements.
        target: The logarithms of the measurements.
        owner: 1 where a measurement (row) is of a publication on a chip (column).
        centre: The centre of the prior of each constant's logarithm.
        spread: Its standard deviation.
        centres: Rows of weights that average the offsets of a chip.
    """

    sigma: Floats
    target: Floats
    owner: Floats
    centre: Floats
    spread: Floats
    centres: Floats

    def residuals(self, vector: Floats, around: Linear) -> Floats:
        """Returns the errors of measurements, and the deviations from the priors."""
        moved, offsets = np.split(vector, [len(self.centre)])
        errors = _robust(self._errors(moved, offsets, around))
        deviations = (moved - self.centre) / self.spread
        return np.concatenate([errors, deviations, offsets / _PUBLICATION, self.centres @ offsets / _CENTRE])

    def derivatives(self, vector: Floats, around: Linear) -> Floats:
        """Returns the derivatives of the residuals, a column for each constant and offset."""
        moved, offsets = np.split(vector, [len(self.centre)])
        size = np.maximum(np.abs(self._errors(moved, offsets, around)), _HUBER)
        weight = _HUBER / np.sqrt(2 * _HUBER * size - _HUBER**2) / self.sigma
        constants, publications = len(moved), len(offsets)
        zeros = np.zeros
        return np.block(
            [
                [weight[:, None] * around.slopes, weight[:, None] * self.owner],
                [np.diag(1 / self.spread), zeros((constants, publications))],
                [zeros((publications, constants)), np.eye(publications) / _PUBLICATION],
                [zeros((len(self.centres), constants)), self.centres / _CENTRE],
            ]
        )

    def _errors(self, moved: Floats, offsets: Floats, around: Linear) -> Floats:
        estimate = around.here + around.slopes @ (moved - around.logs)
        return np.asarray((estimate + self.owner @ offsets - self.target) / self.sigma)


def linearize(
    unit: ComputeUnit,
    known: UnitPriors,
    measurements: Sequence[Measurement],
    networks: Mapping[str, Network],
    logs: Floats,
) -> Linear:
    """Returns the estimates of measurements as linear functions around a fit.

    Args:
        unit: The unit.
        known: The priors of the unit.
        measurements: The measurements.
        networks: The networks by name.
        logs: The logarithms of the free constants of the fit.
    """
    return _linear(Estimator(unit, known.reference, measurements, networks), known.priors, logs)


def _linear(estimator: Estimator, priors: Mapping[str, Prior], logs: Floats) -> Linear:
    """Returns the estimates around a point, and their derivatives by differences."""
    free = _free(priors)

    def estimate(at: Floats) -> Floats:
        return np.asarray(np.log(estimator.seconds(_parameters(priors, free, at))))

    here = estimate(logs)
    steps = [logs + _STEP * (np.arange(len(logs)) == place) for place in range(len(logs))]
    return Linear(logs, here, np.array([(estimate(step) - here) / _STEP for step in steps]).T)


def _free(priors: Mapping[str, Prior]) -> list[str]:
    return [name for name, prior in priors.items() if prior.spread]


def _centres(publications: Sequence[tuple[str, str]], keys: Sequence[tuple[str, str]]) -> Floats:
    """Returns a row of weights for each chip with several publications, which averages their offsets."""
    chips = sorted({chip for _, chip in publications})
    rows = [[float(keys.count(key)) if key[1] == chip else 0.0 for key in publications] for chip in chips]
    several = [row for row in rows if np.count_nonzero(row) > 1]
    table = np.array(several).reshape(len(several), len(publications))
    return table / np.maximum(table.sum(1, keepdims=True), 1)


def _parameters(priors: Mapping[str, Prior], free: Sequence[str], logs: Floats) -> UnitParameters:
    values = {name: prior.value for name, prior in priors.items()}
    values.update(zip(free, map(float, np.exp(logs)), strict=True))
    return UnitParameters(**{field: values[field] for field in UnitParameters.__struct_fields__})


def _sigmas(unit: ComputeUnit, measurements: Sequence[Measurement]) -> Floats:
    """Returns standard deviations, larger for repeated measurements of one network by one publication."""
    same: dict[tuple[str, str, str], int] = defaultdict(int)
    keys = [(m.network, m.chip, m.publication + m.precision) for m in measurements]
    for key in keys:
        same[key] += 1
    rounding = np.array([m.rounding / m.ms for m in measurements]) / np.sqrt(3)
    grade = np.array([1.0 if m.grade == "A" else 1.5 for m in measurements])
    return np.hypot(_RUN[unit], rounding) * np.sqrt([same[key] for key in keys]) * grade


def _robust(errors: Floats) -> Floats:
    """Returns errors whose squares are Huber's loss."""
    size = np.abs(errors)
    return np.where(
        size < _HUBER, errors, np.sign(errors) * np.sqrt(2 * _HUBER * np.maximum(size, _HUBER) - _HUBER**2)
    )
