from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.base.errors import CorruptModelError
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.emit import WeightSlot
from coremlscope.ops.lower import lower
from coremlscope.ops.spec import Work
from tests.support.op_cases import check
from tests.support.programs import bind_main, build

DType = ir.DType
RNG = np.random.default_rng(23)


def known(values, dtype):
    return ir.constant(np.asarray(values), dtype)


def bound_op(name, results=1, *, as_attributes=False, **given):
    """One `constexpr_*`, bound: its arguments as attributes, as up to iOS 17, or as inputs."""
    outputs = tuple(ir.Value(f"y{i}", ir.TensorType(DType.FP32, None)) for i in range(results))
    inputs = {} if as_attributes else {key: (value,) for key, value in given.items()}
    op = ir.Op(
        id="main/0",
        type=name,
        inputs=inputs,
        outputs=outputs,
        blocks=(),
        attributes=given if as_attributes else {},
    )
    bound = bind(
        ir.Function(
            name="main", opset="CoreML8", graph=ir.Graph(name="main", inputs=(), ops=(op,), outputs=outputs)
        ),
        OPS,
    )
    assert not bound.problems, bound.problems
    return bound


def unpacked(name, results=1, **given):
    constants = [out.constant for out in bound_op(name, results, **given).graph.outputs]
    for constant in constants:
        assert isinstance(constant.data, ir.Derived)
        assert constant.numpy().shape == constant.type.shape
        assert constant.numpy().dtype == constant.type.dtype.numpy
    return constants[0] if results == 1 else constants


def pack(values, bits):
    """Elements of so many bits, the least significant first."""
    stream = ((np.asarray(values).reshape(-1, 1) >> np.arange(bits)) & 1).reshape(-1)
    return np.packbits(stream.astype(np.uint8), bitorder="little")


@pytest.mark.parametrize("as_attributes", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_affine(axis, as_attributes):
    data = RNG.integers(-128, 128, (3, 4, 5)).astype(np.int8)
    length = data.shape[axis]
    scale, zero = np.linspace(0.1, 0.5, length), np.arange(length)
    result = unpacked(
        "constexpr_affine_dequantize",
        as_attributes=as_attributes,
        quantized_data=known(data, DType.INT8),
        scale=known(scale, DType.FP32),
        zero_point=known(zero, DType.INT8),
        axis=known(axis, DType.INT32),
    )
    turned = [length if i == axis % 3 else 1 for i in range(3)]
    expected = (data - zero.reshape(turned)) * scale.astype(np.float32).reshape(turned)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_affine_of_one_scale_in_half_precision():
    data = np.array([[0, 128, 255]], np.uint8)
    result = unpacked(
        "constexpr_affine_dequantize",
        quantized_data=known(data, DType.UINT8),
        scale=known(np.float16(0.1), DType.FP16),
        zero_point=known(np.uint8(128), DType.UINT8),
        axis=known(0, DType.INT32),
    )
    assert result.type == ir.TensorType(DType.FP16, (1, 3))
    np.testing.assert_array_equal(
        result.numpy(), ((data.astype(np.float32) - 128) * np.float16(0.1)).astype(np.float16)
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8])
def test_packed_indices(bits):
    lut = RNG.normal(size=2**bits).astype(np.float16)
    indices = RNG.integers(0, 2**bits, (3, 7, 5))
    result = unpacked(
        "constexpr_lut_to_dense",
        as_attributes=True,
        indices=known(pack(indices, bits), DType.UINT8),
        lut=known(lut, DType.FP16),
        shape=known([3, 7, 5], DType.UINT32),
    )
    assert result.type == ir.TensorType(DType.FP16, (3, 7, 5))
    np.testing.assert_array_equal(result.numpy(), lut[indices])


def test_packed_mask():
    dense = RNG.normal(size=(5, 7)).astype(np.float32) * RNG.integers(0, 2, (5, 7))
    result = unpacked(
        "constexpr_sparse_to_dense",
        as_attributes=True,
        nonzero_data=known(dense[dense != 0], DType.FP32),
        mask=known(pack(dense != 0, 1), DType.UINT8),
        shape=known([5, 7], DType.UINT32),
    )
    np.testing.assert_array_equal(result.numpy(), dense)


