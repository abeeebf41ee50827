"""The state of one verification: its runs, the comparison of their outputs, and what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec.structs
import numpy as np

from coremlscope.base.errors import CoremlscopeError, InputError
from coremlscope.base.findings import Finding, Severity
from coremlscope.describe.preprocessing import Preprocessing
from coremlscope.model.ir import Array, Constant, DType, Function, Program, TensorType
from coremlscope.ops.program import Precision
from coremlscope.results.verification import (
    ComparedOutput,
    VerifiedFault,
)
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.arithmetic import INSIDE, with_overflow
from coremlscope.verification.causes.site import Verdict
from coremlscope.verification.distance import finite, relative_error
from coremlscope.verification.edits import with_half_results
from coremlscope.verification.input_forms import Form, exchanged_forms, forms_of, plain_form
from coremlscope.verification.inputs import Inputs
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.outputs import (
    Tolerance,
    compare_output,
    match_outputs,
    meaning_of,
    unmatched_outputs,
)
from coremlscope.verification.own_run import FunctionCall, record, run_from
from coremlscope.verification.pairing import Pair, general_type, pair_runs
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference, other_layout
from coremlscope.verification.references.core_ml_model import CoreMLReference

#: Outputs that are this near show the form of inputs, where no other values are known.
_NEAR = 0.3

#: Called with what is done now.
Progress = Callable[[str], None]


@dataclass(kw_only=True)
class Check:
    """The state of one verification.

    Attributes:
        call: The function of the file, and its inputs.
        name: The name of the function.
        tolerance: How far outputs may be off.
        progress: Called with what is done now.
        exact: The run of the model as given, in float32.
        rounded: The same run with results rounded to fp16; None for models without fp16 values.
        theirs: The run of the reference.
        matched: The name of the reference's output by that of the model's.
        pairs: The pairs of intermediate values.
        made: The error that each operation makes of its own in float32, by the name of its value.
        outputs: The compared outputs of all runs.
        faults: The faults found so far.
        findings: Remarks.
        before: The inputs of earlier calls, whose states this one begins with.
        others: Returns further calls, and the runs of the reference for them: a cause holds on them too.
        is_explained: Whether a remark explains all differences: no operation is searched for.
        is_half: Whether the model has fp16 values.
        has_rounded_weights: Whether its weights were rounded to fp16, or compressed.
        kind: The kind of its inputs, if others were compared before.
        form: The form in which the reference takes its inputs; None to find it.
        steps: The preprocessing of pictures that the model holds, by input.
        tried: The forms that were tried, if the outputs agree in none of them, and the runs of the reference.
        is_comparable: Whether that form is sure: under it, values are those of the reference.
    """

    call: FunctionCall
    name: str
    tolerance: Tolerance
    progress: Progress
    exact: Run = field(init=False)
    rounded: Run | None = None
    theirs: Run = field(init=False)
    matched: dict[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    made: Mapping[str, float] = field(default_factory=dict)
    outputs: list[ComparedOutput] = field(default_factory=list)
    faults: list[VerifiedFault] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    before: tuple[Mapping[str, Array], ...] = ()
    others: Callable[[], Sequence[tuple[FunctionCall, Run]]] = field(default=lambda: ())
    is_explained: bool = False
    kind: str = ""
    form: Form | None = None
    is_comparable: bool = True
    steps: Mapping[str, Preprocessing] = field(default_factory=dict)
    tried: tuple[tuple[Form, Run], ...] = ()

    def __post_init__(self) -> None:
        self.is_half = _has_half(self.as_half(self.call.function))
        self.has_rounded_weights = _has_rounded_weights(self.call.function)

    @property
    def number(self) -> int:
        """The number of the call, from 1 on."""
        return len(self.before) + 1

    @property
    def passes(self) -> bool:
        """Whether all outputs of all runs so far are within the tolerance."""
        return all(output.passed for output in self.outputs)

    def of(self, call: FunctionCall, kind: str = "", before: Sequence[Mapping[str, Array]] = ()) -> Check:
        """Returns a verification of another call with the same limits; see the attributes."""
        return Check(
            call=call,
            name=self.name,
            tolerance=self.tolerance,
            progress=self.progress,
            kind=kind,
            before=tuple(before),
            form=self.form,
            is_comparable=self.is_comparable,
        )

    def run_in(self, run: str, function: Function | None = None, names: Collection[str] | None = None) -> Run:
        """Runs the function, and records some values or all.

        Args:
            run: How: `fp32`; `fp16` with rounded results; or in an arithmetic of units, by its name.
            function: An edited copy of the function to run instead.
            names: The values to record; None for all.
        """
        call = self._call_in(run, function)
        return record(call, _precision(run), None, names)

    def _call_in(self, run: str, function: Function | None = None) -> FunctionCall:
        body = function or self.call.function
        if run != "fp32":
            body = self.as_half(body)
        body = with_overflow(body) if run == INSIDE else body
        return self.call if body is self.call.function else self.call.with_function(body)

    def outputs_with(self, run: str, given: Mapping[str, Array]) -> list[ComparedOutput]:
        """Compares the outputs of a run in which some values are others, and what is computed of them.

        Args:
            run: See `run_in`.
            given: These values by name, in the shapes of the program.
        """
        names = set(self.exact.outputs.values())
        fed = {name: array.astype(self.exact.values[name].array.dtype) for name, array in given.items()}
        computed = [name for name in names if name not in fed and self.exact.values[name].op]
        made = run_from(self._call_in(run), fed, computed, _precision(run)) if computed else {}
        arrays = {**made, **fed}
        values = {
            name: msgspec.structs.replace(value, array=arrays.get(name, value.array))
            for name, value in self.exact.values.items()
        }
        return self.compare(msgspec.structs.replace(self.exact, values=values), run)

    def errors_of_rounding(self) -> dict[str, float]:
        """Returns the errors that rounding makes in each operation alone, by the name of its value."""
        given = {name: value.array for name, value in self.exact.values.items() if value.op}
        local = run_from(self._call_in("fp16"), given, list(given), "fp16")
        return {name: relative_error(local[name], given[name]) for name in given}

    def run_both(self, reference: Reference, drawn: Inputs, *, is_rounded: bool = True) -> None:
        """Runs the model, in float32 and rounded, and the reference on the inputs that suit it best.

        Args:
            reference: The reference.
            drawn: The inputs.
            is_rounded: Whether to run the model with rounded results as well. If not, values are paired only
                where outputs differ.
        """
        self.progress("running the model in float32")
        self.exact = self.run_in("fp32")
        self.progress(f"running the reference {reference.label}")
        self.theirs = self.run_reference(reference, drawn)
        self.matched = _match(self.exact, self.theirs)
        if not self.matched:
            raise InputError(
                "no output of the reference has the size of an output of the model",
                f"outputs of the reference: {', '.join(self.theirs.outputs)}",
            )
        self._note_lost_states()
        self.outputs += self.compare(self.exact, "fp32")
        if self.is_half and is_rounded:
            self.progress("running the model with results rounded to fp16")
            self.rounded = self.run_in("fp16")
            self.outputs += self.compare(self.rounded, "fp16")
        if is_rounded or not self.passes:
            self.progress("pairing intermediate values")
            self.pairs = pair_runs(self.exact, self.theirs, self.matched)
            self.outputs += self.unmatched("fp32")

    def unmatched(self, run: str) -> list[ComparedOutput]:
        """Returns the outputs that exist on one side only. Saved values may be any of the model's."""
        paired = {pair.theirs for pair in self.pairs}
        theirs = [name for name, value in self.theirs.outputs.items() if value not in paired]
        states = self.exact.states, self.theirs.states
        return unmatched_outputs(self.exact.outputs, theirs, self.matched, run, states)

    def note(self, id_: str, text: str, hint: str = "", severity: Severity = "warning") -> None:
        """Adds a remark."""
        self.findings.append(Finding(id=id_, severity=severity, text=text, hint=hint))

    def _note_lost_states(self) -> None:
        lost = self.theirs.states - set(self.matched.values())
        if lost and not self.exact.states:
            text = (
                f"The reference keeps {', '.join(sorted(lost))} for its next call, and the model has no"
                " states: predictions after the first one may differ."
            )
            hint = (
                "convert the model with states=[ct.StateType(…)]; ignore it if each prediction stands alone"
            )
            self.note("state-not-kept", text, hint)

    def run_reference(self, reference: Reference, drawn: Inputs) -> Run:
        """Runs the reference on the form of inputs that was found, or finds the one that is nearest."""
        if self.form is not None:
            return self._in_form(reference, drawn, self.form)
        has_own = isinstance(reference, SavedReference) or (
            isinstance(reference, CoreMLReference) and reference.takes_images
        )
        self.steps = {name: drawn.steps[name] for name in drawn.images if name in drawn.steps}
        orders = [[plain_form(drawn)]]
        if drawn.images and not has_own:
            orders = [list(forms_of(drawn, is_turned=is_turned)) for is_turned in (False, True)]
        tried: list[tuple[Form, Run]] = []
        for forms in orders:
            tried += [(form, self._in_form(reference, drawn, form)) for form in forms]
            agreeing = [(form, run) for form, run in tried if len(tried) > 1 and self.agrees_with(run)]
            if agreeing:
                form, run = min(agreeing, key=lambda item: self._distance(item[1]))
                break
        else:
            form, run = max(tried, key=lambda item: self._likeness(item[1])) if len(tried) > 1 else tried[0]
            self.is_comparable = len(tried) == 1 or self._likeness(run)[0] > 0
            self.tried = tuple(tried)
        if run.by_order and not self.agrees_with(run):
            form, run = self._exchanged(reference, drawn, form, run)
        self.form = form
        return run

    def _in_form(self, reference: Reference, drawn: Inputs, form: Form) -> Run:
        return self._in_our_layout(reference.run(form.apply(drawn), self.before))

    def _exchanged(self, reference: Reference, drawn: Inputs, form: Form, run: Run) -> tuple[Form, Run]:
        """Returns a form with two inputs in each other's place, if the outputs agree with that, else that
        given."""
        for other in exchanged_forms(form, run.by_order):
            with suppress(
                CoremlscopeError
            ):  # An index, for one, is beyond the table that the other one suits.
                found = self._in_form(reference, drawn, other)
                if self.agrees_with(found):
                    return other, found
        return form, run

    def _likeness(self, theirs: Run) -> tuple[float, float]:
        """Returns how many computed values are those of the reference, or whether the outputs are near where
        no others are known; and how near they are."""
        distance = self._distance(theirs)
        if not theirs.has_intermediates:
            return float(distance <= _NEAR), -distance
        pairs = pair_runs(self.exact, theirs, _match(self.exact, theirs))
        equal = [(self.exact.values[p.ours], theirs.values[p.theirs]) for p in pairs if p.how == "value"]
        count = sum(bool(mine.op and other.op) for mine, other in equal)
        # A reference that reads its input by the operation that reads what the model has prepared prepares
        # nothing itself.
        begins = any(
            _read_alike((self.exact, mine), (theirs, other)) for mine, other in equal if not other.op
        )
        return count + begins / 2, -distance

    def _in_our_layout(self, theirs: Run) -> Run:
        """Returns a run of the reference with the channels of its outputs where those of the model are, if
        that is nearer."""
        values = dict(theirs.values)
        for ours, other in _match(self.exact, theirs).items():
            mine, found = self.exact.output(ours), theirs.output(other)
            axes = other_layout(found.shape, mine.shape)
            moved = found.transpose(axes) if axes else found
            if axes and relative_error(mine, moved) < relative_error(mine, found.reshape(mine.shape)):
                name = theirs.outputs[other]
                values[name] = msgspec.structs.replace(values[name], array=np.ascontiguousarray(moved))
        return msgspec.structs.replace(theirs, values=values)

    def _distance(self, theirs: Run) -> float:
        matched = _match(self.exact, theirs).items()
        errors = (relative_error(self.exact.output(ours), theirs.output(other)) for ours, other in matched)
        return max(errors, default=math.inf)

    def as_half(self, function: Function) -> Function:
        """Returns a function that declares which values a device rounds."""
        content = self.call.model.content
        assert isinstance(content, Program)
        return with_half_results(function) if content.is_network else function

    def compare(self, run: Run, label: str) -> list[ComparedOutput]:
        """Compares the outputs of a run with those of the reference."""
        return [self.compared(label, name, run.output(name)) for name in self.matched if name in run.outputs]

    def holds(self, name: str, other: str) -> bool:
        """Returns whether an output in float32 has the size and the elements of one of the reference."""
        return self.compared("fp32", name, self.exact.output(name), other).passed

    def compared(self, label: str, name: str, array: Array | str, other: str = "") -> ComparedOutput:
        """Compares an output with one of the reference.

        Args:
            label: How the model ran.
            name: The output.
            array: Its elements, or why there are none: nothing compared is no agreement.
            other: The name of the reference's; empty for that which stands for the same.
        """
        other = other or self.matched[name]
        meaning = meaning_of(choose_function(self.call.model, self.name), name, self.exact)
        if isinstance(array, str):
            return ComparedOutput(
                name=name,
                reference=other,
                run=label,
                meaning=meaning,
                passed=False,
                status="failed",
                why=f"nothing was compared: {array}",
            )
        is_half = self.has_rounded_weights if label == "fp32" else self.is_half
        pair = array, self.theirs.output(other)
        return compare_output(name, other, label, pair, meaning, self.tolerance, is_half)

    def agrees_with(self, theirs: Run) -> bool:
        """Returns whether the outputs in float32 are those of another run of the reference."""
        before = getattr(self, "theirs", theirs), self.matched
        self.theirs, self.matched = theirs, _match(self.exact, theirs)
        try:
            return all(output.passed for output in self.compare(self.exact, "fp32"))
        finally:
            self.theirs, self.matched = before

    def failing(self, label: str) -> list[str]:
        """Returns the names of the values of outputs that differ in a run."""
        failed = (output.name for output in self.outputs if output.run == label and not output.passed)
        return list(dict.fromkeys(self.exact.outputs[name] for name in failed if name in self.exact.outputs))

    def add_fault(
        self,
        run: str,
        verdict: Verdict,
        errors: tuple[float | None, float | None],
        *,
        seen_at: str = "",
        repairs: bool | None = None,
    ) -> None:
        """Adds a fault.

        Args:
            run: The run that shows it.
            verdict: Its cause.
            errors: The error of the arguments of the operation, and the error that it makes of its own.
            seen_at: The value at which it is seen; empty if it is that of the operation.
            repairs: Whether all outputs are right once this value is.
        """
        values, name = self.exact.values, verdict.value
        value, seen = values.get(name), values.get(seen_at)
        op = next((op for op in self.call.function.graph.ops if value and op.id == value.op), None)
        self.faults.append(
            VerifiedFault(
                kind=verdict.kind,
                run=run,
                op="" if value is None else value.op,
                type="" if value is None else value.type,
                name=name if op is None else op.name,
                cause=verdict.cause,
                text=verdict.text,
                seen_at="" if seen is None or seen_at == name else seen.op,
                inherited=finite(errors[0]),
                made=finite(errors[1]),
                elements=verdict.elements,
                advice=verdict.advice,
                code=verdict.code,
                repairs=repairs,
            )
        )


