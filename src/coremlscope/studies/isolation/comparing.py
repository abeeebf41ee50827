"""Runs a part with the values of the whole model, and compares what it returns with the whole model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import EngineError
from coremlscope.devices.unit import ComputeUnits
from coremlscope.model.features import to_tensors
from coremlscope.model.ir import Array, ImageFeature
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


def run_on_core_ml(part: Part, path: Path, compute_units: ComputeUnits) -> Values:
    """Runs a part in Core ML through coremltools, on a Mac; not yet confirmed on a device.

    Raises:
        EngineError: Core ML failed.
    """
    import coremltools

    unit = coremltools.ComputeUnit[compute_units.upper()]
    try:
        model = coremltools.models.MLModel(str(path), compute_units=unit)
        state = None
        if part.states:
            state = model.make_state()
            for name, content in part.states.items():
                state.write_state(name, content)
        results = model.predict(_core_ml_values(part), **({} if state is None else {"state": state}))
    except Exception as error:  # Core ML's failures reach Python as exceptions of several types.
        raise EngineError(f"Core ML cannot run the part under {compute_units}: {error}") from error
    return {name: np.asarray(value) for name, value in results.items() if not isinstance(value, (str, dict))}


def _core_ml_values(part: Part) -> dict[str, Any]:
    from PIL import Image

    images = {f.name for f in part.model.description.main.inputs if isinstance(f.type, ImageFeature)}
    return {name: Image.fromarray(array) if name in images else array for name, array in part.inputs.items()}


def differences(expected: Values, results: Values) -> Mapping[str, float | None]:
    """Returns the largest difference of each output as a share of its largest magnitude.

    None where one of two elements is not finite and the other one differs, or the numbers of elements differ.
    """
    return {
        name: _difference(array, results[name])
        for name, array in expected.items()
        if name in results and array.dtype != object
    }


def _difference(expected: Array, found: Array) -> float | None:
    if expected.size != found.size:
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
