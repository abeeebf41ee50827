"""From the intermediate representation to ONNX."""

from coremlscope.lower.program import lower

__all__ = ["lower"]
