"""Random weights."""

from __future__ import annotations

from pathlib import Path

import msgspec.structs
import numpy as np
import pytest

from coremlscope.base.errors import MissingWeightsError
from coremlscope.formats.container import read
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.executable import CompileOptions, compile_model
from coremlscope.runtime.execution.random_weights import RandomData, missing_weights, with_random_weights
from tests.support.ir_models import Absent, absent_weights, array_feature, model, perceptron

T = ir.TensorType


def test_only_missing_constants_are_replaced() -> None:
    given = absent_weights(perceptron())
    before = choose_function(given).function
    after = choose_function(with_random_weights(given, 0)).function
    assert missing_weights(before) == 1
    assert missing_weights(after) == 0
    assert [a is b for a, b in zip(before.graph.ops, after.graph.ops, strict=True)] == [
        False,
        True,
        True,
        True,
    ]


def test_matrices_preserve_the_scale_of_products() -> None:
    drawn = RandomData(T(ir.DType.FP32, (256, 32, 3, 3)), (0, 0)).numpy()
    assert drawn.dtype == np.float32
    assert drawn.std() == pytest.approx((32 * 9) ** -0.5, rel=0.02)
    assert abs(drawn.mean()) < 1e-3


def test_vectors_are_valid_variances() -> None:
    drawn = RandomData(T(ir.DType.FP16, (1000,)), (0, 0)).numpy()
    assert drawn.dtype == np.float16
    assert 0.5 <= drawn.min() < 0.6
    assert 1.4 < drawn.max() <= 1.5


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (ir.DType.INT8, -128, 127),
        (ir.DType.UINT8, 0, 255),
        (ir.DType.INT4, -8, 7),
        (ir.DType.UINT3, 0, 7),
        (ir.DType.INT32, 0, 1),
        (ir.DType.BOOL, False, True),
    ],
)
def test_integers_stay_in_range(dtype: ir.DType, low: int, high: int) -> None:
    drawn = RandomData(T(dtype, (100, 100)), (0, 0)).numpy()
    assert drawn.dtype == dtype.numpy
    assert (drawn.min(), drawn.max()) == (low, high)


def test_the_elements_depend_on_type_and_seed_only() -> None:
    type_ = T(ir.DType.FP32, (4, 4))
    assert np.array_equal(RandomData(type_, (0, 1)).numpy(), RandomData(type_, (0, 1)).numpy())
    assert not np.array_equal(RandomData(type_, (0, 1)).numpy(), RandomData(type_, (0, 2)).numpy())


def _sparse(mask: ir.TensorType, *, inline: bool) -> ir.Model:
    """A `constexpr_sparse_to_dense` of 5 elements whose constants are all missing."""
    result = ir.Value("w", T(ir.DType.FP16, (4, 8)))
    data = T(ir.DType.FP16, (5,))
    if inline:
        attributes = {"mask": ir.Constant(mask, Absent()), "nonzero_data": ir.Constant(data, Absent())}
        ops: tuple[ir.Op, ...] = (
            ir.Op(
                id="main/0",
                type="constexpr_sparse_to_dense",
                inputs={},
                outputs=(result,),
                blocks=(),
                attributes=attributes,
            ),
        )
    else:
        m, d = ir.Value("m", mask), ir.Value("d", data)
        ops = (
            ir.Op(
                id="main/0",
                type="const",
                inputs={},
                outputs=(m,),
                blocks=(),
                attributes={"val": ir.Constant(mask, Absent())},
            ),
            ir.Op(
                id="main/1",
                type="const",
                inputs={},
                outputs=(d,),
                blocks=(),
                attributes={"val": ir.Constant(data, Absent())},
            ),
            ir.Op(
                id="main/2",
                type="constexpr_sparse_to_dense",
                inputs={"mask": (m,), "nonzero_data": (d,)},
                outputs=(result,),
            ),
        )
    x = ir.Value("x", T(ir.DType.FP16, (4, 8)))
    features = [array_feature("x", (4, 8), ir.DType.FP16)], [array_feature("w", (4, 8), ir.DType.FP16)]
    return model(*features, {"main": ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(result,))})


def test_a_mask_has_one_bit_per_element() -> None:
    made = with_random_weights(_sparse(T(ir.DType.UINT1, (4, 8)), inline=False), 0)
    mask = choose_function(made).function.graph.ops[0].constant
    assert mask is not None
    assert mask.numpy().sum() == 5


def test_a_packed_mask_has_one_bit_per_element() -> None:
    made = with_random_weights(_sparse(T(ir.DType.UINT8, (4,)), inline=True), 0)
    mask = choose_function(made).function.graph.ops[0].attributes["mask"]
    assert np.unpackbits(mask.numpy()).sum() == 5


def test_weights_inside_blocks_are_replaced() -> None:
    given = absent_weights(perceptron())
    inner = choose_function(given).function.graph
    holder = ir.Op(id="main/0", type="cond", inputs={}, outputs=inner.outputs, blocks=(inner, inner))
    graph = msgspec.structs.replace(inner, ops=(holder,))
    nested = model(given.description.main.inputs, given.description.main.outputs, {"main": graph})
    assert missing_weights(choose_function(nested).function) == 2
    assert missing_weights(choose_function(with_random_weights(nested, 0)).function) == 0


def test_a_git_lfs_pointer_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(perceptron(), path)
    (weights,) = path.rglob("weight.bin")
    weights.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    given = read(path)
    with pytest.raises(MissingWeightsError, match=r"weight\.bin is absent") as caught:
        compile_model(given, tmp_path / "a")
    assert "git lfs pull" in caught.value.hint
    executable = compile_model(given, tmp_path / "b", options=CompileOptions(random_weights=0))
    assert executable.manifest.random_weights == 0
