"""Calls after the first one: with other kinds of inputs, or with the states that the call before left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec.structs
import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.model.ir import Array
from coremlscope.ops.program import Precision
from coremlscope.verification.check import Check
from coremlscope.verification.inputs import Inputs, Kind, redraw
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, next_states
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference

#: Calls that are compared: the second one reads what the first wrote, the others what several did.
_CALLS = 4
#: How long other kinds of inputs are compared, in seconds.
_MOST_SECONDS = 15.0


def first_differing_kind(
    check: Check, reference: Reference, kinds: Iterable[tuple[Kind, Inputs]]
) -> Check | None:
    """Compares other kinds of inputs in float32, until one differs.

    Args:
        check: The verification of the first inputs, of which both have run.
        reference: The reference.
        kinds: The inputs of each kind.

    Returns:
        The verification of the kind that differs, else of the last one; None if there is no other kind, or
        if the values of the reference are known for the first inputs only.
    """
    if isinstance(reference, SavedReference):
        return None
    until, current = time.monotonic() + _MOST_SECONDS, None
    for kind, drawn in kinds:
        if time.monotonic() > until:
            text = f"Inputs of the kind {kind}, and those after it, were left out, as they take too long."
            check.note("kinds-left-out", text, severity="info")
            break
        one = check.of(msgspec.structs.replace(check.call, inputs=drawn.tensors), kind)
        try:
            one.run_both(reference, drawn, is_rounded=False)
        except CoremlscopeError:
            continue  # The reference does not take such numbers.
        if not one.passes and all(output.passed or output.largest == 0 for output in one.outputs):
            continue  # Both return no finite number for them, in the same places: nothing is compared.
        current = one
        if not one.passes:
            break
    return current


def first_differing_call(check: Check, reference: Reference, draw: Callable[[int], Inputs]) -> Check | None:
    """Compares further calls of a model with states, until one differs, where the reference keeps states.

    Args:
        check: The verification of the first call, of which both have run.
        reference: The reference.
        draw: Returns the inputs of a call by its number, from 2 on: the given ones, and other synthetic ones.

    Returns:
        The verification of the call that differs, else of the last one, of which both have run; None if
        the first call differs already, or there are no states on both sides.
    """
    if not _keep_states(check) or not check.passes:
        return None
    call, before, current = check.call, check.before, check
    for number in range(2, _CALLS + 1):
        before = (*before, call.inputs)
        drawn = draw(number)
        call = msgspec.structs.replace(call, inputs=drawn.tensors, states=_states_after(current))
        current = check.of(call, before=before)
        current.run_both(reference, drawn)
        if not current.passes:
            break
    return current


def further_calls(
    check: Check, reference: Reference, drawn: Inputs, draw: Callable[[int], Inputs], seed: int
) -> list[tuple[FunctionCall, Run]]:
    """Runs the reference on other inputs, or the next calls of a model with states, for causes to hold on.

    Args:
        check: The verification of the call with the fault.
        reference: The reference.
        drawn: The inputs of that call.
        draw: Returns the inputs of a call by its number.
        seed: The seed of other inputs.

    Returns:
        The calls of the model, and the runs of the reference; none for values that were saved.
    """
    if isinstance(reference, SavedReference):
        return []
    found: list[tuple[FunctionCall, Run]] = []
    try:
        if not _keep_states(check):
            for number in (1, 2):
                other = redraw(drawn, "noise", seed + number)
                call = msgspec.structs.replace(check.call, inputs=other.tensors)
                found.append((call, check.run_reference(reference, other)))
            return found
        call, before, theirs = check.call, check.before, check.theirs
        for number in range(check.number + 1, check.number + _CALLS):
            before = (*before, call.inputs)
            # The cause is that of one step: those before are right.
            states = {
                name: theirs.output(other).reshape(check.exact.output(name).shape)
                for name, other in check.matched.items()
                if name in check.exact.states
            }
            given = draw(number)
            call = msgspec.structs.replace(call, inputs=given.tensors, states={"fp32": states})
            current = check.of(call, before=before)
            current.exact = check.exact
            theirs = current.run_reference(reference, given)
            found.append((call, theirs))
    except CoremlscopeError:
        return found  # The reference does not take such numbers.
    return found


def begin_with_states(check: Check) -> FunctionCall | None:
    """Returns the first call with states that hold what those of the reference begin with; None if they do
    already.

    Core ML's states begin with zeros: a program cannot hold other values (coremltools' guide on stateful
    models), an app writes them.
    """
    initial = {
        name: check.theirs.initial[check.theirs.outputs[other]].reshape(check.exact.output(name).shape)
        for name, other in check.matched.items()
        if name in check.exact.states and check.theirs.outputs[other] in check.theirs.initial
    }
    wanted = {name: array.astype(np.float32) for name, array in initial.items() if array.any()}
    if not wanted or check.before:
        return None
    return msgspec.structs.replace(check.call, states={"fp32": wanted, "fp16": wanted})


def _keep_states(check: Check) -> bool:
    return any(
        ours in check.exact.states and theirs in check.theirs.states for ours, theirs in check.matched.items()
    )


def _states_after(check: Check) -> dict[Precision, dict[str, Array]]:
    """Returns what the states hold after the call of a verification, in both precisions."""
    states: dict[Precision, dict[str, Array]] = {"fp32": next_states(check.call, "fp32")}
    if check.is_half:
        states["fp16"] = next_states(check.call, "fp16", check.as_half(check.call.function))
    return states
