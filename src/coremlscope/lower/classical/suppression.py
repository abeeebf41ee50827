"""Non-maximum suppression to ONNX, whose operator compares boxes in float32."""

from __future__ import annotations

from coremlscope.ir import TensorType, Value
from coremlscope.ir.classical import NonMaximumSuppression
from coremlscope.lower.classical.interface import F64, Interface
from coremlscope.ops.emit import F32, I64, Tensor

__all__ = ["lower_non_maximum_suppression"]

#: More boxes than any model gives.
_ALL_BOXES = 2**31 - 1


def lower_non_maximum_suppression(content: NonMaximumSuppression, interface: Interface) -> None:
    """Lowers a `NonMaximumSuppression`: the boxes are sorted, thinned out, and padded if need be."""
    op = interface.op
    confidence = _matrix(content.confidence, interface)
    coordinates = _matrix(content.coordinates, interface)
    threshold = _threshold(content.confidence_threshold_input, content.confidence_threshold, interface)
    iou = _threshold(content.iou_input, content.iou_threshold, interface)
    best = op.emit("ReduceMax", confidence, op.const([1], I64), keepdims=0)
    known = op.emit("Compress", _range(op.shape_of(best), interface),
                    op.emit("GreaterOrEqual", best, threshold), axis=0)  # fmt: skip
    scores = op.emit("Gather", best, known, axis=0)
    _, order = op.emit_many(
        "TopK", scores, op.shape_of(scores), dtypes=[F64, I64], axis=0, largest=1, sorted=1
    )
    sorted_boxes = op.emit("Gather", known, order, axis=0)
    kept = _thinned(content, interface, op.emit("Gather", coordinates, sorted_boxes, axis=0),
                    op.emit("Gather", confidence, sorted_boxes, axis=0), iou)  # fmt: skip
    chosen = op.emit("Gather", sorted_boxes, kept, axis=0)
    for name, tensor in ((content.confidence_output, confidence), (content.coordinates_output, coordinates)):
        value = interface.output(name)
        _give(value, op.emit("Gather", tensor, chosen, axis=0), interface)


def _matrix(name: str, interface: Interface) -> Tensor:
    type_ = interface.type(name)
    if isinstance(type_, TensorType) and type_.rank not in (2, None):
        raise interface.error(f"takes a matrix as the input {name!r}, which has {type_.rank} dimensions")
    return interface.op.cast(interface.tensor(name), F64)


def _threshold(name: str, default: float, interface: Interface) -> Tensor:
    op = interface.op
    if name and name in interface.inputs:
        return op.reshape(op.cast(interface.tensor(name), F64), (1,))
    return op.const([default], F64)


def _range(length: Tensor, interface: Interface) -> Tensor:
    """0, 1, … below a length, int64."""
    op = interface.op
    end = op.emit("Squeeze", length, op.const([0], I64))
    return op.emit("Range", op.const(0, I64), end, op.const(1, I64))


def _thinned(
    content: NonMaximumSuppression, interface: Interface, boxes: Tensor, confidence: Tensor, iou: Tensor
) -> Tensor:
    """Which of sorted boxes are kept, in order.

    The operator gets ranks for scores, so that it takes the boxes in the order in which they are.
    """
    op = interface.op
    ranks = op.cast(op.emit("Neg", _range(op.emit("Gather", op.shape_of(boxes), op.const([0], I64), axis=0),
                                          interface)), F32)  # fmt: skip
    scores = op.reshape(ranks, (1, 1, -1))
    if content.is_per_class:
        # A box that is offset by its class, further than any box reaches, meets only those of its own class.
        boxes = _offset_by_class(boxes, confidence, interface)
    selected = op.emit(
        "NonMaxSuppression", op.unsqueeze(op.cast(boxes, F32), [0]), scores, op.const([_ALL_BOXES], I64),
        op.cast(iou, F32), dtype=I64, center_point_box=1,
    )  # fmt: skip
    places = op.reshape(op.emit("Gather", selected, op.const([2], I64), axis=1), (-1,))
    order = op.emit_many("TopK", places, op.shape_of(places), dtypes=[I64, I64], axis=0, largest=0, sorted=1)
    return order[0]


def _offset_by_class(boxes: Tensor, confidence: Tensor, interface: Interface) -> Tensor:
    op = interface.op
    label = op.cast(op.emit("ArgMax", confidence, dtype=I64, axis=1, keepdims=1), F64)
    size = op.emit("ReduceMax", op.emit("Abs", boxes), keepdims=1)
    reach = op.emit("Add", op.emit("Mul", size, op.const(4.0, F64)), op.const(1.0, F64))
    shift = op.emit("Mul", label, reach)
    return op.emit("Add", boxes, op.emit("Mul", shift, op.const([[1.0, 0.0, 0.0, 0.0]], F64)))


def _give(value: Value, rows: Tensor, interface: Interface) -> None:
    """Rows in the number that the output is described with: cut, or padded with zeros."""
    op, type_ = interface.op, value.type
    if not isinstance(type_, TensorType):
        interface.contradict()
    wanted = (type_.shape or (None,))[0]
    if wanted is not None:
        rows = op.emit("Slice", rows, op.const([0], I64), op.const([wanted], I64), op.const([0], I64))
        count = op.emit("Gather", op.shape_of(rows), op.const([0], I64), axis=0)
        missing = op.emit("Sub", op.const([wanted], I64), count)
        pads = op.emit("Concat", op.const([0, 0], I64), missing, op.const([0], I64), axis=0)
        rows = op.emit("Pad", rows, pads, op.const(0.0, F64))
    shape = type_.shape if wanted is not None else None
    interface.give_tensor(value, rows, TensorType(type_.dtype, shape or (None, None)))
