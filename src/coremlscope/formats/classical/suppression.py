"""Non-maximum suppression: its message to `ir`."""

from __future__ import annotations

from coremlscope.formats.classical.parts import read_labels, require
from coremlscope.formats.schema import Message
from coremlscope.ir.classical import NonMaximumSuppression

__all__ = ["read_non_maximum_suppression"]


def read_non_maximum_suppression(message: Message) -> NonMaximumSuppression:
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
