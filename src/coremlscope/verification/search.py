"""The search for faults: the first operation that differs, its cause, and changes that fix it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec.structs
import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array, Function
from coremlscope.ops.program import Precision
from coremlscope.results.verification import Cause, FaultKind
from coremlscope.verification.arithmetic import ARITHMETICS, Arithmetic
from coremlscope.verification.causes.constants import exact_constants, with_constants
from coremlscope.verification.causes.rounding import LARGEST_FP16, ROUNDING_ROWS, SMALLEST_FP16, Rounded
from coremlscope.verification.causes.site import Change, Site, Verdict, judge
from coremlscope.verification.causes.table import ROWS
from coremlscope.verification.changes import listed, precision_changes, selector, try_changes
from coremlscope.verification.check import Check
from coremlscope.verification.distance import relative_error
from coremlscope.verification.edits import rename_outputs, set_constant
from coremlscope.verification.intermediates import Run
from coremlscope.verification.locate import errors_made, locate_conversion, locate_precision
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.own_run import record, run_from
from coremlscope.verification.pairing import pair_runs

#: How many faults are fixed one after the other: a swap is two.
_MOST_FAULTS = 4
#: Operations among which a fault is searched for without values on the way.
_FEW = 40
#: How long the search takes at most, in seconds.
_MOST_SECONDS = 30.0
#: Replaces infinities of masks: sums with it stay below the largest fp16 number.
_FINITE = 3e4
#: Rounded constants alone move a result by less.
_AMPLIFIED = 0.02
#: Operations whose constants are restored at once, at most.
_MOST_RESTORED = 64


def find_faults(check: Check) -> None:
    """Finds faults of the conversion, then of the precision."""
    until = time.monotonic() + _MOST_SECONDS
    _find_conversion_faults(check, until)
    _find_precision_faults(check)
    for arithmetic in ARITHMETICS:
        _find_unit_arithmetic(check, arithmetic)
    if time.monotonic() > until:
        text = f"The search for the cause was stopped after {_MOST_SECONDS:.0f} s: the rest was not tried."
        check.note("search-stopped", text, severity="info")


def _before(check: Check) -> float:
    return worst_error(o for o in check.outputs if o.run == "fp32")


def _find_conversion_faults(check: Check, until: float) -> None:
    """Finds faults in float32, one after the other, and tries to fix each."""
    failing: Sequence[str] | None = check.failing("fp32")
    if failing and not check.is_explained:
        failing = _exchange_outputs(check)
    if not failing:
        return
    if not _has_intermediates(check):
        _note_no_intermediates(check)
        return
    if check.is_explained:
        return
    if check.is_half and _restore_constants(check):
        return
    last = ""
    for _ in range(_MOST_FAULTS):
        site = _first_site(check, failing, until)
        if site is None or site.value.name == last:
            return
        last = site.value.name
        changes = _judge_site(check, site)
        failing = try_changes(check, changes, "fp32", _before(check)) if changes else None
        if not failing:
            return


def _first_site(check: Check, failing: Collection[str], until: float) -> Site | None:
    check.progress("looking for the first operation that differs")
    exact = check.working_run("fp32")
    pairs = pair_runs(exact, check.theirs, check.matched) if check.faults else check.pairs
    site, made = locate_conversion(check, pairs, failing, until)
    check.made = check.made or made
    if site is None and not check.faults:
        _note_gradual(check)
    return site


def _judge_site(check: Check, site: Site) -> tuple[Change, ...]:
    """Adds the fault of a site, and returns the changes that may fix it."""
    what = f"off by {site.made:.2g}" if np.isfinite(site.made) else "infinite or NaN"
    text = f"on the reference's own values its result is {what}, relative to {shown(site.pair.theirs)}"
    verdict = judge(site, ROWS, Verdict(cause="unknown", value=site.value.name, text=text))
    check.add_fault(
        "conversion",
        "fp32",
        verdict,
        (site.inherited, site.made),
        others=tuple(dict.fromkeys(site.ours.values[name].op for name in site.others)),
        seen_at=site.value.name,
        pair=(site.local, site.expected),
    )
    return verdict.changes


def _restore_constants(check: Check) -> bool:
    """Tries the constants of the reference that rounding to fp16 has moved: where with these all outputs are
    right, they are the cause. Those that matter are found by leaving the others out.

    Returns:
        Whether they are.
    """
    exact = check.working_run("fp32")
    constants = exact_constants(exact, check.theirs, check.pairs)
    if not constants:
        return False
    check.progress("trying the exact constants of the reference")
    if not _passes_with(check, constants):
        return False
    several = ((cause, few) for cause, few in _kinds_of_constants(check, constants) if few)
    cause, chosen = next(one for one in several if one[1] == constants or _passes_with(check, one[1]))
    _add_constants(check, cause, chosen)
    return True


def _passes_with(check: Check, constants: Mapping[tuple[str, str], Array]) -> bool:
    run = check.working_run("fp32")
    function = with_constants(check.working, run, constants)
    outputs = check.compare(check.run_in("fp32", function, check.judged), "fp32")
    return all(output.passed for output in outputs)


def _kinds_of_constants(
    check: Check, constants: Mapping[tuple[str, str], Array]
) -> Iterator[tuple[Cause, dict[tuple[str, str], Array]]]:
    """Yields constants that may be the cause: those that became infinite, those that are too small, and those
    of more and more operations, the largest errors first."""
    read = dict(constants)
    infinite = {key: array for key, array in read.items() if np.abs(array).max(initial=0.0) > LARGEST_FP16}
    small = {
        key: array
        for key, array in read.items()
        if array.size == 1 and 0 < abs(float(array.reshape(-1)[0])) < SMALLEST_FP16
    }
    yield "infinite constants", infinite
    yield "epsilon", small
    made = errors_made(check, check.pairs).made
    order = sorted({name for name, _ in read}, key=lambda name: -made.get(name, 0.0))
    check.made, count = made, 1
    while count < min(len(order), _MOST_RESTORED):
        kept = set(order[:count])
        yield "cancellation", {key: array for key, array in read.items() if key[0] in kept}
        count *= 2
    is_amplified = max(made.values(), default=0.0) > _AMPLIFIED
    yield "cancellation" if is_amplified else "accumulation", dict(read)


def _add_constants(check: Check, cause: Cause, constants: Mapping[tuple[str, str], Array]) -> None:
    """Adds the fault of rounded constants, and tries to fix it."""
    exact = check.working_run("fp32")
    names = [name for name in exact.values if any(name == one for one, _ in constants)]
    ids = [exact.values[name].op for name in names]
    is_amplified = cause == "cancellation"
    first = max(names, key=lambda name: check.made.get(name, 0.0)) if is_amplified else names[0]
    key, array = next((key, array) for (name, key), array in constants.items() if name == first)
    more = _between_all(check, names)
    kept = [*ids, *(exact.values[name].op for name in more)]
    change = Change(
        text=f"keep {listed(exact, kept)} in float32, with their exact constants",
        values=tuple(names),
        apply=lambda function: with_constants(function, exact, constants, more),
        code=selector(exact, kept),
    )
    text = (
        f"constants of {listed(exact, ids)} were rounded to fp16, by 2⁻¹¹ each"
        f"{', and cancel with what they are computed with' if is_amplified else ''}: with those of the"
        " reference all outputs are right"
    )
    if cause == "epsilon":
        text = (
            f"its {shown(key)} is {float(array.reshape(-1)[0]):.3g} in the reference: fp16 has no number"
            f" between 0 and {SMALLEST_FP16:.2g}"
        )
    elif cause == "infinite constants":
        count = sum(int((np.abs(one) > LARGEST_FP16).sum()) for one in constants.values())
        text = (
            f"its {shown(key)} is infinite: {count} constants beyond 65504, the largest fp16 number, became"
            f" infinite ({listed(exact, ids)}); 0 × ∞ and ∞ − ∞ are NaN"
        )
        finite = {
            (exact.values[name].op, parameter): np.clip(one, -_FINITE, _FINITE)
            for (name, parameter), one in constants.items()
        }
        mask = Change(
            text=f"use ±{_FINITE:.0f} instead of infinite constants",
            values=tuple(names),
            apply=partial(set_constant, changes=finite),
            code=f"{-_FINITE:.0f} instead of torch.finfo(torch.float32).min or -inf in masks",
        )
        change = mask if _differs_where_masked(check, mask) else change
    elements = sum(check.exact.output(name).size for name in check.matched)
    verdict = Verdict(cause=cause, value=first, text=text, elements=elements)
    check.add_fault("precision", "fp32", verdict, (0.0, check.made.get(first)))
    try_changes(check, [change], "fp32", _before(check))


def _differs_where_masked(check: Check, change: Change) -> bool:
    """Returns whether outputs with a finite mask differ in those rows only in which all is masked, and notes
    them: with a finite mask the softmax of such rows is another one."""
    function = change.apply(check.working)
    run = check.run_in("fp32", function, check.judged)
    rows = [
        (given.array.reshape(-1, given.array.shape[-1]).max(-1) < -LARGEST_FP16)
        for value in check.theirs.values.values()
        if "softmax" in value.type.lower() and value.inputs
        for given in [check.theirs.values[value.inputs[0]]]
        if given.array.dtype.kind == "f" and given.array.ndim
    ]
    count = 0
    for output in check.compare(run, "fp32"):
        if output.passed or output.name not in run.outputs:
            continue
        pair = run.output(output.name), check.theirs.output(output.reference)
        ours, theirs = (one.reshape(-1, one.shape[-1] if one.ndim else 1) for one in pair)
        far = np.abs(np.subtract(ours, theirs)).max(-1) > 1e-2 * np.abs(theirs).max()
        masked = next((one for one in rows if len(one) == len(far) and one[far].all()), None)
        if masked is None or not np.isfinite(ours).all():
            return False
        count += int(far.sum())
    if count:
        text = (
            f"With a finite mask, {count} rows still differ, in which everything is masked: what the"
            " reference returns there means nothing."
        )
        hint = "compare the other rows, or give a mask that leaves one element in each row"
        check.note("rows-masked-in-full", text, hint, "info")
    return True


def _between_all(check: Check, names: Sequence[str]) -> list[str]:
    """Returns the values between some values, which float32 has to pass through."""
    run = check.working_run("fp32")
    above = {name: set(run.above(name, lambda _: False)) for name in names}
    return [
        name
        for name, value in run.values.items()
        if value.op
        and name not in names
        and any(name in above[low] for low in names)
        and any(upper in run.above(name, lambda _: False) for upper in names)
    ]


def _exchange_outputs(check: Check) -> list[str]:
    """Finds outputs that are returned under each other's names, and returns what still differs."""
    found = _exchanged(check)
    if not found:
        return check.failing("fp32")
    first = check.exact.outputs[next(iter(found))]
    held = " and ".join(f"{name} holds {check.matched[right]}" for name, right in found.items())
    text = f"the outputs are returned under each other's names: {held} of the reference"
    count = sum(check.exact.output(name).size for name in found)
    verdict = Verdict(cause="swapped outputs", value=first, text=text, elements=count)
    check.add_fault("conversion", "fp32", verdict, (0.0, None))

    order = [name for name in check.exact.outputs if name not in check.exact.states]
    types = ", ".join(f'ct.TensorType(name="{found.get(name, name)}")' for name in order)
    change = Change(
        text=f"return {', '.join(f'{name} as {right}' for name, right in found.items())}",
        values=tuple(check.exact.outputs[name] for name in found),
        apply=partial(rename_outputs, names=found),
        code=f"ct.convert(…, outputs=[{types}])",
    )
    return try_changes(check, [change], "fp32", _before(check)) or []


