"""Compares the values of two conversions of one network, computed here from the same inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.formats.container import read
from coremlscope.model.ir import Array, Model
from coremlscope.results.migration import OutputAgreement, ValueAgreement
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.distance import cosine, find_layout, largest_difference, relative_error
from coremlscope.verification.inputs import choose_inputs
from coremlscope.verification.intermediates import Run
from coremlscope.verification.outputs import match_outputs
from coremlscope.verification.own_run import FunctionCall, record
from coremlscope.verification.pairing import Pair, pair_runs
from coremlscope.verification.references.core_ml_model import CoreMLReference

#: The relative error up to which intermediate values agree: those of fp16 weights differ by less.
_TOLERANCE = 1e-2


def add_agreements(
    comparison: Comparison, *, shapes: Mapping[str, Sequence[int]] | None = None, seed: int = 0
) -> Comparison:
    """Compares the values of each Core ML and Core AI model of a comparison, where both files are there.

    Args:
        comparison: The comparison.
        shapes: Shapes of flexible inputs of the base.
        seed: Seed of synthetic inputs.
    """
    differences = []
    for difference in comparison.differences:
        paths = [comparison.subjects[index].path for index in (difference.base, difference.other)]
        if difference.work is not None and all(path and Path(path).exists() for path in paths):
            agreement = compare_values(*map(read, paths), shapes=shapes, seed=seed)
            difference = replace(difference, agreement=agreement)
        differences.append(difference)
    return replace(comparison, differences=tuple(differences))


def compare_values(
    before: Model,
    after: Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
) -> OutputAgreement:
    """Runs the default functions of two models on equal synthetic inputs; compares outputs and paired values.

    Args:
        before: The base.
        after: The other model.
        shapes: Shapes of flexible inputs of the base.
        seed: Seed of synthetic inputs.

    Returns:
        The agreement; its `problem` says why there is none.
    """
    try:
        bound = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        given = choose_inputs(choose_function(before), {}, bound, seed).tensors
        ours, others = record(FunctionCall.of(before, None, given)), CoreMLReference(after).run(given)
        outputs = match_outputs(ours.results, others.results, (ours.states, others.states))
        agreeing = tuple(_outputs(ours, others, outputs))
        paired = [pair for pair in pair_runs(ours, others, outputs) if ours.values[pair.ours].op]
    except CoremlscopeError as error:
        return OutputAgreement(problem=str(error))
    apart = [pair for pair in paired if pair.error > _TOLERANCE]
    differs = any(one.error > _TOLERANCE for one in agreeing)
    return OutputAgreement(
        outputs=agreeing,
        pairs=len(paired),
        equal=len(paired) - len(apart),
        tolerance=_TOLERANCE,
        first=_agreement_of(apart[0], ours, others) if apart and differs else None,
        by="ONNX Runtime on this machine, in float32",
    )


def _outputs(ours: Run, theirs: Run, outputs: Mapping[str, str]) -> Iterator[ValueAgreement]:
    for name, other in outputs.items():
        mine, reference = theirs.values[theirs.outputs[other]].array, ours.values[ours.outputs[name]].array
        if mine.size and mine.dtype.kind in "fiu":
            same = int(np.argmax(mine)) == int(np.argmax(reference))
            yield _agreement(name, other, reference, mine, same_top=same)


def _agreement_of(pair: Pair, ours: Run, theirs: Run) -> ValueAgreement:
    one, two = ours.values[pair.ours], theirs.values[pair.theirs]
    return _agreement(one.name, two.name, one.array, two.array, op=one.op)


def _agreement(
    before: str, after: str, ours: Array, theirs: Array, *, op: str = "", same_top: bool | None = None
) -> ValueAgreement:
    axes = find_layout(ours, theirs, _TOLERANCE) or ()
    moved = np.transpose(ours, axes) if axes else ours
    angle = cosine(theirs, moved)
    return ValueAgreement(
        before=before,
        after=after,
        op=op,
        error=relative_error(theirs, moved),
        largest=largest_difference(theirs, moved)[0],
        cosine=angle if math.isfinite(angle) else None,
        same_top=same_top,
    )
