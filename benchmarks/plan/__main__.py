"""Prints the agreement of our plans with published ones and every mismatch: `make bench-plan`."""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.plan.agreement import Agreement

_PARTS = (
    *("network", "wholes", "encoders", "depth", "vocoder", "times", "shapes", "programs", "left-out"),
    *("rates", "fit", "support", "context", "speed"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares plans and prints the agreement; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"some of {', '.join(_PARTS)} (default: all)")
    wanted = parser.parse_args(arguments).part or list(_PARTS)
    unknown = [part for part in wanted if part not in _PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; known parts: {', '.join(_PARTS)}")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    compare, report = _comparisons(), _reports()
    for part in wanted:
        if part in report:
            print(report[part]())
        else:
            for found in compare[part]():
                _show(found)
    return 0


def _reports() -> dict[str, Callable[[], str]]:
    from benchmarks.plan import fit, rates, speed

    return {"fit": fit.report, "rates": rates.report, "speed": speed.report}


def _comparisons() -> dict[str, Callable[[], list[Agreement]]]:
    from benchmarks.plan import agreement, depth, encoders, programs, times, vocoder, wholes

    return {
        "network": agreement.compare_network,
        "wholes": wholes.compare_networks,
        "encoders": encoders.compare_encoders,
        "depth": depth.compare_depth,
        "vocoder": vocoder.compare_vocoder,
        "times": times.compare_times,
        "shapes": wholes.compare_shapes,
        "programs": programs.compare_programs,
        "left-out": wholes.compare_left_out,
        "support": agreement.compare_support,
        "context": agreement.compare_context,
    }


def _show(found: object) -> None:
    from benchmarks.plan.agreement import Agreement

    assert isinstance(found, Agreement)
    print(f"{found.name}: {found.right} of {found.total} ({found.share:.1%})")
    for note in found.notes:
        print(f"    {note}")
    for miss in found.misses:
        print(f"  miss  {miss}")
    print()


if __name__ == "__main__":
    raise SystemExit(main())
