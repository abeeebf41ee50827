"""`coremlscope predict`: one prediction, from files to files."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.writing import (
    check_file,
    check_folder,
    new_content,
    open_draft,
    write_draft,
    write_file,
)
from coremlscope.cli.command import (
    Command,
    add_inputs,
    add_json,
    add_model,
    add_precision,
    add_quiet,
    add_shape,
    one_of,
    write_result,
)
from coremlscope.cli.inputs import read_inputs
from coremlscope.cli.limited import limits_of
from coremlscope.cli.repetitions import add_function, add_limits
from coremlscope.cli.terminal import print_note

if TYPE_CHECKING:
    from coremlscope.base.processes.child import ChildLimits
    from coremlscope.measure.effort import Effort
    from coremlscope.results.measurement import Precision

_CORE_ML = "coreml"
#: The default first.
_ENGINES = ("onnxruntime", _CORE_ML)
_EPILOG = """\
examples:
  coremlscope predict classifier.mlpackage --input image=photo.jpg
  coremlscope predict style.mlpackage --input image=photo.jpg --resize scale-fill -o out
  coremlscope predict detector.mlpackage --input image=photo.jpg -o boxes.html
  coremlscope predict text.mlpackage --input ids=ids.npy --input length=12 --json -
"""


#: The suffix of a page.
_PAGE = ".html"
#: The sample rate at which a page gives sounds to models, in Hz.
_RATE_HZ = 16000


def _target(text: str) -> Path:
    """Parses the path of a page or of a folder that can be written."""
    path = Path(text)
    if path.suffix == _PAGE:
        check_file(path)
    else:
        check_folder(path)
    return path


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser)
    add_function(parser, "to run")
    add_shape(parser)
    add_precision(parser)
    parser.add_argument(
        "--engine",
        metavar="NAME",
        type=one_of("engine", *_ENGINES),
        default=_ENGINES[0],
        help=f"coreml, which is Core ML itself, on a Mac only (default: {_ENGINES[0]})",
    )
    add_limits(parser, "the prediction")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=_target,
        help="write each output to a file in this folder: arrays as .npy, images as .png or .tiff, others as"
        " .json; with the suffix .html, draw all of them on one page: classes, boxes, masks, pictures",
    )
    add_json(parser, "the outputs")
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.measure.effort import Effort
    from coremlscope.measure.embedded.process import call_isolated
    from coremlscope.reports.prediction import prediction_document, render_prediction_json

    given = {
        "path": arguments.model,
        "inputs": arguments.input,
        "shapes": dict(arguments.shape),
        "resize": arguments.resize,
        "function": arguments.function,
        "precision": arguments.precision,
        "engine": arguments.engine,
        "effort": Effort(timeout_s=arguments.timeout, memory_bytes=arguments.memory),
    }
    limits = limits_of(arguments, settings=("all",) if arguments.engine == _CORE_ML else ())
    if arguments.output is not None and arguments.output.suffix == _PAGE:
        return _write_page(arguments, limits)
    results, findings = call_isolated(predict_files, given, limits=limits)
    _warn(findings)
    if sys.platform == "darwin" and not arguments.quiet:
        print_note(f"run by {'Core ML' if arguments.engine == _CORE_ML else 'ONNX Runtime, not by Core ML'}")
    if arguments.output is not None:
        for file in _save(results, arguments.output):
            if not arguments.quiet:
                print_note(f"wrote {file}")
    document = prediction_document(results, hint=arguments.output is None)
    write_result(arguments, lambda: render_prediction_json(results), document)
    return 0


def _write_page(arguments: argparse.Namespace, limits: ChildLimits) -> int:
    from coremlscope.measure.embedded.process import call_isolated
    from coremlscope.reports.page import render_html_preview
    from coremlscope.reports.preview.predict import GivenFile, preview_files
    from coremlscope.reports.words import model_name

    is_other = arguments.precision != "fp32" or arguments.engine == _CORE_ML
    if arguments.function or arguments.shape or is_other or arguments.json is not None:
        raise UsageError(
            "a page shows the main function with its default shapes, in fp32, run by ONNX Runtime",
            "name a folder, or leave these out",
        )
    for name, text in arguments.input:
        if not Path(text).is_file():
            raise UsageError(
                f"the value of {name!r} is no file, which a page needs", "save it to a .npy file"
            )
    files = [GivenFile(name, Path(text), Path(text).name) for name, text in arguments.input]
    given = {"model": arguments.model, "files": files, "resize": arguments.resize, "rate_Hz": _RATE_HZ}
    shown = call_isolated(preview_files, given, limits=limits)
    write_file(arguments.output, render_html_preview(shown, model_name(str(arguments.model))))
    if not arguments.quiet:
        print_note(f"wrote {arguments.output}")
    return 0


def predict_files(
    path: Path,
    inputs: Sequence[tuple[str, str]],
    shapes: Mapping[str, Sequence[int]],
    resize: str,
    function: str | None,
    precision: Precision,
    engine: str,
    effort: Effort,
) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Makes one prediction from files. It is called in a process of its own, whose memory is limited.

    Args:
        path: The model.
        inputs: Names of inputs, and the file or value of each.
        shapes: Requested shapes of flexible inputs.
        resize: How images of another size are resized.
        function: The function; None for the default one.
        precision: `fp16` also rounds every fp16 result.
        engine: `onnxruntime` or `coreml`.
        effort: Limits of a run of Core ML.

    Returns:
        The outputs by name, and remarks on the model, also on what rounding to fp16 does to it.
    """
    from coremlscope import api
    from coremlscope.measure.coreml.limits import core_ml_limits
    from coremlscope.measure.coreml.service import predict_by_core_ml, require_core_ml
    from coremlscope.measure.embedded.overflow import note_ranges
    from coremlscope.model.features import to_tensors
    from coremlscope.planning.hazards.find import find_on_model
    from coremlscope.runtime.execution.pipeline import open_predictor
    from coremlscope.runtime.execution.wiring import bodies_of, interface_of

    model = api.read(path)
    if engine == _CORE_ML:
        if precision != "fp32":
            raise UsageError("Core ML chooses the precision itself", "leave out --precision")
        require_core_ml("leave --engine out")
        _, description = interface_of(model, function)
        values = read_inputs(description, inputs, shapes, resize)
        to_tensors(description.inputs, values)
        prediction = predict_by_core_ml(
            model, values, "all", function=function, limits=core_ml_limits(effort)
        )
        return dict(prediction.outputs), (*find_on_model(model), *prediction.findings)
    with open_predictor(model, function, precision=precision) as predictor:
        values = read_inputs(predictor.description, inputs, shapes, resize)
        results, ranges = predictor.predict_with_ranges(values)
        contradictions = predictor.contradictions
    findings = (*find_on_model(model), *map(_contradiction, contradictions))
    if precision != "fp16":
        return results, findings
    ranged = note_ranges([body.graph for body in bodies_of(model, function)], ranges)
    return results, (*findings, *ranged)


