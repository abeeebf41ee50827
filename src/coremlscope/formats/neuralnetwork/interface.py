"""Inputs that a neural network accepts in addition to its description."""

from __future__ import annotations

from msgspec.structs import replace

from coremlscope.model.ir import ArrayFeature, Description, Feature, FunctionDescription
from coremlscope.model.schema import Message


def with_sequences(description: Description, message: Message) -> Description:
    """Marks the arrays of a network with legacy shape mapping, which also accept sequences.

    Args:
        description: The description in the file.
        message: A `NeuralNetwork`, `NeuralNetworkClassifier` or `NeuralNetworkRegressor`.
    """
    if message.arrayInputShapeMapping == 1:  # EXACT_ARRAY_MAPPING
        return description
    return take_sequences(description)


def take_sequences(description: Description) -> Description:
    """Marks the arrays of a network, which also accept sequences."""
    functions = {name: _function(function) for name, function in description.functions.items()}
    return replace(description, functions=functions)


def _function(function: FunctionDescription) -> FunctionDescription:
    return replace(function, inputs=tuple(map(_feature, function.inputs)))


def _feature(feature: Feature) -> Feature:
    if not isinstance(feature.type, ArrayFeature) or len(feature.type.shape) > 3:
        return feature
    return replace(feature, type=replace(feature.type, takes_sequences=True))
