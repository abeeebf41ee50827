"""`coremlscope.verify`: a model beside a reference."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats import container
from coremlscope.measure.coreml.limits import core_ml_limits
from coremlscope.measure.effort import Effort
from coremlscope.model.ir import Feature, Model, Program
from coremlscope.model.subject import Source, Subject
from coremlscope.ops.program import Precision
from coremlscope.planning.advice import bind_default_function, find_remarks
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.forecast.model_findings import describe_remark
from coremlscope.planning.hazards.find import describe_hazard
from coremlscope.results.verification import Verification
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.wiring import interface_of
from coremlscope.verification.causes.site import Verdict
from coremlscope.verification.check import Check
from coremlscope.verification.core_ml_units import check_on_units
from coremlscope.verification.inputs import Inputs, choose_inputs, other_kinds
from coremlscope.verification.later_calls import (
    begin_with_states,
    first_differing_call,
    first_differing_kind,
    further_calls,
)
from coremlscope.verification.outputs import Tolerance
from coremlscope.verification.own_run import FunctionCall, Loaded
from coremlscope.verification.predictions import verify_predictions
from coremlscope.verification.references.choice import given_inputs, open_reference
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.core_ai import CORE_AI, CoreAIReference
from coremlscope.verification.references.core_ml_model import CoreMLReference
from coremlscope.verification.references.torch_program import ModuleReference
from coremlscope.verification.remarks import (
    compare_labels,
    note_inputs,
    note_preprocessing,
    unused_limits,
)
from coremlscope.verification.search import find_faults
from coremlscope.verification.summary import summarise


def verify(
    source: Source | Subject,
    reference: object,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    min_psnr: float | None = None,
    top_k: int | None = None,
    compute_units: Sequence[ComputeUnits] = (),
    effort: Effort | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Compares a model with a reference on the same inputs, finds the first operation where they part, and
    why.

    The model runs with float32 results and, if it has fp16 values, with each of them rounded as on a device.
    A cause is named only if what it predicts holds for every element.

    Args:
        source: The model; as `Subject` also with its function, shapes and values of its inputs. Absent values
            are taken from saved arrays of their name, else synthetic.
        reference: The path of an ONNX model, of a program of `torch.export` (`.pt2`), of another Core ML
            model, or of saved arrays (`.npz`); or such arrays, a model, a module of PyTorch, or a function
            that takes a dictionary of arrays and returns outputs. `coreai` runs a Core AI bundle itself by
            Core AI's interpreter, which needs coreai-core. Operations can be compared with references
            that have intermediate values, that is with all but functions.
        rtol: The largest difference of an output relative to the largest magnitude of the reference; None for
            0.02 for runs with values or weights in fp16, and 0.001 for others.
        atol: The largest difference that is always allowed.
        min_psnr: For images, the least PSNR in decibels, instead of `rtol`.
        top_k: For classes, how many of the best ones must be the same, instead of `rtol`.
        compute_units: Settings under which Core ML runs the model as well, on a Mac; not yet confirmed on a
            device.
        effort: Limits of each run of Core ML.
        progress: Called with what is done now.

    Returns:
        The differences of the outputs, the pairs of intermediate values, and the faults.

    Raises:
        ModelError: The model cannot be read or run.
        InputError: A value or a shape is not allowed, or the reference has other inputs or outputs.
        UsageError: The reference is of no known kind, or damaged.
        MissingDependencyError: torch, coreai-core, or coremltools for compute units, is not installed.
        EngineError: The model or the reference failed.
    """
    subject = Subject.of(source)
    if subject.random_weights:
        raise UsageError("synthetic weights have no reference", "leave random_weights out")
    model = subject.model if isinstance(subject.model, Model) else container.read(subject.model)
    features = interface_of(model, subject.function)[1].inputs
    opened = _opened(model, reference, subject.function, {one.name: one for one in features})
    values = {**given_inputs(opened, {one.name for one in features}), **subject.inputs}
    bound, seed = subject.bound_shapes, subject.seed
    tolerance = Tolerance(rtol=rtol, atol=atol, min_psnr=min_psnr, top_k=top_k)
    if not isinstance(model.content, Program):
        if compute_units:
            raise UsageError("a model without operations runs here only", "leave --compute-units out")
        return verify_predictions(model, opened, values, bound, seed, tolerance)
    chosen = choose_function(model, subject.function)

    def draw(number: int) -> Inputs:
        return choose_inputs(chosen, values, bound, seed + number - 1)

    drawn = draw(1)
    loaded: dict[Precision, Loaded] = {}
    others: dict[Precision, Loaded] = {}
    if isinstance(opened, CoreMLReference):
        opened.loaded = others
    check = Check(
        call=FunctionCall.of(model, chosen.name, drawn.tensors, loaded),
        name=chosen.name,
        tolerance=tolerance,
        progress=progress or (lambda _: None),
    )
    try:
        check.run_both(opened, drawn)
        later = _find(check, opened, drawn, draw, seed)
        check_on_units(check, compute_units, core_ml_limits(effort or Effort()))
    finally:
        for one in (*loaded.values(), *others.values()):
            one.close()
    check.findings += [*_reported(model), *unused_limits(check.outputs, tolerance)]
    return summarise(check, drawn, later)


