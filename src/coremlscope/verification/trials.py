"""Changes that may fix a fault, tried one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from coremlscope.errors import CoremlscopeError
from coremlscope.results.verification import ComparedOutput, ProposedFix
from coremlscope.verification.check import INSIDE, SUMS, Change, Check
from coremlscope.verification.distance import finite
from coremlscope.verification.fixes import Candidate
from coremlscope.verification.outputs import worst_error
from coremlscope.verification.own_run import record
from coremlscope.verification.partial_sums import with_partial_sums

__all__ = ["try_changes"]

#: How many changes are tried for a fault.
_MOST_TRIALS = 9


def try_changes(
    check: Check,
    trials: Iterable[Candidate],
    run: str,
    before: float,
) -> list[str] | None:
    """Tries changes until one works, and keeps the first that does, else the one that helps most.

    Args:
        check: The verification, whose function is changed.
        trials: The changes.
        run: The run that shows the fault.
        before: The largest error of an output before all changes for faults of this run.

    Returns:
        The values of outputs that still differ; None if no change can be run.
    """
    best: tuple[float, Candidate, list[ComparedOutput]] | None = None
    for count, trial in enumerate(trials):
        if count == _MOST_TRIALS:
            break
        check.progress(f"trying to {trial.text}")
        outputs = _outputs_with(check, trial, run)
        if outputs is None or not _can_run(check, trial):
            continue
        last = (worst_error(outputs), trial, outputs)
        fails = sum(not o.passed for o in outputs)
        if best is None or (fails, last[0]) < (sum(not o.passed for o in best[2]), best[0]):
            best = last
        if not fails:
            break
    if best is None:
        return None
    after, trial, outputs = best
    changes = check.changes.setdefault(run, [])
    changes.append(Change(trial.text, _as_read(check, trial.ops)))
    fix = ProposedFix(
        text="; ".join(dict.fromkeys(change.text for change in changes)),
        ops=tuple(dict.fromkeys(op for change in changes for op in change.ops)),
        code=trial.code,
        run=run,
        before=finite(before),
        after=finite(after),
        works=all(output.passed for output in outputs),
    )
    # Changes for several faults of one run are one fix.
    check.fixes = [known for known in check.fixes if known.run != run]
    if fix.works or after < before:
        check.fixes.append(fix)
    check.works = fix.works
    check.working = trial.function
    return check.differing(outputs)


def _as_read(check: Check, op_ids: Sequence[str]) -> tuple[str, ...]:
    """Returns the ids that operations of the changed program have in the file."""
    names = {value.op: value.name for value in check.working_run("fp32").values.values()}
    found = (check.exact.values.get(names.get(op_id, "")) for op_id in op_ids)
    return tuple(value.op for value in found if value is not None)


def _can_run(check: Check, trial: Candidate) -> bool:
    """Returns whether all values of a changed function can be recorded, which its outputs do not need."""
    try:
        record(replace(check.call, function=trial.function))
    except CoremlscopeError:
        return False
    return True


def _outputs_with(check: Check, trial: Candidate, run: str) -> list[ComparedOutput] | None:
    """Compares the outputs of a changed function; None if it cannot be run."""
    call = replace(check.call, function=trial.function)
    returned = check.judged
    try:
        if call.bind().problems:
            return None
        if run == "fp32":
            return check.compare(record(call, names=returned), run)
        if run == SUMS:
            summed = with_partial_sums(check.as_half(trial.function))
            return check.compare(record(check.call, "fp16", summed, returned), run)
        return check.compare(check.round(trial.function, returned, is_inside=run == INSIDE), run)
    except CoremlscopeError:
        return None  # The change does not suit its arguments: their types, or their order.
