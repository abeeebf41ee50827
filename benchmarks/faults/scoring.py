"""Verifies programs with planted faults, and counts what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.faults.planting import Kind, Planted, plant
from coremlscope import verify
from coremlscope.execution.binding import choose_function
from coremlscope.ir import Function, Model, Program
from coremlscope.results.verification import Verification
from coremlscope.verification.edits import with_function
from coremlscope.verification.pairing import plain_name

__all__ = ["Score", "describe_failure", "score_kind", "verify_or_fail"]

#: Sites that are tried for a fault that changes the outputs by more than the tolerance.
_MOST_SITES = 6
#: Operations that are listed of those that are right.
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one fault.

    Attributes:
        network: The network.
        kind: The kind of the fault.
        text: What was done, and where.
        found: The verification; None if it failed.
        failure: How it failed; empty if it did not.
        is_named: Whether the first fault is at an operation that is right.
        is_kind: Whether conversion and precision are distinguished.
        is_cause: Whether the cause is one that is right.
        is_fixed: Whether a change works.
    """

    network: str
    kind: str
    text: str
    found: Verification | None
    failure: str = ""
    is_named: bool = False
    is_kind: bool = False
    is_cause: bool = False
    is_fixed: bool = False


def verify_or_fail(wrong: Model, reference: object, seed: int) -> Verification | str:
    """Verifies a model.

    Returns: The verification, or how it failed, which counts as a miss.
    """
    try:
        return verify(wrong, reference, seed=seed)
    except Exception as failure:
        return describe_failure(failure)


def describe_failure(failure: Exception) -> str:
    """Returns the type and the first line of an exception."""
    return f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"


def score_kind(network: str, model: Model, references: Sequence[Any], kind: Kind, seed: int) -> Score | None:
    """Plants a fault of a kind into a network and verifies it.

    Args:
        network: The name of the network.
        model: Its conversion: with fp16 values for faults of the precision.
        references: The healthy network in several forms, one of which is drawn.
        kind: The kind.
        seed: The seed.

    Returns: The score; None if the network has no operation for such a fault, or none changes its outputs.
    """
    function = choose_function(model, None)
    reference = references[seed % len(references)]
    body = body_of(model)
    for _, planted in zip(range(_MOST_SITES), plant(body, kind, seed), strict=False):
        wrong = with_function(model, function.name, planted.function)
        found = verify_or_fail(wrong, reference, seed)
        where = f"{planted.text} at {', '.join(sorted(planted.ops)[:_MOST_NAMED])}"
        if isinstance(found, str):
            if isinstance(verify_or_fail(wrong, wrong, seed), str):
                continue  # The operation takes no such constant: the model itself does not run.
            return Score(network=network, kind=kind.name, text=where, found=None, failure=found)
        if not found.passed:
            return _score(network, kind, planted, where, found)
    return None


def body_of(model: Model) -> Function:
    """Returns the default function of a model."""
    assert isinstance(model.content, Program)
    return next(iter(model.content.functions.values()))


def _score(network: str, kind: Kind, planted: Planted, text: str, found: Verification) -> Score:
    fault = found.faults[0] if found.faults else None
    names = {plain_name(name) for name in planted.ops}
    wanted = "precision" if kind.is_precision else "conversion"
    return Score(
        network=network,
        kind=kind.name,
        text=text,
        found=found,
        is_named=fault is not None and plain_name(fault.name) in names,
        is_kind=fault is not None and fault.kind == wanted,
        is_cause=fault is not None and fault.cause in planted.causes,
        is_fixed=any(fix.works for fix in found.fixes),
    )
