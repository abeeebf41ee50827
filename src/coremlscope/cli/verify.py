"""`coremlscope verify`: a model beside the network that it was converted from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import (
    EVERY,
    Command,
    add_inputs,
    add_model,
    add_reports,
    add_shape,
    at_least,
    one_of,
)
from coremlscope.cli.limited import call_on_model, limits_of
from coremlscope.cli.progress import progress_line
from coremlscope.cli.repetitions import add_function, add_limits, add_seed, add_stage
from coremlscope.cli.reports import write_reports
from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.reports.renderers import VERIFICATION_RENDERERS

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress
    from coremlscope.model.subject import Subject
    from coremlscope.results.verification import Verification

#: The exit code if outputs differ.
_DIFFERS = 11
_EPILOG = """\
The model runs on the same inputs as the reference: with float32 results, and with fp16 results rounded
after each operation, as on the Neural Engine and the GPU. Arithmetic inside an operation stays in
float32. Intermediate values are paired, and each operation runs again on the reference's own values: so
its own error is distinguished from inherited ones. If float32 differs as well, the conversion
is at fault, else the precision. A cause is named only if it predicts every element.

Synthetic inputs have several kinds: noise, faint noise, zeros, ends of the range. Classes are compared by
the best ones, images by PSNR, other outputs by their numbers; of two Core ML models also the names of
classes and the preprocessing. Of a pipeline, and other models without operations, outputs are compared.
References in PyTorch need torch; reading a .pt2 file can run code of its author. On a Mac,
--compute-units runs Core ML as well; not yet confirmed on a device.

examples:
  coremlscope verify model.mlpackage --reference model.onnx
  coremlscope verify model.mlpackage --reference program.pt2 --input image=photo.jpg --pairs
  coremlscope verify model.mlpackage --reference saved.npz --rtol 1e-3 --quiet --json result.json
  coremlscope verify net.aimodel --reference coreai --pairs
"""


def _positive(text: str) -> float:
    """Parses a number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a tolerance\ngive a number such as 1e-3")
    return number


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--reference",
        metavar="FILE",
        type=Path,
        help=".onnx, .pt2 (torch.export), another Core ML model, or .npz with outputs, inputs and"
        " intermediate values by name; coreai runs an .aimodel itself by Core AI's interpreter",
    )
    add_inputs(parser)
    add_function(parser, "to verify")
    add_stage(parser, "to verify")
    add_shape(parser)
    add_seed(parser, "synthetic inputs")
    _add_tolerances(parser)
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of("compute units", *SETTINGS, EVERY),
        action="append",
        default=[],
        help=f"on a Mac, also run Core ML under {', '.join(SETTINGS)}, or {EVERY} (repeatable)",
    )
    parser.add_argument("--pairs", action="store_true", help="list all paired values")
    add_limits(parser, "each run of Core ML, or the work without them,")
    add_reports(parser, VERIFICATION_RENDERERS, flags=("--report",))


def _add_tolerances(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rtol",
        metavar="SHARE",
        type=_positive,
        help="largest difference relative to the largest magnitude of the reference (default: 0.02"
        " for runs with values or weights in fp16, 0.001 for others)",
    )
    parser.add_argument(
        "--atol",
        metavar="NUMBER",
        type=_positive,
        default=0.0,
        help="difference that is always allowed (default: 0)",
    )
    parser.add_argument(
        "--min-psnr", metavar="DB", type=_positive, help="for images: least PSNR, instead of --rtol"
    )
    parser.add_argument(
        "--top-k",
        metavar="K",
        type=at_least(1),
        help="for classes: the best K must be the same ones, instead of --rtol",
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.measure.effort import Effort
    from coremlscope.reports.verification import verification_document

    if arguments.reference is None:
        is_core_ai = Path(arguments.model).suffix == ".aimodel"
        raise UsageError(
            "--reference is missing",
            "--reference coreai runs this model by Core AI's interpreter, for which coreai-core is needed;"
            " --reference program.pt2 runs the program of torch.export"
            if is_core_ai
            else "give the .onnx or .pt2 file that the model was converted from, another model, or .npz",
        )
    units = _units(arguments.compute_units)
    with progress_line(not arguments.quiet) as bars:
        found = call_on_model(
            verify_file,
            arguments,
            limits_of(arguments, settings=units),
            bars,
            reference=arguments.reference,
            rtol=arguments.rtol,
            atol=arguments.atol,
            min_psnr=arguments.min_psnr,
            top_k=arguments.top_k,
            compute_units=units,
            effort=Effort(timeout_s=arguments.timeout, memory_bytes=arguments.memory),
        )
    write_reports(found, arguments, verification_document(found, has_pairs=arguments.pairs))
    return 0 if found.passed else _DIFFERS


def verify_file(subject: Subject, *, progress: Progress, **options: Any) -> Verification:
    """Verifies a model in a process of its own.

    Args:
        subject: The model, and how it is run.
        progress: Called with what is done now, 0 and 1.
        **options: Those of `coremlscope.verify`.
    """
    from coremlscope.verification.verify import verify

    return verify(subject, progress=lambda text: progress(text, 0, 1), **options)


def _units(names: list[str]) -> list[ComputeUnits]:
    chosen = list(SETTINGS) if EVERY in names else list(dict.fromkeys(names))
    return cast("list[ComputeUnits]", chosen)


COMMAND = Command(
    name="verify",
    doc="Compare a model with the network that it was converted from, and find the fault.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