@pytest.mark.parametrize("as_attributes", [True, False])
def test_cast(as_attributes):
    values = RNG.normal(size=(3, 4)).astype(np.float16)
    given = {"source_val": known(values, DType.FP16), "output_dtype": known("fp32", DType.STRING)}
    result = unpacked("constexpr_cast", as_attributes=as_attributes, **given)
    np.testing.assert_array_equal(result.numpy(), values.astype(np.float32))


@pytest.mark.parametrize("blocks", [(1, 1), (6, 1), (2, 4), (6, 8)])
@pytest.mark.parametrize("offset", [None, DType.INT4, DType.FP16])
def test_blockwise(blocks, offset):
    data = RNG.integers(-8, 8, (6, 8)).astype(np.int8)
    scale = RNG.uniform(0.5, 2, blocks).astype(np.float16)
    shift = np.zeros(blocks) if offset is None else RNG.integers(-4, 4, blocks)
    given = {"data": known(data, DType.INT4), "scale": known(scale, DType.FP16)}
    if offset is not None:
        given["offset"] = known(shift, offset)
    result = unpacked("constexpr_blockwise_shift_scale", **given)
    spread = np.kron(
        np.arange(np.prod(blocks)).reshape(blocks), np.ones((6 // blocks[0], 8 // blocks[1]), int)
    )
    expected = (data - shift.reshape(-1)[spread]) * scale.astype(np.float32).reshape(-1)[spread]
    np.testing.assert_array_equal(result.numpy(), expected.astype(np.float16))


def test_tables_for_groups():
    indices = np.array([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3]).reshape(6, 2)
    lut = np.array([1.0, 5, 9, 13, 2, 10, 18, 26]).reshape(2, 1, 4, 1)
    result = unpacked(
        "constexpr_lut_to_dense", indices=known(indices, DType.UINT2), lut=known(lut, DType.FP16)
    )
    expected = [[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]]
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tables_of_vectors(axis):
    indices = RNG.integers(0, 2, (2, 3, 2))
    lut = RNG.normal(size=(1, 3, 1, 2, 4)).astype(np.float32)
    result = unpacked(
        "constexpr_lut_to_dense",
        indices=known(indices, DType.UINT1),
        lut=known(lut, DType.FP32),
        vector_axis=known(axis, DType.INT32),
    )
    expected = np.zeros([d * 4 if i == axis % 3 else d for i, d in enumerate(indices.shape)], np.float32)
    for place in np.ndindex(indices.shape):
        vector = lut[0, place[1], 0, indices[place]]
        target = [slice(p, p + 1) for p in place]
        target[axis] = slice(place[axis] * 4, place[axis] * 4 + 4)
        expected[tuple(target)] = vector.reshape([4 if i == axis % 3 else 1 for i in range(3)])
    np.testing.assert_array_equal(result.numpy(), expected)


MASK = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0]])


@pytest.mark.parametrize("vector", [1, 2])
def test_sparse_tables(vector):
    kept = np.array([0, 1, 1, 0, 1, 1, 0, 0, 1])
    lut = np.repeat([2.0, 3.0], vector).reshape(1, 1, 2, vector)
    given = {"vector_axis": known(0, DType.INT32)} if vector > 1 else {}
    mask, values = unpacked(
        "constexpr_lut_to_sparse",
        2,
        indices_mask=known(MASK, DType.UINT1),
        indices_nonzero_data=known(kept, DType.UINT1),
        lut=known(lut, DType.FP16),
        **given,
    )
    dense = unpacked("constexpr_sparse_to_dense", nonzero_data=values, mask=mask)
    expected = np.zeros(MASK.shape)
    expected[MASK == 1] = kept + 2
    np.testing.assert_array_equal(dense.numpy(), np.repeat(expected, vector, 0))
    assert mask.type == ir.TensorType(DType.UINT1, (4 * vector, 6))


