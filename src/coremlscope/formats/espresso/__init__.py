"""Compiled neural networks: the three files `*.espresso.net`, `.shape` and `.weights` of Apple's compiler.

`files` reads the layers and shapes, `blobs` the weights, and `network` translates the layers into the
operations of ML Programs. Each layer type has one row; the rows of a family are in one module, and `layers`
joins them. The format is not documented: its facts are from published compiled models, several with their
source, and from public readers (Netron, espresso2onnx).
"""
