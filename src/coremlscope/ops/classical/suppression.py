"""Non-maximum suppression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from coremlscope.model.ir import Classical, Feature, TensorType, Value
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import read_labels, require
from coremlscope.ops.emit import F32, I64, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

#: A limit that is higher than the number of boxes of any model.
_ALL_BOXES = 2**31 - 1


class NonMaximumSuppression(Classical, msgspec.Struct, frozen=True, kw_only=True):
    """The most confident of the boxes that overlap.

    ONNX Runtime compares boxes in float32.

    Attributes:
        is_per_class: A box suppresses only boxes of its own class, the most confident class of each.
        iou_threshold: A box suppresses boxes whose intersection over union with it is above this.
        confidence_threshold: Boxes of lower confidence are discarded.
        labels: The classes, where they have names.
        confidence: The input `[boxes, classes]`.
        coordinates: The input `[boxes, 4]`: centre x and y, width, height.
        iou_input: The input that overrides `iou_threshold`; empty for none.
        confidence_threshold_input: The input that overrides `confidence_threshold`; empty for none.
        confidence_output: The output with the confidences of the kept boxes, the most confident first.
        coordinates_output: The output with their coordinates.
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
        is_per_class=message.pickTop.perClass,
        iou_threshold=iou,
        confidence_threshold=confidence,
        labels=read_labels(message),
        confidence=message.confidenceInputFeatureName,
        coordinates=message.coordinatesInputFeatureName,
        iou_input=message.iouThresholdInputFeatureName,
        confidence_threshold_input=message.confidenceThresholdInputFeatureName,
        confidence_output=message.confidenceOutputFeatureName,
        coordinates_output=message.coordinatesOutputFeatureName,
    )


def _lower(content: NonMaximumSuppression, interface: Interface) -> None:
    """Lowers a `NonMaximumSuppression`: sorts the boxes, suppresses some, and pads the rest if necessary."""
    op = interface.op
    confidence = _matrix(content.confidence, interface)
    coordinates = _matrix(content.coordinates, interface)
    threshold = _threshold(content.confidence_threshold_input, content.confidence_threshold, interface)
    iou = _threshold(content.iou_input, content.iou_threshold, interface)
    best = op.emit("ReduceMax", confidence, op.const([1], I64), keepdims=0)
    is_confident = op.emit("GreaterOrEqual", best, threshold)
    confident = op.emit("Compress", _range(op.shape_of(best), interface), is_confident, axis=0)
    scores = op.emit("Gather", best, confident, axis=0)
    _, order = op.emit_many(
        "TopK", scores, op.shape_of(scores), dtypes=[F64, I64], axis=0, largest=1, sorted=1
    )
    sorted_boxes = op.emit("Gather", confident, order, axis=0)
    sorted_coordinates = op.emit("Gather", coordinates, sorted_boxes, axis=0)
    sorted_confidence = op.emit("Gather", confidence, sorted_boxes, axis=0)
    kept = _suppressed(content, interface, sorted_coordinates, sorted_confidence, iou)
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
    """0, 1, …, length - 1, int64."""
    op = interface.op
    end = op.emit("Squeeze", length, op.const([0], I64))
    return op.emit("Range", op.const(0, I64), end, op.const(1, I64))


def _suppressed(
    content: NonMaximumSuppression, interface: Interface, boxes: Tensor, confidence: Tensor, iou: Tensor
) -> Tensor:
    """The indices of the kept boxes among the sorted boxes, in order.

    The scores of the operator are ranks, so that it takes the boxes in the given order.
    """
    op = interface.op
    count = op.emit("Gather", op.shape_of(boxes), op.const([0], I64), axis=0)
    ranks = op.emit("Neg", _range(count, interface))
    scores = op.reshape(op.cast(ranks, F32), (1, 1, -1))
    if content.is_per_class:
        # Boxes of different classes do not overlap once each is offset by its class.
        boxes = _offset_by_class(boxes, confidence, interface)
    selected = op.emit(
        "NonMaxSuppression",
        op.unsqueeze(op.cast(boxes, F32), [0]),
        scores,
        op.const([_ALL_BOXES], I64),
        op.cast(iou, F32),
        dtype=I64,
        center_point_box=1,
    )
    kept = op.reshape(op.emit("Gather", selected, op.const([2], I64), axis=1), (-1,))
    return op.emit_many("TopK", kept, op.shape_of(kept), dtypes=[I64, I64], axis=0, largest=0, sorted=1)[0]


def _offset_by_class(boxes: Tensor, confidence: Tensor, interface: Interface) -> Tensor:
    op = interface.op
    label = op.cast(op.emit("ArgMax", confidence, dtype=I64, axis=1, keepdims=1), F64)
    size = op.emit("ReduceMax", op.emit("Abs", boxes), keepdims=1)
    reach = op.emit("Add", op.emit("Mul", size, op.const(4.0, F64)), op.const(1.0, F64))
    shift = op.emit("Mul", label, reach)
    return op.emit("Add", boxes, op.emit("Mul", shift, op.const([[1.0, 0.0, 0.0, 0.0]], F64)))


def _give(value: Value, rows: Tensor, interface: Interface) -> None:
    """Gives rows as an output. An output with a fixed number of rows is cut, or padded with zeros."""
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
    """A comparison per confidence; the number of kept boxes depends on the confidences."""
    elements = [type_.elements for type_ in view.types("features") if isinstance(type_, TensorType)]
    work = moved(view, sum(size or 0 for size in elements))
    return replace(work, is_complete=False)


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
