"""Remarks on what the inputs of a verification show, and what they do not, and on the names of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from coremlscope.base.findings import Finding
from coremlscope.model.ir import Constant
from coremlscope.model.ir.rewriting import constant_argument, constants_of
from coremlscope.results.verification import ComparedOutput
from coremlscope.runtime.execution.binding import Chosen
from coremlscope.verification.check import Check
from coremlscope.verification.input_forms import is_usual
from coremlscope.verification.inputs import Inputs
from coremlscope.verification.outputs import Tolerance, worst_error
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference

#: The largest relative error of values that show that recorded values belong to the inputs.
_AGREES = 1e-3


def note_inputs(check: Check, reference: Reference, drawn: Inputs) -> list[Finding]:
    """Returns remarks on inputs that the reference may not have had, or had in another order. Where they
    explain all differences, the verification is marked so.

    Args:
        check: The verification, of which both have run.
        reference: The reference.
        drawn: The inputs.
    """
    return [*_recorded(check, reference, drawn), *_in_order(check)]


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
    yield describe_recorded(reference, drawn.synthetic)


def describe_recorded(reference: Reference, synthetic: Sequence[str]) -> Finding:
    """Returns the remark that recorded outputs belong to other inputs than synthetic ones.

    Args:
        reference: The recorded outputs.
        synthetic: The names of the synthetic inputs.
    """
    return Finding(
        id="recorded-for-other-inputs",
        severity="warning",
        text=f"The outputs of {reference.label} were recorded, probably with other inputs:"
        f" synthetic here: {', '.join(synthetic)}.",
        hint=f"give the recorded inputs with --input {synthetic[0]}=FILE,"
        " or save them under their names next to the outputs",
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


def _in_order(check: Check) -> Iterator[Finding]:
    """Yields a remark on inputs that were assigned by their order only."""
    if check.theirs.by_order:
        pairs = ", ".join(f"{ours} as {theirs}" for theirs, ours in check.theirs.by_order.items())
        yield Finding(
            id="inputs-in-order",
            severity="warning" if check.failing("fp32") else "info",
            text="The inputs of the reference have other names, and more than one of the model suits them: it"
            f" is given {pairs}, in their order.",
            hint="give the inputs of both the same names",
        )


def note_preprocessing(check: Check, drawn: Inputs) -> None:
    """Adds a difference for each image that the model prepares as networks commonly do not, where the
    reference does not prepare it: nothing shows then that this is meant."""
    for name in drawn.prepared if check.form is not None and check.form.is_prepared else ():
        step = drawn.steps[name]
        if not is_usual(step):
            check.outputs.append(
                ComparedOutput(
                    name=name,
                    reference="",
                    run="interface",
                    meaning="preprocessing",
                    passed=False,
                    status="only in the model",
                    why=f"the reference does not prepare it, and networks do not commonly take {step.text}",
                )
            )


def compare_labels(ours: Chosen, theirs: Chosen) -> ComparedOutput | None:
    """Compares the names of the classes, which an app shows, in their order.

    Args:
        ours: The function of the verified model.
        theirs: That of the reference.

    Returns:
        A comparison that did not pass; None if they are the same, or one of the models has none.
    """
    own, its = labels_of(ours), labels_of(theirs)
    if own is None or its is None or own == its:
        return None
    place = next((at for at, pair in enumerate(zip(own, its, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        why = f"the model has {len(own)} classes, and the reference {len(its)}"
    else:
        count = sum(a != b for a, b in zip(own, its, strict=False))
        why = (
            f"the names of {count} classes differ: class {place} is {str(own[place])!r}, and"
            f" {str(its[place])!r} in the reference"
        )
    name = ours.description.predicted_feature
    return ComparedOutput(name=name, reference=name, run="interface", meaning="labels", passed=False, why=why)


def labels_of(chosen: Chosen) -> list[object] | None:
    """Returns the names of the classes of a classifier."""
    constants = constants_of(chosen.function)
    for op in chosen.function.graph.ops:
        if op.type == "classify":
            known = constant_argument(op, "classes", constants)
            if isinstance(known, Constant) and known.is_available:
                return list(np.asarray(known.numpy()).reshape(-1))
    return None
