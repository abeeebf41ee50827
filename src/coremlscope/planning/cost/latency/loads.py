"""How long loading takes on a Neural Engine, by published times and the number of parameters.

The first load compiles the model for the Neural Engine of the device, later ones find the result in Core ML's
cache. Both grow with the model; what else matters is not published. The line through the logarithms of
published times has equal weight for each publication, and its interval holds publications that were left out.
Nothing comparable is published for the other units, nor for the peak memory on any unit.
"""

from __future__ import annotations

import csv
import functools
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from coremlscope.base.figures import Figure
from coremlscope.results.estimate import LoadEstimate

LoadKind = Literal["first", "cached"]

#: Fewer publications do not allow an estimate.
_LEAST_PUBLICATIONS = 2
_Z80 = 1.2816
#: The line is drawn relative to this many parameters.
_REFERENCE = 1e8
#: Models smaller than this are below all published ones: their times are not known.
_LEAST_PARAMETERS = 1e7
#: Prior standard deviation of the exponent around 1, at which times are proportional to the size.
_SLOPE_SPREAD = 0.3


class PublishedLoad(msgspec.Struct, frozen=True):
    """A published time of loading on a Neural Engine."""

    publication: str
    kind: LoadKind
    parameters: float
    seconds: float


class _Line(msgspec.Struct, frozen=True):
    """`log(seconds) = level + slope · log(parameters / 1e8)`, with the standard deviation around it."""

    level: float
    slope: float
    spread: float = 0.0

    def log_s(self, parameters: float) -> float:
        return self.level + self.slope * math.log(parameters / _REFERENCE)


@functools.cache
def load_published() -> tuple[PublishedLoad, ...]:
    """Returns the published times."""
    text = (Path(__file__).parent / "data" / "loads.csv").read_text("utf-8")
    return tuple(
        PublishedLoad(row["publication"], row["kind"], float(row["parameters"]), float(row["seconds"]))  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )


@functools.cache
def fit_line(kind: LoadKind) -> _Line:
    """Returns the line of a kind of load; its spread is that of publications that were left out."""
    rows = [row for row in load_published() if row.kind == kind]
    publications = sorted({row.publication for row in rows})
    squares = []
    for name in publications:
        line = _fit([row for row in rows if row.publication != name])
        off = [math.log(row.seconds) - line.log_s(row.parameters) for row in rows if row.publication == name]
        squares.append(float(np.mean(np.square(off))))
    line = _fit(rows)
    return _Line(line.level, line.slope, math.sqrt(float(np.mean(squares))))


def _fit(rows: Sequence[PublishedLoad]) -> _Line:
    counts = Counter(row.publication for row in rows)
    weights = np.sqrt([1 / counts[row.publication] for row in rows])
    x = np.log([row.parameters / _REFERENCE for row in rows])
    y = np.log([row.seconds for row in rows])
    system = np.stack([weights, weights * x], axis=1)
    system = np.vstack([system, [0.0, 1 / _SLOPE_SPREAD]])
    level, slope = np.linalg.lstsq(system, np.append(weights * y, 1 / _SLOPE_SPREAD), rcond=None)[0]
    return _Line(float(level), float(slope))


def estimate_loads(parameters: float) -> LoadEstimate | None:
    """Estimates loading of a model on a Neural Engine; None where publications do not allow it.

    Args:
        parameters: Number of parameters on the Neural Engine.
    """
    if parameters < _LEAST_PARAMETERS:
        return None
    names = {
        kind: {r.publication for r in load_published() if r.kind == kind} for kind in ("first", "cached")
    }
    if any(len(found) < _LEAST_PUBLICATIONS for found in names.values()):
        return None
    return LoadEstimate(
        first_s=_figure("first", parameters),
        cached_s=_figure("cached", parameters),
        publications=len(set().union(*names.values())),
    )


def _figure(kind: LoadKind, parameters: float) -> Figure:
    line = fit_line(kind)
    value, factor = math.exp(line.log_s(parameters)), math.exp(_Z80 * line.spread)
    return Figure(value, value / factor, value * factor, "estimated")
