"""Runs a model on one of Apple's compute units through coremltools, with its intermediate values as outputs.

Not yet confirmed on a device: the tests run it over the drop-in runtime. Further outputs can change what Core
ML fuses and where it runs operations.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.coreml.units import effective_units
from coremlscope.model.features.images import image_of_feature, to_image
from coremlscope.model.ir import (
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
from coremlscope.verification.edits import with_function
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.own_run import FunctionCall

#: The native module of coremltools, which the drop-in runtime replaces off a Mac.
_NATIVE = "coremltools.libcoremlpython"
#: Types of outputs, and the first specification version that has each (source: coremltools'
#: `ArrayFeatureType`).
_OUTPUT_TYPES = {DType.FP32: 1, DType.INT32: 1, DType.FP16: 7}


def run_on_units(call: FunctionCall, name: str, exact: Run, units: ComputeUnits) -> Run:
    """Runs a function of a model under a setting of compute units, and returns its values.

    Args:
        call: The function and its inputs.
        name: The name of the function.
        exact: A run that tells the order of the values.
        units: The setting.

    Raises:
        UsageError: This is not a Mac.
        MissingDependencyError: coremltools is not installed.
        EngineError: Core ML failed.
    """
    if sys.platform != "darwin" and _NATIVE not in sys.modules:
        raise UsageError(
            "Core ML runs on a Mac only", "leave --compute-units out: fp16 rounding is simulated"
        )
    try:
        import coremltools
    except ImportError:
        raise MissingDependencyError(
            "Core ML is run through coremltools, which is not installed",
            "install it: pip install 'coremlscope[coreml]'",
        ) from None
    model, values = call.model, dict[str, Intermediate]()
    options: dict[str, Any] = {"compute_units": coremltools.ComputeUnit[effective_units(units).upper()]}
    if len(model.description.functions) > 1:
        options["function_name"] = name
    given = {
        feature.name: image_of_feature(to_image(call.inputs[feature.name], feature.type), feature.type)
        if isinstance(feature.type, ImageFeature)
        else call.inputs[feature.name]
        for feature in choose_function(model, name).description.inputs
    }
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        path = _written(model, name, exact, Path(folder))
        try:
            results = coremltools.models.MLModel(str(path), **options).predict(given)
        except Exception as error:  # Core ML's failures reach Python as exceptions of several types.
            raise EngineError(f"Core ML cannot run the model under {units}: {error}") from error
    for key, value in exact.values.items():
        found = np.asarray(results[key]) if key in results else None
        if not value.op:
            values[key] = value
        elif found is not None and found.size == value.array.size:
            array = found.astype(value.array.dtype).reshape(value.array.shape)
            values[key] = replace(value, array=array)
    outputs = {output: value for output, value in exact.outputs.items() if value in values}
    return Run(label=f"Core ML, {units}", values=values, outputs=outputs)


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
