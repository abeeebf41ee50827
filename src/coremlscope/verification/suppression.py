"""Verifies a model that only suppresses boxes, such as the last stage of a detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import InputError
from coremlscope.base.escaping import path_text
from coremlscope.base.findings import Finding
from coremlscope.base.version import __version__
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import ArrayFeature, Feature, Model, Shape
from coremlscope.ops.classical.suppression import NonMaximumSuppression
from coremlscope.results.verification import ComparedOutput, Verification, VerifiedFault
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.boxes import Boxes, boxes_of, compare_boxes, match_boxes
from coremlscope.verification.inputs import check_numbers
from coremlscope.verification.outputs import Tolerance
from coremlscope.verification.own_run import run_suppression
from coremlscope.verification.references.arrays import SavedReference
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.remarks import describe_recorded, unused_limits

__all__ = ["verify_suppression"]

#: Synthetic boxes, and their classes, where the model takes any number.
_BOXES, _CLASSES = 64, 2
#: The overlaps that are tried, as shares of the union.
_OVERLAPS = tuple(step / 20 for step in range(1, 20))


@dataclass(frozen=True, slots=True)
class _Setting:
    """Another setting of a suppression.

    Attributes:
        content: The suppression.
        text: What is different, as a clause.
    """

    content: NonMaximumSuppression
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A suppression with its inputs, and the boxes that the reference keeps.

    Attributes:
        model: The model.
        names: Its outputs that hold scores and coordinates.
        others: Those of the reference.
        right: The boxes of the reference.
        tolerance: How far scores and coordinates may be off.
    """

    model: Model
    names: tuple[str, str]
    others: tuple[str, str]
    right: Boxes
    tolerance: Tolerance

    def compare(self, content: NonMaximumSuppression, given: Mapping[str, Any]) -> list[ComparedOutput]:
        """Compares the boxes that a suppression keeps of given ones."""
        run = run_suppression(replace(self.model, content=content), given, "")
        found = boxes_of(*(run.output(name) for name in self.names))
        assert found is not None
        return compare_boxes(self.names, self.others, (found, self.right), self.tolerance)


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
    others = match_boxes(names, {name: theirs.output(name) for name in theirs.outputs})
    right = None if others is None else boxes_of(*(theirs.output(name) for name in others))
    if others is None or right is None:
        raise InputError(
            "the reference returns no boxes",
            f"give scores and [boxes, 4] coordinates under the names {names[0]} and {names[1]}",
        )
    case = _Case(model=model, names=names, others=others, right=right, tolerance=tolerance)
    outputs = case.compare(content, given)
    passed = all(output.passed for output in outputs)
    synthetic = [name for name in given if name not in inputs]
    findings: list[Finding] = []
    faults: list[VerifiedFault] = []
    if not passed and isinstance(reference, SavedReference) and synthetic:
        findings.append(describe_recorded(reference, synthetic, passes=False))
    elif not passed:
        faults.append(_fault(case, content, given, outputs))
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
            shape = _shape(feature, shapes.get(name), len(drawn[name]) or _CLASSES)
            generator = np.random.default_rng([seed, *name.encode()])
            values[name] = generator.random(shape).astype(np.float32)
            notes.append(f"{name}: synthetic: numbers of 0…1")
        else:
            notes.append(f"{name}: that of the model")
    return values, tuple(notes)


def _shape(feature: Feature, asked: Shape | None, columns: int) -> tuple[int, int]:
    """Returns the shape of a matrix of scores or coordinates.

    Raises:
        InputError: The shape that was asked for is not that of a matrix.
    """
    declared = feature.type.shape if isinstance(feature.type, ArrayFeature) else ()
    if asked is not None and len(asked) != 2:
        raise InputError(
            f"the input {feature.name!r} takes a matrix, not {describe_shape(asked)}",
            f"give its rows and columns: --shape {feature.name}={_BOXES},{columns}",
        )
    sizes = asked or declared
    is_fixed = len(sizes) == 2 and all(sizes)
    return (sizes[0] or 1, sizes[1] or 1) if is_fixed else (_BOXES, columns)


def _fault(
    case: _Case, content: NonMaximumSuppression, given: Mapping[str, Any], outputs: list[ComparedOutput]
) -> VerifiedFault:
    """Returns the setting with which the boxes are those of the reference, if one of those tried is."""
    fault = VerifiedFault(
        kind="conversion",
        run="fp32",
        op=f"{choose_function(case.model).name}/0",
        type=content.kind,
        name=content.kind,
        cause="unknown",
        text=next((output.why for output in outputs if output.why), ""),
        inherited=0.0,
    )
    thresholds = (content.iou_input, content.confidence_threshold_input)
    own = {name: value for name, value in given.items() if name not in thresholds}
    least = float(case.right.best.min(initial=np.inf))
    for setting in _settings(content, least):
        if all(output.passed for output in case.compare(setting.content, own)):
            text = f"{setting.text}, it keeps the boxes of the reference"
            return replace(fault, cause="setting", text=text)
    return fault


def _settings(content: NonMaximumSuppression, least: float) -> Iterator[_Setting]:
    """Yields other settings, those with one change first.

    Args:
        content: The suppression.
        least: The least of the best scores of the reference's boxes.
    """
    classes = {
        content.is_per_class: "",
        not content.is_per_class: "with boxes of any class suppressed"
        if content.is_per_class
        else "with boxes of the same class suppressed only",
    }
    scores = {content.confidence_threshold: ""}
    if np.isfinite(least) and least > 0:
        scores[least] = (
            f"with a least score of at most {least:.4g} instead of {content.confidence_threshold:g}"
        )
    overlaps = {content.iou_threshold: ""}
    for overlap in sorted(_OVERLAPS, key=lambda one: abs(one - content.iou_threshold)):
        text = f"with suppression above an overlap of about {overlap:g} instead of {content.iou_threshold:g}"
        overlaps.setdefault(overlap, text)
    found = []
    for is_per_class, first in classes.items():
        for score, second in scores.items():
            for overlap, third in overlaps.items():
                changes = [text for text in (first, second, third) if text]
                changed = replace(
                    content, is_per_class=is_per_class, confidence_threshold=score, iou_threshold=overlap
                )
                found.append((len(changes), _Setting(changed, " and ".join(changes))))
    yield from (setting for count, setting in sorted(found, key=lambda one: one[0]) if count)
