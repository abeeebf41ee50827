"""Changes of a program that may fix a fault: each is tried by running the changed program."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.units import shown
from coremlscope.model.ir import Array, DType, Function, TensorType
from coremlscope.model.ir.rewriting import constant_argument, constants_of
from coremlscope.results.verification import ComparedOutput, ProposedFix
from coremlscope.verification.causes.rounding import LARGEST_FP16, Rounded
from coremlscope.verification.causes.site import Change
from coremlscope.verification.check import INSIDE, SUMS, Check
from coremlscope.verification.distance import finite, relative_error
from coremlscope.verification.edits import (
    bypass,
    insert_after,
    keep_fp32,
    set_constant,
    with_wide_inputs,
)
from coremlscope.verification.inner_arithmetic import with_stable_forms
from coremlscope.verification.intermediates import Run
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.own_run import record
from coremlscope.verification.pairing import plain_name
from coremlscope.verification.partial_sums import with_partial_sums

__all__ = ["inner_changes", "listed", "precision_changes", "selector", "try_changes"]

#: How many changes are tried for a fault.
_MOST_TRIALS = 9
#: Epsilons that fp16 represents: its smallest normal number, and larger ones.
_EPSILONS = (2.0**-14, 1e-4, 1e-3)
#: Shares of the operations that are kept in float32 where no single one stands out.
_SHARES = (0.1, 0.25, 0.5)
#: Operations named in a line of code; more are counted.
_MOST_NAMES = 12
#: Code to write in the module instead of an operation inside which numbers overflow.
_STABLE_CODE: Mapping[str, str] = {
    "softplus": "x.relu() + torch.log(1 + torch.exp(-x.abs())) instead of softplus(x)",
    "reduce_log_sum_exp": "m + torch.log(torch.exp(x - m).sum(dim, keepdim=True)) with m = x.amax(dim,"
    " keepdim=True) instead of logsumexp(x)",
}


def try_changes(check: Check, changes: Iterable[Change], run: str, before: float) -> list[str] | None:
    """Tries changes until one works, and keeps the first that does, else the one that helps most.

    A change that cannot be applied, loaded or run is one that does not work.

    Args:
        check: The verification, whose function is changed.
        changes: The changes.
        run: The run that shows the fault.
        before: The largest error of an output before all changes for faults of this run.

    Returns:
        The values of outputs that still differ; None if no change can be run.
    """
    best: tuple[tuple[int, float], Change, Function, list[ComparedOutput]] | None = None
    for count, change in enumerate(changes):
        if count == _MOST_TRIALS:
            break
        check.progress(f"trying to {change.text}")
        try:
            function = change.apply(check.working)
            outputs = _outputs_with(check, function, run)
        except (CoremlscopeError, ValueError, AssertionError, StopIteration):
            continue
        rank = sum(not output.passed for output in outputs), worst_error(outputs)
        if best is None or rank < best[0]:
            best = rank, change, function, outputs
        if not rank[0]:
            break
    if best is None:
        return None
    (fails, after), change, function, outputs = best
    before_ids = {value.name: value.op for value in check.exact.values.values()}
    text, ops, codes = [change.text], [before_ids.get(name, "") for name in change.values], [change.code]
    known = [fix for fix in check.fixes if fix.run == run]
    for fix in known:  # Changes for several faults of one run are one fix.
        text, ops = [*fix.text.split("; "), *text], [*fix.ops, *ops]
        codes.insert(0, fix.code)
    check.fixes = [fix for fix in check.fixes if fix.run != run]
    if not fails or after < before:
        check.fixes.append(
            ProposedFix(
                text="; ".join(dict.fromkeys(text)),
                ops=tuple(op for op in dict.fromkeys(ops) if op),
                code="; ".join(code for code in dict.fromkeys(codes) if code),
                run=run,
                before=finite(before),
                after=finite(after),
                works=not fails,
            )
        )
    check.works, check.working = not fails, function
    return check.differing(outputs)


def _outputs_with(check: Check, function: Function, run: str) -> list[ComparedOutput]:
    """Compares the outputs of a changed function.

    Raises:
        CoremlscopeError: It cannot be run: a change does not suit its arguments, or their order.
    """
    call = dataclasses.replace(check.call, function=function)
    problems = call.bind().problems
    if problems:
        raise ValueError(f"{len(problems)} operations cannot be run")
    if run == "fp32":
        return check.compare(record(call), run)
    if run == SUMS:
        summed = with_partial_sums(check.as_half(function))
        return check.compare(record(check.call, "fp16", summed, check.judged), run)
    found = check.compare(check.round(function, check.judged, is_inside=run == INSIDE), run)
    record(call)  # All values are recorded where the search goes on.
    return found


def precision_changes(case: Rounded, cause: str, value: str) -> Iterator[Change]:
    """Yields changes for a fault of the precision.

    Args:
        case: The place, and the runs.
        cause: The cause.
        value: The value of the operation at fault.
    """
    run = case.exact
    if cause == "epsilon":
        yield from _epsilons(run, value)
    if cause == "overflow":
        yield from _scaled_before(case)
    seen: set[frozenset[str]] = set()
    for names in _growing(case, value):
        chosen = frozenset(name for name in names if run.values[name].op)
        if not chosen or chosen in seen:
            continue
        seen.add(chosen)
        ids = [run.values[name].op for name in run.values if name in chosen]
        is_all = len(set(ids)) == len({one.op for one in run.values.values() if one.op})
        what = "all operations" if is_all else listed(run, ids)
        wide = [n for n, name in run.outputs.items() if n == name and not _fits(run.values[n].array)]
        more = f", and return {', '.join(map(shown, wide))} in float32" if wide else ""
        half = [one for one in run.values.values() if not one.op and one.name in _read(run, chosen)]
        given = ", ".join(shown(one.name) for one in half if one.array.dtype.kind == "f")
        taken = f", and take {given} in float32" if given and _takes_half(case, half) else ""
        yield Change(
            text=f"keep {what} in float32{more}{taken}",
            values=tuple(name for name in run.values if name in chosen),
            apply=partial(_kept, ids=ids, wide=wide, inputs=[one.name for one in half] if taken else []),
            code="compute_precision=ct.precision.FLOAT32" if is_all else selector(run, ids),
        )


def _kept(
    function: Function, ids: Collection[str], wide: Collection[str], inputs: Collection[str]
) -> Function:
    """Keeps operations in float32, with inputs in float32 that are declared as fp16."""
    return with_wide_inputs(keep_fp32(function, ids, wide), inputs)


def _read(run: Run, names: Collection[str]) -> set[str]:
    return {given for name in names for given in run.values[name].inputs}


def _takes_half(case: Rounded, inputs: Iterable[object]) -> bool:
    types = {value.name: value.type for value in case.call.function.graph.inputs}
    known = [types.get(getattr(one, "name", "")) for one in inputs]
    return any(isinstance(one, TensorType) and one.dtype is DType.FP16 for one in known)


def _epsilons(run: Run, value: str) -> Iterator[Change]:
    """Yields larger epsilons."""
    for parameter in run.values[value].parameters:
        name = parameter.name.split(" ")[0]
        is_added = run.values[value].type in ("add", "maximum") and name in ("x", "y")
        if parameter.size == 1 and (is_added or name == "epsilon"):
            for number in _EPSILONS:
                keyed: Mapping[tuple[str, str], Array] = {
                    (run.values[value].op, name): np.array(number, np.float32)
                }
                yield Change(
                    text=f"use an epsilon of {number:.3g}, which fp16 represents",
                    values=(value,),
                    apply=partial(set_constant, changes=keyed),
                    code=f"eps={number:.3g} in the module that {plain_name(value)} belongs to",
                )


def _scaled_before(case: Rounded) -> Iterator[Change]:
    """Yields the program with a factor that follows a product moved ahead of it."""
    value, function = case.value, case.call.function
    readers = case.exact.readers.get(value.name, ())
    maker = next((op for op in function.graph.ops if op.id == value.op), None)
    if value.type not in ("matmul", "linear", "conv") or len(readers) != 1 or maker is None:
        return
    op = next((op for op in function.graph.ops if op.outputs and op.outputs[0].name == readers[0]), None)
    known = None if op is None else constant_argument(op, "y", constants_of(function))
    if op is None or known is None or op.type not in ("mul", "real_div") or maker.inputs.get("bias"):
        return
    if not isinstance(known.type, TensorType) or known.type.elements != 1:
        return
    number = float(known.numpy().reshape(-1)[0])
    factor = 1 / number if op.type == "real_div" and number else number
    if not 0 < abs(factor) < 1:
        return

    def apply(changed: Function) -> Function:
        parameters: dict[str, Array] = {"y": np.array(factor, np.float32)}
        moved = insert_after(changed, value.inputs[0], (value.op,), "mul", parameters)
        same = next(o for o in moved.graph.ops if o.outputs and o.outputs[0].name == readers[0])
        return bypass(moved, (same.id,))

    yield Change(
        text=f"multiply by {factor:.5g} ahead of {shown(value.name)} instead of behind it",
        values=(value.name, readers[0]),
        apply=apply,
        code="scale one operand before the product: (q * scale) @ k",
    )


def inner_changes(run: Run, value: str) -> Iterator[Change]:
    """Yields changes for an operation inside which numbers overflow: another form of it, or of its type.

    Args:
        run: The run of the model.
        value: The value of the operation.
    """
    kind = run.values[value].type
    alike = tuple(one.name for one in run.values.values() if one.type == kind)
    for names in dict.fromkeys(((value,), alike)):
        ids = [run.values[name].op for name in names]
        yield Change(
            text=f"write {listed(run, ids)} in a form whose exponentials are at most 1",
            values=names,
            apply=partial(with_stable_forms, op_ids=ids),
            code=_STABLE_CODE[kind],
        )
        yield Change(
            text=f"keep {listed(run, ids)} in float32, so that another unit computes it",
            values=names,
            apply=partial(keep_fp32, op_ids=ids),
            code=selector(run, ids),
        )


def _growing(case: Rounded, value: str) -> Iterator[set[str]]:
    """Yields larger and larger sets of values whose operations are kept in float32."""
    run = case.exact
    computed = [name for name, one in run.values.items() if one.op]
    if case.site.is_gradual:
        growth = sorted(computed, key=lambda name: _growth(case, name), reverse=True)
        for share in _SHARES:
            yield _closed(run, set(growth[: max(1, round(share * len(growth)))]))
        yield set(computed)
        return
    chosen = _closed(run, {value, case.site.value, *_between(run, value, case.site.value)})
    yield chosen
    for is_below in (False, True, False, False):
        near = {r for name in chosen for r in run.readers.get(name, ())} if is_below else _read(run, chosen)
        chosen = _closed(run, chosen | {name for name in near if run.values[name].op})
        yield chosen
    yield set(computed)


def _between(run: Run, upper: str, lower: str) -> set[str]:
    """Returns the values on the ways from one value to another."""
    above = set(run.above(lower, lambda name: name == upper))
    below, waiting = {upper}, [upper]
    while waiting and upper in above:
        fresh = [reader for reader in run.readers.get(waiting.pop(), ()) if reader in above - below]
        below.update(fresh)
        waiting += fresh
    return below & above


def _growth(case: Rounded, name: str) -> float:
    value = case.exact.values[name]
    total = relative_error(case.rounded.values[name].array, value.array)
    given = [relative_error(case.rounded.values[n].array, case.exact.values[n].array) for n in value.inputs]
    return total - max(given, default=0.0)


def _closed(run: Run, names: set[str]) -> set[str]:
    """Adds the readers of values that fp16 cannot represent, up to where it can again."""
    closed, waiting = set(names), list(names)
    while waiting:
        name = waiting.pop()
        if not _fits(run.values[name].array):
            fresh = set(run.readers.get(name, ())) - closed
            closed |= fresh
            waiting += fresh
    return closed


def _fits(array: Array) -> bool:
    """Returns whether fp16 can represent the elements of a value."""
    return array.dtype.kind != "f" or np.abs(array[np.isfinite(array)]).max(initial=0.0) < LARGEST_FP16


def listed(run: Run, ids: Collection[str]) -> str:
    """Returns the names of operations, the first ones if there are many."""
    names = [shown(plain_name(value.name)) for value in run.values.values() if value.op in ids]
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def selector(run: Run, ids: Collection[str]) -> str:
    """Returns the argument of `ct.convert` that keeps operations in float32."""
    start = "compute_precision=ct.transform.FP16ComputePrecision(op_selector=lambda op: op."
    names = [plain_name(value.name) for value in run.values.values() if value.op in ids]
    if len(names) > _MOST_NAMES:
        types = sorted({value.type for value in run.values.values() if value.op in ids})
        return f"{start}op_type not in {set(types)!r})"
    return f"{start}name not in {{{', '.join(map(repr, names))}}})"
