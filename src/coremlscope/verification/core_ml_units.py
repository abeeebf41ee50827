"""Runs a model on Apple's compute units through coremltools, and compares its outputs.

Not yet confirmed on a device: the tests run it over the drop-in runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import EngineError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.scratch import scratch_folder
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.coreml.service import predict_by_core_ml, require_core_ml
from coremlscope.measure.coreml.units import distinct_units
from coremlscope.measure.settings import not_measured
from coremlscope.model.features.images import from_image, image_of_feature, is_image, to_image
from coremlscope.model.ir import Array, ImageFeature
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.check import Check
from coremlscope.verification.remarks import labels_of


def check_on_units(check: Check, units: Sequence[ComputeUnits], limits: ChildLimits) -> None:
    """Runs the model under settings of compute units, and compares each output; a failure costs one setting.

    Args:
        check: The verification; it gets a row for each setting and output, and remarks.
        units: The settings.
        limits: When to give up on a setting.

    Raises:
        UsageError: This is not a Mac.
        MissingDependencyError: coremltools is not installed.
    """
    if not units:
        return
    require_core_ml("leave --compute-units out: fp16 rounding is simulated")
    chosen = choose_function(check.call.model, check.name)
    given = {
        feature.name: image_of_feature(to_image(check.call.inputs[feature.name], feature.type), feature.type)
        if isinstance(feature.type, ImageFeature)
        else check.call.inputs[feature.name]
        for feature in chosen.description.inputs
    }
    images = {f.name: f.type for f in chosen.description.outputs if isinstance(f.type, ImageFeature)}
    labels = labels_of(chosen) or []
    with scratch_folder() as folder:
        model = check.call.model
        if model.source is None:
            write_mlpackage(model, Path(folder) / "model.mlpackage")
            model = container.read(Path(folder) / "model.mlpackage")
        for setting in distinct_units(units):
            check.progress(f"running the model on {setting}")
            try:
                found = predict_by_core_ml(model, given, setting, function=check.name, limits=limits)
            except EngineError as error:
                check.findings.append(not_measured(setting, error))
                check.outputs += [check.compared(setting, name, error.message) for name in check.matched]
                continue
            check.findings += found.findings
            returned = {**found.states, **found.outputs}
            for name in check.matched:
                array = _as_tensor(returned.get(name), images.get(name), labels)
                check.outputs.append(check.compared(setting, name, array))


def _as_tensor(value: Any, image: ImageFeature | None, labels: Sequence[object]) -> Array | str:
    """Returns what coremltools gave as a tensor, or why that is not possible."""
    if is_image(value) and image is not None:
        return from_image(value, image)
    if isinstance(value, Mapping):
        value = np.array([value.get(label, np.nan) for label in labels])
    is_number = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    return value if is_number else "Core ML returned no numbers of that name"
