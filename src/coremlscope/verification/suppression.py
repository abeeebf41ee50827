"""Verifies a model that only suppresses boxes, such as the last stage of a detector: the order of boxes is
free where their scores tie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import InputError
from coremlscope.base.escaping import path_text
from coremlscope.base.findings import Finding
from coremlscope.base.version import __version__
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array, ArrayFeature, Model, Shape
from coremlscope.ops.classical.suppression import NonMaximumSuppression
from coremlscope.results.verification import ComparedOutput, Verification, VerifiedFault
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.inputs import check_numbers
from coremlscope.verification.intermediates import Run
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
#: The overlaps that are tried, as shares of the union.
_OVERLAPS = tuple(step / 20 for step in range(1, 20))


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
    theirs = reference.run({name: np.asarray(value) for name, value in given.items()})
    names = (content.confidence_output, content.coordinates_output)
    others, right = _kept(theirs, names)

    def compare(other: NonMaximumSuppression, values: Mapping[str, Any]) -> list[ComparedOutput]:
        run = run_suppression(replace(model, content=other), values, "")
        found = _boxes_of(*(run.output(name) for name in names))
        assert found is not None
        return compare_boxes(names, others, (found, right), tolerance)

    outputs = compare(content, given)
    passed = all(output.passed for output in outputs)
    synthetic = [name for name in given if name not in inputs]
    findings: list[Finding] = []
    faults: list[VerifiedFault] = []
    if not passed and isinstance(reference, SavedReference) and synthetic:
        findings.append(describe_recorded(reference, synthetic, passes=False))
    elif not passed:
        thresholds = (content.iou_input, content.confidence_threshold_input)
        own = {name: value for name, value in given.items() if name not in thresholds}
        several = _settings(content, float(right.best.min(initial=np.inf)))
        setting = next((text for text, one in several if all(o.passed for o in compare(one, own))), "")
        why = next((output.why for output in outputs if output.why), "")
        faults.append(_fault(model, content, setting, why))
    return Verification(
        model="" if model.source is None else path_text(model.source),
        function=choose_function(model).name,
        reference=theirs.label,
        inputs=notes,
        outputs=tuple(outputs),
        passed=passed,
        runs=("fp32",),
        recorded=len(names),
        faults=tuple(faults),
        findings=(*findings, *unused_limits(outputs, tolerance)),
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
    drawn = {content.confidence: content.labels, content.coordinates: range(4)}
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


def _kept(theirs: Run, names: tuple[str, str]) -> tuple[tuple[str, str], Boxes]:
    """Returns the outputs of a reference that hold scores and coordinates, and the boxes.

    Raises:
        InputError: There are none.
    """
    others = _match_boxes(names, {name: theirs.output(name) for name in theirs.outputs})
    right = None if others is None else _boxes_of(*(theirs.output(name) for name in others))
    if others is None or right is None:
        raise InputError(
            "the reference returns no boxes",
            f"give scores and [boxes, 4] coordinates under the names {names[0]} and {names[1]}",
        )
    return others, right


def _fault(model: Model, content: NonMaximumSuppression, setting: str, why: str) -> VerifiedFault:
    return VerifiedFault(
        kind="conversion",
        run="fp32",
        op=f"{choose_function(model).name}/0",
        type=content.kind,
        name=content.kind,
        cause="setting" if setting else "unknown",
        text=f"{setting}, it keeps the boxes of the reference" if setting else why,
        inherited=0.0,
    )


def _settings(content: NonMaximumSuppression, least: float) -> Iterator[tuple[str, NonMaximumSuppression]]:
    """Yields the suppression with another setting, and what is different, as a clause.

    Args:
        content: The suppression.
        least: The least of the best scores of the reference's boxes.
    """
    classes = "any class" if content.is_per_class else "the same class only"
    yield f"with boxes of {classes} suppressed", replace(content, is_per_class=not content.is_per_class)
    if np.isfinite(least) and least > 0:
        text = f"with a least score of at most {least:.4g} instead of {content.confidence_threshold:g}"
        yield text, replace(content, confidence_threshold=least)
    for overlap in sorted(_OVERLAPS, key=lambda one: abs(one - content.iou_threshold)):
        text = f"with suppression above an overlap of about {overlap:g} instead of {content.iou_threshold:g}"
        yield text, replace(content, iou_threshold=overlap)


class Boxes(msgspec.Struct, frozen=True):
    """Boxes with their scores, a row each.

    Attributes:
        scores: The score of each class, `[boxes, classes]`, or the best one, `[boxes, 1]`; float64.
        coordinates: Four numbers each, `[boxes, 4]`, as the network gives them; float64.
    """

    scores: Array
    coordinates: Array

    @property
    def best(self) -> Array:
        """The best score of each box, `[boxes]`."""
        return np.asarray(self.scores.max(axis=1, initial=-np.inf))


def _boxes_of(scores: Array, coordinates: Array) -> Boxes | None:
    """Returns boxes without those that only fill up a fixed number; None if the shapes are not of boxes.

    Args:
        scores: `[boxes, classes]` or `[boxes]`, or so with axes of one element.
        coordinates: `[boxes, 4]`, or so with axes of one element.
    """
    if coordinates.ndim == 0 or coordinates.shape[-1] != _NUMBERS:
        return None
    places = coordinates.astype(np.float64).reshape(-1, _NUMBERS)
    count = len(places)
    if scores.size == count:
        rows = scores.astype(np.float64).reshape(count, 1)
    elif scores.ndim > 1 and scores.size == count * scores.shape[-1]:
        rows = scores.astype(np.float64).reshape(count, scores.shape[-1])
    else:
        return None
    is_box = rows.any(axis=1) | places.any(axis=1)
    return Boxes(rows[is_box], places[is_box])


def _match_boxes(ours: tuple[str, str], theirs: Mapping[str, Array]) -> tuple[str, str] | None:
    """Returns the outputs of a reference that hold scores and coordinates: by name, else by shape.

    Args:
        ours: The names of these outputs of the model.
        theirs: The outputs of the reference.

    Returns:
        Their names; None if the reference has none of such shapes.
    """
    plain = {plain_name(name): name for name in theirs}
    named = [name if name in theirs else plain.get(plain_name(name), "") for name in ours]
    fitting = (
        (scores, places)
        for places in theirs
        for scores in theirs
        if scores != places
        and theirs[scores].dtype.kind == "f"
        and _boxes_of(theirs[scores], theirs[places]) is not None
    )
    return min(fitting, key=lambda pair: sum(a != b for a, b in zip(pair, named, strict=True)), default=None)


def compare_boxes(
    names: tuple[str, str],
    others: tuple[str, str],
    boxes: tuple[Boxes, Boxes],
    tolerance: Tolerance,
) -> list[ComparedOutput]:
    """Compares scores and coordinates in float32.

    Args:
        names: The outputs of the model that hold scores and coordinates.
        others: Those of the reference.
        boxes: The boxes of the model, and of the reference.
        tolerance: How far they may be off. Boxes whose scores differ by less may be in any order.
    """
    ours, theirs = boxes
    if 1 in (ours.scores.shape[1], theirs.scores.shape[1]):
        ours, theirs = (Boxes(one.best[:, None], one.coordinates) for one in boxes)
    places = _places(ours, theirs, tolerance)
    left = len(ours.scores) - len(places), len(theirs.scores) - len(places)
    own, other = ([pair[side] for pair in places] for side in (0, 1))
    found = [
        compare_output(name, its, "fp32", (mine[own], right[other]), "boxes", tolerance, is_half=False)
        for name, its, mine, right in (
            (names[0], others[0], ours.scores, theirs.scores),
            (names[1], others[1], ours.coordinates, theirs.coordinates),
        )
    ]
    if not any(left):
        return found
    why = (
        f"keeps {len(ours.scores)} boxes, and the reference {len(theirs.scores)}:"
        f" {left[0]} and {left[1]} have no counterpart"
    )
    return [replace(one, passed=False, why=why) for one in found]


def _places(ours: Boxes, theirs: Boxes, tolerance: Tolerance) -> list[tuple[int, int]]:
    """Returns which boxes are the same: of those whose best scores tie, the nearest in all numbers.

    As many boxes on both sides that tie with none are paired in their order: their scores are wrong.
    """
    if ours.scores.shape[1] != theirs.scores.shape[1]:
        return []
    size = np.abs(theirs.best[np.isfinite(theirs.best)]).max(initial=0.0)
    tie = tolerance.atol + tolerance.relative(is_half=False) * size
    mine, right = (np.hstack([one.scores, one.coordinates]) for one in (ours, theirs))
    free = np.ones(len(right), bool)
    pairs: list[tuple[int, int]] = []
    for place, row in enumerate(mine):
        near = np.flatnonzero(free & (np.abs(theirs.best - ours.best[place]) <= tie))
        if near.size:
            nearest = int(near[np.abs(right[near] - row).sum(axis=1).argmin()])
            free[nearest] = False
            pairs.append((place, nearest))
    rest = sorted(set(range(len(mine))) - {pair[0] for pair in pairs})
    if len(mine) == len(right):
        pairs += zip(rest, np.flatnonzero(free).tolist(), strict=True)
    return sorted(pairs)
