"""Verifies a model without operations by its outputs: a pipeline, trees, a suppression of boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coremlscope.base.escaping import path_text
from coremlscope.base.version import __version__
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.model.ir import Model, Pipeline, Shape
from coremlscope.results.verification import Verification
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.wiring import interface_of
from coremlscope.verification.inputs import check_numbers
from coremlscope.verification.outputs import Tolerance, compare_predictions
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.core_ml_model import CoreMLReference
from coremlscope.verification.remarks import describe_recorded


def verify_predictions(
    model: Model,
    reference: Reference,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    seed: int,
    tolerance: Tolerance,
) -> Verification:
    """Compares the outputs of a model with those of a reference.

    Args:
        model: The model.
        reference: What it is verified against: it takes the inputs of the model.
        inputs: Values of inputs by name. Absent ones are synthetic, but for optional ones.
        shapes: Shapes of inputs of any size.
        seed: The seed of synthetic inputs.
        tolerance: How far outputs may be off.

    Raises:
        InputError: A value is not allowed.
        EngineError: The model or the reference failed.
    """
    function, description = interface_of(model)
    drawn = dummy_values(description, seed=seed, shapes=shapes)
    features = [one for one in description.inputs if one.name in inputs or not one.is_optional]
    given = {one.name: inputs.get(one.name, drawn[one.name]) for one in features}
    for name, value in given.items():
        check_numbers(name, value)
    with open_predictor(model) as predictor:
        ours = predictor.predict(given)
    if isinstance(reference, CoreMLReference):
        theirs, label = reference.predict(given), reference.label
    else:
        run = reference.run(to_tensors(features, given))
        theirs, label = run.results, run.label
    # Nothing but a model returns texts.
    ours = {name: one for name, one in ours.items() if not isinstance(one, str) or name in theirs}
    rows = compare_predictions(ours, theirs, "fp32", tolerance, is_half=isinstance(model.content, Pipeline))
    passed = all(row.passed for row in rows)
    synthetic = [name for name in given if name not in inputs]
    is_recorded = not passed and isinstance(reference, SavedReference) and bool(synthetic)
    return Verification(
        model="" if model.source is None else path_text(model.source),
        function=function,
        reference=label,
        inputs=tuple(f"{name}: {'given' if name in inputs else 'synthetic'}" for name in given),
        outputs=tuple(rows),
        passed=passed,
        runs=("fp32",),
        recorded=len(ours),
        findings=(describe_recorded(reference, synthetic),) if is_recorded else (),
        version=__version__,
    )
