"""Operations that rank elements: top-k, sorting, non-maximum suppression, classification."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import DictType, DType, ListType, Nested, TensorType, ValueType
from coremlscope.ops.emit import BOOL, F32, I32, I64, Lowering, Tensor
from coremlscope.ops.infer import normal_axis
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

# topk, argsort


def _k(view: OpView, length: int | None) -> int | None:
    """How many are taken: all, where k is -1."""
    k = view.integer("k", 1)
    if k == -1:
        return length
    if length is not None and not 0 <= k <= length:
        raise CannotInfer(f"the top {k} of {length} elements")
    return k


def _infer_topk(view: OpView) -> Sequence[ValueType]:
    x, dims = view.type("x"), list(view.shape("x"))
    axis = normal_axis(view.integer("axis", -1), len(dims))
    dims[axis] = _k(view, dims[axis])
    values = TensorType(x.dtype, tuple(dims))
    if not view.flag("return_indices", True):
        return [values]
    return [values, TensorType(DType(view.text("output_indices_dtype", "int32")), tuple(dims))]


def _ranked(op: Lowering, k: int | None) -> tuple[Tensor, Tensor]:
    """Values and indices of the first `k` along the axis (of all, where None); equal elements in order."""
    view, x = op.view, op["x"]
    axis = normal_axis(view.integer("axis", -1), len(view.shape("x")))
    if k is None:
        count = op.emit("Shape", x, dtype=I64, start=axis, end=axis + 1)
    else:
        count = op.const([k], I64)
    largest = not view.flag("ascending", False)
    values, indices = op.emit_many("TopK", x, count, dtypes=[x.dtype, I64], axis=axis, largest=int(largest))
    return values, op.cast(indices, I32)


def _lower_topk(op: Lowering) -> Sequence[Tensor]:
    shape = op.view.shape("x")
    axis = normal_axis(op.view.integer("axis", -1), len(shape))
    values, indices = _ranked(op, _k(op.view, shape[axis]))
    return [values, indices] if op.view.flag("return_indices", True) else [values]


def _infer_argsort(view: OpView) -> Sequence[ValueType]:
    return [TensorType(DType.INT32, view.type("x").shape)]


def _lower_argsort(op: Lowering) -> Tensor:
    shape = op.view.shape("x")
    return _ranked(op, shape[normal_axis(op.view.integer("axis", -1), len(shape))])[1]


def _sort_work(view: OpView) -> Work:
    """A comparison per element and halving of the sorted axis."""
    x = view.type("x")
    length = (x.shape or (1,))[normal_axis(view.integer("axis", -1), max(1, x.rank or 1))]
    return moved(view, (x.elements or 0) * max(1, math.ceil(math.log2(max(length or 1, 1)))))


# non_maximum_suppression


def _boxes_last(view: OpView) -> bool:
    """From iOS 17 on, boxes lie on the last axis, there is no score threshold and no count of boxes."""
    return not view.has("score_threshold")


def _single(op: Lowering, name: str, dtype: str) -> Tensor:
    """A parameter as a vector of one element: neural networks may compute thresholds and counts."""
    if op.view.is_known(name):
        return op.const(op.view.value(name).reshape(1), dtype)
    return op.cast(op.reshape(op[name], [1]), dtype)


def _infer_nms(view: OpView) -> Sequence[ValueType]:
    boxes, scores = view.type("boxes"), view.type("scores")
    most = view.integer("max_boxes") if view.is_known("max_boxes") else None
    batch, first, second = view.shape("scores")
    indices = TensorType(DType.INT32, (batch, most))
    if _boxes_last(view):
        coordinates = TensorType(boxes.dtype, (batch, 4, most))
        return [coordinates, TensorType(scores.dtype, (batch, first, most)), indices]
    coordinates = TensorType(boxes.dtype, (batch, most, 4))
    count = TensorType(DType.INT32, (batch,))
    return [coordinates, TensorType(scores.dtype, (batch, most, second)), indices, count]


def _surviving(op: Lowering, boxes: Tensor, scores: Tensor, best: Tensor) -> Tensor:
    """The best score of each box that is kept, minus infinity for the others: `[batch, boxes]`.

    Args:
        op: The operation.
        boxes: `[batch, boxes, 4]`, centre and size.
        scores: `[batch, boxes, classes]`.
        best: The best score of each box, minus infinity where it is below the threshold: `[batch, boxes]`.
    """
    view = op.view
    never = op.const(-np.inf, F32)
    by_class = op.unsqueeze(best, [1])
    classes = view.shape("scores")[1 if _boxes_last(view) else 2]
    if view.flag("per_class_suppression", False):
        if classes is None:
            raise CannotLower("the number of classes is not known before run time")
        # Each box competes in its best class only.
        own = op.emit("ArgMax", scores, dtype=I64, axis=2, keepdims=0)
        of_class = op.unsqueeze(op.counting(classes, I64), [1])
        member = op.emit("Equal", op.unsqueeze(own, [1]), of_class, dtype=BOOL)
        by_class = op.emit("Where", member, by_class, never, dtype=F32)
    chosen = op.emit(
        "NonMaxSuppression",
        boxes,
        by_class,
        op.const([np.iinfo(np.int32).max], I64),
        _single(op, "iou_threshold", F32),
        op.const([np.finfo(np.float32).min], F32),
        dtype=I64,
        center_point_box=1,
    )
    places = op.emit("Gather", chosen, op.const([0, 2], I64), axis=1)
    nothing = op.emit("Expand", never, op.shape_of(best))
    return op.emit("ScatterND", nothing, places, op.emit("GatherND", best, places))


def _lower_nms(op: Lowering) -> Sequence[Tensor]:
    view, most = op.view, _single(op, "max_boxes", I64)
    boxes, scores = op["boxes"], op["scores"]
    if _boxes_last(view):
        boxes, scores = op.transpose(boxes, [0, 2, 1]), op.transpose(scores, [0, 2, 1])
    best = op.emit("ReduceMax", scores, op.const([2], I64), keepdims=0)
    allowed = best
    if not _boxes_last(view):
        enough = op.emit("GreaterOrEqual", best, _single(op, "score_threshold", F32), dtype=BOOL)
        allowed = op.emit("Where", enough, best, op.const(-np.inf, F32), dtype=F32)
    kept = _surviving(op, boxes, scores, allowed)
    # Where no box is kept, the best one is returned all the same.
    top = op.emit("ReduceMax", kept, op.const([1], I64), keepdims=1)
    none = op.emit("Equal", top, op.const(-np.inf, F32), dtype=BOOL)
    first = op.emit("Equal", best, op.emit("ReduceMax", best, op.const([1], I64), keepdims=1), dtype=BOOL)
    kept = op.emit("Where", op.emit("And", none, first), best, kept, dtype=F32)
    # Always enough columns to take `max_boxes` from.
    if view.is_known("max_boxes"):
        pads = op.const([0, 0, 0, view.integer("max_boxes")], I64)
    else:
        pads = op.emit("Concat", op.const([0, 0, 0], I64), most, axis=0)
    padded = op.emit("Pad", kept, pads, op.const(-np.inf, F32))
    ranked, order = op.emit_many("TopK", padded, most, dtypes=[F32, I64], axis=1)
    valid = op.emit("Greater", ranked, op.const(-np.inf, F32), dtype=BOOL)
    source = op.unsqueeze(op.emit("Where", valid, order, op.const(0, I64), dtype=I64), [2])
    shown = op.unsqueeze(valid, [2])

    def taken(rows: Tensor) -> Tensor:
        picked = op.emit("GatherND", rows, source, batch_dims=1)
        picked = op.emit("Where", shown, picked, op.const(0, F32), dtype=F32)
        return op.transpose(picked, [0, 2, 1]) if _boxes_last(view) else picked

    indices = op.cast(op.emit("Where", valid, order, op.const(-1, I64), dtype=I64), I32)
    results = [taken(boxes), taken(scores), indices]
    if not _boxes_last(view):
        count = op.emit("ReduceSum", op.cast(valid, I32), op.const([1], I64), keepdims=0)
        results.append(count)
    return results


def _nms_work(view: OpView) -> Work:
    """An intersection over union of each pair of boxes: about 16 operations."""
    boxes = view.shape("boxes")
    batch, count = boxes[0] or 0, boxes[2 if _boxes_last(view) else 1] or 0
    return moved(view, 16 * batch * count * (count - 1) // 2)


# classify


def _labels(view: OpView) -> list[str | int]:
    constant = view.bound("classes").constant
    if constant is None:
        raise CannotLower("`classes` is not known before run time")
    items = constant.data.items if isinstance(constant.data, Nested) else None
    values = constant.numpy().reshape(-1).tolist() if items is None else [item.item() for item in items]
    return [value if isinstance(value, str) else int(value) for value in values]


def _infer_classify(view: OpView) -> Sequence[ValueType]:
    classes = view.bound("classes").type
    element = classes.element if isinstance(classes, ListType) else classes
    if not isinstance(element, TensorType):
        raise CannotInfer("`classes` is not a list of labels")
    label = TensorType(element.dtype, ())
    return [label, DictType(label, TensorType(DType.FP64, ()))]


def _lower_classify(op: Lowering) -> Sequence[Tensor]:
    labels = _labels(op.view)
    count = op.view.type("probabilities").elements
    if count is not None and count != len(labels):
        raise CannotLower(f"it takes one sample, but gets {count} probabilities for {len(labels)} classes")
    probabilities = op.reshape(op["probabilities"], [-1])
    best = op.emit("ArgMax", probabilities, dtype=I64, axis=0, keepdims=0)
    return [op.with_labels(op.cast(best, I32), labels), op.with_labels(probabilities, labels)]


def _classify_work(view: OpView) -> Work:
    """One comparison per probability."""
    return moved(view, view.type("probabilities").elements or 0)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="topk",
        doc="The largest or smallest elements along an axis, in order, and their indices.",
        traits=Trait.SORTING,
        infer=_infer_topk,
        lower=_lower_topk,
        work=_sort_work,
    ),
    OpSpec(
        name="argsort",
        doc="The indices that would sort the elements along an axis.",
        traits=Trait.SORTING,
        infer=_infer_argsort,
        lower=_lower_argsort,
        work=_sort_work,
    ),
    OpSpec(
        name="non_maximum_suppression",
        doc="The boxes with the best scores, without those that overlap a better box too much.",
        infer=_infer_nms,
        lower=_lower_nms,
        work=_nms_work,
    ),
    OpSpec(
        name="classify",
        doc="The label of the most probable class, and the probability of every label.",
        infer=_infer_classify,
        lower=_lower_classify,
        work=_classify_work,
    ),
)
