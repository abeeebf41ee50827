"""What ONNX Runtime's Core ML provider takes of an ONNX model: its rules, and how it divides a graph."""
