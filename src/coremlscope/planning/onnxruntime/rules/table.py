"""The whole table, and the fixes for operators that have no row."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.planning.onnxruntime.case import Format, Release
from coremlscope.planning.onnxruntime.rules import elementwise, resizing, shaping, windows
from coremlscope.planning.onnxruntime.rules.rule import NEWEST, Operator

_FAMILIES: tuple[tuple[Operator, ...], ...] = (
    elementwise.OPERATORS,
    shaping.OPERATORS,
    windows.OPERATORS,
    resizing.OPERATORS,
)
#: Rows by the type of the operator.
OPERATORS: Mapping[str, Operator] = {row.op: row for family in _FAMILIES for row in family}
if len(OPERATORS) != sum(map(len, _FAMILIES)):
    raise ValueError("duplicate rows of operators")

#: The last releases before a rule changed, and the newest.
RELEASES: tuple[Release, ...] = ((1, 20), (1, 21), (1, 22), (1, 23), (1, 25), (1, 26), (1, 27), NEWEST)

#: The release from which groups of trivial operators alone are dropped (pull request 28293).
TRIVIAL_DROPPED = (1, 27)
#: The fix for quantised operators.
FLOAT_MODEL = "run the float model: the provider takes no quantised operator"
#: What to write instead of an operator without a builder.
REPLACEMENTS: Mapping[str, str] = {
    "Abs": "write it as Max of x and -x with MLProgram",
    "DequantizeLinear": FLOAT_MODEL,
    "DynamicQuantizeLinear": FLOAT_MODEL,
    "Einsum": "write it as MatMul and Transpose",
    "Expand": "write it as Tile (ONNX Runtime 1.27 or later)",
    "Flatten": "write it as Reshape to a constant shape",
    "HardSwish": "write it as HardSigmoid and Mul, or export below opset 14",
    "LogSoftmax": "write it as Softmax, and take the logarithm outside",
    "Mish": "write it as Softplus, Tanh and Mul with MLProgram",
    "Neg": "multiply by -1",
    "QLinearAdd": FLOAT_MODEL,
    "QLinearConv": FLOAT_MODEL,
    "QLinearMatMul": FLOAT_MODEL,
    "QuantizeLinear": FLOAT_MODEL,
    "ReduceL2": "write it as Mul, ReduceSum and Sqrt",
    "Sum": "write it as Add",
    "Swish": "write it as Sigmoid and Mul",
    "Upsample": "export with opset 11 or later: it becomes Resize",
}
#: The words for the formats in ONNX Runtime's options.
FORMAT_NAMES: Mapping[Format, str] = {"neuralnetwork": "NeuralNetwork", "mlprogram": "MLProgram"}