def _exchanged(check: Check) -> dict[str, str]:
    """Returns the outputs that hold others of the reference, all of which are held by one of them."""
    failing = check.failing("fp32")
    names = [n for n in check.matched if check.exact.outputs[n] in failing and n not in check.exact.states]
    found: dict[str, str] = {}
    for name in names:
        others = (other for other in names if other != name and other not in found.values())
        right = next((other for other in others if check.holds(name, check.matched[other])), None)
        if right is not None:
            found[name] = right
    while found and set(found) != set(found.values()):
        found = {name: right for name, right in found.items() if name in found.values() and right in found}
    return found


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
    compared = {check.theirs.outputs[name] for name in check.matched.values()}
    others = {name for name, value in check.theirs.values.items() if value.op} - compared
    text = "The reference has no intermediate values, so that the operation at fault cannot be found."
    hint = "give an ONNX model, a program of torch.export, a module, or an .npz file with intermediate values"
    if others:
        text = (
            "No intermediate value of the reference is one of the model, so that the operation at fault"
            " cannot be found: it may be another network."
        )
        hint = "give the network that the model was converted from"
    check.note("no-intermediates", text, hint)


def _note_gradual(check: Check) -> None:
    worst = max(check.made, key=lambda name: check.made[name], default="")
    more = f" The largest, {check.made[worst]:.2g}, is made by {worst}." if worst else ""
    text = f"No operation makes a large error of its own: small ones add up over the network.{more}"
    hint = "compare with weights in float32, or allow a larger --rtol"
    check.note("errors-add-up", text, hint)


