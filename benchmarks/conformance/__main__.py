"""`python -m benchmarks.conformance`: coremltools' own tests on the drop-in runtime.

The tests run in separate processes, so a crash or a hang fails only one test.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.conformance.report import Table, read_known_failures
from benchmarks.conformance.runner import FOLDERS, Plan, plan_jobs, run_jobs

_HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Runs the suite or a part of it; returns 1 if a test fails that the table of known failures lacks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__)
    parser.add_argument("paths", nargs="*", default=list(FOLDERS), help="files or folders below coremltools")
    parser.add_argument("--sample", default="0/1", metavar="K/N", help="ids with a crc32 of K modulo N")
    one_per = parser.add_mutually_exclusive_group()
    for unit in ("class", "function"):
        one_per.add_argument(
            f"--one-per-{unit}",
            action="store_const",
            dest="one_per",
            const=unit,
            default="",
            help=f"one test per test {unit} and backend",
        )
    parser.add_argument(
        "--compiled", action="store_true", help="load every ML Program through a compiled model"
    )
    parser.add_argument("--workers", type=int, default=2, help="parallel processes (default 2)")
    parser.add_argument("--timeout", type=int, default=300, help="limit of a test in seconds (default 300)")
    parser.add_argument("--keyword", default="", metavar="EXPR", help="pytest's -k")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("out/conformance"), help="folder of the results"
    )
    options = parser.parse_args(arguments)
    plan = Plan(
        sample=options.sample,
        one_per=options.one_per,
        compiled=options.compiled,
        timeout_s=options.timeout,
        keyword=options.keyword,
        output=options.output,
    )
    results = run_jobs(plan_jobs(options.paths, plan, options.workers), plan, options.workers)
    table = Table(results, read_known_failures(_HERE / "known_failures.toml"))
    print(table.write(options.output))
    where = f"see report.md and failures.json in {options.output}"
    print(f"{table.passed} passed, {table.failed} failed; {where}")
    return 1 if table.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
