"""The result of a verification: what was found in all its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from msgspec.structs import replace

from coremlscope.base.escaping import path_text
from coremlscope.base.version import __version__
from coremlscope.results.verification import (
    ComparedOutput,
    PairedValue,
    Verification,
    VerifiedFault,
)
from coremlscope.verification.check import Check
from coremlscope.verification.distance import finite, relative_error
from coremlscope.verification.inputs import KINDS, Inputs, Kind
from coremlscope.verification.pairing import Pair

_Item = TypeVar("_Item", ComparedOutput, VerifiedFault)


def summarise(check: Check, drawn: Inputs, later: Check | None) -> Verification:
    """Returns what was found.

    Args:
        check: The verification of the first call.
        drawn: Its inputs.
        later: That of the last call that was compared, if there were more.
    """
    model = check.call.model
    searched = check if later is None or later.passes else later
    outputs, faults = [*check.outputs], [*check.faults]
    notes, findings = [*drawn.notes], [*check.findings]
    if later is not None:
        outputs += [] if later.kind and later.passes else _of_call(later, later.outputs)
        faults += _of_call(later, later.faults)
        findings += [finding for finding in later.findings if finding not in findings]
        if later.kind:
            notes.append(f"in float32 also {', '.join(_kinds_until(later))}")
        else:
            what = "other synthetic inputs" if drawn.synthetic else "the same inputs"
            calls = "call 2" if later.number == 2 else f"calls 2 to {later.number}"
            notes.append(f"{calls}: {what}, with the states of the call before")
    is_known = check.is_comparable or any(fault.cause != "unknown" for fault in faults)
    return Verification(
        model="" if model.source is None else path_text(model.source),
        function=check.name,
        reference=check.theirs.label,
        inputs=tuple(notes),
        contract=_contract(check, drawn),
        is_comparable=is_known,
        outputs=tuple(outputs),
        passed=all(output.passed for output in outputs),
        runs=tuple(dict.fromkeys(output.run for output in outputs)),
        recorded=sum(bool(value.op) for value in searched.exact.values.values()),
        pairs=tuple(_paired(searched, pair) for pair in searched.pairs),
        faults=tuple(faults) if is_known else (),
        findings=tuple(findings),
        version=__version__,
    )


def _contract(check: Check, drawn: Inputs) -> str:
    form = check.form
    if form is None or not form.text:
        return ""
    has_more = bool(drawn.prepared) and not form.is_prepared
    return f"the reference gets {form.text}{', and prepares it itself' if has_more else ''}"


def _kinds_until(check: Check) -> tuple[str, ...]:
    """Returns the kinds of inputs that were compared up to a verification."""
    return KINDS[: KINDS.index(cast("Kind", check.kind)) + 1]


def _of_call(check: Check, items: Iterable[_Item]) -> Iterator[_Item]:
    """Yields outputs or faults with the number of the call, or the kind of the inputs, in the name of
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
