"""Lowers the intermediate representation to ONNX."""

from coremlscope.ops.lower.classical import lower_classical
from coremlscope.ops.lower.program import lower

__all__ = ["lower", "lower_classical"]
