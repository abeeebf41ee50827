"""The versions of the operator set in which the definitions of operators changed.

(Source: ONNX's published operator schemas, `docs/Changelog.md` of ONNX 1.23.)
"""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.formats.onnx.graph import Node

_TABLE = """
Add 1 6 7 13 14
And 1 7
ArgMax 1 11 12 13
AveragePool 1 7 10 11 19 22
BatchNormalization 1 6 7 9 14 15
Cast 1 6 9 13 19 21 23 24 25 28
Ceil 1 6 13
Clip 1 6 11 12 13
Concat 1 4 11 13
Conv 1 11 22
ConvTranspose 1 11 22
Cos 7 22
DepthToSpace 1 11 13 28
Div 1 6 7 13 14
Elu 1 6 22
Erf 9 13
Exp 1 6 13
Flatten 1 9 11 13 21 23 24 25
Gather 1 11 13
GatherND 11 12 13
Gelu 20
Gemm 1 6 7 9 11 13
GlobalAveragePool 1 22
GlobalMaxPool 1 22
GridSample 16 20 22
GroupNormalization 18 21
HardSigmoid 1 6 22
Identity 1 13 14 16 19 21 23 24 25
InstanceNormalization 1 6 22
LRN 1 13
LayerNormalization 17
LeakyRelu 1 6 16
MatMul 1 9 13
Max 1 6 8 12 13
MaxPool 1 8 10 11 12 22
Mul 1 6 7 13 14
PRelu 1 6 7 9 16
Pad 1 2 11 13 18 19 21 23 24 25
Pow 1 7 12 13 15
Reciprocal 1 6 13
ReduceMax 1 11 12 13 18 20
ReduceMean 1 11 13 18
ReduceMin 1 11 12 13 18 20
ReduceProd 1 11 13 18
ReduceSum 1 11 13
Relu 1 6 13 14
Reshape 1 5 13 14 19 21 23 24 25
Resize 10 11 13 18 19
Round 11 22
Shape 1 13 15 19 21 23 24 25
Sigmoid 1 6 13
Sin 7 22
Slice 1 10 11 13
Softmax 1 11 13
Softplus 1 22
Split 1 2 11 13 18
Sqrt 1 6 13
Squeeze 1 11 13 21 23 24 25
Sub 1 6 7 13 14
Tanh 1 6 13
Tile 1 6 13
Transpose 1 13 21 23 24 25
Unsqueeze 1 11 13 21 23 24 25
Where 9 16
"""
_VERSIONS: Mapping[str, tuple[int, ...]] = {
    op: tuple(map(int, versions)) for op, *versions in map(str.split, _TABLE.split("\n")[1:-1])
}


def definition_of(node: Node, opset: int) -> int:
    """Returns the version of the operator set in which an operator's definition is from.

    Args:
        node: The operator. Those of other domains than ONNX's own are of version 1.
        opset: The version of ONNX's own operators that the model uses.
    """
    if not node.is_own:
        return 1
    return max((version for version in _VERSIONS.get(node.op, (1,)) if version <= opset), default=opset)
