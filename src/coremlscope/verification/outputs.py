"""The one comparison of outputs. Each that exists on either side is a row; numbers are compared by what they
mean: classes by the best ones, images by PSNR, others by their differences."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from coremlscope.model.features.images import is_image
from coremlscope.model.ir import Array, ImageFeature
from coremlscope.results.verification import ComparedOutput, Meaning, Status
from coremlscope.runtime.execution.binding import Chosen
from coremlscope.verification.distance import (
    finite,
    largest_difference,
    relative_error,
)
from coremlscope.verification.intermediates import Run
from coremlscope.verification.pairing import plain_name

#: The largest relative error of outputs by default: that of some ten roundings to fp16, and of float32.
_RELATIVE = {"fp16": 2e-2, "fp32": 1e-3}
#: Peak of pixels.
_PEAK = 255.0
#: Best classes that are compared where nothing else is asked for.
_TOP = 5
#: Outputs without a name in common whose relative error is smaller are the same.
_NEAR = 0.05
#: Operations that keep elements.
_KEEPING = frozenset({"cast", "reshape", "squeeze", "expand_dims", "identity"})
#: Operations that choose a class.
_CHOOSING = frozenset({"reduce_argmax", "softmax"})


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """How far outputs may be from those of the reference.

    Attributes:
        rtol: The largest difference relative to the largest magnitude of the reference; None for 0.02 for
            runs with values or weights in fp16, 0.001 for others.
        atol: The largest difference that is always allowed, in the unit of the output.
        min_psnr: For images, the least PSNR in decibels; None to use `rtol`.
        top_k: For classes, how many of the best must be the same; None to compare the numbers as well.
    """

    rtol: float | None = None
    atol: float = 0.0
    min_psnr: float | None = None
    top_k: int | None = None

    def relative(self, is_half: bool) -> float:
        """Returns the largest relative difference for a run with or without numbers rounded to fp16."""
        return _RELATIVE["fp16" if is_half else "fp32"] if self.rtol is None else self.rtol


def meaning_of(chosen: Chosen, name: str, run: Run) -> Meaning:
    """Returns what an output means: by its type, or by the operation that computes it.

    Args:
        chosen: The function.
        name: The output.
        run: A run of it.
    """
    description = chosen.description
    feature = next((f for f in description.outputs if f.name == name), None)
    if feature is not None and isinstance(feature.type, ImageFeature):
        return "image"
    if name in (description.predicted_feature, description.predicted_probabilities):
        return "classes"
    value = run.values[run.outputs[name]]
    while value.type in _KEEPING and value.inputs and value.inputs[0] in run.values:
        value = run.values[value.inputs[0]]
    return "classes" if value.type in _CHOOSING and value.array.ndim <= 2 else "array"


def match_outputs(
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    states: tuple[Collection[str], Collection[str]] = ((), ()),
) -> dict[str, str]:
    """Assigns outputs of a reference to those of a model: by name, else those nearly equal, else in order of
    the same size.

    Args:
        ours: The outputs of the model.
        theirs: The outputs of the reference.
        states: The names of those of either that are states, which stand for states only.
    """
    matched: dict[str, str] = {}
    by_name = {plain_name(name.replace(".", "_")): name for name in theirs}

    def is_near(name: str, other: str) -> bool:
        is_number = ours[name].dtype.kind in "biuf" and theirs[other].dtype.kind in "biuf"
        return is_number and relative_error(ours[name], theirs[other]) <= _NEAR

    def has_one_size(name: str, other: str) -> bool:
        is_alike = (name in states[0]) == (other in states[1])
        return is_alike and ours[name].size == theirs[other].size

    for name in ours:
        found = name if name in theirs else by_name.get(plain_name(name.replace(".", "_")))
        if found is not None and ours[name].size == theirs[found].size:
            matched[name] = found
    for suits in (is_near, has_one_size):
        for name in ours:
            left = [other for other in theirs if other not in matched.values()]
            found = next((other for other in left if suits(name, other)), None)
            if name not in matched and found is not None:
                matched[name] = found
    return matched


def unmatched_outputs(
    ours: Iterable[str],
    theirs: Iterable[str],
    matched: Mapping[str, str],
    run: str,
    states: tuple[Collection[str], Collection[str]] = ((), ()),
) -> list[ComparedOutput]:
    """Returns a row for each output that exists on one side only.

    Args:
        ours: The names of the outputs of the model.
        theirs: Those of the reference.
        matched: The names of the reference's outputs by those of the model's that stand for the same.
        run: How the model ran.
        states: The names of those of either that are states: they are not compared, and fail nothing.
    """
    sides: tuple[tuple[Status, list[str], Collection[str]], ...] = (
        ("only in the model", [name for name in ours if name not in matched], states[0]),
        ("only in the reference", [name for name in theirs if name not in matched.values()], states[1]),
    )
    return [
        ComparedOutput(
            name=name,
            reference=name if status == "only in the reference" else "",
            run=run,
            meaning="array",
            passed=name in kept,
            status=status,
            why=f"{'a state that is' if name in kept else 'it is'} {status}",
        )
        for status, names, kept in sides
        for name in names
    ]


def compare_predictions(
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    run: str,
    tolerance: Tolerance,
    *,
    is_half: bool = False,
) -> list[ComparedOutput]:
    """Compares the outputs of two predictions, as `predict` of a model or of Core ML returns them.

    Every output that exists on either side is a row: one that is paired is within the tolerance or not; one
    that exists on one side only, or has another size, has not passed. None of the rows is left out, so that
    `all(row.passed for row in rows)` is a verdict.

    Args:
        ours: The outputs of the model by name: arrays, Pillow images (of which RGB and RGBA are compared
            without the opacity), numbers, texts, and dictionaries of classes and their scores.
        theirs: Those of the reference.
        run: How the model ran, such as a setting of Core ML: the rows hold it.
        tolerance: How far the outputs may be off.
        is_half: Whether values or weights are rounded to fp16, for the default tolerance.

    Returns:
        The rows: those that are paired first.
    """
    own, its = _arrays(ours, theirs), _arrays(theirs, theirs)
    matched = match_outputs(own, its)
    for name in own:
        if name in its and name not in (*matched, *matched.values()):
            matched[name] = name
    rows = []
    for name, other in matched.items():
        meaning: Meaning = "image" if is_image(ours[name]) or is_image(theirs[other]) else "array"
        if isinstance(theirs[other], Mapping):
            meaning = "classes"
        rows.append(compare_output(name, other, run, (own[name], its[other]), meaning, tolerance, is_half))
    return [*rows, *unmatched_outputs(own, its, matched, run)]


def _arrays(given: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Array]:
    """Returns outputs as arrays: images as planes of 0 … 255 without their opacity, the scores of classes in
    the order of the reference."""
    found: dict[str, Array] = {}
    for name, value in given.items():
        if is_image(value):
            pixels = np.asarray(value.convert("RGB") if value.mode in ("P", "RGBA") else value, np.float32)
            found[name] = np.ascontiguousarray(np.moveaxis(pixels, -1, 0)) if pixels.ndim == 3 else pixels
        elif isinstance(value, Mapping):
            other = right.get(name)
            keys = {**dict.fromkeys(other if isinstance(other, Mapping) else ()), **dict.fromkeys(value)}
            found[name] = np.array([float(value.get(key, np.nan)) for key in keys])
        else:
            array = np.asarray(value)
            found[name] = array if array.dtype.kind in "biufUS" else np.asarray(value, object)
    return found


def compare_output(
    name: str,
    reference: str,
    run: str,
    arrays: tuple[Array, Array],
    meaning: Meaning,
    tolerance: Tolerance,
    is_half: bool,
) -> ComparedOutput:
    """Compares an output of the model with that of the reference.

    Args:
        name: The output.
        reference: Its name in the reference.
        run: How the model ran.
        arrays: The value of the model, and that of the reference.
        meaning: What it means.
        tolerance: How far it may be off.
        is_half: Whether values or weights are rounded to fp16.
    """
    without_numbers = _unless_numbers(*arrays)
    if without_numbers is not None:
        meaning, why = without_numbers
        return ComparedOutput(
            name=name, reference=reference, run=run, meaning=meaning, passed=not why, why=why
        )
    ours, theirs = arrays[0], arrays[1].reshape(arrays[0].shape)
    largest, size = largest_difference(ours, theirs)
    compared = np.isfinite(theirs)
    allowed = tolerance.atol + tolerance.relative(is_half) * size
    psnr = -math.inf
    if math.isfinite(largest):
        psnr = _psnr_db(ours[compared], theirs[compared], None if meaning == "image" else size)
    first, best = (
        _tops(ours, theirs, tolerance.top_k or _TOP, allowed) if meaning == "classes" else (None, None)
    )
    why = "" if largest <= allowed else f"differs by up to {largest:.3g}, and {allowed:.3g} is allowed"
    least_psnr = tolerance.min_psnr if meaning == "image" else None
    if least_psnr is not None:
        why = f"PSNR {psnr:.1f} dB is below {least_psnr:g} dB" if psnr < least_psnr else ""
    is_ranked = best is not None and tolerance.top_k is not None
    if is_ranked:
        why = "" if best == 1 else f"of the best {tolerance.top_k} classes, {best:.0%} are the same"
    if first is not None and first < 1:
        why = f"the best class differs in {1 - first:.0%} of the rows"
    if theirs.size and not compared.any():
        why = "no element of the reference is finite, so that nothing is compared"
    if not math.isfinite(largest):
        why = "elements are infinite or NaN in one only"
    return ComparedOutput(
        name=name,
        reference=reference,
        run=run,
        meaning=meaning,
        passed=not why,
        largest=finite(largest),
        allowed=None if is_ranked or least_psnr is not None else finite(allowed),
        least_psnr_db=least_psnr,
        relative=finite(relative_error(ours, theirs)),
        psnr_db=finite(psnr),
        top_1=first,
        top_k=best,
        not_finite=int((~np.isfinite(ours) & compared).sum()),
        why=why,
    )


def _unless_numbers(ours: Array, theirs: Array) -> tuple[Meaning, str] | None:
    """Returns what two arrays mean that are no numbers of one size, and in what they differ."""
    if ours.size != theirs.size:
        return "array", f"has {ours.size} elements, and {theirs.size} in the reference"
    if ours.dtype.kind in "biuf" and theirs.dtype.kind in "biuf":
        return None
    is_same = bool(np.all(ours == theirs))
    return "labels", "" if is_same else f"is {_first(ours)}, and {_first(theirs)} in the reference"


def _first(texts: Array) -> str:
    return repr(texts.reshape(-1)[0] if texts.size else "")


@np.errstate(over="ignore")
def _psnr_db(ours: Array, theirs: Array, peak: float | None) -> float:
    """Returns the ratio of a peak to the noise; without one, that of pixels, which are clipped to 0 … 255."""
    own, its = (one.astype(np.float64) for one in (ours, theirs))
    if not own.size:
        return math.inf
    if peak is None:
        peak, own, its = _PEAK, np.clip(own, 0.0, _PEAK), np.clip(its, 0.0, _PEAK)
    noise = float(np.mean(np.square(own - its)))
    if not (math.isfinite(noise) and peak):
        return math.inf if noise == 0 else -math.inf
    return 10 * math.log10(peak**2 / noise) if noise else math.inf


def _tops(ours: Array, theirs: Array, top: int, allowed: float) -> tuple[float, float | None]:
    """Returns the share of rows whose best class is best in the reference too, within what is allowed, and
    that of the reference's best classes that are among the best."""
    if ours.dtype.kind != "f":
        return float(np.mean(ours == theirs)), None
    mine, other = (np.nan_to_num(one.reshape(-1, one.shape[-1] if one.ndim else 1)) for one in (ours, theirs))
    chosen = np.take_along_axis(other, mine.argmax(-1)[:, None], -1)[:, 0]
    count = min(top, other.shape[-1])
    best = [np.argsort(np.negative(rows), axis=-1, kind="stable")[:, :count] for rows in (mine, other)]
    kept = [len(set(a.tolist()) & set(b.tolist())) / count for a, b in zip(*best, strict=True)]
    return float(np.mean(other.max(-1) - chosen <= allowed)), float(np.mean(kept))


def worst_error(outputs: Iterable[ComparedOutput]) -> float:
    """Returns the largest relative error of compared outputs; infinite if one has none."""
    return max((math.inf if o.relative is None else o.relative for o in outputs), default=0.0)
