"""Published latencies of Core AI beside estimates: a factor for each unit, checked on publications left out.

The networks were converted with coreai-torch from architectures with random weights; their kernels are kept
as numbers, placed by the published rules. Networks that could not be rebuilt are not in the table.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coremlscope.devices import ComputeUnit, ComputeUnits, find_device
from coremlscope.planning.cost.latency.core_ai import CROSSING_S, CoreAIFactor
from coremlscope.planning.cost.latency.recorded import estimate_recorded
from coremlscope.results.calibration import KernelColumns

__all__ = ["Row", "fit", "hold_out", "load_rows", "render", "write"]

_DATA = Path(__file__).parent / "data" / "core_ai.json.gz"
_FACTORS = Path(__file__).parents[2] / "src/coremlscope/planning/cost/latency/data/core_ai.json"
#: Latencies of other publications without which an interval cannot be checked.
_LEAST_ROWS = 2
#: Quantiles of Student's t for the 80 % interval, by degrees of freedom.
_T = {1: 3.078, 2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 6: 1.440, 7: 1.415, 8: 1.397, 9: 1.383}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A published latency with our estimate for Core ML.

    Attributes:
        row: Its number in the collection.
        network: The network and its precision.
        publication: Who measured it.
        device: The device.
        setting: The preference.
        unit: The unit that does most, by our plan.
        measured_s: The latency.
        crossings: How often values leave the Neural Engine and come back, by our plan.
        plain_s: The estimate for Core ML, without changes of unit and launches of units beyond these.
    """

    row: int
    network: str
    publication: str
    device: str
    setting: ComputeUnits
    unit: ComputeUnit
    measured_s: float
    crossings: int
    plain_s: float

    @property
    def log_ratio(self) -> float:
        """The logarithm of the measured time without crossings relative to the plain estimate.

        Crossings take at most half of the measured time.
        """
        busy_s = max(self.measured_s - self.crossings * CROSSING_S[1], self.measured_s / 2)
        return math.log(busy_s / self.plain_s)


def load_rows() -> list[Row]:
    """Reads the latencies, and estimates their networks with today's model."""
    found = []
    for one in json.loads(gzip.decompress(_DATA.read_bytes())):
        columns = {name: tuple(column) for name, column in one["kernels"]["columns"].items()}
        kernels = KernelColumns(
            columns=columns,
            order=tuple(one["kernels"]["order"]),
            converted_bytes=one["kernels"]["converted_bytes"],
        )
        plain = estimate_recorded(kernels, find_device(one["device"]), one["setting"])
        main = max(plain.placement, key=lambda unit: plain.placement[unit])
        others_s = sum(terms.launch_s for terms in plain.terms if terms.unit != main)
        found.append(
            Row(
                **{name: one[name] for name in ("row", "network", "publication", "device", "setting")},
                unit=main,
                measured_s=one["measured_ms"] / 1e3,
                crossings=one["crossings"],
                plain_s=plain.latency.value
                - plain.parts["switches"]
                - (others_s if one["crossings"] else 0.0),
            )
        )
    return found


def fit(rows: Sequence[Row]) -> dict[ComputeUnit, CoreAIFactor]:
    """Fits the factors: the mean of the means of publications, so that each counts once."""
    by_unit: dict[ComputeUnit, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_unit[row.unit][row.publication].append(row.log_ratio)
    found = {}
    for unit, publications in by_unit.items():
        means = [statistics.fmean(logs) for logs in publications.values()]
        center, count = statistics.fmean(means), len(means)
        every = [one for logs in publications.values() for one in logs]
        degrees = max(len(every) - 1, 1)
        variance = sum((one - center) ** 2 for one in every) / degrees
        width = math.exp(_T[min(degrees, max(_T))] * math.sqrt(variance * (1 + 1 / count)))
        found[unit] = CoreAIFactor(
            factor=round(math.exp(center), 3), width=round(width, 2), publications=count, rows=len(every)
        )
    return found


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A latency, estimated without its publication."""

    row: Row
    estimated_s: float
    low_s: float
    high_s: float

    @property
    def holds(self) -> bool:
        """Whether the interval contains the published latency."""
        return self.low_s <= self.row.measured_s <= self.high_s


def hold_out(rows: Sequence[Row]) -> list[HeldOut]:
    """Estimates each publication from the others, where these have at least two latencies on the unit."""
    found = []
    for row in rows:
        known = fit([other for other in rows if other.publication != row.publication])
        if row.unit not in known or known[row.unit].rows < _LEAST_ROWS:
            continue
        factor, (least, usual, most) = known[row.unit], (row.crossings * one for one in CROSSING_S)
        busy_s = row.plain_s * factor.factor
        found.append(
            HeldOut(row, busy_s + usual, busy_s / factor.width + least, busy_s * factor.width + most)
        )
    return found


def render(rows: Sequence[Row]) -> str:
    """Returns the table of held-out latencies, and how many intervals hold."""
    held = hold_out(rows)
    lines = [
        "Published latencies of Core AI, each beside an estimate from the publications of others.",
        "",
        "| network | device | preference | unit | publication | published | estimated without it | holds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in held:
        row = one.row
        times = f"{one.estimated_s * 1e3:.2f} ({one.low_s * 1e3:.2f} to {one.high_s * 1e3:.2f}) ms"
        cells = (row.network, row.device, row.setting, row.unit.replace("_", " "), row.publication)
        mark = "yes" if one.holds else "no"
        lines.append(f"| {' | '.join(cells)} | {row.measured_s * 1e3:.2f} ms | {times} | {mark} |")
    errors = [abs(math.log(one.estimated_s / one.row.measured_s)) for one in held]
    median = math.exp(statistics.median(errors))
    holding = sum(one.holds for one in held)
    lines += ["", f"{holding} of {len(held)} intervals hold; the median error is a factor of {median:.2f}."]
    return "\n".join(lines)


def write(rows: Sequence[Row]) -> Path:
    """Writes the factors that the package includes."""
    units = {unit: msgspec.to_builtins(factor) for unit, factor in sorted(fit(rows).items())}
    about = (
        "Written by `python -m benchmarks.latency calibrate` from benchmarks/latency/data/core_ai.json.gz."
    )
    _FACTORS.write_text(json.dumps({"about": about, "units": units}, indent=2) + "\n")
    return _FACTORS
