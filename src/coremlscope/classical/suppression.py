"""Non-maximum suppression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from coremlscope.classical.contract import ClassicalType, Fact
from coremlscope.classical.interface import F64, Interface
from coremlscope.classical.messages import read_labels, require
from coremlscope.ir import Classical, Feature, TensorType, Value
from coremlscope.ops.emit import F32, I64, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView
from coremlscope.schema import Message

__all__ = ["TYPES", "NonMaximumSuppression"]

#: More boxes than any model gives.
_ALL_BOXES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NonMaximumSuppression(Classical):
    """The most confident of boxes that overlap.

    Attributes:
        is_per_class: Only boxes of the same class, their most confident one, rule each other out.
        iou_threshold: Boxes whose intersection is more than this share of their union rule each other out.
        confidence_threshold: Boxes of less confidence are left out.
        labels: The classes, where they have names.
        confidence: The input `[boxes, classes]`.
        coordinates: The input `[boxes, 4]`: centre x and y, width, height.
        iou_input: The input that overrides `iou_threshold`; empty for none.
        confidence_threshold_input: The input that overrides `confidence_threshold`; empty for none.
        confidence_output: The confidences of the boxes that are left, the most confident first.
        coordinates_output: Their coordinates.
    """

    kind: ClassVar[str] = "nonMaximumSuppression"
    is_per_class: bool
    iou_threshold: float
    confidence_threshold: float
    labels: tuple[str | int, ...]
    confidence: str
    coordinates: str
    iou_input: str
    confidence_threshold_input: str
    confidence_output: str
    coordinates_output: str


def _read(message: Message) -> NonMaximumSuppression:
    """Reads a `NonMaximumSuppression`."""
    kind = NonMaximumSuppression.kind
    for name in ("confidenceInput", "coordinatesInput", "confidenceOutput", "coordinatesOutput"):
        require(getattr(message, f"{name}FeatureName") != "", kind, f"no name of its {name}")
    iou, confidence = message.iouThreshold, message.confidenceThreshold
    require(0 <= iou <= 1, kind, f"the IOU threshold {iou:g}, which is not from 0 to 1")
    require(confidence >= 0, kind, f"the confidence threshold {confidence:g}")
    return NonMaximumSuppression(
        message.pickTop.perClass,
        iou,
        confidence,
        read_labels(message),
        message.confidenceInputFeatureName,
        message.coordinatesInputFeatureName,
        message.iouThresholdInputFeatureName,
        message.confidenceThresholdInputFeatureName,
        message.confidenceOutputFeatureName,
        message.coordinatesOutputFeatureName,
    )


def _lower(content: NonMaximumSuppression, interface: Interface) -> None:
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


def _work(view: OpView) -> Work:
    """A comparison per confidence; the boxes that are left depend on the confidences."""
    elements = [type_.elements for type_ in view.types("features") if isinstance(type_, TensorType)]
    work = moved(view, sum(size or 0 for size in elements))
    return Work(work.flops, work.read_bytes, work.weight_bytes, work.written_bytes, is_complete=False)


def _describe(content: NonMaximumSuppression) -> Iterator[Fact]:
    yield "suppresses", "boxes of the same class" if content.is_per_class else "boxes of any class"
    yield "overlap above", f"{content.iou_threshold:g} of the union{_override(content.iou_input)}"
    least = content.confidence_threshold
    yield "confidence below", f"{least:g}{_override(content.confidence_threshold_input)}"


def _override(name: str) -> str:
    return f", or the input {name!r}" if name else ""


def _absent_values(
    content: NonMaximumSuppression, absent: Sequence[Feature], values: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        content.iou_input: content.iou_threshold,
        content.confidence_threshold_input: content.confidence_threshold,
    }


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=NonMaximumSuppression,
        read=_read,
        lower=_lower,
        work=_work,
        describe=_describe,
        absent_values=_absent_values,
    ),
)
