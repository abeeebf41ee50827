"""What the verbs that measure share: how often, with how many threads, on which made-up values."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import at_least

__all__ = ["add_engine_options", "add_repetitions"]


def add_repetitions(parser: argparse.ArgumentParser) -> None:
    """Adds `--iterations`, `--compile-iterations`, `--load-iterations` and `--warmups`."""
    parser.add_argument(
        "--iterations", metavar="N", type=at_least(1), default=50, help="timed predictions (default: 50)"
    )
    parser.add_argument(
        "--compile-iterations",
        metavar="N",
        type=at_least(1),
        default=10,
        help="timed compilations (default: 10)",
    )
    parser.add_argument(
        "--load-iterations", metavar="N", type=at_least(1), default=10, help="timed loads (default: 10)"
    )
    parser.add_argument(
        "--warmups",
        metavar="N",
        type=at_least(0),
        help="predictions before the timed ones (default: until times settle)",
    )


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--threads`, `--seed` and `--random-weights`."""
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="threads of an operation (default: one a physical core)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0),
        default=0,
        help="seed of made-up inputs and weights (default: 0)",
    )
    parser.add_argument(
        "--random-weights",
        action="store_true",
        help="make up weights whose file is absent, to time the structure",
    )
