"""Verifies a model against a reference: runs both, compares, finds the first fault, tries changes that fix
it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coremlscope.advice import bind_default_function, find_remarks
from coremlscope.errors import EngineError, InputError, UnsupportedModelError
from coremlscope.escaping import path_text
from coremlscope.execution.binding import choose_function
from coremlscope.findings import Finding
from coremlscope.forecast.model_findings import describe_remark
from coremlscope.ir import Array, DType, Function, Model, Op, Pipeline, Program, Shape, TensorType
from coremlscope.results.verification import (
    ComparedOutput,
    PairedValue,
    ProposedFix,
    Verification,
    VerifiedFault,
)
from coremlscope.verification.conversion_causes import diagnose_conversion
from coremlscope.verification.diagnosis import Case, Diagnosis
from coremlscope.verification.distance import relative_error
from coremlscope.verification.edits import with_function, with_half_results
from coremlscope.verification.fixes import (
    Candidate,
    constant_candidates,
    conversion_candidates,
    inner_candidates,
    precision_candidates,
)
from coremlscope.verification.inner_arithmetic import COMPOSED, has_composed, with_inner_results
from coremlscope.verification.inputs import Inputs, choose_inputs
from coremlscope.verification.intermediates import Run
from coremlscope.verification.locate import (
    ConversionSite,
    PrecisionSite,
    locate_conversion,
    locate_precision,
    reference_values,
)
from coremlscope.verification.outputs import Tolerance, compare_output, match_outputs, meaning_of
from coremlscope.verification.own_run import FunctionCall, record, run_from
from coremlscope.verification.pairing import Pair, general_type, pair_runs
from coremlscope.verification.partial_sums import SUMMED, with_partial_sums
from coremlscope.verification.precision_causes import (
    RoundedCase,
    diagnose_constant,
    diagnose_inside,
    diagnose_precision,
    diagnose_sum,
)
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.torch_program import ModuleReference
from coremlscope.verification.weight_causes import exact_constants
from coremlscope.version import __version__

__all__ = ["Outcome", "verify_model"]

#: How many faults are fixed one after the other: a swap is two.
_MOST_FAULTS = 4
#: How many faults of a kind: a loop that is written out has one in each step.
_MOST_REPEATED = 40
#: How many operations that the model may compute in another way are left out.
_MOST_REWRITTEN = 6
#: How many changes are tried for a fault.
_MOST_TRIALS = 9
#: How small the errors are that are looked at next, where no operation makes a large one: what follows may
#: amplify it.
_SMALLER = (0.1, 0.01, 0.001)
#: How long experiments with one fault may take, in seconds.
_MOST_SECONDS = 60.0
#: The run in which parts of operations are rounded as well, as on the Neural Engine.
INSIDE = "fp16-inside"
#: The run in which sums of many products are rounded on their way, as by units that accumulate in fp16.
SUMS = "fp16-sums"

#: Called with what is done now.
Progress = Callable[[str], None]
#: Runs a function of a model on a compute unit: see `core_ml_units`.
UnitRunner = Callable[[Model, str, Mapping[str, Array], Run], Run]


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
    if not isinstance(model.content, Program):
        raise UnsupportedModelError(
            f"models of type {model.kind} have no operations to compare",
            "verify each program of it by itself"
            if isinstance(model.content, Pipeline)
            else "verify supports ML Programs and neural networks",
        )
    chosen = choose_function(model, function)
    drawn = choose_inputs(chosen, inputs or {}, shapes, seed)
    call = FunctionCall.of(model, chosen.name, drawn.tensors)
    check = _Verifier(call=call, name=chosen.name, tolerance=tolerance or Tolerance(), progress=progress)
    check.run_both(reference, drawn)
    if check.failing("fp32") and isinstance(reference, ModuleReference) and reference.is_training:
        check.note_training(reference, drawn)
    for name, measure in units:
        check.run_unit(name, measure)
    check.find_conversion_faults()
    check.find_precision_faults()
    check.find_inner_faults()
    check.find_sum_faults()
    check.find_unit_faults()
    check.note_units()
    return check.outcome(drawn)


@dataclass(kw_only=True)
class _Verifier:
    """The steps of one verification."""

    call: FunctionCall
    name: str
    tolerance: Tolerance
    progress: Progress
    exact: Run = field(init=False)
    rounded: Run | None = None
    theirs: Run = field(init=False)
    matched: dict[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    made: dict[str, float] = field(default_factory=dict)
    outputs: list[ComparedOutput] = field(default_factory=list)
    faults: list[VerifiedFault] = field(default_factory=list)
    fixes: list[ProposedFix] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    units: dict[str, Run] = field(default_factory=dict)
    is_other_mode: bool = False

    def __post_init__(self) -> None:
        content = self.call.model.content
        assert isinstance(content, Program)
        self.half = self.call.function
        if content.is_network:
            self.half = with_half_results(self.call.function)
        self.is_half = _has_half(self.half)
        self.working = self.call.function
        self.works = False

    def ops(self) -> dict[str, Op]:
        """The operations by id, and those that compute a value by its name."""
        ops = self.working.graph.ops
        makers = {f"maker of {value.name}": op for op in ops for value in op.outputs}
        return {**{op.id: op for op in ops}, **makers}

    def run_both(self, reference: Reference, drawn: Inputs) -> None:
        """Runs the model, in float32 and rounded, and the reference on the inputs that suit it best."""
        self.progress("running the model in float32")
        self.exact = record(self.call)
        self.progress(f"running the reference {reference.label}")
        self.theirs = self._reference_run(reference, drawn)
        self.matched = match_outputs(self.exact, self.theirs)
        if not self.matched:
            raise InputError(
                "no output of the reference has the size of an output of the model",
                f"outputs of the reference: {', '.join(self.theirs.outputs)}",
            )
        self._note_unmatched()
        self.outputs += self.compare(self.exact, "fp32")
        if self.is_half:
            self.progress("running the model with results rounded to fp16")
            self.rounded = self.round(self.working)
            self.outputs += self.compare(self.rounded, "fp16")
        self.progress("pairing intermediate values")
        self.pairs = pair_runs(self.exact, self.theirs, self.matched)

    def _note_unmatched(self) -> None:
        missing = [name for name in self.exact.outputs if name not in self.matched]
        if missing:
            text = f"The reference has no counterpart of {', '.join(missing)}: not compared."
            self.findings.append(
                Finding(
                    id="output-not-compared",
                    severity="warning",
                    text=text,
                    hint="give outputs the same names",
                )
            )

    def _reference_run(self, reference: Reference, drawn: Inputs) -> Run:
        """Runs the reference on pixels, and on pixels after the preprocessing; keeps what is nearer."""
        plain = dict(drawn.tensors)
        runs = [(reference.run(plain), "")]
        if drawn.prepared:
            names = ", ".join(drawn.prepared)
            note = f"the reference takes {names} after the preprocessing that the model holds"
            runs.append((reference.run({**plain, **drawn.prepared}), note))
        best, note = min(runs, key=lambda item: self._distance(item[0]))
        self.notes = (note,) if note else ()
        return best

    def _distance(self, theirs: Run) -> float:
        matched = match_outputs(self.exact, theirs)
        errors = [
            relative_error(*(_array(run, name) for run, name in ((self.exact, ours), (theirs, other))))
            for ours, other in matched.items()
        ]
        return max(errors, default=math.inf)

    def round(
        self, function: Function, names: Collection[str] | None = None, *, is_inside: bool = False
    ) -> Run:
        """Runs a function with rounded results, and records some values or all.

        Args:
            function: The function.
            names: The values to record; None for all.
            is_inside: Rounds inside operations as well, as the Neural Engine does.
        """
        body = self._half(function)
        return record(self.call, "fp16", with_inner_results(body) if is_inside else body, names)

    def _half(self, function: Function) -> Function:
        """Returns a function that declares which values a device rounds."""
        content = self.call.model.content
        assert isinstance(content, Program)
        return with_half_results(function) if content.is_network else function

    def compare(self, run: Run, label: str) -> list[ComparedOutput]:
        """Compares the outputs of a run with those of the reference."""
        chosen = choose_function(self.call.model, self.name)
        return [
            compare_output(
                name,
                other,
                label,
                (_array(run, name), _array(self.theirs, other)),
                meaning_of(chosen, name, _array(run, name)),
                self.tolerance,
                self.is_half,
            )
            for name, other in self.matched.items()
            if name in run.outputs
        ]

    def failing(self, label: str) -> list[str]:
        """Returns the names of the values of outputs that differ in a run."""
        return self._differing(o for o in self.outputs if o.run == label)

    def _differing(self, outputs: Iterable[ComparedOutput]) -> list[str]:
        """Returns the names of the values of outputs that differ."""
        return [self.exact.outputs[output.name] for output in outputs if not output.passed]

    def run_unit(self, name: str, measure: UnitRunner) -> None:
        """Runs the model on a compute unit."""
        self.progress(f"running the model on {name}")
        run = measure(self.call.model, self.name, self.call.inputs, self.exact)
        self.units[name] = run
        self.outputs += self.compare(run, name)

    def find_conversion_faults(self) -> None:
        """Finds faults in float32, one after the other, and tries to fix each."""
        if self.is_other_mode:
            return
        if not self.theirs.has_intermediates:
            self._note_no_intermediates()
            return
        call, exact, pairs = self.call, self.exact, self.pairs
        failing = self.failing("fp32")
        texts: list[str] = []
        touched: list[str] = []
        before = _worst(o for o in self.outputs if o.run == "fp32")
        seen: set[tuple[str, str]] = set()
        until = time.monotonic() + _MOST_SECONDS
        for count in range(_MOST_REPEATED):
            if not failing:
                return
            self.progress("looking for the first operation that differs")
            found = self._diagnose(call, exact, pairs, failing)
            if found is None:
                if not self._find_amplified(call, exact, pairs, failing):
                    self._note_gradual()
                return
            site, diagnosis = found
            kind = (diagnosis.cause, exact.values[diagnosis.value].type)
            if count >= _MOST_FAULTS and (kind not in seen or time.monotonic() > until):
                return
            seen.add(kind)
            others = tuple(
                dict.fromkeys(self.exact.values[n].op for n in site.others if n in self.exact.values)
            )
            self._add_fault("conversion", "fp32", diagnosis, site.value, (site.inherited, site.made), others)
            trials = conversion_candidates(self.working, diagnosis, site.value, exact)
            best = self._try(trials, "fp32", before, exact, texts, touched)
            if best is None:
                return
            self.working, failing = best
            call = replace(call, function=self.working)
            self.call = call
            exact = record(call)
            pairs = pair_runs(exact, self.theirs, self.matched)

    def _diagnose(
        self, call: FunctionCall, exact: Run, pairs: Sequence[Pair], failing: Sequence[str]
    ) -> tuple[ConversionSite, Diagnosis] | None:
        """Finds the first fault and its cause; relies on pairs by order if nothing is explained without."""
        until = time.monotonic() + _MOST_SECONDS
        found = self._first_explained(call, exact, pairs, failing, until)
        for share in _SMALLER if found is None else ():
            found = self._first_explained(call, exact, pairs, failing, until, share)
            if found is not None and found[1].is_explained:
                return found
            found = None
        if found is not None and found[1].is_explained:
            return found
        relied = [replace(pair, how="flow") if pair.how == "order" else pair for pair in pairs]
        again = None if relied == list(pairs) else self._first_explained(call, exact, relied, failing, until)
        if again is None or (found is not None and not again[1].is_explained):
            return found
        return again

    def _first_explained(
        self,
        call: FunctionCall,
        exact: Run,
        pairs: Sequence[Pair],
        failing: Sequence[str],
        until: float,
        share: float = 1.0,
    ) -> tuple[ConversionSite, Diagnosis] | None:
        """Finds the first fault whose cause is known, else the first one.

        A pair by flow may be wrong where the model computes the same in another way. So if nothing explains
        its difference, and the operations before it are others than those of the reference, the search goes
        on without.
        """
        first = None
        for _ in range(_MOST_REWRITTEN):
            site, made = locate_conversion(call, exact, self.theirs, pairs, failing, self.is_half, share)
            self.made = self.made or made
            if site is None:
                return first
            case = Case(
                call=call,
                site=site,
                ours=exact,
                theirs=self.theirs,
                pairs=pairs,
                ops=self.ops(),
                until=until,
            )
            diagnosis = diagnose_conversion(case)
            # Where all is computed in another way, another form may be right by chance.
            theirs = {general_type(value.type) for value in case.reference_region()}
            is_chance = (
                diagnosis.form is not None
                and diagnosis.value != site.value
                and general_type(diagnosis.form.op.type) not in theirs
            )
            is_chance = is_chance or diagnosis.is_rewriting
            if not case.is_rewritten or not (is_chance or not diagnosis.is_explained):
                return site, diagnosis
            first = first or (site, diagnosis)
            pairs = [pair for pair in pairs if pair.ours != site.value]
        return first

    def note_training(self, reference: ModuleReference, drawn: Inputs) -> None:
        """Notes that the reference is in training mode, and what its evaluation mode returns."""
        theirs = reference.run(dict(drawn.tensors), is_evaluated=True)
        before, self.theirs = self.theirs, theirs
        passes = all(output.passed for output in self.compare(self.exact, "fp32"))
        self.theirs = before
        text = "The reference is in training mode: dropout is on, and batches are normalized by themselves."
        if passes:
            text += " In evaluation mode its outputs are those of the model."
            self.is_other_mode = True
        hint = "call eval() on the module, and verify again"
        self.findings.append(
            Finding(id="reference-in-training-mode", severity="warning", text=text, hint=hint)
        )

    def _note_no_intermediates(self) -> None:
        if self.failing("fp32"):
            text = "The reference has no intermediate values, so that the operation at fault cannot be found."
            hint = (
                "give an ONNX model, a program of torch.export, a module, or an .npz file with"
                " intermediate values"
            )
            self.findings.append(Finding(id="no-intermediates", severity="warning", text=text, hint=hint))

    def _note_gradual(self) -> None:
        worst = max(self.made, key=lambda name: self.made[name], default="")
        more = f" The largest, {self.made[worst]:.2g}, is made by {worst}." if worst else ""
        text = f"No operation makes a large error of its own: small ones add up over the network.{more}"
        hint = "compare with weights in float32, or allow a larger --rtol"
        self.findings.append(Finding(id="errors-add-up", severity="warning", text=text, hint=hint))

    def _add_fault(
        self,
        kind: str,
        run: str,
        diagnosis: Diagnosis,
        site: str,
        errors: tuple[float | None, float | None],
        others: tuple[str, ...] = (),
    ) -> None:
        value = self.exact.values.get(diagnosis.value)
        op = None if value is None else self.ops().get(value.op)
        self.faults.append(
            VerifiedFault(
                kind=kind,  # type: ignore[arg-type]
                run=run,
                op="" if value is None else value.op,
                type="" if value is None else value.type,
                name=diagnosis.value if op is None else op.name,
                cause=diagnosis.cause,
                text=diagnosis.text,
                seen_at="" if site == diagnosis.value else self.exact.values[site].op,
                inherited=_finite(errors[0]),
                made=_finite(errors[1]),
                others=others[:_MOST_OTHERS],
            )
        )

    def _try(
        self,
        trials: Iterable[Candidate],
        run: str,
        before: float,
        exact: Run,
        texts: list[str],
        touched: list[str],
    ) -> tuple[Function, list[str]] | None:
        """Tries changes until one works.

        Returns:
            The changed function and the values of outputs that still differ, of the first change that works,
            else of the one that helps most; None if none helps.
        """
        best: tuple[float, Candidate, list[ComparedOutput]] | None = None
        last = best
        for count, trial in enumerate(trials):
            if count == _MOST_TRIALS:
                break
            self.progress(f"trying to {trial.text}")
            outputs = self._outputs_with(trial, run)
            if outputs is None:
                continue
            last = (_worst(outputs), trial, outputs)
            fails = sum(not o.passed for o in outputs)
            if best is None or (fails, last[0]) < (sum(not o.passed for o in best[2]), best[0]):
                best = last
            if not fails:
                break
        if best is None:
            return None
        after, trial, outputs = best
        texts.append(trial.text)
        touched += self._as_read(trial.ops, exact)
        fix = ProposedFix(
            text=_sentence(texts),
            ops=tuple(dict.fromkeys(touched)),
            code=trial.code,
            run=run,
            before=_finite(before),
            after=_finite(after),
            works=all(output.passed for output in outputs),
        )
        # Changes for several faults of one run are one fix.
        self.fixes = [known for known in self.fixes if known.run != run]
        if fix.works or after < before:
            self.fixes.append(fix)
        self.works = fix.works
        return trial.function, self._differing(outputs)

    def _as_read(self, op_ids: Sequence[str], run: Run) -> list[str]:
        """Returns the ids that operations of a changed program have in the file."""
        names = {value.op: value.name for value in run.values.values()}
        found = (self.exact.values.get(names.get(op_id, "")) for op_id in op_ids)
        return [value.op for value in found if value is not None]

    def _outputs_with(self, trial: Candidate, run: str) -> list[ComparedOutput] | None:
        """Compares the outputs of a changed function; None if it cannot be run."""
        call = replace(self.call, function=trial.function)
        if call.bind().problems:
            return None
        returned = set(self.exact.outputs.values())
        try:
            if run == "fp32":
                return self.compare(record(call, names=returned), run)
            if run == SUMS:
                summed = with_partial_sums(self._half(trial.function))
                return self.compare(record(self.call, "fp16", summed, returned), run)
            return self.compare(self.round(trial.function, returned, is_inside=run == INSIDE), run)
        except EngineError:
            return None  # The change does not suit the types of its arguments.

    def _find_amplified(
        self, call: FunctionCall, exact: Run, pairs: Sequence[Pair], failing: list[str]
    ) -> bool:
        """Finds the operation that amplifies what rounding the constants of the file to fp16 moves.

        Returns: Whether there is one.
        """
        if not self.is_half:
            return False
        reference = reference_values(call, exact, self.theirs, pairs)
        site = locate_precision(reference, exact, failing, self.made)
        if site is None or site.is_gradual:
            return False
        case = RoundedCase(site=site, exact=reference, rounded=exact, made=self.made, ops=self.ops())
        constants = exact_constants(exact, self.theirs, pairs)
        diagnosis = diagnose_constant(case, constants) or diagnose_precision(case)
        if diagnosis.cause == "unknown":
            return False
        self._add_fault("precision", "fp32", diagnosis, site.value, (site.inherited, site.made))
        trials = constant_candidates(self.working, diagnosis, case, constants)
        before = _worst(o for o in self.outputs if o.run == "fp32")
        best = self._try(trials, "fp32", before, exact, [], [])
        if best is not None:
            self.working = best[0]
            self.call = replace(self.call, function=self.working)
        return True

    def find_precision_faults(self) -> None:
        """Finds what rounding to fp16 does, in a program that computes the right results in float32."""
        exact = record(self.call) if self.fixes else self.exact
        if any(not o.passed for o in self.compare(exact, "fp32")):
            return
        rounded = self.rounded
        if self.fixes and self.is_half:
            rounded = self.round(self.working)
        if rounded is None:
            return
        outputs = self.compare(rounded, "fp16")
        failing = self._differing(outputs)
        if failing:
            self._mend_precision(exact, rounded, failing, outputs)

    def _mend_precision(
        self, exact: Run, rounded: Run, failing: list[str], outputs: Sequence[ComparedOutput]
    ) -> None:
        self.progress("looking for the first operation that rounding changes")
        names = [name for name, value in exact.values.items() if value.op]
        precise = replace(self.call, function=self._half(self.working))
        local = run_from(precise, {name: exact.values[name].array for name in names}, names, "fp16")
        made = {name: relative_error(local[name], exact.values[name].array) for name in names}
        site = locate_precision(exact, rounded, failing, made)
        if site is None:
            return
        case = RoundedCase(site=site, exact=exact, rounded=rounded, made=made, ops=self.ops())
        diagnosis = diagnose_precision(case)
        self._add_precision_fault(exact, diagnosis, site)
        trials = precision_candidates(self.working, diagnosis, case)
        best = self._try(trials, "fp16", _worst(outputs), exact, [], [])
        if best is not None:
            self.working = best[0]
            self.works = not best[1]

    def find_inner_faults(self) -> None:
        """Finds operations inside which numbers overflow on the Neural Engine, where all else is right."""
        if self.rounded is None or not has_composed(self._half(self.working)):
            return
        exact = record(self.call) if self.fixes else self.exact
        rounded = self.round(self.working) if self.fixes else self.rounded
        if any(not o.passed for o in (*self.compare(exact, "fp32"), *self.compare(rounded, "fp16"))):
            return
        self.progress("running the model with parts of operations rounded to fp16")
        inside = self.round(self.working, is_inside=True)
        outputs = self.compare(inside, INSIDE)
        self.outputs += outputs
        failing = self._differing(outputs)
        site = locate_precision(rounded, inside, failing, None) if failing else None
        if site is None:
            return
        value = exact.values[site.value]
        if value.type not in COMPOSED:
            return
        diagnosis = diagnose_inside(value, inside.values[site.value].array)
        self._add_fault("precision", INSIDE, diagnosis, site.value, (site.inherited, None))
        trials = inner_candidates(self.working, value.op, exact)
        best = self._try(trials, INSIDE, _worst(outputs), exact, [], [])
        if best is not None:
            self.working = best[0]
            self.works = not best[1]

    def find_sum_faults(self) -> None:
        """Finds sums of products that lose digits where a unit accumulates in fp16, if all else is right.

        Errors of many operations that add up are no fault: which units accumulate so, and how, is not known.
        """
        if self.rounded is None or not self.theirs.has_intermediates:
            return
        if not any(value.type in SUMMED for value in self.exact.values.values()):
            return
        exact = record(self.call) if self.fixes else self.exact
        rounded = self.round(self.working) if self.fixes else self.rounded
        if any(not o.passed for o in (*self.compare(exact, "fp32"), *self.compare(rounded, "fp16"))):
            return
        self.progress("running the model with sums rounded to fp16 on their way")
        returned = set(self.exact.outputs.values())
        summed = with_partial_sums(self._half(self.working))
        outputs = self.compare(record(self.call, "fp16", summed, returned), SUMS)
        failing = self._differing(outputs)
        if not failing:
            return
        run = record(self.call, "fp16", summed, set(exact.values))
        local = self._errors_of_sums(summed, rounded)
        site = locate_precision(rounded, run, failing, local)
        if site is None or site.is_gradual or exact.values[site.value].type not in SUMMED:
            return
        self.outputs += outputs
        value = exact.values[site.value]
        diagnosis = diagnose_sum(value, local.get(site.value, site.total))
        self._add_fault("precision", SUMS, diagnosis, site.value, (site.inherited, local.get(site.value)))
        case = RoundedCase(site=site, exact=exact, rounded=run, made=local, ops=self.ops())
        best = self._try(
            precision_candidates(self.working, diagnosis, case), SUMS, _worst(outputs), exact, [], []
        )
        if best is not None:
            self.working = best[0]
            self.works = not best[1]

    def _errors_of_sums(self, summed: Function, rounded: Run) -> dict[str, float]:
        """Returns the errors that rounding sums on their way makes, on the values of the rounded run."""
        names = [name for name, value in rounded.values.items() if value.type in SUMMED]
        call = replace(self.call, function=summed)
        given = {name: value.array for name, value in rounded.values.items() if value.op}
        local = run_from(call, given, names, "fp16")
        return {name: relative_error(local[name], rounded.values[name].array) for name in names}

    def find_unit_faults(self) -> None:
        """Finds the first operation whose results on a compute unit differ from those of float32."""
        if any(output.run == "fp32" and not output.passed for output in self.outputs):
            return
        for name, run in self.units.items():
            failing = self.failing(name)
            site = locate_precision(self.exact, run, failing, None) if failing else None
            if site is None:
                continue
            case = RoundedCase(site=site, exact=self.exact, rounded=run, made={}, ops=self.ops())
            diagnosis = diagnose_precision(case)
            self._add_fault("unit", name, diagnosis, site.value, (site.inherited, None))

    def _add_precision_fault(self, exact: Run, diagnosis: Diagnosis, site: PrecisionSite) -> None:
        before, self.exact = self.exact, exact
        self._add_fault("precision", "fp16", diagnosis, site.value, (site.inherited, site.made))
        self.exact = before

    def note_units(self) -> None:
        """Notes operations that were reported to return wrong values on a unit, which no run here shows."""
        content = self.call.model.content
        if isinstance(content, Program) and not content.is_core_ai:
            remarks = find_remarks(bind_default_function(self.call.model))
            self.findings += [describe_remark(one) for one in remarks if one.rule.settings]

    def outcome(self, drawn: Inputs) -> Outcome:
        """Returns the result, and the changed model where the changes work."""
        model = self.call.model
        fixed = with_function(model, self.name, self.working) if self.fixes and self.works else None
        runs = tuple(dict.fromkeys(output.run for output in self.outputs))
        result = Verification(
            model="" if model.source is None else path_text(model.source),
            function=self.name,
            reference=self.theirs.label,
            inputs=(*drawn.notes, *self.notes),
            outputs=tuple(self.outputs),
            passed=all(output.passed for output in self.outputs),
            runs=runs,
            recorded=sum(bool(value.op) for value in self.exact.values.values()),
            pairs=tuple(map(self._paired, self.pairs)),
            faults=tuple(self.faults),
            fixes=tuple(self.fixes),
            findings=tuple(self.findings),
            version=__version__,
        )
        return Outcome(result=result, fixed=fixed)

    def _paired(self, pair: Pair) -> PairedValue:
        value = self.exact.values[pair.ours]
        rounded = None if self.rounded is None else self.rounded.values.get(pair.ours)
        other = self.theirs.values[pair.theirs].array
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
            fp32=_finite(pair.error),
            made=_finite(self.made.get(pair.ours)),
            fp16=_finite(fp16),
        )


#: Further operations at fault that are listed.
_MOST_OTHERS = 8


def _array(run: Run, output: str) -> Array:
    return run.values[run.outputs[output]].array


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _worst(outputs: Iterable[ComparedOutput]) -> float:
    return max((math.inf if o.relative is None else o.relative for o in outputs), default=0.0)


def _sentence(parts: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(parts))


def _has_half(function: Function) -> bool:
    types = (v.type for op in function.graph.walk() if op.constant is None for v in op.outputs)
    return any(isinstance(type_, TensorType) and type_.dtype is DType.FP16 for type_ in types)
