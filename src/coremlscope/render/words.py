"""Names, types and numbers as reports spell them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from coremlscope.units import format_count

__all__ = ["KINDS", "bits_each", "compact_type", "count", "histogram", "model_name", "plural", "shorten"]

#: Apple's names of model types, for people.
KINDS = {
    "mlProgram": "ML Program",
    "neuralNetwork": "neural network",
    "neuralNetworkClassifier": "neural network classifier",
    "neuralNetworkRegressor": "neural network regressor",
    "pipeline": "pipeline",
    "pipelineClassifier": "pipeline classifier",
    "pipelineRegressor": "pipeline regressor",
    "visionFeaturePrint": "Vision feature print",
    "audioFeaturePrint": "audio feature print",
    "soundAnalysisPreprocessing": "preparation of sound",
    "textClassifier": "text classifier",
    "wordTagger": "word tagger",
    "gazetteer": "gazetteer",
    "wordEmbedding": "word embedding",
    "customModel": "custom model",
}

_TENSOR = re.compile(r"tensor<(\w+), \[([^\]]*)\]>")


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` characters; what is too much is left out in the middle."""
    if len(text) <= width:
        return text
    if width < 3:
        return text[:width]
    head = (width - 1 + 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def compact_type(text: str) -> str:
    """A type without MIL's punctuation: `tensor<fp16, [1, 3]>` becomes `fp16 1×3`."""
    return _TENSOR.sub(_compact, text)


def _compact(match: re.Match[str]) -> str:
    dtype, shape = match.groups()
    return f"{dtype} {shape.replace(', ', '×')}" if shape else dtype


def model_name(path: str) -> str:
    """The last part of a path, or what bytes are called."""
    return PurePath(path).name or "model"


def plural(number: int, noun: str) -> str:
    """A count with its noun: `1 input`, `3 inputs`, `2 classes`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def count(number: int | None, is_complete: bool = True) -> str:
    """A count in SI units; `≥` where it is a lower bound, `?` where it is not known."""
    if number is None:
        return "?"
    return f"{'' if is_complete else '≥ '}{format_count(number)}"


def bits_each(nbytes: int, parameters: int) -> str:
    """Bits that a parameter takes in the file: `4.01`."""
    return f"{nbytes * 8 / parameters:.3g}" if parameters else "–"


def histogram(counts: Mapping[str, int], most: int | None = None) -> str:
    """Counts in one line: `conv ×52, clip ×35 and 4 other types`."""
    items = list(counts.items())
    shown: Sequence[tuple[str, int]] = items if most is None else items[:most]
    text = ", ".join(f"{name} ×{number}" for name, number in shown)
    rest = len(items) - len(shown)
    return text + (f" and {plural(rest, 'other type')}" if rest else "")
