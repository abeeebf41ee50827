"""Features: values as people and coremltools give them, to and from the tensors that a program takes.

Importing this package is cheap; Pillow is loaded when the first image is met.
"""

from coremlscope.features.dummy import dummy_value, dummy_values
from coremlscope.features.files import parse_input, read_input
from coremlscope.features.names import nearest
from coremlscope.features.passing import Held, can_pass, take
from coremlscope.features.shapes import bind_shapes, check_shape, default_shape
from coremlscope.features.tensors import from_tensors, to_tensors
from coremlscope.features.words import describe_feature, describe_shape

__all__ = [
    "Held",
    "bind_shapes",
    "can_pass",
    "check_shape",
    "default_shape",
    "describe_feature",
    "describe_shape",
    "dummy_value",
    "dummy_values",
    "from_tensors",
    "nearest",
    "parse_input",
    "read_input",
    "take",
    "to_tensors",
]