def _match(ours: Run, theirs: Run) -> dict[str, str]:
    return match_outputs(ours.results, theirs.results, (ours.states, theirs.states))


def _read_alike(*values: tuple[Run, Intermediate]) -> bool:
    """Returns whether an operation of one type reads both of two values, other than sums and products."""
    types: list[set[str]] = []
    for run, value in values:
        names = run.readers.get(value.name, ())
        through = [
            one
            for name in names
            for one in (run.readers[name] if run.values[name].type == "cast" else [name])
        ]
        types.append({general_type(run.values[name].type) for name in through})
    return bool(set.intersection(*types) - {"add", "mul", "real_div", "sub"})


def _precision(run: str) -> Precision:
    return "fp32" if run == "fp32" else "fp16"


def _has_rounded_weights(function: Function) -> bool:
    """Returns whether constants with several elements are stored in fp16, or in fewer bits."""
    for op in function.graph.walk():
        if op.type.startswith("constexpr_"):
            return True
        for known in (op.constant, *(a for given in op.inputs.values() for a in given)):
            type_ = known.type if isinstance(known, Constant) else None
            if isinstance(type_, TensorType) and type_.dtype is DType.FP16 and (type_.elements or 0) > 1:
                return True
    return False


def _has_half(function: Function) -> bool:
    types = (v.type for op in function.graph.walk() if op.constant is None for v in op.outputs)
    return any(isinstance(type_, TensorType) and type_.dtype is DType.FP16 for type_ in types)
