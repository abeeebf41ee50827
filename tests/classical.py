"""Classical models written by hand, as specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope import ir
from coremlscope.formats import read
from coremlscope.formats.schema import Message, message_class

__all__ = ["array_type", "classifier", "read_spec", "regressor"]

_FP64 = 65600


def array_type(*shape: int, dtype: int = _FP64) -> dict[str, Any]:
    """A feature type; `dtype` is the number in Apple's specification, fp64 by default."""
    return {"multiArrayType": {"shape": shape, "dataType": dtype}}


_NUMBER: dict[str, Any] = {"doubleType": {}}


def regressor(
    weights: Sequence[Sequence[float]],
    offsets: Sequence[float],
    transform: int = 0,
    *,
    inputs: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
) -> Message:
    """A `glmRegressor` of `x0`, `x1`, …, which are doubles, or of other `inputs`; it gives `y`."""
    names = inputs or {f"x{index}": _NUMBER for index in range(len(weights[0]))}
    return message_class("Model")(
        specificationVersion=1,
        description={
            "input": [{"name": name, "type": type_} for name, type_ in names.items()],
            "output": [{"name": "y", "type": output or _NUMBER}],
            "predictedFeatureName": "y",
        },
        glmRegressor={
            "weights": [{"value": row} for row in weights],
            "offset": offsets,
            "postEvaluationTransform": transform,
        },
    )


def classifier(
    weights: Sequence[Sequence[float]],
    offsets: Sequence[float],
    labels: Sequence[str] | Sequence[int],
    *,
    transform: int = 0,
    encoding: int = 0,
) -> Message:
    """A `glmClassifier` of the array `x`; it gives `label` and `probabilities`."""
    kind = "string" if isinstance(labels[0], str) else "int64"
    key = {"dictionaryType": {f"{kind}KeyType": {}}}
    return message_class("Model")(
        specificationVersion=1,
        description={
            "input": [{"name": "x", "type": array_type(len(weights[0]))}],
            "output": [
                {"name": "label", "type": {f"{kind}Type": {}}},
                {"name": "probabilities", "type": key},
            ],
            "predictedFeatureName": "label",
            "predictedProbabilitiesName": "probabilities",
        },
        glmClassifier={
            "weights": [{"value": row} for row in weights],
            "offset": offsets,
            "postEvaluationTransform": transform,
            "classEncoding": encoding,
            f"{kind}ClassLabels": {"vector": labels},
        },
    )


def read_spec(spec: Message) -> ir.Model:
    """The model that a specification holds."""
    return read(spec.SerializeToString())
