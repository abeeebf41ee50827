"""Which element types ONNX Runtime's CPU kernels do not support, and which replace them.

Most of this has no effect: floats of every width are carried as float32 and integers as int32 (`emit.carry`).
Where a row writes an operator in a carried type without a kernel, the emitter casts to a type that has one.
The table holds for ONNX Runtime 1.31; a test probes the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from coremlscope.base.arrays import np

NumpyType: TypeAlias = "np.dtype[Any]"

_FLOATS = "float16 float32 float64"
_NARROW = "int8 uint8 int16 uint16"
_WHOLE = f"{_NARROW} int32 int64 bool"

#: Element types without a kernel, and the operators concerned; some by the value of an attribute.
_GAPS = {
    "bool": "Abs Add Clip Div Greater GreaterOrEqual Less LessOrEqual Mod[fmod=1] Mul "
    "ScatterElements[reduction=max] ScatterElements[reduction=min] Sign Sub",
    "uint16 bool": "TopK",
    "uint8 uint16 bool": "Neg",
    "int16 uint16": "Pad Pad[mode=edge] Pad[mode=reflect] ReduceMax ReduceMin",
    "int16 uint16 bool": "ArgMax ArgMin Max Min Where",
    "int16 uint16 int32 int64 bool": "DepthToSpace MaxPool SpaceToDepth",
    "uint8 int16 uint16 int64 bool": "Relu",
    "float64 int16 uint16 int64 bool": "Resize Resize[mode=linear]",
    "float64 int8 int16 uint16": "NonZero",
    _NARROW: "Trilu",
    f"{_NARROW} bool": "CumSum Einsum MatMul Pow ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean "
    "ReduceProd ReduceSum ReduceSumSquare",
    _WHOLE: "BatchNormalization Ceil Cos Exp Floor Gemm GridSample LayerNormalization Log Reciprocal Round "
    "Sigmoid Sin Softmax Sqrt Tanh",
    f"float64 {_WHOLE}": "Acos Asin Atan Atanh AveragePool Conv ConvTranspose Cosh Elu Erf GRU Gelu "
    "GlobalAveragePool HardSigmoid InstanceNormalization LRN LSTM LeakyRelu LpPool Multinomial PRelu RNN "
    "Sinh Softplus Softsign Tan ThresholdedRelu",
    f"float16 float64 {_WHOLE}": "NonMaxSuppression",
    "float16": "ScatterElements[reduction=add] ScatterElements[reduction=mul] ScatterND[reduction=add] "
    "ScatterND[reduction=mul]",
    "float16 bool": "ScatterND[reduction=max] ScatterND[reduction=min]",
    "float16 int8 uint8 uint16 bool": "Range",
    # The lowering writes `x − floor(x / y) · y` instead; ONNX defines only C's fmod for floats.
    f"{_FLOATS} bool": "Mod",
    f"{_FLOATS} {_NARROW} int32 int64": "And Not Or Xor",
}
#: By operator, or form of one: the element types without a kernel.
LACKING: Mapping[str, frozenset[str]] = {
    name: frozenset(dtypes.split()) for dtypes, names in _GAPS.items() for name in names.split()
}

#: Types to cast to, in order of preference; each holds the values as exactly as possible.
_THROUGH = {
    "bool": ("int32", "float32"),
    "int32": ("int64", "float64", "float32", "bool"),
    "int64": ("float64", "float32", "bool"),
    "float32": ("float64", "bool"),
    "float64": ("float32", "bool"),
}
#: Inputs whose element type selects the kernel, where other inputs may happen to have that type.
_DATA = {
    "DepthToSpace": (0,),
    "MaxPool": (0,),
    "Pad": (0, 2),
    "Resize": (0,),
    "SpaceToDepth": (0,),
    "Where": (1, 2),
}


class Detour(msgspec.Struct, frozen=True):
    """A cast around a missing kernel.

    Attributes:
        around: The element type without a kernel.
        through: A type with a kernel.
        inputs: Which inputs to cast.
    """

    around: NumpyType
    through: NumpyType
    inputs: tuple[int, ...]


def detour(op_type: str, dtypes: Sequence[NumpyType | None], attributes: Mapping[str, Any]) -> Detour | None:
    """The cast around a node's missing kernel; None where the kernel exists.

    Args:
        op_type: The operator.
        dtypes: Element types of the node's inputs; None for those that are left out.
        attributes: The node's attributes.

    Raises:
        LookupError: There is no kernel, for no other type either.
    """
    own = {i: dtypes[i] for i in _DATA.get(op_type, range(len(dtypes))) if i < len(dtypes)}
    around = next((dtype for dtype in own.values() if dtype is not None), None)
    form = _form(op_type, attributes)
    if around is None or around.name not in LACKING.get(form, ()):
        return None
    for name in _THROUGH.get(around.name, ()):
        if name not in LACKING[form]:
            inputs = tuple(index for index, dtype in own.items() if dtype == around)
            return Detour(around, np.dtype(name), inputs)
    raise LookupError(f"{form} has no kernel for {around.name}")


def _form(op_type: str, attributes: Mapping[str, Any]) -> str:
    """A node's name in the table: that of its operator, or of a form of it."""
    forms = (f"{op_type}[{key}={value}]" for key, value in attributes.items())
    return next((form for form in forms if form in LACKING), op_type)


#: Operators whose results have a fixed element type.
_RESULTS: Mapping[str, str] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), "bool"),
    **dict.fromkeys(("ArgMax", "ArgMin", "NonZero", "Shape"), "int64"),
}


def result_type(op_type: str, dtypes: Sequence[NumpyType | None]) -> NumpyType:
    """The element type of a node's first result, where no attribute decides on it.

    Args:
        op_type: The operator.
        dtypes: Element types of the node's inputs; None for those that are left out.
    """
    if op_type in _RESULTS:
        return np.dtype(_RESULTS[op_type])
    return next(dtype for dtype in (dtypes[1:] if op_type == "Where" else dtypes) if dtype is not None)
