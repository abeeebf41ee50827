"""Features: conversion between the values of users and coremltools and the tensors of programs.

Importing this package is cheap. Pillow is loaded with the first image.
"""

from coremlscope.model.features.description import describe_feature, describe_shape
from coremlscope.model.features.dummy import dummy_value, dummy_values
from coremlscope.model.features.files import parse_input, read_input
from coremlscope.model.features.names import nearest
from coremlscope.model.features.shapes import (
    bind_shapes,
    check_combination,
    check_shape,
    default_shape,
    largest_shapes,
)
from coremlscope.model.features.tensors import (
    ConversionObserver,
    from_tensors,
    observe_conversions,
    to_tensors,
)
from coremlscope.model.features.transfer import FeatureValue, input_tensors, is_compatible

__all__ = [
    "ConversionObserver",
    "FeatureValue",
    "bind_shapes",
    "check_combination",
    "check_shape",
    "default_shape",
    "describe_feature",
    "describe_shape",
    "dummy_value",
    "dummy_values",
    "from_tensors",
    "input_tensors",
    "is_compatible",
    "largest_shapes",
    "nearest",
    "observe_conversions",
    "parse_input",
    "read_input",
    "to_tensors",
]