def _contradiction(text: str) -> Finding:
    return Finding(
        id="other-output",
        severity="warning",
        text=text,
        hint="an app gets a buffer of the declared shape: convert again, and compare with a device",
    )


def _warn(findings: Iterable[Finding]) -> None:
    """Prints warnings on standard error."""
    for finding in findings:
        if finding.severity == "warning":
            print_note(f"warning: {finding.text}")
            print_note(f"  {finding.hint}")


def _save(results: dict[str, Any], folder: Path) -> list[Path]:
    """Writes each output to a file of its own.

    Raises:
        OutputError: A file cannot be written.
    """
    import numpy as np

    names: list[str] = []
    stems: set[str] = set()
    with new_content(folder, create=True) as draft:
        for name, value in results.items():
            stem = _stem(name, stems)
            stems.add(stem)
            if isinstance(value, np.ndarray):
                names.append(f"{stem}.npy")
                with open_draft(draft / names[-1]) as file:
                    np.save(file, value)
            elif hasattr(value, "mode"):
                names.append(f"{stem}{'.tiff' if value.mode == 'F' else '.png'}")
                with open_draft(draft / names[-1]) as file:
                    value.save(file, format=Path(names[-1]).suffix[1:].upper())
            else:
                names.append(f"{stem}.json")
                write_draft(draft / names[-1], json.dumps(value, ensure_ascii=False) + "\n")
    return [folder / name for name in names]


def _stem(name: str, taken: set[str]) -> str:
    """A file name without its suffix for an output, different from those that are taken."""
    stem = "".join(c if c.isprintable() and c not in "/\\:" else "_" for c in name) or "_"
    numbered = (f"{stem}_{number}" for number in itertools.count(2))
    return next(s for s in itertools.chain([stem], numbered) if s not in taken)


COMMAND = Command(
    name="predict",
    doc="Make one prediction from files.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
