"""Cuts a part out of a model, writes it with its values, runs it, and times and plans it."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope import api
from coremlscope.base.errors import EngineError, OutputError, UnsupportedModelError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.writing import check_apart, check_file, write_file
from coremlscope.devices.targets import Targets
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.formats.packaging import check_package, has_layers
from coremlscope.measure.choice import choose_engine, choose_measurer
from coremlscope.measure.contract import Progress
from coremlscope.measure.coreml.limits import core_ml_limits
from coremlscope.measure.coreml.service import predict_by_core_ml
from coremlscope.measure.coreml.units import distinct_units, effective_units
from coremlscope.measure.effort import Effort
from coremlscope.measure.settings import not_measured
from coremlscope.model.features import describe_feature, to_tensors
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    Feature,
    Model,
    kind_with_article,
)
from coremlscope.model.subject import Subject
from coremlscope.results.isolation import Isolation, PartTensor
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.predictor import FunctionPredictor
from coremlscope.runtime.execution.random_weights import with_random_weights
from coremlscope.runtime.execution.wiring import stage_names
from coremlscope.studies.isolation.network import NetworkCutter
from coremlscope.studies.isolation.parts import EXACT, Cutter, Part, Values
from coremlscope.studies.isolation.program import ProgramCutter
from coremlscope.studies.isolation.selection import select_units

# Files with the values of a part, beside its model.

#: The ends of the files of inputs, expected outputs and states.
_SUFFIXES = (".npz", ".expected.npz", ".states.npz")


def check_target(cutter: Cutter, path: Path, source: str, *, overwrite: bool) -> None:
    """Checks in advance that a part and its values can be written.

    Args:
        cutter: What cuts the part out.
        path: The model to write.
        source: The path of the whole model; empty if it is in memory.
        overwrite: Allows replacing files, but not the whole model.

    Raises:
        OutputError: The path has another suffix, a file exists, or nothing can be written there.
    """
    check_apart(path, source)
    if path.suffix == ".mlmodel" == cutter.suffix:
        check_file(path)
    else:
        check_package(path, overwrite=overwrite)
    existing = [file for file in (path, *map(path.with_suffix, _SUFFIXES)) if file.exists()]
    if existing and not overwrite:
        raise OutputError(
            f"{existing[0]} already exists",
            "choose another name, or overwrite it: --overwrite, or overwrite=True in Python",
        )


def write_part(cutter: Cutter, part: Part, path: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Writes a part, and its values beside it.

    Returns:
        The files with values: those of the inputs, of the expected outputs, and of states if there are any.

    Raises:
        OutputError: A file cannot be written, or the part's path exists.
    """
    cutter.write(part, path, overwrite=overwrite)
    written = []
    for suffix, values in zip(_SUFFIXES, (part.inputs, part.expected, part.states), strict=True):
        if values:
            written.append(path.with_suffix(suffix))
            write_file(written[-1], _archive(values))
    return tuple(written)


