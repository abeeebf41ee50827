"""Verifies a model against a reference: runs both, compares, finds the first fault, tries changes that fix
it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, UnsupportedModelError, UsageError
from coremlscope.base.escaping import path_text
from coremlscope.base.findings import Finding
from coremlscope.base.units import shown
from coremlscope.base.version import __version__
from coremlscope.model.ir import Model, Pipeline, Program, Shape
from coremlscope.ops.classical.suppression import NonMaximumSuppression
from coremlscope.planning.advice import bind_default_function, find_remarks
from coremlscope.planning.forecast.model_findings import describe_remark
from coremlscope.results.verification import (
    ComparedOutput,
    PairedValue,
    ProposedFix,
    Verification,
    VerifiedFault,
)
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.wiring import stage_names
from coremlscope.verification.check import Check, Progress, UnitRunner
from coremlscope.verification.distance import finite, relative_error
from coremlscope.verification.edits import with_function
from coremlscope.verification.inputs import KINDS, Inputs, Kind, choose_inputs, other_kinds
from coremlscope.verification.interface import compare_interfaces, compare_labels
from coremlscope.verification.later_calls import check_changes, first_differing_call, first_differing_kind
from coremlscope.verification.outputs import Tolerance
from coremlscope.verification.own_run import FunctionCall
from coremlscope.verification.pairing import Pair
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.core_ml_model import CoreMLReference
from coremlscope.verification.references.torch_program import ModuleReference
from coremlscope.verification.remarks import note_inputs, unused_limits
from coremlscope.verification.search import find_faults, find_unit_faults
from coremlscope.verification.suppression import verify_suppression

__all__ = ["Outcome", "check_kind", "verify_model"]

_Item = TypeVar("_Item", ComparedOutput, VerifiedFault, ProposedFix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A verification, and the model with the changes that work.

    Attributes:
        result: The verification.
        fixed: The changed model; None if nothing needs to change, or no change works.
    """

    result: Verification
    fixed: Model | None


def verify_model(
    model: Model,
    reference: Reference,
    *,
    function: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    seed: int = 0,
    tolerance: Tolerance | None = None,
    units: Iterable[tuple[str, UnitRunner]] = (),
    progress: Progress = lambda _: None,
) -> Outcome:
    """Verifies a function of a model.

    Args:
        model: The model.
        reference: What it is verified against.
        function: The function; None for the default one.
        inputs: Values of inputs by name; absent ones are synthetic.
        shapes: Shapes of flexible inputs.
        seed: The seed of synthetic inputs.
        tolerance: How far outputs may be off.
        units: Names of compute units, and functions that run the model on each and return its values.
        progress: Called with what is done now.

    Raises:
        ModelError: The model cannot be run.
        InputError: A value is not allowed, or no output of the reference is one of the model.
        EngineError: The model or the reference failed.
    """
    check_kind(model)
    if isinstance(model.content, NonMaximumSuppression):
        if list(units):
            raise UsageError(
                "the suppression of boxes runs on the CPU under all compute units",
                "leave --compute-units out",
            )
        limits = tolerance or Tolerance()
        found = verify_suppression(model, reference, inputs or {}, shapes or {}, seed, limits)
        return Outcome(result=found, fixed=None)
    chosen = choose_function(model, function)
    drawn = choose_inputs(chosen, inputs or {}, shapes, seed)
    call = FunctionCall.of(model, chosen.name, drawn.tensors)
    check = Check(call=call, name=chosen.name, tolerance=tolerance or Tolerance(), progress=progress)
    check.run_both(reference, drawn)
    if isinstance(reference, CoreMLReference) and reference.chosen is not None:
        check.findings += compare_interfaces(chosen, reference.chosen)
        labels = compare_labels(chosen, reference.chosen)
        check.outputs += [] if labels is None else [labels]
    if check.failing("fp32") and isinstance(reference, ModuleReference) and reference.is_training:
        _note_training(check, reference, drawn)
    remarks = note_inputs(check, reference, drawn)

    def draw(number: int) -> Inputs:
        return choose_inputs(chosen, inputs or {}, shapes, seed + number - 1)

    later = first_differing_call(check, reference, draw)
    if later is None and check.passes:
        later = first_differing_kind(check, reference, other_kinds(chosen, drawn, seed))
    for name, measure in units:
        check.run_unit(name, measure)
    searched = check if later is None or later.passes else later
    try:
        find_faults(searched)
        if later is not None:
            check_changes(check, later, reference, drawn, draw)
    except CoremlscopeError as error:
        text = f"The search for the fault ended early: {error.message}."
        check.findings.append(
            Finding(id="search-ended", severity="warning", text=text, hint=error.hint or "")
        )
    find_unit_faults(check)
    check.findings += remarks
    _note_units(check)
    check.findings += unused_limits(check.outputs, check.tolerance)
    return _outcome(check, drawn, later)


