"""The graph of an ONNX model after ONNX Runtime's own optimisation of the level BASIC, in a child process."""
