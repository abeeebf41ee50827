"""Scores published latencies with the shipped estimates, without fitting them.

A row says `network` (or `structure`, a model's file), `chip`, `os`, `compute_units` and `latency_ms`;
`publication` (or `source`), `family`, `ran_on`, `precision`, `date` and `grade` are optional. Where the model
is in the folder `models` next to the file of rows, or in that of the collection, the estimate is the
product's, which follows its plan; else it is that of the network's kernels on the unit that ran it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.latency.dataset import (
    Measurement,
    Network,
    device_of,
    in_precision,
    load_networks,
    measurement_of,
)
from benchmarks.latency.extract import package_of
from benchmarks.latency.planned import MODELS
from benchmarks.latency.validate import errors
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, all_chips
from coremlscope.formats import container
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.constants import constants_of, on_system
from coremlscope.planning.cost.latency.model import family_of, width_of
from coremlscope.planning.cost.latency.recorded import estimate_recorded
from coremlscope.planning.cost.latency.roofline import time_kernels
from coremlscope.planning.forecast.planner import record_prediction

#: The unit of a setting that names one.
_UNITS: Mapping[ComputeUnits, ComputeUnit] = {
    "cpu_only": CPU,
    "cpu_and_gpu": GPU,
    "cpu_and_ne": NEURAL_ENGINE,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the ends of its 80 % interval, in milliseconds."""

    ms: float
    low: float
    high: float

    def __contains__(self, ms: float) -> bool:
        return self.low <= ms <= self.high


def load_file(path: Path) -> list[Measurement]:
    """Loads the rows of a file.

    Raises:
        SystemExit: The file cannot be read, or a row is not a measurement.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    found = []
    for number, row in enumerate(rows, 2):
        try:
            found.append(measurement_of(_complete(row, number)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"{path}, line {number}: not a measurement: {error}") from None
    return found


def _complete(row: Mapping[str, str], number: int) -> dict[str, str]:
    """Returns a row with what it leaves out."""
    network = row.get("network") or Path(row["structure"]).stem
    setting: ComputeUnits = row["compute_units"].lower()  # type: ignore[assignment]
    given = {name: text for name, text in row.items() if text}
    return {
        "row": str(number),
        "family": "",
        "publication": row.get("source") or "unnamed",
        "date": "",
        "ran_on": _UNITS.get(setting, ""),
        "precision": "fp16",
        "grade": "B",
        "use": "check",
        "os": "",
        **given,
        "network": network,
    }


def estimate_one(m: Measurement, networks: Mapping[str, Network], folders: Sequence[Path] = ()) -> Interval:
    """Returns the shipped estimate of a measurement.

    Args:
        m: The measurement.
        networks: The networks whose kernels are known, by name.
        folders: Folders of models.

    Raises:
        SystemExit: Nothing is known of its network.
    """
    package = next(filter(None, (package_of(folder, m.network) for folder in folders)), None)
    if package is not None and m.precision == "fp16":
        device = device_of(m)
        recorded = record_prediction(container.read(package), device, m.setting)
        latency = estimate_recorded(recorded, device, m.setting).latency
        return Interval(latency.value * 1e3, latency.low * 1e3, latency.high * 1e3)
    if m.network not in networks:
        raise SystemExit(f"row {m.row}: no model and no kernels of {m.network}")
    if m.ran_on in ("", "idle"):
        # What the setting allows first, as if it ran the whole network.
        m = replace(m, ran_on=_UNITS.get(m.setting, NEURAL_ENGINE))
    return _of_kernels(m, networks[m.network])


def _of_kernels(m: Measurement, network: Network) -> Interval:
    """Returns the estimate as if the unit ran the whole network."""
    unit = m.ran_on
    assert unit not in ("", "idle")
    known, device = load_calibration(), device_of(m)
    table = in_precision(network.table, m.precision)
    constants = on_system(constants_of(known, device.chip, unit), m.release)
    times = time_kernels(table, unit, constants)
    total = times.total * network.times
    seconds = max(float(total.sum()), float((times.stream * network.times).sum())) + constants.dispatch_s
    plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
    unusual = float(total[~plain].sum() / seconds)
    family = family_of(unusual, seconds, constants.dispatch_s)
    factor = math.exp(width_of(known.spreads[unit], device, family))
    return Interval(seconds * 1e3, seconds / factor * 1e3, seconds * factor * 1e3)


def render_first_sight(measurements: Sequence[Measurement], folders: Sequence[Path]) -> Iterator[str]:
    """Yields the errors by setting and by publication and chip, and each measurement, in Markdown."""
    networks = load_networks()
    found = [(m, estimate_one(m, networks, folders)) for m in measurements]
    yield "| setting | n | median | p90 | bias | within |"
    yield "|---|---:|---:|---:|---:|---:|"
    yield _line("every", found)
    for setting in sorted({m.setting for m in measurements}):
        yield _line(setting, [(m, e) for m, e in found if m.setting == setting])
    yield ""
    yield "| publication, chip, setting | n | median | p90 | bias | within |"
    yield "|---|---:|---:|---:|---:|---:|"
    for group in sorted({_group(m) for m in measurements}):
        yield _line(group, [(m, e) for m, e in found if _group(m) == group])
    yield ""
    yield "| network | chip | setting | measured, ms | estimated, ms | 80 % within, ms | |"
    yield "|---|---|---|---:|---:|---|---|"
    for m, e in found:
        inside = "" if m.ms in e else "outside"
        where = f"{all_chips()[m.chip].name} | {m.setting}"
        yield f"| {m.network} | {where} | {m.ms:g} | {e.ms:.3g} | {e.low:.3g} to {e.high:.3g} | {inside} |"


def _group(m: Measurement) -> str:
    return f"{m.publication}, {all_chips()[m.chip].name}, {m.setting}"


def _line(name: str, rows: Sequence[tuple[Measurement, Interval]]) -> str:
    off = errors([m.ms for m, _ in rows], [e.ms for _, e in rows])
    inside = np.mean([m.ms in e for m, e in rows])
    return f"| {name} | {off.count} | {off.median:.1%} | {off.p90:.1%} | {off.bias:+.2f} | {inside:.0%} |"


def score(path: Path) -> str:
    """Returns the tables of a file of rows."""
    return "\n".join(render_first_sight(load_file(path), (path.parent / "models", path.parent, MODELS)))
