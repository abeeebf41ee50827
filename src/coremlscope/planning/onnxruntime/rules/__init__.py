"""The rules of ONNX Runtime's Core ML provider: which operators it takes, in which form, since when."""
