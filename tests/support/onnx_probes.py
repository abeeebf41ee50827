"""A minimal graph of each ONNX operator that lowered programs use, in a given element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from coremlscope.ops.emit import ONNX_OPSET

#: An input: a shape in the probed element type, an array that is used as it is, or nothing.
Input = tuple[int, ...] | np.ndarray | None
INT64 = np.int64


def _ints(*values: int) -> np.ndarray:
    return np.array(values, INT64)


_SQUARE: tuple[Input, ...] = ((2, 2),)
_PAIR: tuple[Input, ...] = ((2, 2), (2, 2))
_IMAGE: tuple[Input, ...] = ((1, 4, 4, 4),)
_POOL = {"kernel_shape": [2, 2]}
_INDICES = np.zeros((2, 2), INT64)

_UNARY = """
    Abs Acos ArgMax ArgMin Asin Atan Atanh Ceil Clip Cos Cosh Elu Erf Exp Flatten Floor Gelu HardSigmoid
    Identity LeakyRelu Log Neg NonZero Not Reciprocal Relu Round Shape Sigmoid Sign Sin Sinh Softmax Softplus
    Softsign Sqrt Tan Tanh ThresholdedRelu Transpose Trilu
"""
_BINARY = (
    "Add And Div Equal Gemm Greater GreaterOrEqual Less LessOrEqual MatMul Max Min Mul Or Pow PRelu Sub Xor"
)
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

#: Inputs and attributes by operator, or by a form of one as named in the kernel table.
PROBES: dict[str, tuple[tuple[Input, ...], dict[str, Any]]] = {
    **{name: (_SQUARE, {}) for name in _UNARY.split()},
    **{name: (_PAIR, {}) for name in _BINARY.split()},
    **{f"Reduce{name}": (((2, 2), _ints(0)), {}) for name in _REDUCTIONS.split()},
    "AveragePool": (_IMAGE, _POOL),
    "BatchNormalization": ((*_IMAGE, (4,), (4,), (4,), (4,)), {}),
    "Concat": (_PAIR, {"axis": 0}),
    "Conv": ((*_IMAGE, (4, 4, 1, 1)), {}),
    "ConvTranspose": ((*_IMAGE, (4, 4, 1, 1)), {}),
    "CumSum": (((2, 2), _ints(0)), {}),
    "DepthToSpace": (_IMAGE, {"blocksize": 2}),
    "Einsum": (_PAIR, {"equation": "ab,bc->ac"}),
    "Expand": (((2, 2), _ints(2, 2, 2)), {}),
    "GRU": (((1, 1, 2), (1, 6, 2), (1, 6, 2)), {"hidden_size": 2}),
    "Gather": (((2, 2), _INDICES), {}),
    "GatherElements": (((2, 2), _INDICES), {}),
    "GatherND": (((2, 2), _INDICES), {}),
    "GlobalAveragePool": (_IMAGE, {}),
    "GridSample": ((*_IMAGE, (1, 2, 2, 2)), {}),
    "InstanceNormalization": ((*_IMAGE, (4,), (4,)), {}),
    "LRN": (_IMAGE, {"size": 3}),
    "LSTM": (((1, 1, 2), (1, 8, 2), (1, 8, 2)), {"hidden_size": 2}),
    "LayerNormalization": (((2, 2), (2,)), {}),
    "LpPool": (_IMAGE, _POOL),
    "MaxPool": (_IMAGE, _POOL),
    "Mod": (_PAIR, {}),
    "Multinomial": (_SQUARE, {}),
    "NonMaxSuppression": (((1, 2, 4), (1, 1, 2)), {}),
    "Pad": (((2, 2), _ints(1, 1, 1, 1)), {}),
    "RNN": (((1, 1, 2), (1, 2, 2), (1, 2, 2)), {"hidden_size": 2}),
    "Range": (((), (), ()), {}),
    "Reshape": (((2, 2), _ints(4)), {}),
    "Resize": ((*_IMAGE, None, None, _ints(1, 4, 8, 8)), {}),
    "ScatterElements": (((2, 2), _INDICES, (2, 2)), {}),
    "ScatterND": (((2, 2), _ints(0).reshape(1, 1), (1, 2)), {}),
    "Slice": (((2, 2), _ints(0), _ints(1)), {}),
    "SpaceToDepth": (_IMAGE, {"blocksize": 2}),
    "Split": (_SQUARE, {"num_outputs": 2}),
    "Squeeze": (((1, 2), _ints(0)), {}),
    "Tile": (((2, 2), _ints(2, 1)), {}),
    "TopK": (((2, 2), _ints(1)), {}),
    "Unsqueeze": (((2, 2), _ints(0)), {}),
    "Where": ((np.ones((2, 2), bool), (2, 2), (2, 2)), {}),
}
for _reduction in ("add", "mul", "max", "min"):
    for _name in ("ScatterElements", "ScatterND"):
        PROBES[f"{_name}[reduction={_reduction}]"] = (PROBES[_name][0], {"reduction": _reduction})
PROBES["Mod[fmod=1]"] = (_PAIR, {"fmod": 1})
PROBES["Resize[mode=linear]"] = (PROBES["Resize"][0], {"mode": "linear"})
PROBES["Pad[mode=reflect]"] = (PROBES["Pad"][0], {"mode": "reflect"})
PROBES["Pad[mode=edge]"] = (PROBES["Pad"][0], {"mode": "edge"})

#: Number of results, where it is not one.
_RESULTS = {"Split": 2, "TopK": 2}
#: Results with a fixed type.
_RESULT_TYPES = {
    **dict.fromkeys(["Shape", "NonZero", "ArgMax", "ArgMin", "NonMaxSuppression"], TensorProto.INT64),
    **dict.fromkeys(
        ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not"],
        TensorProto.BOOL,
    ),
    "Multinomial": TensorProto.INT32,
}


def has_kernel(form: str, dtype: np.dtype) -> bool:
    """True where ONNX Runtime loads and runs an operator in an element type."""
    inputs, attributes = PROBES[form]
    op_type = form.partition("[")[0]
    element = helper.np_dtype_to_tensor_dtype(dtype)
    names, taken, constants, feeds = [], [], [], {}
    for index, given in enumerate(inputs):
        name = "" if given is None else f"x{index}"
        names.append(name)
        if isinstance(given, np.ndarray):
            constants.append(numpy_helper.from_array(given, name))
        elif given is not None:
            taken.append(helper.make_tensor_value_info(name, element, given))
            # Range takes a start, a limit and a step; other operators accept any values.
            feeds[name] = np.full(given, index if op_type == "Range" else 1, dtype)
    results = [f"y{index}" for index in range(_RESULTS.get(op_type, 1))]
    made = helper.make_tensor_value_info("y0", _RESULT_TYPES.get(op_type, element), None)
    node = helper.make_node(op_type, names, results, **attributes)
    graph = helper.make_graph([node], "probe", taken, [made], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", ONNX_OPSET)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        session.run(None, feeds)
    except Exception:  # its exceptions have no common base but this
        return False
    return True
