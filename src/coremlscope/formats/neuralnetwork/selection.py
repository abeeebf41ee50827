"""Layers that rank elements: top-k, argmax, argsort and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.shaping import at_least_rank_1
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation


def _top_k(t: Translation) -> Sequence[Blob]:
    """The `K` largest or smallest elements in order. `K` may be an input."""
    b, p, x = t.builder, t.params, t.builder.tensor(t.x)
    axis, ascending, count = int(p.axis), bool(p.useBottomK), int(p.K)
    given = b.op("reshape", x=b.indices(t.inputs[1]), shape=[1]) if len(t.inputs) == 2 else None
    if given is not None and given.array is not None:
        count, given = int(given.array[0]), None
    if given is None:
        if count < 1:
            raise CannotTranslate(f"its K is {count}")
        values, indices = b.ops("topk", 2, x=x, k=count, axis=axis, ascending=ascending)
        return values, b.floats(indices)
    if not -x.rank <= axis < x.rank:
        raise CannotTranslate(f"its axis {axis} is out of range for a tensor of rank {x.rank}")
    axis %= x.rank
    end = b.op("pad", x=given, pad=[axis, x.rank - 1 - axis], mode="constant", constant_val=0)
    others = [other != axis for other in range(x.rank)]
    every, first = [True] * x.rank, [0] * x.rank
    values, indices = (
        b.op("slice_by_index", x=whole, begin=first, end=end, begin_mask=every, end_mask=others)
        for whole in b.ops("topk", 2, x=x, k=-1, axis=axis, ascending=ascending)
    )
    return values, b.floats(indices)


def _arg(type_: str) -> Translate:
    def translate(t: Translation) -> Blob:
        b, p, x = t.builder, t.params, t.builder.tensor(t.x)
        index = b.op(type_, x=x, axis=int(p.axis), keep_dims=not p.removeDim)
        return b.floats(at_least_rank_1(b, index))

    return translate


def _arg_sort(t: Translation) -> Blob:
    b, p = t.builder, t.params
    return b.floats(b.op("argsort", x=b.tensor(t.x), axis=int(p.axis), ascending=not p.descending))


def _suppression(t: Translation) -> Sequence[Blob]:
    """Non-maximum suppression. Thresholds and the number of boxes may be inputs, in this order."""
    b, p = t.builder, t.params
    boxes, scores, *rest = (b.tensor(blob) for blob in t.inputs)
    given: list[Any] = [float(p.iouThreshold), float(p.scoreThreshold), int(p.maxBoxes)]
    given[: len(rest)] = (b.op("reshape", x=blob, shape=[]) for blob in rest)
    iou, score, most = given
    if isinstance(most, Blob):
        most = b.indices(most)
    coordinates, kept, indices, count = b.ops(
        "non_maximum_suppression",
        4,
        boxes=boxes,
        scores=scores,
        iou_threshold=iou,
        score_threshold=score,
        max_boxes=most,
        per_class_suppression=bool(p.perClassSuppression),
    )
    return coordinates, kept, b.floats(indices), b.floats(count)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("argMax", _arg("reduce_argmax")),
    LayerSpec("argMin", _arg("reduce_argmin")),
    LayerSpec("argSort", _arg_sort),
    LayerSpec("NonMaximumSuppression", _suppression, (2, 5)),
    LayerSpec("topK", _top_k, (1, 2)),
)
