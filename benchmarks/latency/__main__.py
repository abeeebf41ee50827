"""`python -m benchmarks.latency`: the accuracy of the latency model on held-out measurements.

python -m benchmarks.latency                        prints the tables
python -m benchmarks.latency calibrate              fits the rows, writes what follows
python -m benchmarks.latency first-sight ROWS.csv   scores rows, fits none
python -m benchmarks.latency own                    prints what own measurements change
python -m benchmarks.latency networks FOLDER        extracts kernels from models
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from benchmarks.latency import core_ai
from benchmarks.latency.by_date import score_by_date
from benchmarks.latency.dataset import load_measurements, load_networks
from benchmarks.latency.decoders import render as render_rates
from benchmarks.latency.extract import extract
from benchmarks.latency.first_sight import score
from benchmarks.latency.fit import fit
from benchmarks.latency.intervals import fit_spread
from benchmarks.latency.own import play
from benchmarks.latency.own import render as render_own
from benchmarks.latency.planned import estimate_planned
from benchmarks.latency.priors import PRIORS
from benchmarks.latency.report import Result, draw, render
from benchmarks.latency.shipped_evidence import write as write_evidence
from benchmarks.latency.validate import OLDEST, choose, estimate_all, hold_out, kind_of
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.latency.calibration import load_calibration

_ROOT = Path(__file__).parents[2]
_CALIBRATION = _ROOT / "src" / "coremlscope" / "planning" / "cost" / "latency" / "data" / "calibration.json"
_RATES = _ROOT / "docs" / "token-rates.md"
_PAGE = _ROOT / "docs" / "accuracy.md"
#: Coming back to an accelerator. Published latencies of eight predictions with two changes of unit or more
#: allow 0.4 to 0.8 ms with transfers at 20 to 25 GB/s.
_SWITCH_S = 0.4e-3
#: Bandwidth at which the CPU converts inputs and outputs, and tensors change the unit.
_CONVERT_BPS = 20e9


def main() -> None:
    """Runs the action given on the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.action in ("networks", "first-sight"):
        if arguments.path is None:
            parser.error(f"{arguments.action} needs a path")
        if arguments.action == "networks":
            print(f"wrote the kernels of {extract(arguments.path)} networks")
        else:
            print(score(arguments.path))
        return
    if arguments.action == "own":
        print(render_own(play()))
        return
    measurements = load_measurements()
    units: tuple[ComputeUnit, ...] = (NEURAL_ENGINE, CPU, GPU)
    results = {unit: _result(unit) for unit in units}
    if arguments.action == "calibrate":
        # Before the tables, some of which score the shipped estimates.
        _write(results)
        load_calibration.cache_clear()
        write_evidence()
        _RATES.write_text(render_rates())
        core_ai.write(core_ai.load_rows())
    planned = estimate_planned(measurements, {unit: result.spread for unit, result in results.items()})
    networks = load_networks()
    scored = {unit: score_by_date(unit, measurements, networks) for unit in results}
    text = render(results, scored, measurements, planned)
    print(text)
    arguments.output.mkdir(parents=True, exist_ok=True)
    drawing = arguments.output / "latency.svg"
    drawing.write_text(draw(results[NEURAL_ENGINE].held))
    print(f"wrote {drawing}")
    if arguments.action == "calibrate":
        _PAGE.write_text(text)
        (_PAGE.parent / "accuracy.svg").write_text(draw(results[NEURAL_ENGINE].held))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = ("validate", "calibrate", "first-sight", "own", "networks")
    parser.add_argument("action", nargs="?", choices=actions, default="validate")
    parser.add_argument("path", nargs="?", type=Path, help="a file of rows, or a folder of models")
    parser.add_argument("-o", "--output", type=Path, default=_ROOT / "out", help="folder of the plot")
    return parser


def _result(unit: ComputeUnit) -> Result:
    networks, chosen = load_networks(), choose(load_measurements(), unit)
    known = PRIORS[unit]
    whole = fit(unit, known, chosen, networks)
    held = hold_out(unit, known, chosen, networks, whole)
    without_kind = hold_out(unit, known, chosen, networks, whole, kind_of)
    old = [m for m in choose(load_measurements(), unit, oldest=0) if m.release.core_ml[0] < OLDEST]
    spread = fit_spread(held, estimate_all(unit, known, old, networks, whole.parameters))
    return Result(unit, known, whole, chosen, held, without_kind, spread)


def _write(results: dict[ComputeUnit, Result]) -> None:
    table = {
        "about": "Written by `python -m benchmarks.latency calibrate` from tests/data/latency.",
        "switch_s": _SWITCH_S,
        "convert_Bps": _CONVERT_BPS,
        "spreads": {unit: msgspec.to_builtins(result.spread) for unit, result in results.items()},
        "units": {unit: _fitted(result) for unit, result in results.items()},
    }
    _CALIBRATION.parent.mkdir(exist_ok=True)
    _CALIBRATION.write_text(json.dumps(table, indent=2) + "\n")


def _fitted(found: Result) -> dict[str, object]:
    fitted = found.whole.parameters
    return {
        "reference": found.known.reference,
        "rows": len(found.rows),
        "publications": sorted({m.publication for m in found.rows}),
        "constants": {name: float(f"{getattr(fitted, name):.4g}") for name in found.known.priors},
        "spreads": {name: round(spread, 3) for name, spread in found.whole.spreads.items()},
    }


if __name__ == "__main__":
    main()
