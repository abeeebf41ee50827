"""Runs a model on one of Apple's compute units through coremltools, with its intermediate values as outputs.

Not yet confirmed on a device: the tests run it over the drop-in runtime. Further outputs can change what Core
ML fuses and where it runs operations.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import EngineError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.service import CoreMLPrediction, predict_by_core_ml, require_core_ml
from coremlscope.measure.coreml.units import distinct_units
from coremlscope.measure.settings import not_measured
from coremlscope.model.features.images import from_image, image_of_feature, is_image, to_image
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DType,
    Feature,
    Function,
    ImageFeature,
    Model,
    Program,
    TensorType,
    Value,
)
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.check import Check
from coremlscope.verification.edits import with_function
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.own_run import FunctionCall

#: Types of outputs, and the first specification version that has each (source: coremltools'
#: `ArrayFeatureType`).
_OUTPUT_TYPES = {DType.FP32: 1, DType.INT32: 1, DType.FP16: 7}


def check_on_units(check: Check, units: Sequence[ComputeUnits], limits: ChildLimits) -> None:
    """Runs the model under settings of compute units, and compares each output; a failure costs one setting.

    Args:
        check: The verification; it gets a row for each setting and output, runs and remarks.
        units: The settings.
        limits: When to give up on a setting.

    Raises:
        UsageError: This is not a Mac.
        MissingDependencyError: coremltools is not installed.
    """
    if units:
        require_core_ml("leave --compute-units out: fp16 rounding is simulated")
    for setting in distinct_units(units):
        check.progress(f"running the model on {setting}")
        try:
            prediction, run = run_on_units(check.call, check.name, check.exact, setting, limits)
        except EngineError as error:
            check.findings.append(not_measured(setting, error))
            check.outputs += [check.not_compared(output, setting, error.message) for output in check.matched]
            continue
        check.findings += prediction.findings
        check.units[setting] = run
        check.outputs += check.compare(run, setting)
        check.outputs += [
            check.not_compared(output, setting, _difference_in_form(check.exact, prediction, output))
            for output in check.matched
            if output not in run.outputs
        ]


def _difference_in_form(exact: Run, prediction: CoreMLPrediction, output: str) -> str:
    """Says why an output has no value that can be compared."""
    if output not in prediction.outputs:
        return "Core ML returned no such output"
    shape = np.asarray(prediction.outputs[output]).shape
    return f"Core ML returned the shape {shape} instead of {exact.output(output).shape}"


def run_on_units(
    call: FunctionCall, name: str, exact: Run, units: ComputeUnits, limits: ChildLimits = CORE_ML_LIMITS
) -> tuple[CoreMLPrediction, Run]:
    """Runs a function of a model under a setting of compute units.

    Args:
        call: The function and its inputs.
        name: The name of the function.
        exact: A run that tells the order of the values.
        units: The setting.
        limits: When to give up.

    Returns:
        What Core ML returned, and those values of it that have as many elements as in the other run.

    Raises:
        EngineError: Core ML failed.
    """
    description = choose_function(call.model, name).description
    given = {
        feature.name: image_of_feature(to_image(call.inputs[feature.name], feature.type), feature.type)
        if isinstance(feature.type, ImageFeature)
        else call.inputs[feature.name]
        for feature in description.inputs
    }
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        path = _written(call.model, name, exact, Path(folder))
        prediction = predict_by_core_ml(container.read(path), given, units, function=name, limits=limits)
    images = {f.name: f.type for f in description.outputs if isinstance(f.type, ImageFeature)}
    returned = {**prediction.states, **prediction.outputs}
    values = dict[str, Intermediate]()
    for key, value in exact.values.items():
        array = _as_tensor(returned.get(key), images.get(key))
        if not value.op:
            values[key] = value
        elif array is not None and array.size == value.array.size:
            array = array.astype(value.array.dtype).reshape(value.array.shape)
            values[key] = replace(value, array=array)
    outputs = {output: value for output, value in exact.outputs.items() if value in values}
    return prediction, Run(label=f"Core ML, {units}", values=values, outputs=outputs)


def _as_tensor(value: Any, image: ImageFeature | None) -> Array | None:
    """Returns what coremltools gave as a tensor; None for texts, dictionaries and what is absent."""
    if is_image(value):
        return None if image is None else from_image(value, image)
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else None


def _written(model: Model, function: str, exact: Run, folder: Path) -> Path:
    """Writes the model with its intermediate values as outputs; returns its own path if that is not
    possible."""
    content = model.content
    assert isinstance(content, Program)
    if content.is_network and model.source is not None:
        return model.source
    body = choose_function(model, function).function
    added = list(_further_outputs(model, body, exact))
    wider = replace(
        body,
        graph=replace(body.graph, outputs=(*body.graph.outputs, *(value for value, _ in added))),
        specialise=None,
    )
    changed = with_function(model, function, wider)
    described = changed.description.functions
    key = function if function in described else changed.description.default
    interface = replace(described[key], outputs=(*described[key].outputs, *(feature for _, feature in added)))
    description = replace(changed.description, functions={**described, key: interface})
    path = folder / "model.mlpackage"
    write_mlpackage(replace(changed, description=description), path)
    return path


def _further_outputs(model: Model, body: Function, exact: Run) -> Iterator[tuple[Value, Feature]]:
    """Yields the recorded values that can be outputs, with their descriptions."""
    returned = {value.name for value in body.graph.outputs}
    for op in body.graph.ops:
        for value in op.outputs:
            known = exact.values.get(value.name)
            if known is None or value.name in returned or not isinstance(value.type, TensorType):
                continue
            first = _OUTPUT_TYPES.get(value.type.dtype)
            if first is not None and model.spec_version >= first and known.array.ndim:
                shape = tuple(known.array.shape)
                yield value, Feature(value.name, ArrayFeature(dtype=value.type.dtype, shape=shape))
