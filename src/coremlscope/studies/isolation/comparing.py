"""Runs a part with the values of the whole model, and compares what it returns with the whole model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from coremlscope.base.processes.child import ChildLimits
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.measure.coreml.service import predict_by_core_ml
from coremlscope.model.features import to_tensors
from coremlscope.model.ir import Array
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.predictor import FunctionPredictor
from coremlscope.studies.isolation.parts import EXACT, Part, Values


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
