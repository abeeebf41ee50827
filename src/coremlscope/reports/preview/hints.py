"""Preview hints in a model's metadata: type, labels, colours."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.model.ir import Model
from coremlscope.ops.classical.suppression import NonMaximumSuppression

#: Keys of Xcode's preview (source: coremltools' guide, "Xcode Model Preview Types").
_TYPE, _PARAMETERS = "com.apple.coreml.model.preview.type", "com.apple.coreml.model.preview.parameters"
#: Keys under which tools name the classes: a list with commas (Turi Create), a dictionary (Ultralytics).
_NAMES = ("classes", "names", "labels")
_LONGEST_TEXT = 1 << 20


class Hints(msgspec.Struct, frozen=True):
    """Preview hints in a model's metadata.

    Attributes:
        type: Apple's type of the preview: `imageSegmenter`, `poseEstimation`, …; empty if there is none.
        parameters: The parameters of the preview.
        labels: The names of the classes; empty if there are none.
    """

    type: str = ""
    parameters: Mapping[str, Any] | None = None
    labels: tuple[str, ...] = ()

    def label(self, index: int) -> str:
        """Returns the name of a class, or `class 3`."""
        return self.labels[index] if 0 <= index < len(self.labels) else f"class {index}"


def find_hints(model: Model) -> Hints:
    """Reads the metadata of a model; what is damaged is ignored."""
    texts = model.metadata.user_defined
    parameters = _parse(texts.get(_PARAMETERS, ""))
    if not isinstance(parameters, dict):
        parameters = {}
    labels = _labels(parameters.get("labels"))
    for name in _NAMES:
        labels = labels or _labels(_parse(texts.get(name, "")) or texts.get(name, ""))
    return Hints(texts.get(_TYPE, ""), parameters, labels or _suppression_labels(model))


def _parse(text: str) -> Any:
    """Returns what a text says in JSON, or as a literal of Python; None if it says nothing."""
    if not text or len(text) > _LONGEST_TEXT:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return None


def _labels(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",") if "," in value else []
    if isinstance(value, dict):
        value = list(value.values())
    return tuple(str(item).strip() for item in value) if isinstance(value, (list, tuple)) else ()


def _suppression_labels(model: Model) -> tuple[str, ...]:
    for stage in reversed(model.content.models):
        if isinstance(stage.content, NonMaximumSuppression):
            return tuple(map(str, stage.content.labels))
    return ()