def _archive(values: Values) -> bytes:
    """Returns arrays in NumPy's format `.npz`. Unlike `numpy.savez` it accepts any name, such as `file`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in values.items():
            file = io.BytesIO()
            np.save(file, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file.getbuffer())
    return content.getvalue()


# Runs a part with the values of the whole model, and compares what it returns with the whole model.


def run_here(part: Part) -> Values:
    """Runs a part with the embedded engine, operation by operation.

    Raises:
        ModelError: It cannot be run.
        EngineError: The engine failed.
    """
    options = CompileOptions(precision=part.precision, engine_options=EXACT)
    with FunctionPredictor(part.model, options=options) as predictor:
        state = None
        if part.states:
            state = predictor.new_state()
            for name, content in part.states.items():
                state.write(name, content)
        tensors = to_tensors(part.model.description.main.inputs, part.inputs)
        _, results, _ = predictor.run(tensors, state)
    return results


def run_on_core_ml(part: Part, path: Path, compute_units: ComputeUnits, limits: ChildLimits) -> Values:
    """Runs a part in Core ML, on a Mac; not yet confirmed on a device.

    Raises:
        EngineError: Core ML failed.
    """
    written = container.read(path)
    prediction = predict_by_core_ml(written, part.inputs, compute_units, states=part.states, limits=limits)
    return {name: np.asarray(value) for name, value in prediction.outputs.items()}


def differences(expected: Values, results: Values) -> Mapping[str, float | None]:
    """Returns the largest difference of each output as a share of its largest magnitude.

    None where nothing can be compared: one of two elements is not finite and the other one differs, the
    numbers of elements differ, or the output is missing.
    """
    return {
        name: _difference(array, results[name]) if name in results else None
        for name, array in expected.items()
        if array.dtype != object
    }


def _difference(expected: Array, found: Array) -> float | None:
    if expected.size != found.size or found.dtype.kind not in "biuf":
        return None
    a = expected.reshape(-1).astype(np.float64)
    b = found.reshape(-1).astype(expected.dtype).astype(np.float64)
    is_other = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not is_other.any():
        return 0.0
    if not np.isfinite(a[is_other]).all() or not np.isfinite(b[is_other]).all():
        return None
    largest = np.abs(a[np.isfinite(a)]).max()
    worst = np.abs(a[is_other] - b[is_other]).max()
    return float(worst / largest) if largest else float("inf")


#: The name of the embedded engine's column of differences.
_HERE = "here"


def isolate(
    source: api.Source | Subject,
    output: str | os.PathLike[str],
    *,
    op: str | Sequence[str] = (),
    span: str | None = None,
    type: str | None = None,
    devices: str | Sequence[str] | Targets = (),
    engine: str | None = None,
    iterations: int | None = None,
    effort: Effort | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Isolation:
    """Cuts a part out of a model as a model of its own, with the values that it reads in a prediction.

    The whole model is run up to the end of the part, and every fp16 result is rounded
    to fp16, as on a device. The values of the part's inputs and outputs are written beside it. The part is
    run with them and compared with the whole model, then timed, planned and estimated.

    Args:
        source: An ML Program, or a neural network in a `.mlmodel` file or a `.mlpackage` folder; as `Subject`
            also with its function, shapes and values of its inputs, and whether absent weights are replaced.
        output: The package to write; for a neural network a `.mlmodel` file or a package.
        op: Ids or names of operations.
        span: The first and the last operation: `main/3..main/9`, also `..main/9` and `main/3..`.
        type: All operations of a type.
        devices: Chips or devices to plan and estimate the part for: `m1`, `iphone-15-pro`; as `Targets` also
            with the version of their systems, and the settings under which Core ML runs and times the part,
            every one by default.
        engine: `coreml` or `onnxruntime`, as for `profile`.
        iterations: Timed predictions; None as for `profile`.
        effort: Limits of each run of Core ML.
        overwrite: Replaces an existing package.
        progress: Called with the phase, the repetitions done, and how many there will be.

    Raises:
        ModelError: The model cannot be read or run, or is of a kind that has no parts.
        InputError: A value or a shape is not allowed.
        UsageError: Nothing has that id, name or type, or an argument is wrong.
        OutputError: The part cannot be written.
        EngineError: The engine failed.
    """
    names = [op] if isinstance(op, str) else list(op)
    if sum((bool(names), span is not None, type is not None)) != 1:
        raise UsageError("what to isolate is not clear", "give one of --op ID, --range A..B and --type TYPE")
    # What is wrong with the profile's arguments is known before anything is written.
    targets = devices if isinstance(devices, Targets) else Targets(devices, compute_units="every")
    targets.find_devices()
    name, effort = choose_engine(engine), effort or Effort()
    choose_measurer(name, Effort())
    cutter, has_random = open_cutter(source)
    whole = _name_of(Subject.of(source).model)
    path = Path(output)
    check_target(cutter, path, whole, overwrite=overwrite)
    part = cutter.cut(select_units(cutter.units, ops=names, span=span, type_=type))
    files = write_part(cutter, part, path, overwrite=overwrite)
    profile = api.profile(
        Subject(path, inputs=part.inputs),
        devices=targets,
        iterations=iterations,
        effort=effort if name == "coreml" else None,
        engine=engine,
        progress=progress,
        keeps_failed=True,
    )
    runs, failed = {_HERE: differences(part.expected, run_here(part))}, []
    for unit in distinct_units(targets.settings) if name == "coreml" else ():
        if progress is not None:
            progress(f"comparing under {unit}", 0, 1)
        try:
            results = run_on_core_ml(part, path, unit, core_ml_limits(effort))
            runs[effective_units(unit)] = differences(part.expected, results)
        except EngineError as error:
            failed.append(not_measured(f"The difference under {unit}", error))
    compared = (_compared(runtime, found) for runtime, found in runs.items() if found)
    model = part.model.description.main
    return Isolation(
        source=whole,
        path=str(path),
        files=tuple(map(str, files)),
        units=part.units,
        inputs=tuple(_tensor(feature, part.inputs.get(feature.name), {}) for feature in model.inputs),
        outputs=tuple(_tensor(f, part.expected.get(f.name), _of(runs, f.name)) for f in model.outputs),
        states=tuple(_tensor(feature, part.states.get(feature.name), {}) for feature in model.states),
        precision=part.precision,
        random_weights=has_random,
        profile=replace(profile, findings=(*profile.findings, *compared, *failed)),
    )


def open_cutter(
    source: api.Source | Subject,
) -> tuple[Cutter, bool]:
    """Returns what cuts parts out of a model, and whether weights of it are synthetic.

    Raises:
        UnsupportedModelError: Models of its kind have no parts.
        ModelError: The model cannot be read.
        InputError: A value or a shape is not allowed.
        UsageError: The model has no such function.
    """
    subject = Subject.of(source)
    model, seed = api.read(subject.model), subject.seed
    given: dict[str, Any] = {"shapes": subject.shapes, "inputs": subject.inputs, "seed": seed}
    if not model.content.functions:
        raise _no_parts(model)
    if model.content.is_network and has_layers(model):
        return NetworkCutter(model, **given), False
    lacks = any(file.size is None for file in model.weight_files)
    has_random = subject.random_weights and lacks
    if has_random:
        model = with_random_weights(model, seed)
    return ProgramCutter(model, subject.function, **given), has_random


def _no_parts(model: Model) -> UnsupportedModelError:
    if model.content.models:
        return UnsupportedModelError(
            "parts of a whole pipeline cannot be isolated",
            f"choose a stage with --stage: {', '.join(stage_names(model.content))}",
        )
    what = "no operations that are in the file" if model.content.absent else "one operation"
    return UnsupportedModelError(
        f"{kind_with_article(model.kind)} has no parts: it consists of {what}",
        "parts can be isolated from ML Programs and neural networks",
    )


def _compared(runtime: str, found: Mapping[str, float | None]) -> Finding:
    """Returns a remark for reports: how far the part is from the whole model on a runtime."""
    where = "run here" if runtime == _HERE else f"run by Core ML under {runtime}"
    odd = [name for name, difference in found.items() if difference is None]
    worst = max(found, key=lambda name: found[name] or 0.0, default="")
    largest = found.get(worst) or 0.0
    if odd:
        text = (
            f"The part, {where}, does not return what the whole model does: {', '.join(odd)} is missing, or"
            " has another size or other infinite or NaN elements."
        )
    elif largest:
        text = (
            f"The outputs of the part, {where}, are at most {largest:.1e} from those of the whole model,"
            f" relative to their largest magnitude ({worst})."
        )
    else:
        text = f"The outputs of the part, {where}, equal those of the whole model."
    return Finding(id="part-compared", severity="warning" if odd else "info", text=text)


def _of(runs: Mapping[str, Mapping[str, float | None]], name: str) -> dict[str, float | None]:
    return {runtime: found[name] for runtime, found in runs.items() if name in found}


def _tensor(feature: Feature, array: Array | None, difference: Mapping[str, float | None]) -> PartTensor:
    type_ = feature.type
    if array is not None and isinstance(type_, ArrayFeature) and not type_.shape:
        type_ = replace(
            type_, shape=array.shape
        )  # Layers of neural networks do not state the shapes of results.
    text = describe_feature(type_)
    if array is None or array.dtype == object:
        return PartTensor(name=feature.name, type=text, difference=difference)
    numbers = np.asarray(array, np.float64).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    return PartTensor(
        name=feature.name,
        type=text,
        smallest=float(finite.min()) if finite.size else None,
        largest=float(finite.max()) if finite.size else None,
        not_finite=int(numbers.size - finite.size),
        difference=difference,
    )


def _name_of(source: api.Source) -> str:
    """Returns the path of a model; empty for models in memory."""
    if isinstance(source, Model):
        return str(source.source or "")
    return "" if isinstance(source, bytes) else str(source)
