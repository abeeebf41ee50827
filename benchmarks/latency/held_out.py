"""Scores the shipped estimates on published latencies that enter no fit.

The rows of `data/held_out.csv` have the columns of the other measurements, and `first_estimate_ms`: what was
estimated when the publication was found, before anything could follow from it. Networks of the article's
family never enter a fit: neither a constant nor the form of the model may follow from them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.latency.dataset import Measurement, Network, in_precision, load_networks, measurement_of
from benchmarks.latency.extract import HELD_OUT_MEASUREMENTS
from benchmarks.latency.validate import errors
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, all_chips, macos
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.constants import constants_of, on_system
from coremlscope.planning.cost.latency.model import interval_factors
from coremlscope.planning.cost.latency.roofline import time_kernels

#: The article's page, whose table of MobileCLIP on M1 is not stored with the other sources.
ARTICLE = "https://fguzman82.github.io/ProfilingCoreMLModels.html"
_NAMES: Mapping[ComputeUnit, str] = {NEURAL_ENGINE: "Neural Engine", GPU: "CPU and GPU", CPU: "CPU"}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the ends of its 80 % interval, in milliseconds."""

    ms: float
    low: float
    high: float

    def __contains__(self, ms: float) -> bool:
        return self.low <= ms <= self.high


def load_held_out(path: Path = HELD_OUT_MEASUREMENTS) -> list[Measurement]:
    """Loads measurements that enter no fit.

    Args:
        path: A file with the columns of the other measurements.

    Raises:
        SystemExit: If there is no such file, a row is not valid, or nothing is known of its network.
    """
    networks = load_networks()
    found = []
    for number, row in enumerate(_rows(path), 2):
        try:
            one = measurement_of(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"{path}, line {number}: not a measurement: {error}") from None
        if one.network not in networks or one.ran_on not in _NAMES:
            raise SystemExit(f"{path}, line {number}: unknown network or unit")
        found.append(one)
    return found


def load_first_estimates(path: Path = HELD_OUT_MEASUREMENTS) -> dict[str, float]:
    """Returns the milliseconds estimated when a measurement was found, by row, where that is written down."""
    return {
        row["row"]: float(row["first_estimate_ms"]) for row in _rows(path) if row.get("first_estimate_ms")
    }


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None


def estimate(m: Measurement, networks: Mapping[str, Network]) -> Interval:
    """Returns the shipped estimate of a measurement, as if the unit ran the whole network."""
    assert m.ran_on in _NAMES
    known, chip, network = load_calibration(), all_chips()[m.chip], networks[m.network]
    table = in_precision(network.table, m.precision)
    constants = on_system(constants_of(known, chip, m.ran_on), m.release)
    times = time_kernels(table, m.ran_on, constants)
    total = times.total * network.times
    seconds = max(float(total.sum()), float((times.stream * network.times).sum())) + constants.dispatch_s
    plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
    unusual = float(total[~plain].sum() / seconds)
    low, high = interval_factors(known.spreads[m.ran_on], chip, unusual)
    return Interval(seconds * 1e3, seconds * low * 1e3, seconds * high * 1e3)


def render_held_out(measurements: Sequence[Measurement], first: Mapping[str, float]) -> Iterator[str]:
    """Yields tables in Markdown: the errors by publication, chip and unit, and each measurement.

    Args:
        measurements: The measurements.
        first: The milliseconds estimated when a measurement was found, by row.
    """
    networks = load_networks()
    found = [(m, estimate(m, networks)) for m in measurements]
    yield "| publication, chip | unit | n | median | p90 | bias | within | median when found |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for publication, chip, unit in sorted({_group(m) for m in measurements}):
        group = [(m, e) for m, e in found if _group(m) == (publication, chip, unit)]
        off = errors([m.ms for m, _ in group], [e.ms for _, e in group])
        inside = np.mean([m.ms in e for m, e in group])
        known = [(m.ms, first[m.row]) for m, _ in group if m.row in first]
        before = f"{errors(*zip(*known, strict=True)).median:.1%}" if known else ""
        yield (
            f"| {publication}, {all_chips()[chip].name} | {unit} | {off.count} | {off.median:.1%}"
            f" | {off.p90:.1%} | {off.bias:+.2f} | {inside:.0%} | {before} |"
        )
    yield ""
    yield "| network | chip | unit | measured, ms | estimated, ms | 80 % within, ms | | when found, ms |"
    yield "|---|---|---|---:|---:|---|---|---:|"
    for m, e in sorted(found, key=lambda pair: (_group(pair[0]), pair[0].network)):
        inside = "" if m.ms in e else "outside"
        where = f"{all_chips()[m.chip].name} | {_group(m)[2]}"
        before = f"{first[m.row]:.3g}" if m.row in first else ""
        yield f"| {m.network} | {where} | {m.ms:g} | {_cells(e)} | {inside} | {before} |"


def render_article(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yields a table in Markdown of what is estimated for the article's networks on its chip.

    Args:
        measurements: Measurements of the same networks, of any publication.
    """
    networks = load_networks()
    of_network: dict[str, Measurement] = {m.network: m for m in measurements if m.family == "mobileclip"}
    yield "| network | CPU, ms | CPU and GPU, ms | Neural Engine, ms |"
    yield "|---|---:|---:|---:|"
    for name, m in sorted(of_network.items()):
        cells = [
            _cells(e).replace(" | ", " (") + ")"
            for e in (estimate(_moved(m, unit), networks) for unit in (CPU, GPU, NEURAL_ENGINE))
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def _moved(m: Measurement, unit: ComputeUnit) -> Measurement:
    """Returns a measurement as if it were the article's: of M1, with the system of its time."""
    return replace(m, chip="m1", ran_on=unit, release=macos(14, 4), precision="fp16")


def _group(m: Measurement) -> tuple[str, str, str]:
    assert m.ran_on in _NAMES
    return m.publication, m.chip, _NAMES[m.ran_on]


def _cells(e: Interval) -> str:
    return f"{e.ms:.3g} | {e.low:.3g} to {e.high:.3g}"
