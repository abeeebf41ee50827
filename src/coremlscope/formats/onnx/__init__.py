"""Reading of ONNX models by ONNX's public schema, into a plain graph of their own; nothing imports onnx."""