def test_sparse_blocks():
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    kept, values = unpacked(
        "constexpr_sparse_blockwise_shift_scale",
        2,
        data_mask=known(mask, DType.UINT1),
        nonzero_data=known([10, 11, 3, 4, 5, 6, 7, 8, 9], DType.INT8),
        scale=known([[0.1, 0.2, 0.3, 0.4]], DType.FP32),
        offset=known([[1, 2, 3, 4]], DType.INT8),
    )
    np.testing.assert_array_equal(kept.numpy(), mask)
    np.testing.assert_allclose(values.numpy(), [0.9, 1.8, 0.2, 0.4, 0.6, 0.9, 1.2, 0.7, 1.4], rtol=1e-6)


_F16, _U8, _U32 = DType.FP16, DType.UINT8, DType.UINT32
_SHAPE = known([5, 8], _U32)


@pytest.mark.parametrize(
    ("name", "results", "given", "text"),
    [
        (
            "lut_to_dense",
            1,
            {"indices": known(np.zeros((5, 2)), DType.UINT1), "lut": known(np.zeros((2, 1, 2, 1)), _F16)},
            "does not divide",
        ),
        (
            "lut_to_dense",
            1,
            {"indices": known(np.zeros(19), _U8), "lut": known(np.zeros(16), _F16), "shape": _SHAPE},
            "has 19 bytes, but the shape [5, 8] takes 20",
        ),
        (
            "lut_to_dense",
            1,
            {"indices": known(np.zeros(20), _U8), "lut": known(np.zeros(15), _F16), "shape": _SHAPE},
            "a table of 15 elements",
        ),
        (
            "lut_to_dense",
            1,
            {"indices": known(np.zeros(20), _U8), "lut": known(np.zeros(1), _F16), "shape": _SHAPE},
            "a table of 1 elements",
        ),
        (
            "lut_to_dense",
            1,
            {"indices": known(np.zeros((5, 2)), DType.UINT4), "lut": known(np.zeros((1, 1, 15, 1)), _F16)},
            "a table of 15 elements for indices of type uint4",
        ),
        (
            "sparse_to_dense",
            1,
            {"nonzero_data": known(np.zeros(3), _F16), "mask": known(np.zeros(4), _U8), "shape": _SHAPE},
            "has 4 bytes, but the shape [5, 8] takes 5",
        ),
        (
            "sparse_to_dense",
            1,
            {"nonzero_data": known(np.zeros(41), _F16), "mask": known(np.zeros(5), _U8), "shape": _SHAPE},
            "has 41 elements, but the shape [5, 8] has 40",
        ),
        (
            "sparse_to_dense",
            1,
            {"nonzero_data": known(np.zeros(5), _F16), "mask": known(np.zeros((2, 2)), DType.UINT1)},
            "has 5 elements, but the shape [2, 2] has 4",
        ),
        (
            "affine_dequantize",
            1,
            {
                "quantized_data": known(np.zeros((4, 6)), _U8),
                "scale": known(np.ones(5), _F16),
                "zero_point": known(0, _U8),
                "axis": known(1, DType.INT32),
            },
            "`scale` has 5 elements for an axis of 6",
        ),
        (
            "blockwise_shift_scale",
            1,
            {
                "data": known(np.zeros((6, 8)), DType.INT4),
                "scale": known(np.ones((6, 1)), _F16),
                "offset": known(np.ones((3, 1)), DType.INT4),
            },
            "`offset` of shape [3, 1]",
        ),
        (
            "sparse_blockwise_shift_scale",
            2,
            {
                "data_mask": known(np.ones((2, 2)), DType.UINT1),
                "nonzero_data": known(np.ones(5), DType.INT8),
                "scale": known(np.ones((1, 1)), _F16),
            },
            "has 5 elements",
        ),
        (
            "lut_to_sparse",
            2,
            {
                "indices_mask": known(np.ones((2, 2)), DType.UINT1),
                "indices_nonzero_data": known(np.ones(5), DType.UINT1),
                "lut": known(np.ones((1, 1, 2, 1)), _F16),
            },
            "has 5 elements",
        ),
    ],
)
def test_damaged_payloads_are_problems(name, results, given, text):
    outputs = tuple(ir.Value(f"y{i}", ir.TensorType(DType.FP16, (5, 2))) for i in range(results))
    inputs = {key: (constant,) for key, constant in given.items()}
    op = ir.Op(id="main/0", type=f"constexpr_{name}", inputs=inputs, outputs=outputs)
    graph = ir.Graph(name="main", inputs=(), ops=(op,), outputs=outputs)
    [(place, problem)] = bind(ir.Function(name="main", opset="CoreML8", graph=graph), OPS).problems
    assert place == "main/0"
    assert text in problem


