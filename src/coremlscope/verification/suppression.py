"""Verifies a model that only suppresses boxes, such as the last stage of a detector: the order of boxes is
free where their scores tie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import InputError
from coremlscope.base.escaping import path_text
from coremlscope.base.version import __version__
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array, ArrayFeature, Model, Shape
from coremlscope.ops.classical.suppression import NonMaximumSuppression
from coremlscope.results.verification import ComparedOutput, Verification
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.inputs import check_numbers
from coremlscope.verification.outputs import Tolerance, compare_output
from coremlscope.verification.own_run import run_suppression
from coremlscope.verification.pairing import plain_name
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.remarks import describe_recorded, unused_limits

#: Numbers of a box.
_NUMBERS = 4
#: Synthetic boxes, and their classes, where the model takes any number.
_BOXES, _CLASSES = 64, 2


def verify_suppression(
    model: Model,
    reference: Reference,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    seed: int,
    tolerance: Tolerance,
) -> Verification:
    """Compares the boxes that a suppression keeps with those of a reference.

    Args:
        model: The model, whose content is a `NonMaximumSuppression`.
        reference: What it is verified against: it takes the inputs of the model.
        inputs: Values of inputs by name. Absent scores and boxes are drawn from 0 … 1.
        shapes: Shapes of inputs of any size.
        seed: The seed of synthetic inputs.
        tolerance: How far scores and coordinates may be off.

    Raises:
        InputError: A value is not allowed, or the reference returns no boxes.
        EngineError: The model or the reference failed.
    """
    content = model.content
    assert isinstance(content, NonMaximumSuppression)
    given, notes = _inputs(model, content, inputs, shapes, seed)
    ours = run_suppression(model, given, "")
    theirs = reference.run({name: np.asarray(value) for name, value in given.items()})
    names = (content.confidence_output, content.coordinates_output)
    others = _match(names, theirs.results)
    outputs = _compare(
        names, others, (ours.results[names[0]], ours.results[names[1]]), theirs.results, tolerance
    )
    passed = all(output.passed for output in outputs)
    synthetic = [name for name in given if name not in inputs]
    is_recorded = not passed and isinstance(reference, SavedReference) and bool(synthetic)
    recorded = [describe_recorded(reference, synthetic, passes=False)] if is_recorded else []
    return Verification(
        model="" if model.source is None else path_text(model.source),
        function=choose_function(model).name,
        reference=theirs.label,
        inputs=notes,
        outputs=outputs,
        passed=passed,
        runs=("fp32",),
        recorded=len(names),
        findings=(*recorded, *unused_limits(outputs, tolerance)),
        version=__version__,
    )


def _inputs(
    model: Model,
    content: NonMaximumSuppression,
    given: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    seed: int,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the inputs, and what each is. Thresholds that are not given have the values of the model."""
    values, notes = {}, []
    drawn = {content.confidence: content.labels, content.coordinates: range(_NUMBERS)}
    for feature in choose_function(model).description.inputs:
        name = feature.name
        if name in given:
            check_numbers(name, given[name])
            values[name] = given[name]
            notes.append(f"{name}: given")
        elif name in drawn:
            declared = feature.type.shape if isinstance(feature.type, ArrayFeature) else ()
            fixed = declared if len(declared) == 2 and all(declared) else None
            shape = shapes.get(name) or fixed or (_BOXES, len(drawn[name]) or _CLASSES)
            if len(shape) != 2:
                raise InputError(
                    f"the input {name!r} takes a matrix, not {describe_shape(shape)}",
                    f"give its rows and columns: --shape {name}={_BOXES},{shape[-1]}",
                )
            generator = np.random.default_rng([seed, *name.encode()])
            values[name] = generator.random([size or 1 for size in shape]).astype(np.float32)
            notes.append(f"{name}: synthetic: numbers of 0…1")
        else:
            notes.append(f"{name}: that of the model")
    return values, tuple(notes)


def _match(names: tuple[str, str], theirs: Mapping[str, Array]) -> tuple[str, str]:
    """Returns the outputs of a reference that hold scores and coordinates: by name, else by size.

    Raises:
        InputError: There are none.
    """
    plain = {plain_name(name): name for name in theirs}
    scores, places = (plain.get(plain_name(name), "") for name in names)
    rest = [name for name, array in theirs.items() if array.ndim and name not in (scores, places)]
    places = places or next((name for name in rest if theirs[name].shape[-1] == _NUMBERS), "")
    rows = theirs[places].size // _NUMBERS if places else 0
    several = (name for name in rest if name != places and rows and theirs[name].size % rows == 0)
    scores = scores or next(several, "")
    if not scores or not places:
        raise InputError(
            "the reference returns no boxes",
            f"give scores and [boxes, 4] coordinates under the names {names[0]} and {names[1]}",
        )
    return scores, places


def _compare(
    names: tuple[str, str],
    others: tuple[str, str],
    ours: tuple[Array, Array],
    theirs: Mapping[str, Array],
    tolerance: Tolerance,
) -> tuple[ComparedOutput, ...]:
    """Compares scores and coordinates in float32, in the order of the scores."""
    right = theirs[others[0]], theirs[others[1]]
    sides = [
        (scores.reshape(len(places := boxes.reshape(-1, _NUMBERS)), -1).astype(np.float64), places)
        for scores, boxes in (ours, right)
    ]
    if 1 in (sides[0][0].shape[1], sides[1][0].shape[1]):  # The best scores alone.
        sides = [(scores.max(1, keepdims=True), places) for scores, places in sides]
    own, its = (_sorted(*side) for side in sides)
    found = [
        compare_output(name, other, "fp32", pair, "boxes", tolerance, is_half=False)
        for name, other, pair in zip(names, others, zip(own, its, strict=True), strict=True)
    ]
    if len(own[0]) != len(its[0]):
        why = f"keeps {len(own[0])} boxes, and the reference {len(its[0])}"
        found = [replace(one, passed=False, why=why) for one in found]
    return tuple(found)


def _sorted(scores: Array, places: Array) -> tuple[Array, Array]:
    """Returns boxes in the order of their best scores, without those that only fill up a fixed number."""
    is_box = scores.any(1) | places.any(1)
    scores, places = scores[is_box], places[is_box]
    best = np.round(scores.max(1, initial=-np.inf), 4)  # Scores that differ by less tie.
    order = np.lexsort((*places.T, -best))
    return scores[order], places[order]
