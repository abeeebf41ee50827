"""Non-maximum suppression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["NonMaximumSuppression"]


@dataclass(frozen=True, slots=True)
class NonMaximumSuppression:
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