def test_a_mask_that_contradicts_its_data():
    """The bits that are set are only counted when the weight is written."""
    constant = unpacked_unread("constexpr_sparse_to_dense", mask=np.ones((64, 64)), count=4095)
    slot = WeightSlot(name="w", shape=(64, 64), dtype=np.dtype(np.float32), constant=constant)
    with pytest.raises(CorruptModelError, match="a mask of 4096 nonzero elements for 4095 stored elements"):
        slot.content()


def unpacked_unread(name, *, mask, count):
    given = {"mask": known(mask, DType.UINT1), "nonzero_data": known(np.ones(count), DType.FP16)}
    return bound_op(name, **given).graph.outputs[0].constant


def test_work_is_the_packed_bytes():
    graph = bound_op(
        "constexpr_blockwise_shift_scale",
        data=known(np.zeros((6, 8)), DType.INT4),
        scale=known(np.ones((6, 1)), DType.FP16),
    ).graph
    assert OPS["constexpr_blockwise_shift_scale"].work(graph.ops[0]) == Work(
        flops=0, read_bytes=24 + 12, weight_bytes=24 + 12, written_bytes=0
    )


@pytest.mark.parametrize("target", [ct.target.iOS16, ct.target.iOS18])
def test_a_compressed_weight_costs_nothing_at_run_time(target):
    x = RNG.normal(size=(2, 64)).astype(np.float32)
    indices, lut = RNG.integers(0, 16, (64, 64)), RNG.normal(size=16).astype(np.float32)

    def body(x):
        if target is ct.target.iOS16:
            given = {"indices": pack(indices, 4), "lut": lut, "shape": np.uint32([64, 64])}
        else:
            sub_byte = ct.converters.mil.mil.types.np_uint4_dtype
            given = {"indices": indices.astype(sub_byte), "lut": lut.reshape(1, 1, 16, 1)}
        return mb.linear(x=x, weight=mb.constexpr_lut_to_dense(**given))

    check({"linear": (body, x @ lut[indices].T)}, {"x": x}, target=target, tolerance=1e-4)
    program = lower(bind_main(build(body, {"x": x}, target=target)))
    assert len(program.model.graph.node) == 1
    assert program.weights_bytes >= 64 * 64 * 4


def test_quantize_and_dequantize():
    x = np.array([[-200, -1.26, 0.24, 0.26], [0.3, 1.75, 2.25, 99]], np.float32)
    whole = np.clip(np.rint(x / np.float32(0.5)) + 3, 0, 255).astype(np.int32)
    scales = np.array([0.5, 2.0], np.float32)
    zeros = np.array([[-1], [4]])
    rows = np.clip(np.rint(x / scales[:, None]) + zeros, -128, 127).astype(np.int32)

    def quantize(x, **given):
        return mb.cast(x=mb.quantize(input=x, **given), dtype="int32")

    one = {"scale": np.float32(0.5), "zero_point": np.uint8(3), "output_dtype": "uint8"}
    many = {"scale": scales, "zero_point": np.int8([-1, 4]), "axis": -2, "output_dtype": "int8"}
    back = {key: value for key, value in many.items() if key != "output_dtype"}
    cases = {
        "one scale": (lambda x: quantize(x, **one), whole),
        "a scale a row": (lambda x: quantize(x, **many), rows),
        "no zero point": (
            lambda x: quantize(x, scale=np.float32(0.5), output_dtype="int8"),
            np.clip(np.rint(x / np.float32(0.5)), -128, 127).astype(np.int32),
        ),
        "back": (
            lambda x: mb.dequantize(input=mb.quantize(input=x, **many), **back),
            (rows - zeros) * scales[:, None],
        ),
        "weight": (
            lambda x: mb.dequantize(input=rows.astype(np.int8), **back),
            (rows - zeros) * scales[:, None],
        ),
    }
    check(cases, {"x": x}, target=ct.target.iOS17)