def _passes(check: Check, precision: Precision) -> bool:
    """Returns whether all outputs are within the tolerance with the changes so far."""
    return all(output.passed for output in check.compare(check.working_run(precision), precision))


def _errors_of_rounding(
    check: Check, function: Function, exact: Run, types: Collection[str] = ()
) -> dict[str, float]:
    """Returns the errors that rounding makes in each operation alone, by the name of its value.

    Args:
        check: The verification.
        function: The function as it is rounded.
        exact: The values that operations are given.
        types: The types of these operations; empty for all.
    """
    given = {name: value.array for name, value in exact.values.items() if value.op}
    names = [name for name in given if not types or exact.values[name].type in types]
    local = run_from(check.call.with_function(function), given, names, "fp16")
    return {name: relative_error(local[name], given[name]) for name in names}


def _judge_rounding(check: Check, run: str, kind: FaultKind, case: Rounded) -> Verdict:
    """Adds the fault of rounding, and returns its cause."""
    size = f"{case.total:.2g}" if np.isfinite(case.total) else "an infinite number"
    text = f"rounding moves its result by {size}, relative to its size, and no cause explains all elements"
    verdict = judge(case, ROUNDING_ROWS, Verdict(cause="unknown", value=case.name, text=text))
    check.add_fault(
        kind,
        run,
        verdict,
        (case.inherited, case.made),
        seen_at=case.name,
        pair=(case.seen, case.value.array),
        exact=case.exact,
    )
    return verdict


