"""`coremlscope.verify`: a model beside a reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.errors import OutputError
from coremlscope.base.writing import check_apart
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.formats.packaging import check_package, write_mlpackage
from coremlscope.model.ir import Model
from coremlscope.results.verification import Verification
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.core_ml_units import unit_runner
from coremlscope.verification.outputs import Tolerance
from coremlscope.verification.references.choice import given_inputs, open_reference
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.core_ai import CORE_AI, CoreAIReference
from coremlscope.verification.references.core_ml_model import CoreMLReference
from coremlscope.verification.steps import check_kind, verify_model

__all__ = ["verify"]


def verify(
    source: str | os.PathLike[str] | Model,
    reference: object,
    *,
    function: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float = 0.0,
    min_psnr: float | None = None,
    top_k: int | None = None,
    compute_units: Sequence[ComputeUnits] = (),
    apply: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Compares a model with a reference on the same inputs, finds the first operation where they part, and
    why.

    The model runs with float32 results and, if it has fp16 values, with each of them rounded as on a device.
    Changes that may fix a fault are tried: the changed model runs again.

    Args:
        source: The model.
        reference: The path of an ONNX model, of a program of `torch.export` (`.pt2`), of another Core ML
            model, or of saved arrays (`.npz`); or such arrays, a model, a module of PyTorch, or a function
            that takes a dictionary of arrays and returns outputs. `coreai` runs a Core AI bundle itself by
            Core AI's interpreter, which needs coreai-core. Operations can be compared with references
            that have intermediate values, that is with all but functions.
        function: The function of the model; None for the default one.
        inputs: Values of inputs by name; absent ones are taken from saved arrays of their name, else
            synthetic.
        shapes: Shapes of flexible inputs, instead of the defaults.
        seed: The seed of synthetic inputs.
        rtol: The largest difference of an output relative to the largest magnitude of the reference; None for
            0.02 for runs with values or weights in fp16, and 0.001 for others.
        atol: The largest difference that is always allowed.
        min_psnr: For images, the least PSNR in decibels, instead of `rtol`.
        top_k: For classes, how many of the best ones must be the same, instead of `rtol`.
        compute_units: Settings under which Core ML runs the model as well, on a Mac; not yet confirmed on a
            device.
        apply: Where to write the model with the changes that work: a `.mlpackage`.
        overwrite: Replaces an existing package at that path.
        progress: Called with what is done now.

    Returns:
        The differences of the outputs, the pairs of intermediate values, the faults, and the changes that
        were tried.

    Raises:
        ModelError: The model cannot be read or run.
        InputError: A value or a shape is not allowed, or the reference has other inputs or outputs.
        UsageError: The reference is of no known kind, or damaged.
        MissingDependencyError: torch, coreai-core, or coremltools for compute units, is not installed.
        EngineError: The model or the reference failed.
        OutputError: There is no change that works to apply, or the package cannot be written.
    """
    model = source if isinstance(source, Model) else container.read(source)
    check_kind(model)
    if apply is not None:
        check_apart(apply, model.source or "")
        check_package(Path(apply), overwrite=overwrite)
    if isinstance(reference, (str, os.PathLike)) and os.fspath(reference) == CORE_AI:
        opened: Reference = CoreAIReference(model, function)
    else:
        opened = open_reference(reference, function)
    names = {feature.name: feature for feature in choose_function(model, function).description.inputs}
    if isinstance(opened, CoreMLReference):
        opened.given = names
    outcome = verify_model(
        model,
        opened,
        function=function,
        inputs={**given_inputs(opened, names), **(inputs or {})},
        shapes={name: tuple(shape) for name, shape in (shapes or {}).items()},
        seed=seed,
        tolerance=Tolerance(rtol=rtol, atol=atol, min_psnr=min_psnr, top_k=top_k),
        units=[(units, unit_runner(units)) for units in compute_units],
        progress=progress or (lambda _: None),
    )
    if apply is not None and not outcome.result.passed:
        if outcome.fixed is None:
            raise OutputError(
                "no change of the model brings all outputs within the tolerance",
                "allow a larger --rtol, or see what was tried without --apply",
            )
        write_mlpackage(outcome.fixed, Path(apply), overwrite=overwrite)
    return outcome.result
