"""Compares what two Core ML models declare: shapes of inputs, preprocessing, names of classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coremlscope.base.findings import Finding
from coremlscope.describe.preprocessing import Preprocessing, find_preprocessing
from coremlscope.model.features import describe_feature
from coremlscope.model.ir import Constant
from coremlscope.model.ir.rewriting import constant_argument, constants_of
from coremlscope.results.verification import ComparedOutput
from coremlscope.runtime.execution.binding import Chosen

__all__ = ["compare_interfaces", "compare_labels", "preprocessing_of"]

#: Scales and offsets of pixels that differ by less, relative to the range of the result, are the same.
_SAME = 1e-3


def preprocessing_of(chosen: Chosen) -> dict[str, Preprocessing]:
    """Returns what a function does with the pixels of each image first, by input."""
    return {step.input: step for step in find_preprocessing(chosen.function, chosen.description)}


def compare_interfaces(ours: Chosen, theirs: Chosen) -> Iterator[Finding]:
    """Yields in what the declared inputs of two models differ.

    Args:
        ours: The function of the verified model.
        theirs: That of the reference.
    """
    others = {feature.name: feature for feature in theirs.description.inputs}
    steps, other_steps = preprocessing_of(ours), preprocessing_of(theirs)
    for feature in ours.description.inputs:
        other = others.get(feature.name)
        if other is None:
            continue
        own, its = describe_feature(feature.type), describe_feature(other.type)
        if own != its:
            yield Finding(
                id="interface-differs",
                severity="warning",
                text=f"The input {feature.name} is {own} in the model, and {its} in the reference.",
                hint="convert with the inputs of the reference, if an app uses them as they were",
            )
        pair = steps.get(feature.name), other_steps.get(feature.name)
        if pair[0] is not None and pair[1] is not None and not _are_alike(pair[0], pair[1]):
            yield Finding(
                id="preprocessing-differs",
                severity="warning",
                text=f"The preprocessing of {feature.name} is {pair[0].text} in the model, and"
                f" {pair[1].text} in the reference.",
                hint="convert with ct.ImageType(scale=…, bias=…) of the reference",
            )


def _are_alike(ours: Preprocessing, theirs: Preprocessing) -> bool:
    ends = [
        np.stack([np.broadcast_to(np.array(step.scale) * edge + step.bias, 3) for edge in (0, 255)])
        for step in (ours, theirs)
        if len(step.scale) in (1, 3)
    ]
    if len(ends) < 2 or ours.has_mean_image or theirs.has_mean_image:
        return len(ends) < 2 or ours.has_mean_image == theirs.has_mean_image
    return bool(np.abs(ends[0] - ends[1]).max() <= _SAME * np.ptp(ends[1]))


def compare_labels(ours: Chosen, theirs: Chosen) -> ComparedOutput | None:
    """Compares the names of the classes, which an app shows, in their order.

    Args:
        ours: The function of the verified model.
        theirs: That of the reference.

    Returns:
        A comparison that did not pass; None if they are the same, or one of the models has none.
    """
    own, its = _labels(ours), _labels(theirs)
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


def _labels(chosen: Chosen) -> list[object] | None:
    """Returns the names of the classes of a classifier."""
    constants = constants_of(chosen.function)
    for op in chosen.function.graph.ops:
        if op.type == "classify":
            known = constant_argument(op, "classes", constants)
            if isinstance(known, Constant) and known.is_available:
                return list(np.asarray(known.numpy()).reshape(-1))
    return None
