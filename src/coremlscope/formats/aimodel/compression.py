"""Compressed weights as Core ML's `constexpr` operations: scaled blocks, look-up tables, sparse weights."""

from __future__ import annotations

import numpy as np

from coremlscope.formats.aimodel.translation import Operand, Row, Translation, dims_of, known
from coremlscope.formats.neuralnetwork.builder import CannotTranslate, Given
from coremlscope.model.ir import Constant, DType, Immediate, TensorType


def _is_zero(operand: Operand) -> bool:
    found = known(operand)
    return found is not None and not np.any(found)


def _blockwise_shift_scale(t: Translation) -> Operand:
    """Computes `scale · (data - offset) + second offset`."""
    offset = None if len(t.inputs) < 3 or _is_zero(t.inputs[2]) else t.tensor(2)
    weight = t.builder.op("constexpr_blockwise_shift_scale", data=t.x, scale=t.tensor(1), offset=offset)
    if len(t.inputs) < 4 or _is_zero(t.inputs[3]):
        return weight
    return t.builder.op("add", x=weight, y=t.tensor(3))


def _lut_to_dense(t: Translation) -> Operand:
    axis = t.integer(2) if len(t.inputs) > 2 else 0
    return t.builder.op(
        "constexpr_lut_to_dense", indices=t.x, lut=t.tensor(1), vector_axis=axis % max(len(dims_of(t.x)), 1)
    )


def _dequantize(t: Translation) -> Operand:
    """Dequantizes values of a running model."""
    return t.builder.op(
        "dequantize", input=t.x, scale=_parameter(t, 1), zero_point=_zero_point(t), axis=_axis(t)
    )


def _quantize(t: Translation) -> Operand:
    return t.builder.op(
        "quantize",
        input=t.x,
        scale=_parameter(t, 1),
        zero_point=_zero_point(t),
        axis=_axis(t),
        output_dtype=t.dtype.value,
    )


def _parameter(t: Translation, index: int) -> Given:
    """Returns a scalar, or the vector of the parameters along an axis."""
    array = t.array(index)
    return array.reshape(()) if array.size == 1 else array.reshape(-1)


def _zero_point(t: Translation) -> Given:
    if not _is_zero(t.inputs[3]):
        raise CannotTranslate("Core ML has no offset of real numbers")
    return None if _is_zero(t.inputs[2]) else _parameter(t, 2)


def _axis(t: Translation) -> int:
    return t.integer(4) if t.array(1).size > 1 else 0


def _sparse(t: Translation) -> Operand:
    """Packs the mask of a sparse weight, which Core ML stores as bits."""
    mask = t.array(1)
    bits = Constant(TensorType(DType.UINT1, tuple(mask.shape)), Immediate(mask.astype(np.uint8)))
    return t.builder.op("constexpr_sparse_to_dense", nonzero_data=t.x, mask=bits)


#: Operations on constants by name.
ROWS: dict[str, Row] = {
    "blockwise_shift_scale": Row(_blockwise_shift_scale, (2, 4)),
    "lut_to_dense": Row(_lut_to_dense, (2, 3)),
    "build_sparse_with_bitmask": Row(_sparse, (2, 2)),
    "sparse_with_bitmask_to_dense": Row(lambda t: t.x, (1, 1)),
    "dequantize": Row(_dequantize, (5, 5)),
    "quantize": Row(_quantize, (5, 5)),
}
#: Operations whose results are weights.
COMPRESSED = ("blockwise_shift_scale", "lut_to_dense", "sparse_with_bitmask_to_dense")
