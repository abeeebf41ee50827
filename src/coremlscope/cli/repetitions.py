"""Options shared by commands that measure: repetitions, threads, synthetic values."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from coremlscope.base.units import parse_bytes
from coremlscope.cli.command import at_least, one_of
from coremlscope.runtime.engines import ENGINES


def add_function(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `--function`; `what` states its purpose."""
    parser.add_argument(
        "--function", metavar="NAME", help=f"the function {what} (default: the model's default function)"
    )


def add_stage(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `--stage`; `what` states its purpose."""
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help=f"the stage of a pipeline {what}, by its name or number from 0; inputs are those of the stage",
    )


def add_iterations(parser: argparse.ArgumentParser, default: int) -> None:
    """Adds `--iterations` with a fixed default."""
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=at_least(1),
        default=default,
        help=f"timed predictions (default: {default})",
    )


def add_repetitions(parser: argparse.ArgumentParser) -> None:
    """Adds `--iterations`, `--compile-iterations`, `--load-iterations` and `--warmups`."""
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=at_least(1),
        help="timed predictions, exactly (default: 50, or fewer once their median is known within 1 %% or"
        " they have taken 30 s)",
    )
    parser.add_argument(
        "--compile-iterations",
        metavar="N",
        type=at_least(1),
        help="timed compilations, exactly (default: what fits into 2 s, at most 6)",
    )
    parser.add_argument(
        "--load-iterations",
        metavar="N",
        type=at_least(1),
        help="timed loads, exactly (default: what fits into 2 s, at most 6)",
    )
    parser.add_argument(
        "--warmups",
        metavar="N",
        type=at_least(0),
        help="predictions before the timed ones (default: until times settle)",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds `--engine`."""
    parser.add_argument(
        "--engine",
        metavar="NAME",
        type=one_of("engine", "coreml", "coreai", "auto", *(name for name, *_ in ENGINES)),
        help="coreml, on a Mac only and the default there, onnxruntime, openvino, auto for the faster of the"
        " last two, or coreai for .aimodel, on a Mac only",
    )


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--threads`, `--seed` and `--random-weights`."""
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="threads per operation (default: one per physical core)",
    )
    add_seed(parser, "synthetic inputs and weights")
    add_random_weights(parser, ", to time the structure")


def add_limits(
    parser: argparse.ArgumentParser,
    what: str = "each measurement",
    *,
    keeps: bool = False,
    default_s: int | None = None,
) -> None:
    """Adds `--timeout` and `--memory`.

    Args:
        parser: The verb's parser.
        what: What is ended.
        keeps: Whether what was measured before is kept.
        default_s: The default of `--timeout`; None for no limit.
    """
    then = ", and keep what it measured" if keeps else ""
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=at_least(1),
        default=default_s,
        help=f"end {what} after that time{then} (default: {default_s or 'no limit'})",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=_memory,
        help=f"end {what} if its process takes more memory, such as 4GB{then} (default: no limit)",
    )


def _memory(text: str) -> int:
    """Parses a size of memory, which Windows cannot limit."""
    if sys.platform == "win32":
        raise argparse.ArgumentTypeError("memory cannot be limited on Windows\nleave --memory out")
    size = parse_bytes(text)
    if size is None or size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size\ngive one such as 500MB or 4GB")
    return size


def measurement_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns options of this module and targets as arguments of `api.profile` and `api.compare`.

    What is measured is measured in a process of its own.
    """
    from coremlscope.devices.targets import Targets
    from coremlscope.measure.effort import Effort

    effort = Effort(
        compile_iterations=arguments.compile_iterations,
        load_iterations=arguments.load_iterations,
        warmups=arguments.warmups,
        threads=arguments.threads,
        isolate=True,
        timeout_s=arguments.timeout,
        memory_bytes=arguments.memory,
    )
    return {
        "devices": Targets(arguments.device, arguments.os, arguments.compute_units),
        "iterations": arguments.iterations,
        "effort": effort,
        "engine": arguments.engine,
    }


def add_random_weights(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Adds `--random-weights`.

    Args:
        parser: The verb's parser.
        purpose: The end of its help.
    """
    text = f"replace weights whose file is absent by synthetic ones{purpose}"
    parser.add_argument("--random-weights", action="store_true", help=text)


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `--seed`; `what` names the values that it seeds."""
    parser.add_argument(
        "--seed", metavar="N", type=at_least(0), default=0, help=f"seed of {what} (default: 0)"
    )