def _find(
    check: Check, reference: Reference, drawn: Inputs, draw: Callable[[int], Inputs], seed: int
) -> Check | None:
    """Compares other inputs and further calls until one differs, and finds the faults.

    Args:
        check: The verification of the first call, of which both have run.
        reference: The reference.
        drawn: The inputs of that call.
        draw: Returns the inputs of a call by its number.
        seed: The seed of other inputs.

    Returns:
        The verification of the last call; None if there was one only.
    """
    _add_labels(check, reference)
    if isinstance(reference, ModuleReference) and reference.is_training:
        text = "The reference is in training mode, and was run in evaluation mode, as a converted network is."
        hint = "call eval() on the module before it is traced or exported as well"
        check.note("reference-in-training-mode", text, hint)
    remarks = note_inputs(check, reference, drawn)
    note_preprocessing(check, drawn)
    begun, states = check, begin_with_states(check)
    if states is not None:  # What follows is compared with states that begin as those of the reference.
        begun = check.of(states)
        begun.run_both(reference, drawn)
    later = first_differing_call(begun, reference, draw)
    if later is None and check.passes:
        later = first_differing_kind(check, reference, other_kinds(drawn, seed))
    searched = begun if later is None or later.passes else later
    if states is not None:
        _add_initial_states(check, states, repairs=searched.passes)
    searched.others = functools.cache(
        lambda: further_calls(searched, reference, drawn, draw, seed)  # Of a kind as well: other numbers.
    )
    try:
        if states is None or not searched.passes:
            find_faults(searched)
    except CoremlscopeError as error:
        check.note(
            "search-ended", f"The search for the fault ended early: {error.message}.", error.hint or ""
        )
    check.faults += begun.faults if begun is not check else []
    check.findings += remarks
    return later


def _add_initial_states(check: Check, call: FunctionCall, *, repairs: bool) -> None:
    """Adds the fault of states that begin with other values than those of the reference."""
    states = call.states["fp32"]
    listed = ", ".join(
        f"{name} begins with 0 instead of {float(array[array != 0][0]):.6g}" for name, array in states.items()
    )
    verdict = Verdict(
        cause="initial state",
        value=check.exact.outputs[next(iter(states))],
        text=f"{listed}: a Core ML state holds zeros at first",
        elements=sum(array.size for array in states.values()),
        advice="write the values of the reference to the state before the first prediction",
        code="; ".join(["state = model.make_state()", *(f"state.write_state({one!r}, …)" for one in states)]),
    )
    check.add_fault("fp32", verdict, (0.0, None), repairs=repairs)


def _opened(model: Model, reference: object, function: str | None, given: Mapping[str, Feature]) -> Reference:
    if isinstance(reference, (str, os.PathLike)) and os.fspath(reference) == CORE_AI:
        return CoreAIReference(model, function)
    opened = open_reference(reference, function)
    if isinstance(opened, CoreMLReference):
        opened.given = given
    return opened


def _add_labels(check: Check, reference: Reference) -> None:
    """Compares the names of the classes of two Core ML models."""
    if isinstance(reference, CoreMLReference) and reference.chosen is not None:
        labels = compare_labels(choose_function(check.call.model, check.name), reference.chosen)
        check.outputs += [] if labels is None else [labels]


def _reported(model: Model) -> list[Finding]:
    """Notes operations that were reported to return wrong values on a unit, which no run here shows."""
    if not isinstance(model.content, Program) or model.content.is_core_ai:
        return []
    remarks = find_remarks(bind_default_function(model))
    hazards = (hazard for hazard in find_hazards(model) if hazard.kind == "wrong values" and hazard.units)
    return [
        *(describe_remark(one) for one in remarks if one.rule.settings),
        *map(describe_hazard, hazards),
    ]
