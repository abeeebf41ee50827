from __future__ import annotations

import numpy as np
import pytest

from coremlscope.describe.weights import group_weights
from coremlscope.model import ir
from coremlscope.results.model import WeightGroup


def tensor(dtype: ir.DType, *shape: int) -> ir.Constant:
    """A constant of zeros; sub-byte types are kept one element a byte, as everywhere in the program."""
    return ir.Constant(ir.TensorType(dtype, shape), ir.Immediate(np.zeros(shape, dtype.numpy)))


def program(*ops: ir.Op) -> ir.Program:
    """A program of these operations and one that uses the result of the last."""
    weight = ops[-1].outputs[0]
    y = ir.Value("y", weight.type)
    x = ir.Value("x", weight.type)
    use = ir.Op(id="main/99", type="mul", inputs={"x": (x,), "y": (weight,)}, outputs=(y,))
    graph = ir.Graph(name="main", inputs=(x,), ops=(*ops, use), outputs=(y,))
    return ir.Program(functions={"main": ir.Function(name="main", opset="CoreML8", graph=graph)})


def op(type_: str, name: str, dtype: ir.DType, shape: tuple[int, ...], /, **inputs: ir.Argument) -> ir.Op:
    output = ir.Value(name, ir.TensorType(dtype, shape))
    if type_ == "const":
        return ir.Op(
            id=f"main/{name}", type=type_, inputs={}, outputs=(output,), attributes={"val": inputs["val"]}
        )  # type: ignore[dict-item]
    return ir.Op(
        id=f"main/{name}",
        type=type_,
        inputs={key: (value,) for key, value in inputs.items()},
        outputs=(output,),
    )


F16, F32 = ir.DType.FP16, ir.DType.FP32


def test_plain_constants() -> None:
    weight = op("const", "w", F16, (4, 8), val=tensor(F16, 4, 8))
    assert group_weights(program(weight)) == (
        WeightGroup(storage="fp16", dtype="fp16", tensors=1, parameters=32, nbytes=64),
    )


def test_scalars_and_integers_do_not_count_as_parameters() -> None:
    assert group_weights(program(op("const", "w", F32, (), val=tensor(F32)))) == ()
    assert group_weights(program(op("const", "w", ir.DType.INT32, (4,), val=tensor(ir.DType.INT32, 4)))) == ()


@pytest.mark.parametrize(
    ("type_", "sources", "storage", "nbytes"),
    [
        # Tables of the first operation set that has them: packed indices, the table's length tells the bits.
        (
            "constexpr_lut_to_dense",
            {
                "indices": tensor(ir.DType.UINT8, 16),
                "lut": tensor(F16, 16),
                "shape": tensor(ir.DType.UINT32, 2),
            },
            "LUT 4-bit",
            16 + 32 + 8,
        ),
        (
            "constexpr_lut_to_dense",
            {"indices": tensor(ir.DType.UINT3, 4, 8), "lut": tensor(F16, 1, 1, 8, 1)},
            "LUT 3-bit",
            12 + 16,
        ),
        (
            "constexpr_affine_dequantize",
            {"quantized_data": tensor(ir.DType.INT8, 4, 8), "scale": tensor(F16, 4)},
            "affine int8",
            32 + 8,
        ),
        (
            "constexpr_blockwise_shift_scale",
            {"data": tensor(ir.DType.INT4, 4, 8), "scale": tensor(F16, 4, 2)},
            "affine int4 in blocks of 4",
            16 + 16,
        ),
        (
            "constexpr_blockwise_shift_scale",
            {"data": tensor(ir.DType.INT8, 4, 8), "scale": tensor(F16, 4, 1)},
            "affine int8",
            32 + 8,
        ),
        (
            "constexpr_sparse_to_dense",
            {"nonzero_data": tensor(F16, 10), "mask": tensor(ir.DType.UINT1, 4, 8)},
            "sparse fp16",
            20 + 4,
        ),
        ("constexpr_cast", {"source_val": tensor(F16, 4, 8)}, "fp16", 64),
    ],
)
@pytest.mark.parametrize("are_attributes", [False, True])
def test_compression(
    type_: str, sources: dict[str, ir.Constant], storage: str, nbytes: int, are_attributes: bool
) -> None:
    weight = op(type_, "w", F32, (4, 8), **({} if are_attributes else sources))
    if are_attributes:
        weight = ir.Op(
            id=weight.id,
            type=type_,
            inputs={},
            outputs=weight.outputs,
            attributes={**sources, "name": ir.constant("w")},
        )
    assert group_weights(program(weight)) == (
        WeightGroup(storage=storage, dtype="fp32", tensors=1, parameters=32, nbytes=nbytes),
    )


def test_joint_compression() -> None:
    values = op(
        "constexpr_lut_to_sparse",
        "values",
        F16,
        (10,),
        indices_mask=tensor(ir.DType.UINT1, 4, 8),
        indices_nonzero_data=tensor(ir.DType.UINT4, 10),
        lut=tensor(F16, 1, 1, 16, 1),
    )
    dense = op(
        "constexpr_sparse_to_dense",
        "w",
        F16,
        (4, 8),
        nonzero_data=values.outputs[0],
        mask=tensor(ir.DType.UINT1, 4, 8),
    )
    (group,) = group_weights(program(values, dense))
    assert (group.storage, group.tensors, group.parameters) == ("sparse LUT 4-bit", 1, 32)
    assert group.nbytes == 5 + 32 + 4 + 4


def test_quantised_table() -> None:
    table = op(
        "constexpr_blockwise_shift_scale",
        "lut",
        F16,
        (1, 1, 4, 1),
        data=tensor(ir.DType.INT8, 1, 1, 4, 1),
        scale=tensor(F16, 1, 1, 1, 1),
    )
    dense = op(
        "constexpr_lut_to_dense", "w", F16, (4, 8), indices=tensor(ir.DType.UINT2, 4, 8), lut=table.outputs[0]
    )
    (group,) = group_weights(program(table, dense))
    assert group.storage == "LUT 2-bit affine int8"


def test_shared_weights_count_once() -> None:
    shared = tensor(F16, 4, 8)
    weight = op("const", "w", F16, (4, 8), val=shared)
    one = program(weight).functions["main"]
    both = ir.Program(functions={"one": one, "two": one})
    assert group_weights(both) == (
        WeightGroup(storage="fp16", dtype="fp16", tensors=1, parameters=32, nbytes=64),
    )
