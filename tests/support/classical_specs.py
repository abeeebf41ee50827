"""Specifications of classical models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import coremlscope
from coremlscope.formats.container import read
from coremlscope.model import ir
from coremlscope.model.schema import Message, message_class

__all__ = [
    "DOUBLE",
    "INT64",
    "STRING",
    "array_type",
    "classifier",
    "dictionary_type",
    "model_spec",
    "nodes_of",
    "predict_value",
    "read_parameters",
    "read_spec",
    "regressor",
    "sequence_type",
    "tree_classifier",
    "tree_regressor",
]

_FP64 = 65600


def array_type(*shape: int, dtype: int = _FP64) -> dict[str, Any]:
    """A feature type; `dtype` is the number in Apple's specification, fp64 by default."""
    return {"multiArrayType": {"shape": shape, "dataType": dtype}}


DOUBLE: dict[str, Any] = {"doubleType": {}}
INT64: dict[str, Any] = {"int64Type": {}}
STRING: dict[str, Any] = {"stringType": {}}


def dictionary_type(key: str = "string") -> dict[str, Any]:
    """A feature type: a dictionary with keys that are `string` or `int64`."""
    return {"dictionaryType": {f"{key}KeyType": {}}}


def sequence_type(element: str = "string") -> dict[str, Any]:
    """A feature type: a sequence of `string` or `int64`, of any length."""
    return {"sequenceType": {f"{element}Type": {}, "sizeRange": {"lowerBound": 0, "upperBound": -1}}}


def model_spec(
    kind: str,
    parameters: dict[str, Any],
    inputs: dict[str, dict[str, Any]],
    outputs: dict[str, dict[str, Any]],
    *,
    optional: Sequence[str] = (),
) -> Message:
    """A model of any kind.

    Args:
        kind: The name of the model type.
        parameters: Its message.
        inputs: Name and type of each.
        outputs: Name and type of each.
        optional: Names of inputs that may be absent.
    """
    return message_class("Model")(
        specificationVersion=4,
        description={
            "input": [
                {"name": name, "type": {**type_, "isOptional": name in optional}}
                for name, type_ in inputs.items()
            ],
            "output": [{"name": name, "type": type_} for name, type_ in outputs.items()],
        },
        **{kind: parameters},
    )


def nodes_of(tree: Any, tree_id: int = 0) -> list[dict[str, Any]]:
    """The nodes of a tree given as nested tuples.

    Args:
        tree: A leaf: its values, a number or a dictionary by dimension. Or a branch: Apple's number of its
            behaviour, the feature, the threshold, the true child, the false child, and whether missing values
            go to the true one.
        tree_id: The tree's number.
    """
    nodes: list[dict[str, Any]] = []

    def add(part: Any) -> int:
        number = len(nodes) + 10
        node: dict[str, Any] = {"treeId": tree_id, "nodeId": number}
        nodes.append(node)
        if isinstance(part, tuple):
            behavior, feature, threshold, true, false, *missing = part
            node |= {"nodeBehavior": behavior, "branchFeatureIndex": feature, "branchFeatureValue": threshold}
            node["missingValueTracksTrueChild"] = bool(missing and missing[0])
            node["trueChildNodeId"], node["falseChildNodeId"] = add(true), add(false)
        else:
            values = part if isinstance(part, dict) else {0: part}
            node |= {"nodeBehavior": 6, "relativeHitRate": 0.5}
            node["evaluationInfo"] = [
                {"evaluationIndex": index, "evaluationValue": value} for index, value in values.items()
            ]
        return number

    add(tree)
    return nodes


def _ensemble(trees: Sequence[Any], base: Sequence[float], transform: int) -> dict[str, Any]:
    nodes = [node for tree_id, tree in enumerate(trees) for node in nodes_of(tree, tree_id)]
    parameters = {"nodes": nodes, "numPredictionDimensions": len(base), "basePredictionValue": base}
    return {"treeEnsemble": parameters, "postEvaluationTransform": transform}


def tree_regressor(
    trees: Sequence[Any],
    base: Sequence[float] = (0.0,),
    transform: int = 0,
    *,
    features: int = 3,
    inputs: dict[str, dict[str, Any]] | None = None,
    optional: Sequence[str] = (),
) -> Message:
    """A `treeEnsembleRegressor` of the array `x`, or of other inputs; it gives `y`."""
    output = DOUBLE if len(base) == 1 else array_type(len(base))
    parameters, given = _ensemble(trees, base, transform), inputs or {"x": array_type(features)}
    return model_spec("treeEnsembleRegressor", parameters, given, {"y": output}, optional=optional)


def tree_classifier(
    trees: Sequence[Any], base: Sequence[float], labels: Sequence[str] | Sequence[int], transform: int = 0
) -> Message:
    """A `treeEnsembleClassifier` of the array `x` of three numbers; it gives `label` and `probabilities`."""
    kind = "string" if isinstance(labels[0], str) else "int64"
    parameters = _ensemble(trees, base, transform) | {f"{kind}ClassLabels": {"vector": labels}}
    outputs = {"label": {f"{kind}Type": {}}, "probabilities": dictionary_type(kind)}
    return model_spec("treeEnsembleClassifier", parameters, {"x": array_type(3)}, outputs)


def regressor(
    weights: Sequence[Sequence[float]],
    offsets: Sequence[float],
    transform: int = 0,
    *,
    inputs: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
) -> Message:
    """A `glmRegressor` of `x0`, `x1`, …, which are doubles, or of other `inputs`; it gives `y`."""
    names = inputs or {f"x{index}": DOUBLE for index in range(len(weights[0]))}
    return message_class("Model")(
        specificationVersion=1,
        description={
            "input": [{"name": name, "type": type_} for name, type_ in names.items()],
            "output": [{"name": "y", "type": output or DOUBLE}],
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
    key = dictionary_type(kind)
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
    """Reads a model from its specification."""
    return read(spec.SerializeToString())


def read_parameters(kind: str, parameters: dict[str, Any]) -> ir.Model:
    """A model of any kind that takes the array `x` of two numbers and gives the double `y`."""
    return read_spec(model_spec(kind, parameters, {"x": array_type(2)}, {"y": DOUBLE}))


def predict_value(
    kind: str, parameters: dict[str, Any], input_type: dict[str, Any], output_type: dict[str, Any], value: Any
) -> Any:
    """The result of a model that takes one value and gives one value."""
    model = read_spec(model_spec(kind, parameters, {"x": input_type}, {"y": output_type}))
    return coremlscope.predict(model, {"x": value})["y"]
