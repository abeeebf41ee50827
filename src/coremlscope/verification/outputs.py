"""Compares outputs by what they mean: classes by the best ones, images by PSNR, masks by IoU, others by
numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from coremlscope.model.ir import Array, ArrayFeature, ImageFeature
from coremlscope.results.verification import ComparedOutput, Meaning
from coremlscope.runtime.execution.binding import Chosen
from coremlscope.verification.distance import (
    cosine,
    finite,
    largest_difference,
    relative_error,
    signal_to_noise_db,
)
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import Pair, general_type, plain_name

__all__ = [
    "Tolerance",
    "ahead_of",
    "compare_logits",
    "compare_output",
    "compare_values",
    "match_outputs",
    "meaning_of",
    "worst_error",
]

#: The largest relative error of outputs by default: that of some ten roundings to fp16, and of float32.
_RELATIVE = {"fp16": 2e-2, "fp32": 1e-3}
#: Peak of pixels.
_PEAK = 255.0
#: Best classes that are compared where nothing else is asked for.
_TOP = 5
#: Outputs without a name in common whose relative error is smaller are the same.
_NEAR = 0.05
#: Functions that hide how far their arguments are apart, and operations that keep elements.
_SATURATING = frozenset({"softmax", "logsoftmax", "sigmoid", "tanh", "reduce_argmax"})
_KEEPING = frozenset({"cast", "reshape", "squeeze", "expand_dims", "identity"})
#: Intermediate values that differ by more are not the same, and as many pairs say what the model computes.
_APART, _FEWEST = 0.1, 4
#: A channel axis of at most this size holds the classes of a mask.
_MOST_CLASSES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
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


def meaning_of(chosen: Chosen, name: str, array: Array) -> Meaning:
    """Returns what an output means: by its type, by the operation that computes it, by its shape.

    Args:
        chosen: The function.
        name: The output.
        array: Its value.
    """
    feature = next((f for f in chosen.description.outputs if f.name == name), None)
    if feature is not None and isinstance(feature.type, ImageFeature):
        return "image"
    description = chosen.description
    if name in (description.predicted_feature, description.predicted_probabilities):
        return "classes"
    maker = {v.name: op for op in chosen.function.graph.ops for v in op.outputs}.get(name)
    while maker is not None and maker.type in ("cast", "identity", "squeeze", "reshape", "expand_dims"):
        given = maker.inputs.get("x", ())
        maker = next(
            (
                op
                for op in chosen.function.graph.ops
                for v in op.outputs
                if given and v.name == getattr(given[0], "name", "")
            ),
            None,
        )
    if maker is not None and maker.type == "reduce_argmax":
        return "mask" if array.ndim >= 3 else "classes"
    if maker is not None and maker.type == "softmax" and array.dtype.kind == "f":
        return (
            "classes"
            if array.ndim <= 2
            else "mask"
            if array.ndim == 4 and array.shape[1] <= _MOST_CLASSES
            else "array"
        )
    if feature is not None and isinstance(feature.type, ArrayFeature) and array.dtype == bool:
        return "mask"
    return "array"


def match_outputs(ours: Run, theirs: Run) -> dict[str, str]:
    """Assigns outputs of a reference to those of a model: by name, else those nearly equal, else in order.

    Args:
        ours: The run of the model.
        theirs: The run of the reference.
    """
    matched: dict[str, str] = {}
    by_name = {plain_name(name.replace(".", "_")): name for name in theirs.outputs}
    for name in ours.outputs:
        found = name if name in theirs.outputs else by_name.get(plain_name(name.replace(".", "_")))
        if found is not None and _size(ours, name) == _size(theirs, found):
            matched[name] = found
    for is_near in (_are_near, _have_one_size):
        for name in ours.outputs:
            left = [other for other in theirs.outputs if other not in matched.values()]
            found = next((other for other in left if is_near(ours, name, theirs, other)), None)
            if name not in matched and found is not None:
                matched[name] = found
    return matched


def _have_one_size(ours: Run, name: str, theirs: Run, other: str) -> bool:
    is_state = name in ours.states, other in theirs.states
    return is_state[0] == is_state[1] and _size(ours, name) == _size(theirs, other)


def _are_near(ours: Run, name: str, theirs: Run, other: str) -> bool:
    return relative_error(ours.output(name), theirs.output(other)) <= _NEAR


def _size(run: Run, output: str) -> int:
    return int(run.output(output).size)


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
    ours, theirs = arrays[0], arrays[1].reshape(arrays[0].shape)
    largest, size = largest_difference(ours, theirs)
    error = relative_error(ours, theirs)
    odd = int((~np.isfinite(ours) & np.isfinite(theirs)).sum()) if ours.dtype.kind == "f" else 0
    figures = _figures(meaning, ours, theirs, tolerance.top_k or _TOP)
    limit = tolerance.relative(is_half)
    if meaning == "classes" and figures.get("top_1", 1.0) < 1 and ours.dtype.kind == "f":
        figures["top_1"] = _top_1(ours, theirs, tolerance.atol + limit * size)
    why = _judge(meaning, figures, (largest, size), tolerance, limit)
    if odd:
        noun = "element is" if odd == 1 else "elements are"
        why = f"{odd} {noun} infinite or NaN, and finite in the reference"
    cos = cosine(ours, theirs)
    return ComparedOutput(
        name=name,
        reference=reference,
        run=run,
        meaning=meaning,
        passed=not why,
        largest=finite(largest),
        relative=finite(error),
        cosine=finite(cos),
        snr_db=finite(signal_to_noise_db(error)),
        psnr_db=finite(figures.get("psnr_db")),
        iou=figures.get("iou"),
        top_1=figures.get("top_1"),
        top_k=figures.get("top_k"),
        not_finite=odd,
        why=why,
    )


def _figures(meaning: Meaning, ours: Array, theirs: Array, top: int) -> dict[str, float]:
    if meaning == "image":
        noise = float(np.mean((np.clip(ours, 0, _PEAK) - np.clip(theirs, 0, _PEAK)).astype(np.float64) ** 2))
        return {"psnr_db": 10 * math.log10(_PEAK**2 / noise) if noise else math.inf}
    if meaning == "mask":
        return {"iou": _iou(*(_labels(array) for array in (ours, theirs)))}
    if meaning == "classes":
        if ours.dtype.kind in "iub":
            return {"top_1": float(np.mean(ours == theirs))}
        rows = [
            np.nan_to_num(array.reshape(-1, array.shape[-1] if array.ndim else 1)) for array in (ours, theirs)
        ]
        return _tops(rows[0], rows[1], top)
    return {}


def _labels(array: Array) -> Array:
    """Returns the class of each element of a mask: the best of its channels, or the element itself."""
    if array.dtype.kind != "f":
        return array
    return np.argmax(array, axis=1) if array.ndim == 4 and array.shape[1] > 1 else np.greater(array, 0.5)


def _iou(ours: Array, theirs: Array) -> float:
    shares = []
    for label in np.union1d(ours, theirs):
        both = np.logical_and(ours == label, theirs == label).sum()
        either = np.logical_or(ours == label, theirs == label).sum()
        shares.append(both / either)
    return float(np.mean(shares))


def _tops(ours: Array, theirs: Array, top: int) -> dict[str, float]:
    first = float(np.mean(ours.argmax(-1) == theirs.argmax(-1)))
    count = min(top, theirs.shape[-1])
    best = [np.argsort(np.negative(rows), axis=-1, kind="stable")[:, :count] for rows in (ours, theirs)]
    kept = [len(set(a.tolist()) & set(b.tolist())) / count for a, b in zip(*best, strict=True)]
    return {"top_1": first, "top_k": float(np.mean(kept))}


def _top_1(ours: Array, theirs: Array, allowed: float) -> float:
    """Returns the share of rows whose best class is best in the reference too, within the tolerance."""
    rows = [np.nan_to_num(one.reshape(-1, one.shape[-1] if one.ndim else 1)) for one in (ours, theirs)]
    chosen = np.take_along_axis(rows[1], rows[0].argmax(-1)[:, None], -1)[:, 0]
    return float(np.mean(rows[1].max(-1) - chosen <= allowed))


def compare_logits(
    name: str, other: str, label: str, runs: tuple[Run, Run], tolerance: Tolerance, is_half: bool
) -> ComparedOutput | None:
    """Compares what a softmax, or another function that saturates, makes an output of.

    What it adds to all classes alike has no effect, and is left out.

    Args:
        name: The output of the model.
        other: That of the reference.
        label: How the model ran.
        runs: The run of the model, and that of the reference.
        tolerance: How far it may be off.
        is_half: Whether values or weights are rounded to fp16.

    Returns:
        The comparison; None if there is no such function on both sides, or its arguments differ in size.
    """
    found = [_ahead(run, run.outputs[key]) for run, key in zip(runs, (name, other), strict=True)]
    if found[0] is None or found[1] is None:
        return None
    (maker, logits), (_, theirs) = found[0], found[1]
    if logits.array.size != theirs.array.size or logits.array.dtype.kind != "f":
        return None
    pair = [logits.array.astype(np.float64), theirs.array.reshape(logits.array.shape).astype(np.float64)]
    if "softmax" in maker.type and np.isfinite(pair).all():
        axis = next((int(p.read()) for p in maker.parameters if p.name == "axis" and p.size == 1), -1)
        pair = [one - one.mean(axis, keepdims=True) for one in pair]
    return compare_output(
        f"{name} before {maker.type}",
        theirs.name,
        label,
        (pair[0], pair[1]),
        "logits",
        dataclasses.replace(tolerance, top_k=None, min_psnr=None),
        is_half,
    )


def _ahead(run: Run, name: str) -> tuple[Intermediate, Intermediate] | None:
    """Returns the function that saturates ahead of an output, and its argument."""
    way = [run.values[one] for one in (name, *ahead_of(run, name))]
    return (way[-2], way[-1]) if len(way) > 1 else None


def ahead_of(run: Run, name: str) -> list[str]:
    """Returns the values ahead of an output up to the argument of the function that saturates; none without
    such a function."""
    found: list[str] = []
    value = run.values[name]
    while value.inputs and value.inputs[0] in run.values:
        found.append(value.inputs[0])
        if general_type(value.type) in _SATURATING:
            return found
        if general_type(value.type) not in _KEEPING:
            return []
        value = run.values[value.inputs[0]]
    return []


def compare_values(ours: Run, pairs: Iterable[Pair], label: str) -> ComparedOutput | None:
    """Compares the intermediate values: if most differ, the model computes something else, though its
    outputs happen to agree.

    Args:
        ours: The run of the model.
        pairs: The pairs of its values. Those by order alone may be wrong.
        label: How it ran.

    Returns:
        A comparison that did not pass; None if most values agree.
    """
    known = [pair for pair in pairs if pair.how not in ("output", "order") and ours.values[pair.ours].op]
    apart = [pair for pair in known if pair.error > _APART]
    if len(known) < _FEWEST or len(apart) <= len(known) // 2:
        return None
    worst = max(pair.error for pair in apart)
    return ComparedOutput(
        name="intermediate values",
        reference="",
        run=label,
        meaning="array",
        passed=False,
        relative=finite(worst),
        why=f"{len(apart)} of {len(known)} paired values are off by more than {_APART:.0%}",
    )


def _judge(
    meaning: Meaning,
    figures: Mapping[str, float],
    difference: tuple[float, float],
    tolerance: Tolerance,
    limit: float,
) -> str:
    """Returns why an output is not within the tolerance; empty if it is."""
    largest, size = difference
    if meaning == "image" and tolerance.min_psnr is not None:
        psnr = figures["psnr_db"]
        return "" if psnr >= tolerance.min_psnr else f"PSNR {psnr:.1f} dB is below {tolerance.min_psnr:g} dB"
    if meaning == "classes" and figures.get("top_1", 1.0) < 1:
        return f"the best class differs in {1 - figures['top_1']:.0%} of the rows"
    if meaning == "classes" and tolerance.top_k is not None:
        kept = figures.get("top_k", 1.0)
        return "" if kept == 1 else f"of the best {tolerance.top_k} classes, {kept:.0%} are the same"
    allowed = tolerance.atol + limit * size
    if largest <= allowed:
        return ""
    if not math.isfinite(largest):
        return "elements are infinite or NaN in one only"
    return f"differs by up to {largest:.3g}, and {allowed:.3g} is allowed"


def worst_error(outputs: Iterable[ComparedOutput]) -> float:
    """Returns the largest relative error of compared outputs; infinite if one has none."""
    return max((math.inf if o.relative is None else o.relative for o in outputs), default=0.0)
