"""Remarks on what the inputs of a verification show, and what they do not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.findings import Finding
from coremlscope.results.verification import ComparedOutput
from coremlscope.verification.check import Check
from coremlscope.verification.inputs import Inputs
from coremlscope.verification.masks import constant_inputs, constant_masks, mask_inputs
from coremlscope.verification.outputs import Tolerance, worst_error
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference

__all__ = ["describe_recorded", "note_inputs", "unused_limits"]

#: The largest relative error of values that show that recorded values belong to the inputs.
_AGREES = 1e-3
#: Exchanges of two inputs that are tried.
_MOST_EXCHANGES = 6


def note_inputs(check: Check, reference: Reference, drawn: Inputs) -> list[Finding]:
    """Returns remarks on inputs that the reference may not have had, or had in another order, and on those
    that hide nothing. Where they explain all differences, the verification is marked so.

    Args:
        check: The verification, of which both have run.
        reference: The reference.
        drawn: The inputs.
    """
    return [
        *_recorded(check, reference, drawn),
        *_in_order(check, reference, drawn),
        *_constants(check, drawn),
    ]


def _recorded(check: Check, reference: Reference, drawn: Inputs) -> Iterator[Finding]:
    """Yields a remark on values that were recorded, with other inputs as it seems."""
    if not isinstance(reference, SavedReference) or not drawn.synthetic:
        return
    outputs = [output for output in check.outputs if output.run == "fp32"]
    if worst_error(outputs) <= _AGREES:
        return
    computed = {name for name, value in check.exact.values.items() if value.op}
    if not any(pair.error <= _AGREES for pair in check.pairs if pair.ours in computed):
        check.is_explained = True
    yield describe_recorded(reference, drawn.synthetic, passes=not check.failing("fp32"))


def describe_recorded(reference: Reference, synthetic: Sequence[str], *, passes: bool) -> Finding:
    """Returns the remark that recorded outputs belong to other inputs than synthetic ones.

    Args:
        reference: The recorded outputs.
        synthetic: The names of the synthetic inputs.
        passes: Whether the outputs are within the tolerance all the same.
    """
    is_one = len(synthetic) == 1
    more = " That the outputs agree says little." if passes else ""
    return Finding(
        id="recorded-for-other-inputs",
        severity="warning",
        text=f"The outputs of {reference.label} were recorded, probably with other inputs:"
        f" {', '.join(synthetic)} {'is' if is_one else 'are'} synthetic here.{more}",
        hint=f"give the recorded {'input' if is_one else 'inputs'} with --input {synthetic[0]}=FILE,"
        " or save them under their names beside the outputs",
    )


def unused_limits(outputs: Iterable[ComparedOutput], tolerance: Tolerance) -> Iterator[Finding]:
    """Yields remarks on limits that were given for outputs of a kind that the model does not have.

    Args:
        outputs: The compared outputs.
        tolerance: The limits.
    """
    meanings = {output.meaning for output in outputs}
    limits = (
        ("image", "The least PSNR", tolerance.min_psnr, "images"),
        ("classes", "The number of best classes", tolerance.top_k, "classes"),
    )
    for meaning, what, limit, kind in limits:
        if limit is not None and meaning not in meanings:
            yield Finding(
                id="limit-without-effect",
                severity="warning",
                text=f"{what} has no effect: no output of the model holds {kind}.",
                hint="limit the numbers with --rtol and --atol",
            )


def _in_order(check: Check, reference: Reference, drawn: Inputs) -> Iterator[Finding]:
    """Yields a remark on inputs that were assigned by their order only, and on another order in which the
    outputs agree."""
    by_order = check.theirs.by_order
    if not by_order:
        return
    pairs = ", ".join(f"{ours} as {theirs}" for theirs, ours in by_order.items())
    text = (
        "The inputs of the reference have other names, and more than one of the model suits them: it is"
        f" given {pairs}, in their order."
    )
    exchanged = _agreeing_exchange(check, reference, drawn) if check.failing("fp32") else None
    if exchanged is not None:
        check.is_explained = True
        text += f" With {exchanged[0]} and {exchanged[1]} exchanged, all outputs agree in float32."
    yield Finding(
        id="inputs-in-order",
        severity="warning" if check.failing("fp32") else "info",
        text=text,
        hint="give the inputs of both the same names",
    )


def _agreeing_exchange(check: Check, reference: Reference, drawn: Inputs) -> tuple[str, str] | None:
    """Returns the two inputs with which, exchanged, the reference returns what the model does."""
    names = list(check.theirs.by_order.values())
    alike = [
        (first, second)
        for first, second in itertools.combinations(names, 2)
        if drawn.tensors[first].shape == drawn.tensors[second].shape
    ]
    for first, second in alike[:_MOST_EXCHANGES]:
        tensors = dict(drawn.tensors)
        tensors[first], tensors[second] = tensors[second], tensors[first]
        try:
            theirs = reference.run(tensors, check.before)
        except CoremlscopeError:
            continue  # An index, for one, is beyond the table that the other one suits.
        if check.agrees_with(theirs):
            return first, second
    return None


def _constants(check: Check, drawn: Inputs) -> Iterator[Finding]:
    """Yields remarks on inputs that are one number, and on masks of them that choose the same everywhere."""
    masks = mask_inputs(check.call.function)
    seen = set()
    for name, number in constant_inputs(check.exact):
        origin = drawn.origins.get(name, "indices")
        is_number = check.exact.values[name].array.dtype.kind == "f"
        if origin == "indices" or (origin == "given" and is_number and name not in masks):
            continue
        seen.add(name)
        yield Finding(
            id="constant-input",
            severity="info" if origin == "default" else "warning",
            text=f"All elements of the input {name} are {number:g}, so that what the model does with others"
            " is not compared.",
            hint=f"give others with --input {name}=FILE, such as a mask that hides some elements",
        )
    for op, name, is_true in constant_masks(check.call.function, check.exact):
        if name in seen:
            continue
        seen.add(name)
        kept = "first" if is_true else "second"
        yield Finding(
            id="constant-mask",
            severity="warning",
            text=f"The condition that {op.name} makes of the input {name} is {str(is_true).lower()} for all"
            f" elements, so that only its {kept} value is compared.",
            hint=f"give numbers that choose both with --input {name}=FILE",
            ops=(op.id,),
        )
