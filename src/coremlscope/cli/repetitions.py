"""What the verbs that measure share: how often, with how many threads, on which made-up values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from coremlscope.cli.command import at_least

if TYPE_CHECKING:
    from coremlscope.api import MeasureOptions

__all__ = ["add_engine_options", "add_repetitions", "measure_options"]


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


def measure_options(arguments: argparse.Namespace) -> MeasureOptions:
    """What the options of a verb that measures ask for: those added here, `--function` and `--shape`."""
    return {
        "function": arguments.function or "",
        "iterations": arguments.iterations,
        "compile_iterations": arguments.compile_iterations,
        "load_iterations": arguments.load_iterations,
        "warmups": arguments.warmups,
        "seed": arguments.seed,
        "shapes": dict(arguments.shape),
        "random_weights": arguments.random_weights,
    }
