"""Measures what sweeps cost: `make bench-sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints what was found, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("part", choices=("cluster",))
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument(
        "--kills", type=int, nargs=3, default=(20, 5, 2), metavar=("WORKERS", "NODES", "DRIVERS")
    )
    given = parser.parse_args(arguments)
    from benchmarks.sweeps import cluster

    print(cluster.report(given.jobs, given.nodes, tuple(given.kills)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
