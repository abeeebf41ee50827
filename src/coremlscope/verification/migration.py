"""Compares the values of two conversions of one network, computed here from the same inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, InputError
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.formats.container import read
from coremlscope.model.ir import Array, Model
from coremlscope.results.migration import OutputAgreement, ValueAgreement
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.distance import cosine, find_layout, largest_difference, relative_error
from coremlscope.verification.inputs import choose_inputs
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, record
from coremlscope.verification.pairing import Pair, pair_runs

__all__ = ["add_agreements", "compare_values"]

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
    inputs: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
) -> OutputAgreement:
    """Runs the default functions of two models on the same inputs, and compares outputs and paired values.

    Inputs are matched by name, or else in order if their shapes are the same.

    Args:
        before: The base.
        after: The other model.
        inputs: Values of inputs of the base by name; absent ones are synthetic.
        shapes: Shapes of flexible inputs of the base.
        seed: Seed of synthetic inputs.

    Returns:
        The agreement; its `problem` says why there is none.
    """
    try:
        return _compare(before, after, inputs or {}, shapes, seed)
    except CoremlscopeError as error:
        return OutputAgreement(problem=str(error))


def _compare(
    before: Model,
    after: Model,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]] | None,
    seed: int,
) -> OutputAgreement:
    bound = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    given = choose_inputs(choose_function(before), inputs, bound, seed).tensors
    theirs = _renamed(given, after)
    ours, others = (
        record(FunctionCall.of(one, None, values)) for one, values in ((before, given), (after, theirs))
    )
    outputs = _matched(ours, others)
    agreeing = tuple(_outputs(ours, others, outputs))
    paired = [pair for pair in pair_runs(ours, others, outputs) if ours.values[pair.ours].op]
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


def _renamed(given: Mapping[str, Array], model: Model) -> dict[str, Array]:
    """Returns values by the names of another model's inputs, in its types.

    Raises:
        InputError: The inputs of both models do not correspond.
    """
    features = choose_function(model).description.inputs
    names = [feature.name for feature in features]
    if set(names) == set(given):
        found = {name: given[name] for name in names}
    elif len(names) == len(given):
        found = dict(zip(names, given.values(), strict=True))
    else:
        raise InputError(
            f"the models have different inputs: {', '.join(given)} and {', '.join(names)}",
            "compare conversions of the same program",
        )
    integers = {
        value.name for value in choose_function(model).function.graph.inputs if _is_integer(value.type)
    }
    return {
        name: array.astype(np.int32) if name in integers and array.dtype.kind in "fi" else array
        for name, array in found.items()
    }


def _is_integer(type_: object) -> bool:
    dtype = getattr(type_, "dtype", None)
    return dtype is not None and not dtype.is_float and dtype.value.startswith(("int", "uint"))


def _matched(ours: Run, theirs: Run) -> dict[str, str]:
    """Returns the outputs of the other run by those of the first: of the same name, or else in order."""
    if set(ours.outputs) == set(theirs.outputs):
        return {name: name for name in ours.outputs}
    pairs = zip(ours.outputs.items(), theirs.outputs.items(), strict=False)
    return {
        name: other
        for (name, value), (other, other_value) in pairs
        if ours.values[value].array.size == theirs.values[other_value].array.size
    }


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
