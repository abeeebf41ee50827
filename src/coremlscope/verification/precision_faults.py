"""The search for faults of precision: in fp16, inside operations, in sums, and on compute units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coremlscope.ir import Array, Function
from coremlscope.ops.program import Precision
from coremlscope.verification.causes.precision import (
    RoundedCase,
    diagnose_inside,
    diagnose_precision,
    diagnose_sum,
)
from coremlscope.verification.check import INSIDE, SUMS, Check
from coremlscope.verification.distance import relative_error
from coremlscope.verification.fixes import inner_candidates, precision_candidates
from coremlscope.verification.inner_arithmetic import COMPOSED, has_composed
from coremlscope.verification.locate import locate_precision
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.own_run import record, run_from
from coremlscope.verification.partial_sums import SUMMED, with_partial_sums
from coremlscope.verification.trials import try_changes

__all__ = ["find_inner_faults", "find_precision_faults", "find_sum_faults", "find_unit_faults"]


def find_precision_faults(check: Check) -> None:
    """Finds what rounding to fp16 does, in a program that computes the right results in float32."""
    if check.rounded is None or not _passes(check, "fp32"):
        return
    outputs = check.compare(check.working_run("fp16"), "fp16")
    failing = check.differing(outputs)
    if not failing:
        return
    check.progress("looking for the first operation that rounding changes")
    exact, rounded = check.working_run("fp32"), check.working_run("fp16")
    arrays = {name: value.array for name, value in exact.values.items() if value.op}
    made = _errors_made(check, check.as_half(check.working), arrays, list(arrays))
    site = locate_precision(exact, rounded, failing, made)
    if site is None:
        return
    case = RoundedCase(site=site, exact=exact, rounded=rounded, made=made, ops=check.ops())
    diagnosis = diagnose_precision(case)
    check.add_fault("precision", "fp16", diagnosis, site.value, (site.inherited, site.made), exact=exact)
    try_changes(check, precision_candidates(check.working, diagnosis, case), "fp16", worst_error(outputs))


def find_inner_faults(check: Check) -> None:
    """Finds operations inside which numbers overflow on the Neural Engine, where all else is right."""
    if check.rounded is None or not has_composed(check.as_half(check.working)):
        return
    if not (_passes(check, "fp32") and _passes(check, "fp16")):
        return
    check.progress("running the model with parts of operations rounded to fp16")
    inside = check.round(check.working, is_inside=True)
    outputs = check.compare(inside, INSIDE)
    check.outputs += outputs
    failing = check.differing(outputs)
    site = locate_precision(check.working_run("fp16"), inside, failing, None) if failing else None
    if site is None:
        return
    exact = check.working_run("fp32")
    value = exact.values[site.value]
    if value.type not in COMPOSED:
        return
    diagnosis = diagnose_inside(value, inside.values[site.value].array)
    check.add_fault("precision", INSIDE, diagnosis, site.value, (site.inherited, None))
    try_changes(check, inner_candidates(check.working, value.op, exact), INSIDE, worst_error(outputs))


def find_sum_faults(check: Check) -> None:
    """Finds sums of products that lose digits where a unit accumulates in fp16, if all else is right.

    Errors of many operations that add up are no fault: which units accumulate so, and how, is not known.
    """
    if check.rounded is None or not check.theirs.has_intermediates:
        return
    whole = check.as_half(check.working)
    summed = with_partial_sums(whole)
    if summed is whole or not (_passes(check, "fp32") and _passes(check, "fp16")):
        return
    check.progress("running the model with sums rounded to fp16 on their way")
    returned = set(check.exact.outputs.values())
    outputs = check.compare(record(check.call, "fp16", summed, returned), SUMS)
    failing = check.differing(outputs)
    if not failing:
        return
    exact, rounded = check.working_run("fp32"), check.working_run("fp16")
    run = record(check.call, "fp16", summed, set(exact.values))
    arrays = {name: value.array for name, value in rounded.values.items() if value.op}
    sums = [name for name, value in rounded.values.items() if value.type in SUMMED]
    local = _errors_made(check, summed, arrays, sums)
    site = locate_precision(rounded, run, failing, local)
    if site is None or site.is_gradual or exact.values[site.value].type not in SUMMED:
        return
    check.outputs += outputs
    diagnosis = diagnose_sum(exact.values[site.value], local.get(site.value, site.total))
    check.add_fault("precision", SUMS, diagnosis, site.value, (site.inherited, local.get(site.value)))
    case = RoundedCase(site=site, exact=exact, rounded=run, made=local, ops=check.ops())
    try_changes(check, precision_candidates(check.working, diagnosis, case), SUMS, worst_error(outputs))


def find_unit_faults(check: Check) -> None:
    """Finds the first operation whose results on a compute unit differ from those of float32."""
    if any(output.run == "fp32" and not output.passed for output in check.outputs):
        return
    for name, run in check.units.items():
        failing = check.failing(name)
        site = locate_precision(check.exact, run, failing, None) if failing else None
        if site is None:
            continue
        case = RoundedCase(site=site, exact=check.exact, rounded=run, made={}, ops=check.ops())
        diagnosis = diagnose_precision(case)
        check.add_fault("unit", name, diagnosis, site.value, (site.inherited, None))


def _passes(check: Check, precision: Precision) -> bool:
    """Returns whether all outputs are within the tolerance with the changes so far."""
    return all(output.passed for output in check.compare(check.working_run(precision), precision))


def _errors_made(
    check: Check, function: Function, given: Mapping[str, Array], names: list[str]
) -> dict[str, float]:
    """Returns the errors that rounding makes in each operation alone, by the name of its value.

    Args:
        check: The verification.
        function: The function, which declares what is rounded.
        given: What each operation reads, and is compared with.
        names: The values.
    """
    local = run_from(replace(check.call, function=function), given, names, "fp16")
    return {name: relative_error(local[name], given[name]) for name in names}
