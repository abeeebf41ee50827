"""Lowers the intermediate representation to ONNX."""

from coremlscope.lower.classical import lower_classical
from coremlscope.lower.program import lower

__all__ = ["lower", "lower_classical"]
