"""The search for faults of the conversion, which float32 shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from coremlscope.findings import Finding
from coremlscope.verification.causes.conversion import diagnose_conversion
from coremlscope.verification.causes.precision import RoundedCase, diagnose_constant, diagnose_precision
from coremlscope.verification.causes.weights import exact_constants
from coremlscope.verification.check import Check
from coremlscope.verification.diagnosis import Case, Diagnosis
from coremlscope.verification.exchanged_outputs import find_exchanged_outputs
from coremlscope.verification.fixes import constant_candidates, conversion_candidates
from coremlscope.verification.intermediates import Run
from coremlscope.verification.locate import (
    ConversionSite,
    locate_conversion,
    locate_precision,
    reference_values,
)
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.own_run import FunctionCall
from coremlscope.verification.pairing import Pair, general_type, pair_runs
from coremlscope.verification.trials import try_changes

__all__ = ["find_conversion_faults"]

#: How many faults are fixed one after the other: a swap is two.
_MOST_FAULTS = 4
#: How many faults of a kind: a loop that is written out has one in each step.
_MOST_REPEATED = 40
#: How many operations that the model may compute in another way are left out.
_MOST_REWRITTEN = 6
#: How small the errors are that are looked at next, where no operation makes a large one: what follows may
#: amplify it.
_SMALLER = (0.1, 0.01, 0.001)
#: Operations among which a fault is searched for without values on the way.
_FEW = 40
#: How long experiments with one fault may take, in seconds.
_MOST_SECONDS = 60.0


def find_conversion_faults(check: Check) -> None:
    """Finds faults in float32, one after the other, and tries to fix each.

    If several together leave outputs that differ, none of them explains the difference: the first operation
    is named, without a cause.
    """
    _search(check)
    if len(check.faults) > 1 and not check.works:
        tried = f", also not with the changes that were tried: {check.fixes[-1].text}" if check.fixes else ""
        text = f"no cause explains all elements{tried}"
        check.faults = [replace(check.faults[0], kind="conversion", cause="unknown", text=text)]
        check.fixes = []


def _search(check: Check) -> None:
    failing = None if check.is_explained else find_exchanged_outputs(check)
    if not check.works and not _has_intermediates(check):
        _note_no_intermediates(check)
        return
    if check.is_explained:
        return
    pairs = pair_runs(check.working_run("fp32"), check.theirs, check.matched) if check.faults else check.pairs
    before = worst_error(o for o in check.outputs if o.run == "fp32")
    seen: set[tuple[str, str]] = set()
    last = None
    until = time.monotonic() + _MOST_SECONDS
    for count in range(_MOST_REPEATED):
        if not failing:
            return
        check.progress("looking for the first operation that differs")
        call, exact = check.working_call(), check.working_run("fp32")
        found = _diagnose(check, call, exact, pairs, failing)
        if found is None:
            if not _find_amplified(check, call, exact, pairs, failing):
                _note_gradual(check)
            return
        site, diagnosis = found
        kind = (diagnosis.cause, exact.values[diagnosis.value].type)
        if count >= _MOST_FAULTS and (kind not in seen or time.monotonic() > until):
            return
        if (diagnosis.value, diagnosis.text) == last:
            return  # No change of it works.
        last = (diagnosis.value, diagnosis.text)
        seen.add(kind)
        others = tuple(
            dict.fromkeys(check.exact.values[n].op for n in site.others if n in check.exact.values)
        )
        nature = "precision" if diagnosis.is_rounding else "conversion"
        check.add_fault(nature, "fp32", diagnosis, site.value, (site.inherited, site.made), others)
        trials = conversion_candidates(check.working, diagnosis, site.value, exact)
        failing = try_changes(check, trials, "fp32", before)
        pairs = pair_runs(check.working_run("fp32"), check.theirs, check.matched)


def _diagnose(
    check: Check, call: FunctionCall, exact: Run, pairs: Sequence[Pair], failing: Sequence[str]
) -> tuple[ConversionSite, Diagnosis] | None:
    """Finds the first fault and its cause; relies on pairs by order if nothing is explained without."""
    until = time.monotonic() + _MOST_SECONDS
    found = _first_explained(check, call, exact, pairs, failing, until)
    for share in _SMALLER if found is None else ():
        found = _first_explained(check, call, exact, pairs, failing, until, share)
        if found is not None and found[1].is_explained:
            return found
        found = None
    if found is not None and found[1].is_explained:
        return found
    relied = [replace(pair, how="flow") if pair.how == "order" else pair for pair in pairs]
    again = None if relied == list(pairs) else _first_explained(check, call, exact, relied, failing, until)
    if again is None or (found is not None and not again[1].is_explained):
        return found
    return again


def _first_explained(
    check: Check,
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
        site, made = locate_conversion(call, exact, check.theirs, pairs, failing, check.is_half, share)
        check.made = check.made or made
        if site is None:
            return first
        case = Case(
            call=call,
            site=site,
            ours=exact,
            theirs=check.theirs,
            pairs=pairs,
            ops=check.ops(),
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


def _has_intermediates(check: Check) -> bool:
    """Returns whether values on the way to the outputs are paired, or the model is so small that none need
    be."""
    if not check.theirs.has_intermediates:
        return False
    returned = set(check.exact.outputs.values())
    computed = {name for name, value in check.exact.values.items() if value.op}
    is_paired = any(pair.ours in computed - returned for pair in check.pairs)
    return is_paired or len(computed) <= _FEW


def _note_no_intermediates(check: Check) -> None:
    if check.failing("fp32"):
        compared = {check.theirs.outputs[name] for name in check.matched.values()}
        others = {name for name, value in check.theirs.values.items() if value.op} - compared
        text = "The reference has no intermediate values, so that the operation at fault cannot be found."
        hint = (
            "give an ONNX model, a program of torch.export, a module, or an .npz file with"
            " intermediate values"
        )
        if others:
            text = (
                "No intermediate value of the reference is one of the model, so that the operation at fault"
                " cannot be found: it may be another network."
            )
            hint = "give the network that the model was converted from"
        check.findings.append(Finding(id="no-intermediates", severity="warning", text=text, hint=hint))


def _note_gradual(check: Check) -> None:
    worst = max(check.made, key=lambda name: check.made[name], default="")
    more = f" The largest, {check.made[worst]:.2g}, is made by {worst}." if worst else ""
    text = f"No operation makes a large error of its own: small ones add up over the network.{more}"
    hint = "compare with weights in float32, or allow a larger --rtol"
    check.findings.append(Finding(id="errors-add-up", severity="warning", text=text, hint=hint))


def _find_amplified(
    check: Check, call: FunctionCall, exact: Run, pairs: Sequence[Pair], failing: list[str]
) -> bool:
    """Finds the operation that amplifies what rounding the constants of the file to fp16 moves.

    Returns:
        Whether there is one.
    """
    if not check.is_half:
        return False
    reference = reference_values(call, exact, check.theirs, pairs)
    site = locate_precision(reference, exact, failing, check.made)
    if site is None or site.is_gradual:
        return False
    case = RoundedCase(site=site, exact=reference, rounded=exact, made=check.made, ops=check.ops())
    constants = exact_constants(exact, check.theirs, pairs)
    diagnosis = diagnose_constant(case, constants) or diagnose_precision(case)
    if diagnosis.cause == "unknown":
        return False
    check.add_fault("precision", "fp32", diagnosis, site.value, (site.inherited, site.made))
    trials = constant_candidates(check.working, diagnosis, case, constants)
    before = worst_error(o for o in check.outputs if o.run == "fp32")
    try_changes(check, trials, "fp32", before)
    return True
