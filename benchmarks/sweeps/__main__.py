"""Measures what sweeps cost: `make bench-sweep`. Wall times need a machine without other work."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_PARTS = ("workers", "ray", "architectures", "corpus", "cluster")
_CORPUS = Path("../shared/corpus/models")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints what was found, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"some of {', '.join(_PARTS)} (default: all)")
    parser.add_argument("--count", type=int, default=10_000, help="architectures; workers share a tenth")
    parser.add_argument("--workers", type=int, default=2, help="the most workers of `workers` and `ray`")
    parser.add_argument("--corpus", type=Path, default=_CORPUS, help="a folder of models")
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs on the cluster")
    parser.add_argument("--nodes", type=int, default=30, help="nodes of the cluster, 180 MB each")
    parser.add_argument(
        "--kills",
        type=int,
        nargs=3,
        default=(60, 10, 3),
        metavar=("WORKERS", "NODES", "DRIVERS"),
        help="how many are killed at random moments",
    )
    given = parser.parse_args(arguments)
    unknown = [part for part in given.part if part not in _PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; known parts: {', '.join(_PARTS)}")
    for part in given.part or _PARTS:
        print(f"{part}\n{_report(part, given)}\n", flush=True)
    return 0


def _report(part: str, given: argparse.Namespace) -> str:
    from benchmarks.sweeps import cluster, local

    match part:
        case "workers":
            return local.report_workers(max(1, given.count // 10), given.workers)
        case "ray":
            return local.report_ray(max(1, given.count // 10), given.workers)
        case "architectures":
            return local.report_architectures(given.count)
        case "corpus":
            return local.report_corpus(str(given.corpus))
        case _:
            return cluster.report(given.jobs, given.nodes, tuple(given.kills))


if __name__ == "__main__":
    raise SystemExit(main())
