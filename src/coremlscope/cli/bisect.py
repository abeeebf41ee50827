"""`coremlscope bisect`: the smallest part of a model with a property."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import (
    Command,
    add_inputs,
    add_json,
    add_model,
    add_quiet,
    add_shape,
    at_least,
    one_of,
    write_result,
)
from coremlscope.cli.limited import call_on_model
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import add_function, add_random_weights, add_seed, add_stage
from coremlscope.devices.unit import UNITS

__all__ = ["COMMAND"]

_EPILOG = """\
Finds the smallest range of operations with a property in at most 2*log2(n) tests of n operations, then
leaves out operations inside it that do not matter, with the tests that remain. Each test isolates a
part with real inputs (see `coremlscope isolate`).

--unit: an operation of the part is kept off the unit, by our rules for --device; on a Mac without
--device by Core ML's own plan, which is not yet confirmed on a device.

--fp16-overflow: finite numbers become infinite when they are rounded to fp16.

--predicate: a script rejects the part. It is called with the part's path; OUT.npz beside it holds the
inputs. As for `git bisect run`, exit code 0 accepts, 1 to 127 reject, 125 says that the part cannot be
tested; others end the search.

examples:
  coremlscope bisect model.mlpackage --unit neural-engine --device iphone-15-pro
  coremlscope bisect model.mlpackage --fp16-overflow --input image=photo.jpg -o culprit.mlpackage
  coremlscope bisect model.mlpackage --predicate is_wrong.py
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--unit",
        metavar="UNIT",
        type=one_of("compute unit", *(unit.replace("_", "-") for unit in UNITS)),
        help="what keeps a part off this compute unit: neural-engine, gpu or cpu",
    )
    parser.add_argument("--fp16-overflow", action="store_true", help="what overflows in fp16")
    parser.add_argument(
        "--predicate",
        metavar="SCRIPT",
        type=Path,
        help="what a script rejects, a Python file or any other program",
    )
    parser.add_argument("--device", metavar="NAME", help="for --unit: the chip or device")
    parser.add_argument("--os", metavar="VERSION", help="the version of its system (default: the newest)")
    parser.add_argument(
        "-o", "--output", metavar="OUT.mlpackage", type=Path, help="write the smallest part, and its values"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files of the part")
    parser.add_argument(
        "--most-tests",
        metavar="N",
        type=at_least(1),
        help="the largest number of tests (default: 2*log2 of the number of operations)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=at_least(1),
        help="time of the script for one part (default: none)",
    )
    add_function(parser, "to search in")
    add_stage(parser, "to search in")
    add_inputs(parser)
    add_shape(parser)
    add_seed(parser, "synthetic inputs and weights")
    add_random_weights(parser)
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.isolation.bisect import bisect
    from coremlscope.measure.child import ChildLimits
    from coremlscope.render.json import render_values
    from coremlscope.render.terminal.bisection import render_bisection

    # A script may be silent for as long as it is allowed to run.
    limits = ChildLimits(silence_s=float("inf"))
    with progress_bars(not arguments.quiet) as progress:
        found = call_on_model(
            bisect,
            arguments,
            limits,
            progress,
            unit=None if arguments.unit is None else arguments.unit.replace("-", "_"),
            fp16_overflow=arguments.fp16_overflow,
            predicate=arguments.predicate,
            device=arguments.device,
            os=arguments.os,
            output=arguments.output,
            seed=arguments.seed,
            random_weights=arguments.random_weights,
            most_tests=arguments.most_tests,
            timeout_s=arguments.timeout,
            overwrite=arguments.overwrite,
        )
    write_result(
        arguments,
        lambda: render_values(found.to_json()),
        lambda width, color: render_bisection(found, width=width, color=color),
    )
    return 0


COMMAND = Command(
    name="bisect",
    doc="Find the smallest part of a model that misses a unit, overflows or fails a script.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