def _find_precision_faults(check: Check) -> None:
    """Finds what rounding to fp16 does, in a program that computes the right results in float32."""
    if check.rounded is None or not _passes(check, "fp32"):
        return
    outputs = check.compare(check.working_run("fp16"), "fp16")
    failing = check.differing(outputs)
    if not failing:
        return
    check.progress("looking for the first operation that rounding changes")
    exact, rounded = check.working_run("fp32"), check.working_run("fp16")
    made = _errors_of_rounding(check, check.as_half(check.working), exact)
    case = locate_precision(check.working_call(), exact, rounded, failing, made)
    if case is not None:
        found = _judge_rounding(check, "fp16", "precision", case)
        try_changes(check, precision_changes(case, found.cause, found.value), "fp16", worst_error(outputs))


def _find_unit_arithmetic(check: Check, arithmetic: Arithmetic) -> None:
    """Finds operations inside which units lose digits, where all else is right.

    Errors of many operations that add up are no fault of an arithmetic that is not measured: which units
    compute so is not known.
    """
    if check.rounded is None or not check.theirs.has_intermediates:
        return
    whole = check.as_half(check.working)
    written = arithmetic.write(whole)
    if written is whole or not (_passes(check, "fp32") and _passes(check, "fp16")):
        return
    check.progress(f"running the model as {arithmetic.run}")
    outputs = check.compare(record(check.call, "fp16", written, check.judged), arithmetic.run)
    check.outputs += outputs if arithmetic.is_measured else []
    failing = check.differing(outputs)
    if not failing:
        return
    base = check.working_run("fp16")
    run = record(check.call, "fp16", written, set(base.values))
    made = _errors_of_rounding(check, written, base, arithmetic.types)
    case = locate_precision(check.working_call(), base, run, failing, made)
    if case is None or case.value.type not in arithmetic.types:
        return
    if not arithmetic.is_measured:
        if case.is_gradual:
            return
        check.outputs += outputs
    size, lost = case.value.array.size, int(((case.value.array != 0) & (case.seen == 0)).sum())
    text = arithmetic.text.format(lost=lost, size=size, error=case.made or case.total)
    verdict = Verdict(cause=arithmetic.cause, value=case.name, text=text, elements=size)
    check.add_fault("precision", arithmetic.run, verdict, (case.inherited, case.made))
    case = msgspec.structs.replace(case, exact=check.working_run("fp32"))
    changes = precision_changes(case, arithmetic.cause, case.name)
    try_changes(check, changes, arithmetic.run, worst_error(outputs))


def find_unit_faults(check: Check) -> None:
    """Finds the first operation whose results on a compute unit differ from those of float32."""
    if any(output.run == "fp32" and not output.passed for output in check.outputs):
        return
    for name, run in check.units.items():
        failing = check.failing(name)
        case = locate_precision(check.call, check.exact, run, failing, {}) if failing else None
        if case is not None:
            _judge_rounding(check, name, "unit", case)