def check_kind(model: Model) -> None:
    """Checks that a model has operations that can be compared.

    Raises:
        UnsupportedModelError: It is a pipeline, or of another kind without operations.
    """
    if not isinstance(model.content, (Program, NonMaximumSuppression)):
        raise UnsupportedModelError(
            f"models of type {model.kind} have no operations to compare",
            _supported(model.content),
        )


def _supported(content: object) -> str:
    """Returns what can be verified instead of a model without operations, as a hint."""
    kinds = "ML Programs, neural networks, and the suppression of boxes"
    if not isinstance(content, Pipeline):
        return f"verify supports {kinds}"
    names = stage_names(content)
    known = [
        name
        for name, stage in zip(names, content.models, strict=True)
        if isinstance(stage.content, (Program, NonMaximumSuppression))
    ]
    if not known:
        return f"verify supports {kinds}, and none of its stages is one"
    return f"verify a stage by itself: {', '.join(f'--stage {shown(name)}' for name in known)}"


def _note_training(check: Check, reference: ModuleReference, drawn: Inputs) -> None:
    """Notes that the reference is in training mode, and what its evaluation mode returns."""
    theirs = reference.run(dict(drawn.tensors), is_evaluated=True)
    text = "The reference is in training mode: dropout is on, and batches are normalized by themselves."
    if check.agrees_with(theirs):
        text += " In evaluation mode its outputs are those of the model."
        check.is_explained = True
    hint = "call eval() on the module, and verify again"
    check.findings.append(Finding(id="reference-in-training-mode", severity="warning", text=text, hint=hint))


def _note_units(check: Check) -> None:
    """Notes operations that were reported to return wrong values on a unit, which no run here shows."""
    content = check.call.model.content
    if isinstance(content, Program) and not content.is_core_ai:
        remarks = find_remarks(bind_default_function(check.call.model))
        check.findings += [describe_remark(one) for one in remarks if one.rule.settings]


def _outcome(check: Check, drawn: Inputs, later: Check | None) -> Outcome:
    """Returns the result, and the changed model where the changes work.

    Args:
        check: The verification of the first call.
        drawn: Its inputs.
        later: That of the last call that was compared, if there were more.
    """
    model = check.call.model
    searched = check if later is None or later.passes else later
    fixed = with_function(model, check.name, searched.working) if searched.fixes and searched.works else None
    outputs, faults, fixes = [*check.outputs], [*check.faults], [*check.fixes]
    notes, findings = [*drawn.notes, *check.notes], [*check.findings]
    if later is not None:
        outputs += [] if later.kind and later.passes else _of_call(later, later.outputs)
        faults += _of_call(later, later.faults)
        fixes += _of_call(later, later.fixes)
        findings += [finding for finding in later.findings if finding not in findings]
        if later.kind:
            notes.append(f"in float32 also {', '.join(_kinds_until(later))}")
        else:
            what = "other synthetic inputs" if drawn.synthetic else "the same inputs"
            calls = ["call 2", "calls 2 and 3"][later.number - 2]
            notes.append(f"{calls}: {what}, with the states of the call before")
    result = Verification(
        model="" if model.source is None else path_text(model.source),
        function=check.name,
        reference=check.theirs.label,
        inputs=tuple(notes),
        outputs=tuple(outputs),
        passed=all(output.passed for output in outputs),
        runs=tuple(dict.fromkeys(output.run for output in outputs)),
        recorded=sum(bool(value.op) for value in searched.exact.values.values()),
        pairs=tuple(_paired(searched, pair) for pair in searched.pairs),
        faults=tuple(faults),
        fixes=tuple(fixes),
        findings=tuple(findings),
        version=__version__,
    )
    return Outcome(result=result, fixed=fixed)


def _kinds_until(check: Check) -> tuple[str, ...]:
    """Returns the kinds of inputs that were compared up to a verification."""
    return KINDS[: KINDS.index(cast("Kind", check.kind)) + 1]


def _of_call(check: Check, items: Iterable[_Item]) -> Iterator[_Item]:
    """Yields outputs, faults or fixes with the number of the call, or the kind of the inputs, in the name of
    their run."""
    for item in items:
        yield replace(item, run=f"{item.run}-{check.kind or f'call-{check.number}'}")


def _paired(check: Check, pair: Pair) -> PairedValue:
    value = check.exact.values[pair.ours]
    rounded = None if check.rounded is None else check.rounded.values.get(pair.ours)
    other = check.theirs.values[pair.theirs].array
    fp16 = None
    if rounded is not None and other.size == rounded.array.size:
        fp16 = relative_error(rounded.array, pair.in_our_layout(other, rounded.array.shape))
    return PairedValue(
        op=value.op,
        type=value.type,
        name=pair.ours,
        reference=pair.theirs,
        how=pair.how,
        axes=pair.axes,
        fp32=finite(pair.error),
        made=finite(check.made.get(pair.ours)),
        fp16=finite(fp16),
    )
