"""Runs a model on one of Apple's compute units through coremltools, with its intermediate values as outputs.

Not yet confirmed on a device: the tests run it over the drop-in runtime. Further outputs can change what Core
ML fuses and where it runs operations.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.coreml.units import effective_units
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
from coremlscope.verification.edits import with_function
from coremlscope.verification.intermediates import Run

__all__ = ["unit_runner"]

#: The native module of coremltools, which the drop-in runtime replaces off a Mac.
_NATIVE = "coremltools.libcoremlpython"
#: Types of outputs, and the first specification version that has each (source: coremltools'
#: `ArrayFeatureType`).
_OUTPUT_TYPES = {DType.FP32: 1, DType.INT32: 1, DType.FP16: 7}


def unit_runner(units: ComputeUnits) -> Callable[[Model, str, Mapping[str, Array], Run], Run]:
    """Returns what runs a function of a model under a setting of compute units, and returns its values.

    Its arguments are the model, the name of the function, the inputs as tensors, and a run that tells the
    order of the values.
    """

    def run(model: Model, function: str, inputs: Mapping[str, Array], exact: Run) -> Run:
        """Runs the model.

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
        unit = coremltools.ComputeUnit[effective_units(units).upper()]
        with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
            path = _written(model, function, exact, Path(folder))
            options: dict[str, Any] = {"compute_units": unit}
            if len(model.description.functions) > 1:
                options["function_name"] = function
            try:
                results = coremltools.models.MLModel(str(path), **options).predict(
                    _values(model, function, inputs)
                )
            except Exception as error:  # Core ML's failures reach Python as exceptions of several types.
                raise EngineError(f"Core ML cannot run the model under {units}: {error}") from error
        values = {
            name: msgspec.structs.replace(
                value, array=np.asarray(results[name]).astype(value.array.dtype).reshape(value.array.shape)
            )
            for name, value in exact.values.items()
            if name in results and np.asarray(results[name]).size == value.array.size
        }
        inner = {name: value for name, value in exact.values.items() if not value.op}
        known = {**inner, **values}
        outputs = {name: value for name, value in exact.outputs.items() if value in known}
        return Run(label=f"Core ML, {units}", values=known, outputs=outputs)

    return run


def _values(model: Model, function: str, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Returns tensors of inputs as coremltools takes them."""
    from PIL import Image

    values: dict[str, Any] = {}
    for feature in choose_function(model, function).description.inputs:
        tensor = inputs[feature.name]
        if not isinstance(feature.type, ImageFeature):
            values[feature.name] = tensor
            continue
        planes = tensor.reshape(tensor.shape[-3:])
        if feature.type.color_space == "BGR":
            planes = planes[::-1]
        if feature.type.color_space == "GRAYSCALE_FLOAT16":
            values[feature.name] = Image.fromarray(planes[0].astype(np.float32))
        else:
            pixels = np.clip(np.rint(planes), 0, 255).astype(np.uint8)
            values[feature.name] = Image.fromarray(
                pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)
            )
    return values


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
