"""Changes of a program that may fix a fault: each is tried by running the changed program."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.units import shown
from coremlscope.model.ir import Array, DType, Function, TensorType
from coremlscope.results.verification import ComparedOutput, ProposedFix
from coremlscope.verification.causes.rounding import LARGEST_FP16, Rounded
from coremlscope.verification.causes.site import Change
from coremlscope.verification.check import Check
from coremlscope.verification.distance import finite, relative_error
from coremlscope.verification.edits import (
    keep_fp32,
    set_constant,
    with_wide_inputs,
)
from coremlscope.verification.intermediates import Run
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.pairing import plain_name

#: How many changes are tried for a fault.
_MOST_TRIALS = 9
#: Epsilons that fp16 represents: its smallest normal number, and larger ones.
_EPSILONS = (2.0**-14, 1e-4, 1e-3)
#: Shares of the operations that are kept in float32 where no single one stands out.
_SHARES = (0.1, 0.25, 0.5)
#: Operations named in a line of code; more are counted.
_MOST_NAMES = 12
#: Code to write in the module instead of an operation inside which numbers overflow: its exponentials are at
#: most 1.
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
    for change in itertools.islice(changes, _MOST_TRIALS):
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
    _add_fix(check, change, run, (before, after), works=not fails)
    check.works, check.working = not fails, function
    return check.differing(outputs)


def _add_fix(check: Check, change: Change, run: str, errors: tuple[float, float], *, works: bool) -> None:
    """Adds a change; those for several faults of one run are one."""
    makers = {value.name: value.op for value in check.exact.values.values()}
    known = [fix for fix in check.fixes if fix.run == run]
    check.fixes = [fix for fix in check.fixes if fix.run != run]
    if not works and errors[1] >= errors[0]:
        return
    ops = [*(op for fix in known for op in fix.ops), *(makers.get(name, "") for name in change.values)]
    check.fixes.append(
        ProposedFix(
            text=_joined(*(fix.text for fix in known), change.text),
            ops=tuple(op for op in dict.fromkeys(ops) if op),
            code=_joined(*(fix.code for fix in known), change.code),
            run=run,
            before=finite(errors[0]),
            after=finite(errors[1]),
            works=works,
        )
    )


def _joined(*texts: str) -> str:
    """Returns texts, each once."""
    return "; ".join(dict.fromkeys(part for text in texts for part in text.split("; ") if part))


def _outputs_with(check: Check, function: Function, run: str) -> list[ComparedOutput]:
    """Compares the outputs of a changed function.

    Raises:
        CoremlscopeError: It cannot be run: a change does not suit its arguments, or their order.
    """
    call = check.call.with_function(function)
    problems = call.bind().problems
    if problems:
        raise ValueError(f"{len(problems)} operations cannot be run")
    whole = check.run_in("fp32", function)  # All values are recorded where the search goes on.
    return check.compare(whole if run == "fp32" else check.run_in(run, function, check.judged), run)


def precision_changes(case: Rounded, cause: str, value: str) -> Iterator[Change]:
    """Yields changes for a fault of the precision: what mends the cause, then more and more operations in
    float32.

    Args:
        case: The place, and the runs.
        cause: The cause.
        value: The value of the operation at fault.
    """
    if cause == "epsilon":
        yield from _epsilons(case.exact, value)
    seen: set[frozenset[str]] = set()
    for names in _growing(case, value):
        chosen = frozenset(name for name in names if case.exact.values[name].op)
        if chosen and chosen not in seen:
            seen.add(chosen)
            yield _in_float32(case, chosen)


def _in_float32(case: Rounded, chosen: frozenset[str]) -> Change:
    """Returns the change that keeps the operations of some values in float32; with them outputs that fp16
    cannot represent, and inputs that are declared as fp16."""
    run = case.exact
    ids = [run.values[name].op for name in run.values if name in chosen]
    is_all = len(set(ids)) == len({one.op for one in run.values.values() if one.op})
    wide = [
        name for name, value in run.outputs.items() if name == value and not _fits(run.values[name].array)
    ]
    read = _read(run, chosen)
    half = [
        one.name
        for one in case.call.function.graph.inputs
        if one.name in read and isinstance(one.type, TensorType) and one.type.dtype is DType.FP16
    ]
    text = f"keep {'all operations' if is_all else listed(run, ids)} in float32"
    text += f", and return {', '.join(map(shown, wide))} in float32" if wide else ""
    text += f", and take {', '.join(map(shown, half))} in float32" if half else ""
    return Change(
        text=text,
        values=tuple(name for name in run.values if name in chosen),
        apply=lambda function: with_wide_inputs(keep_fp32(function, ids, wide), half),
        code=_STABLE_CODE.get(case.value.type)
        or ("compute_precision=ct.precision.FLOAT32" if is_all else selector(run, ids)),
    )


def _read(run: Run, names: Collection[str]) -> set[str]:
    return {given for name in names for given in run.values[name].inputs}


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


def _growing(case: Rounded, value: str) -> Iterator[set[str]]:
    """Yields larger and larger sets of values whose operations are kept in float32: those that add most where
    none stands out, else those around the two values."""
    run, readers = case.exact, case.exact.readers
    computed = [name for name, one in run.values.items() if one.op]
    if case.is_gradual:
        growth = sorted(computed, key=lambda name: _growth(case, name), reverse=True)
        for share in _SHARES:
            yield _closed(run, set(growth[: max(1, round(share * len(growth)))]))
    else:
        above = set(run.above(case.name, lambda name: name == value))
        chosen = _closed(run, {value, *(n for n in above if value in run.above(n, lambda _: False))})
        yield chosen
        for is_below in (False, True, False, False):
            near = {r for name in chosen for r in readers.get(name, ())} if is_below else _read(run, chosen)
            chosen = _closed(run, chosen | {name for name in near if run.values[name].op})
            yield chosen
    yield set(computed)


def _growth(case: Rounded, name: str) -> float:
    errors = [
        relative_error(case.rounded.values[one].array, case.exact.values[one].array)
        for one in (name, *case.exact.values[name].inputs)
    ]
    return errors[0] - max(errors[1:], default=0.0)


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
