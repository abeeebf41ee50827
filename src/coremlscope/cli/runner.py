"""`coremlscope runner`: an Xcode project of an app that measures models on an iPhone, an iPad or a Mac."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import (
    Command,
    add_compute_units,
    add_quiet,
    add_shape,
    at_least,
    read_path,
)
from coremlscope.cli.connected import add_power_mode, chosen_power_mode
from coremlscope.cli.repetitions import add_iterations, add_seed
from coremlscope.cli.terminal import print_note

_EPILOG = """\
The project has one app target. The app compiles each model on the device, loads it, makes
predictions one after the other, asynchronously, several at a time and into buffers of its own, asks
Core ML for its plan, and records memory, heat and power. After a crash it continues with the next
setting when it is opened again. It writes results.json, which `coremlscope import` reads. The same
sources are a Swift package for the Mac. None of this is yet confirmed on a device.

`profile` and `compare` with --on-device do all of it: they write the project, build it, install it,
start it, and copy the results back.

examples:
  coremlscope runner MyRunner a.mlpackage b.mlpackage --team A1B2C3D4E5
  open MyRunner/CoreMLScopeRunner.xcodeproj
  cd MyRunner && swift run -c release CoreMLScopeRunner Payload Results
  coremlscope import results.json --model a.mlpackage -o profile.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of the project, a new one")
    parser.add_argument("models", metavar="MODEL", type=read_path, nargs="+", help="the models to measure")
    add_compute_units(parser, "what is measured", default="every")
    parser.add_argument(
        "--function", metavar="NAME", help="the function to measure, or every (default: the default one)"
    )
    add_power_mode(parser)
    _add_repetitions(parser)
    add_seed(parser, "synthetic inputs")
    add_shape(parser)
    parser.add_argument(
        "--team",
        metavar="ID",
        default="",
        help="the development team that signs the app: A1B2C3D4E5 (default: choose it in Xcode)",
    )
    parser.add_argument(
        "--bundle-id",
        metavar="ID",
        default="",
        help="the identifier of the app (default: coremlscope.runner, and the team)",
    )
    add_quiet(parser, "do not print the next steps")


def _add_repetitions(parser: argparse.ArgumentParser) -> None:
    add_iterations(parser, 50)
    parser.add_argument(
        "--compile-iterations", metavar="N", type=at_least(1), default=3, help="compilations (default: 3)"
    )
    parser.add_argument(
        "--load-iterations",
        metavar="N",
        type=at_least(0),
        default=5,
        help="loads after the first of each setting (default: 5)",
    )
    parser.add_argument(
        "--warmups",
        metavar="N",
        type=at_least(0),
        default=5,
        help="predictions before the timed ones (default: 5)",
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.measure.runner.project import write_runner
    from coremlscope.measure.runner.request import RunnerSettings

    folder: Path = arguments.folder
    settings = RunnerSettings(
        compute_units=arguments.compute_units,
        function=arguments.function or "",
        power_mode=chosen_power_mode(arguments),
        iterations=arguments.iterations,
        warmups=arguments.warmups,
        compiles=arguments.compile_iterations,
        loads=arguments.load_iterations,
        seed=arguments.seed,
        shapes=dict(arguments.shape),
    )
    models = [api.read(path) for path in arguments.models]
    write_runner(folder, models, settings, team=arguments.team, bundle_id=arguments.bundle_id)
    if not arguments.quiet:
        print_note(f"wrote {folder}")
        print_note(f"open {folder}/CoreMLScopeRunner.xcodeproj in Xcode and run it on the device")
        print_note("the results are in the app's folder in Files: coremlscope/results.json")
    return 0


COMMAND = Command(
    name="runner",
    doc="Write an app that measures models on an iPhone, an iPad or a Mac.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
