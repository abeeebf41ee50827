"""`coremlscope check`: a gate for models."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import append_to_file
from coremlscope.cli.command import Command, add_reports, add_shape, one_of, read_path
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.providers import add_provider, session_of
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.devices.unit import SETTINGS
from coremlscope.reports.renderers import GATE_RENDERERS
from coremlscope.results.gate import FigureKind

_EPILOG = """\
An estimate is a figure with an interval that contains 80 % of the cases. A limit is not kept (fail)
if the figure exceeds it; it is uncertain if only an end of the interval does. Uncertain limits are
kept, and marked, unless the gate is strict. A figure that is not known does not keep a limit.
The peak memory is between bounds, the share of operations between what is sure and what is
possible. --baseline compares each figure of a saved check or profile, on its devices, systems and
settings; --only chooses some of them. Limits hold for every function of a model, or for those that
--function names. Exit code 9: a limit is not kept.

Without limits, without models, or with --config, the models and limits are those of
[tool.coremlscope] in the nearest pyproject.toml or in that file; limits given as options replace
its limits:

  [tool.coremlscope]
  max-latency = {"iphone-13" = "33ms"}
  [[tool.coremlscope.models]]
  path = "models/Detector.mlpackage"
  max-size = "20MB"

examples:
  coremlscope check model.mlpackage --max-latency iphone-13=33ms --min-neural-engine 95%
  coremlscope check model.mlpackage --max-latency iphone-13=33ms --max-size 20MB --json main.json
  coremlscope check model.mlpackage --baseline main.json -o check.sarif -o check.xml
  coremlscope check --strict --step-summary
"""


def _latency(text: str) -> tuple[str, str]:
    """Parses `DEVICE=33ms`."""
    device, equals, limit = text.partition("=")
    if not (device and equals and limit):
        raise argparse.ArgumentTypeError(f"{text!r} does not name a device\nwrite it as iphone-13=33ms")
    return device, limit


class _Once(argparse.Action):
    """An argument of one value, which a second one would silently replace."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        """Keeps the value."""
        if option is not None and getattr(namespace, self.dest) != self.default:
            parser.error(f"{option} is given twice\nleave one of the two out")
        setattr(namespace, self.dest, values)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.register("action", None, _Once)
    parser.add_argument("models", metavar="MODEL", type=read_path, nargs="*", help="the models")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-latency",
        metavar="DEVICE=TIME",
        type=_latency,
        action="append",
        help="estimated latency of a prediction on a device: iphone-13=33ms (repeatable)",
    )
    for name, metavar, doc in _LIMITS:
        limits.add_argument(f"--{name}", metavar=metavar, help=doc)
    limits.add_argument(
        "--no-known-crash",
        action="store_true",
        default=None,
        help="no operation runs where it is known to end the app or to return wrong values (on --device)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="also fail where an end of an interval exceeds the limit"
    )
    add_devices(parser, "further devices, for the Neural Engine, known crashes and the baseline")
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of("compute units", *SETTINGS),
        help=f"what the app allows: {', '.join(SETTINGS)} (default: those of the baseline, else all)",
    )
    parser.add_argument(
        "--function",
        metavar="NAME",
        action="append",
        help="the function that limits hold for (repeatable; default: every one)",
    )
    add_shape(parser)
    add_provider(parser, "limits on devices hold for a session with it")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the pyproject.toml with the limits (default: the nearest)",
    )
    parser.add_argument(
        "--step-summary", action="store_true", help="add the result to the summary of a step on GitHub"
    )
    add_reports(parser, GATE_RENDERERS)


_LIMITS = (
    ("min-neural-engine", "SHARE", "share of the operations planned on the Neural Engine: 95%%"),
    ("max-size", "SIZE", "size of the package or file: 20MB"),
    ("max-memory", "SIZE", "estimated peak memory of a prediction: 300MB"),
    (
        "min-psnr",
        "DB",
        "PSNR of the outputs on synthetic inputs, against --reference or, without it, of the model rounded to"
        " fp16 at each operation against itself: 40",
    ),
    ("reference", "MODEL", "the model whose outputs --min-psnr compares with"),
    ("baseline", "FILE", "a saved check or profile (.json) that no figure may be worse than"),
    ("only", "FIGURES", f"the figures of the baseline, of {', '.join(get_args(FigureKind))} (default: all)"),
    ("tolerance", "SHARE", "how much worse than the baseline is allowed (default: 5%%)"),
)
#: Arguments that are no limits, and have a value in `GateLimits`.
_OPTIONS = (
    "max_latency",
    "device",
    "shape",
    *(name.replace("-", "_") for name, *_ in _LIMITS),
    "os",
    "compute_units",
    "no_known_crash",
    "function",
    "format",
    "ort",
)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.studies.gate.run import check, check_project

    session_of(arguments)
    limits = _limits(arguments)
    if limits and arguments.models and arguments.config is None:
        report = check(*arguments.models, strict=arguments.strict, **limits)
    else:
        report = check_project(arguments.config, models=arguments.models, strict=arguments.strict, **limits)
    write_reports(report, arguments)
    if arguments.step_summary:
        _add_summary(report)
    return report.exit_code


def _limits(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Returns the limits and options that are given, by their names."""
    found = {name: value for name in _OPTIONS if (value := getattr(arguments, name)) not in (None, (), [])}
    for name in found.keys() & {"max_latency", "shape"}:
        pairs = found[name]
        found[name] = dict(pairs)
        if len(found[name]) < len(pairs):
            raise UsageError("a device or an input is given twice", "leave one of the two out")
    return found


def _add_summary(report: Any) -> None:
    """Adds the result to the file that GitHub shows as the summary of a step."""
    from coremlscope.reports.gate import gate_document
    from coremlscope.reports.markdown.writer import write_markdown

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        print_note("GITHUB_STEP_SUMMARY is not set: there is no summary of a step to add to")
        return
    append_to_file(Path(name), f"{write_markdown(gate_document(report)).rstrip()}\n")


COMMAND = Command(
    name="check",
    doc="Check models against limits of latency, placement, size, memory and precision.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
