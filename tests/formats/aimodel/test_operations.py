"""The translation of single operations, in bundles that are written here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import CorruptModelError, UnsupportedOpError
from coremlscope.formats.aimodel import network
from coremlscope.formats.aimodel.reader import read_aimodel
from coremlscope.model import ir
from tests.support.aicode import TOKEN, Body, Graph, Type, Val, handle, tensor, write_bundle

Write = Callable[..., Sequence[Val]]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def run(folder: Path, inputs: dict[str, np.ndarray], write: Write, **types: Type) -> dict[str, np.ndarray]:
    given = {
        name: types.get(name) or tensor("int32" if array.dtype.kind == "i" else "fp32", *array.shape)
        for name, array in inputs.items()
    }
    names = [f"y{index}" for index in range(8)]
    count = len(write_bundle_for(folder, given, write, names))
    model = folder / "net.aimodel"
    problems = [layer.problem for layer in layers_of(read_aimodel(model)) if layer.problem]
    assert problems == []
    found = api.predict(model, inputs)
    assert len(found) == count
    return found


def write_bundle_for(folder: Path, given: dict[str, Type], write: Write, names: list[str]) -> list[Val]:
    results: list[Val] = []

    def body(b: Body, *values: Val) -> Sequence[Val]:
        results[:] = write(b, *values)
        del names[len(results) :]
        return results

    graph = Graph("main", given, body)
    graph.outputs = names
    write_bundle(folder / "net.aimodel", [graph])
    return results


def layers_of(model: ir.Model) -> Sequence[ir.Layer]:
    assert isinstance(model.content, ir.Program)
    return model.content.functions["main"].layers


def types_of(model: ir.Model) -> list[str]:
    assert isinstance(model.content, ir.Program)
    return [op.type for op in model.content.functions["main"].graph.ops]


# Elements


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abs", np.abs),
        ("asinh", np.arcsinh),
        ("exp", np.exp),
        ("not", None),
        ("round", np.round),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("log", np.log),
        ("acosh", lambda x: np.arccosh(x)),
    ],
)
def test_functions_of_one_argument(name: str, expected: Any, tmp_path: Path) -> None:
    x = np.abs(random(2, 5)) + 1.25
    if name == "not":
        found = run(
            tmp_path,
            {"x": x},
            lambda b, v: [
                b.op(
                    "not",
                    [b.op("greater", [v, b.constant(1.5)], [tensor("bool", 2, 5)])],
                    [tensor("bool", 2, 5)],
                )
            ],
        )
        np.testing.assert_array_equal(found["y0"], (x <= 1.5).astype(np.int32))
        return
    found = run(tmp_path, {"x": x}, lambda b, v: [b.op(name, [v], [v.type])])
    np.testing.assert_allclose(found["y0"], expected(x), rtol=2e-6)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_forms_of_gelu(number: int, tmp_path: Path) -> None:

    x = random(3, 7)
    found = run(tmp_path, {"x": x}, lambda b, v: [b.op("gelu", [v], [v.type], choice=(19, number))])
    exact = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    tanh = x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    sigmoid = x / (1 + np.exp(-1.702 * x))
    np.testing.assert_allclose(found["y0"], (exact, tanh, sigmoid)[number], atol=2e-6)


def test_remainders_have_the_sign_of_the_dividend(tmp_path: Path) -> None:
    x, y = np.array([7.5, -7.5, 7.5, -7.5], np.float32), np.array([2, 2, -2, -2], np.float32)
    n, m = np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)

    def write(b: Body, *v: Val) -> Sequence[Val]:
        return [b.op("broadcasting_modulo", [v[i], v[i + 1]], [v[i].type]) for i in (0, 2)]

    found = run(tmp_path, {"x": x, "y": y, "n": n, "m": m}, write)
    np.testing.assert_array_equal(found["y0"], [1.5, -1.5, 1.5, -1.5])
    np.testing.assert_array_equal(found["y1"], [1, -1, 1, -1])


def test_integers_are_divided_exactly(tmp_path: Path) -> None:
    x = np.array([7, -7, 2**30 + 1, -(2**30) - 1], np.int32)
    y = np.array([-2, -2, 2**24 + 1, 2**24 + 1], np.int32)
    found = run(tmp_path, {"x": x, "y": y}, lambda b, v, w: [b.op("broadcasting_divide", [v, w], [v.type])])
    np.testing.assert_array_equal(found["y0"], [-3, 3, 63, -63])


def test_casts_to_narrow_integers_are_limited(tmp_path: Path) -> None:
    x, n = np.array([300, -300, -1.5, 99.5], np.float32), np.array([70000, -70000, 255, -7], np.int32)

    def write(b: Body, v: Val, w: Val) -> Sequence[Val]:
        return [
            b.op("cast", [b.op("cast", [value], [tensor(dtype, 4)])], [tensor("int32", 4)])
            for value in (v, w)
            for dtype in ("int8", "uint8", "int16", "uint16")
        ]

    found = run(tmp_path, {"x": x, "n": n}, write)
    expected = [
        *([127, -128, -1, 99], [255, 0, 0, 99], [300, -300, -1, 99], [300, 0, 0, 99]),
        *([127, -128, 127, -7], [255, 0, 255, 0], [32767, -32768, 255, -7], [65535, 0, 255, 0]),
    ]
    np.testing.assert_array_equal([found[f"y{index}"] for index in range(8)], expected)


def test_inverse_hyperbolic_sines_of_negative_numbers(tmp_path: Path) -> None:
    x = np.array([-1000, -50, -0.5, 0, 50], np.float32)
    found = run(tmp_path, {"x": x}, lambda b, v: [b.op("asinh", [v], [v.type])])
    np.testing.assert_allclose(found["y0"], np.arcsinh(x), rtol=1e-6)


def test_a_maximum_and_a_minimum_of_constants_are_a_clip(tmp_path: Path) -> None:
    x = random(2, 9) * 4

    def write(b: Body, v: Val) -> Sequence[Val]:
        low = b.op("broadcasting_maximum", [v, b.constant(-1.0)], [v.type])
        other = b.op("broadcasting_maximum", [v, b.constant(0.0)], [v.type])
        high = b.op("broadcasting_minimum", [low, b.constant(2.5)], [v.type])
        return [high, b.op("broadcasting_minimum", [other, b.constant(6.0)], [v.type])]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_array_equal(found["y0"], np.clip(x, -1, 2.5))
    np.testing.assert_array_equal(found["y1"], np.clip(x, 0, 6))
    model = read_aimodel(tmp_path / "net.aimodel")
    assert types_of(model) == ["clip", "relu6"]
    assert [layer.type for layer in layers_of(model)] == ["broadcasting_maximum"] * 2 + [
        "broadcasting_minimum"
    ] * 2


def test_a_maximum_that_is_used_twice_stays(tmp_path: Path) -> None:
    x = random(2, 3)

    def write(b: Body, v: Val) -> Sequence[Val]:
        low = b.op("broadcasting_maximum", [v, b.constant(0.0)], [v.type])
        return [b.op("broadcasting_minimum", [low, b.constant(1.0)], [v.type]), low]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_array_equal(found["y1"], np.maximum(x, 0))
    assert "clip" not in types_of(read_aimodel(tmp_path / "net.aimodel"))


# Convolutions and products


def test_a_padding_of_channels_is_not_joined(tmp_path: Path) -> None:
    x = random(1, 2, 4, 4)

    def write(b: Body, v: Val) -> Sequence[Val]:
        amounts = b.constant([0, 0, 0, 1, 0, 0, 0, 0], "uint32")
        wide = b.op("pad", [v, amounts, b.constant(0.0)], [tensor("fp32", 1, 3, 4, 4)], choice=(17, 1))
        weight = b.constant(np.ones((1, 3, 1, 1), np.float32))
        ones, one = b.constant([1, 1], "uint32"), b.constant(1, "uint32")
        return [b.op("conv2d", [wide, weight, ones, ones, one], [tensor("fp32", 1, 1, 4, 4)])]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_allclose(found["y0"], x.sum(1, keepdims=True), rtol=1e-5)
    assert types_of(read_aimodel(tmp_path / "net.aimodel")) == ["pad", "conv"]


def test_a_padding_by_another_value_is_not_joined(tmp_path: Path) -> None:
    x = random(1, 1, 2, 2)

    def write(b: Body, v: Val) -> Sequence[Val]:
        amounts = b.constant([0, 0, 0, 0, 1, 0, 0, 2], "uint32")
        wide = b.op("pad", [v, amounts, b.constant(3.0)], [tensor("fp32", 1, 1, 3, 4)], choice=(17, 1))
        weight = b.constant(np.ones((1, 1, 1, 1), np.float32))
        ones, one = b.constant([1, 1], "uint32"), b.constant(1, "uint32")
        return [b.op("conv2d", [wide, weight, ones, ones, one], [tensor("fp32", 1, 1, 3, 4)])]

    found = run(tmp_path, {"x": x}, write)
    expected = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=3)
    np.testing.assert_allclose(found["y0"], expected)


def test_products_with_transpositions(tmp_path: Path) -> None:
    x, weight, bias = random(3, 4), random(5, 4), random(5)

    def write(b: Body, v: Val) -> Sequence[Val]:
        perm = b.constant([1, 0], "uint32")
        turned = b.op("transpose", [b.constant(weight), perm], [tensor("fp32", 4, 5)])
        product = b.op("broadcasting_batch_matmul", [v, turned], [tensor("fp32", 3, 5)])
        biased = b.op("broadcasting_add", [product, b.constant(bias)], [tensor("fp32", 3, 5)])
        own = b.op("transpose", [v, perm], [tensor("fp32", 4, 3)])
        return [biased, b.op("batch_matmul", [v, own], [tensor("fp32", 3, 3)])]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_allclose(found["y0"], x @ weight.T + bias, atol=1e-5)
    np.testing.assert_allclose(found["y1"], x @ x.T, atol=1e-5)
    assert types_of(read_aimodel(tmp_path / "net.aimodel")) == ["linear", "matmul"]


def test_a_weight_that_is_also_used_transposed_keeps_the_transposition(tmp_path: Path) -> None:
    x, weight = random(3, 4), random(5, 4)

    def write(b: Body, v: Val) -> Sequence[Val]:
        turned = b.op("transpose", [b.constant(weight), b.constant([1, 0], "uint32")], [tensor("fp32", 4, 5)])
        product = b.op("batch_matmul", [v, turned], [tensor("fp32", 3, 5)])
        return [product, b.op("abs", [turned], [tensor("fp32", 4, 5)])]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_allclose(found["y0"], x @ weight.T, atol=1e-5)
    np.testing.assert_array_equal(found["y1"], np.abs(weight.T))


def test_means_of_windows(tmp_path: Path) -> None:
    x = random(1, 2, 4, 4)

    def write(b: Body, v: Val) -> Sequence[Val]:
        two, ones = b.constant([2, 2], "uint32"), b.constant([1, 1], "uint32")
        small = tensor("fp32", 1, 2, 2, 2)
        total = b.op("sum_pool_2d", [v, two, two, ones], [small])
        other = b.op("sum_pool_2d", [v, two, two, ones], [small])
        return [b.op("broadcasting_divide", [total, b.constant(4.0)], [small]), other]

    found = run(tmp_path, {"x": x}, write)
    sums = x.reshape(1, 2, 2, 2, 2, 2).sum((3, 5))
    np.testing.assert_allclose(found["y0"], sums / 4, atol=1e-6)
    np.testing.assert_allclose(found["y1"], sums, atol=1e-6)
    assert types_of(read_aimodel(tmp_path / "net.aimodel")) == ["avg_pool", "avg_pool", "mul"]


def test_resizing(tmp_path: Path) -> None:
    x = random(1, 1, 3, 4)

    def write(b: Body, v: Val) -> Sequence[Val]:
        size = b.constant([1, 1, 6, 8])
        scale, offset = b.constant([1.0, 1.0, 2.0, 2.0]), b.constant([0.0, 0.0, 0.0, 0.0])
        large = tensor("fp32", 1, 1, 6, 8)
        return [b.op("interpolate", [v, size, scale, offset], [large], choice=(43, 1))]

    found = run(tmp_path, {"x": x}, write)
    np.testing.assert_array_equal(found["y0"], x.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (4, 3, [0, 2, 3]),  # The second is between 1 and 2: the even one.
        (6, 3, [0, 2, 4]),
        (7, 5, [0, 2, 3, 4, 6]),
        (3, 7, [0, 0, 1, 1, 1, 2, 2]),
        (2, 4, [0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_nearest_elements(
    before: int, after: int, places: list[int], is_dynamic: bool, tmp_path: Path
) -> None:
    """As coreai-core 1.0.0b3 computes them."""
    x = random(1, 2, 2, before)

    def write(b: Body, v: Val) -> Sequence[Val]:
        if is_dynamic:
            size, scale = dynamic_sizes(b, v, after)
        else:
            size, scale = b.constant([1, 2, 2, after]), b.constant([1.0, 1.0, 1.0, after / before])
        operands = [v, size, scale, b.constant([0.0] * 4)]
        large = tensor("fp32", 1, 2, 2, None if is_dynamic else after)
        return [b.op("interpolate", operands, [large], choice=(43, 1))]

    types = {"x": tensor("fp32", 1, 2, 2, None)} if is_dynamic else {}
    found = run(tmp_path, {"x": x}, write, **types)
    np.testing.assert_array_equal(found["y0"], x[..., places])


def dynamic_sizes(
    b: Body, v: Val, width: int, *, places: Sequence[str] = ("after", "before"), less: float = 0.0
) -> tuple[Val, Val]:
    """Emits the new shape of an image with another width, and the scales: the widths' ratio."""
    one, number, four = tensor("fp32", 1), tensor("int32", 1), b.constant([4])
    shape = b.op("cast", [b.op("get_shape_v2", [v], [tensor("uint32", 4)])], [tensor("int32", 4)])
    three, step = b.constant([3]), b.constant([1])
    lead = b.op("slice", [shape, b.constant([0]), three, step], [tensor("int32", 3)])
    widths = {"after": b.constant([width]), "before": b.op("slice", [shape, three, four, step], [number])}
    size = b.op("concat", [b.constant(0), lead, widths["after"]], [tensor("int32", 4)])
    parts = [b.op("cast", [widths[name]], [one]) for name in places]
    if less:
        parts = [b.op("broadcasting_sub", [part, b.constant([less])], [one]) for part in parts]
    ratio = b.op("broadcasting_divide", parts, [one])
    return size, b.op("concat", [b.constant(0), b.constant([1.0] * 3), ratio], [tensor("fp32", 4)])


def test_linear_resizing_to_sizes_that_are_computed(tmp_path: Path) -> None:
    x = random(1, 1, 1, 4)
    large = tensor("fp32", 1, 1, 1, None)

    def write(b: Body, v: Val) -> Sequence[Val]:
        zeros, four = b.constant([0.0] * 4), tensor("fp32", 4)
        size, scale = dynamic_sizes(b, v, 7)
        corners = b.op("interpolate", [v, size, scale, zeros], [large], choice=(43, 0))
        size, scale = dynamic_sizes(b, v, 7, less=1.0)
        rest = b.op("broadcasting_sub", [b.constant([1.0]), scale], [four])
        offset = b.op("broadcasting_mul", [b.constant([0.5]), rest], [four])
        return [corners, b.op("interpolate", [v, size, scale, offset], [large], choice=(43, 0))]

    found = run(tmp_path, {"x": x}, write, x=tensor("fp32", 1, 1, 1, None))
    corners = np.clip((np.arange(7) + 0.5) * 4 / 7 - 0.5, 0, 3)
    for name, points in (("y0", corners), ("y1", np.linspace(0, 3, 7))):
        np.testing.assert_allclose(
            found[name][0, 0, 0], np.interp(points, np.arange(4), x[0, 0, 0]), atol=1e-6
        )
    assert types_of(read_aimodel(tmp_path / "net.aimodel")).count("resize") == 2


def test_linear_resizing_by_another_scale_is_not_translated(tmp_path: Path) -> None:
    """A scale that is not the ratio of the sizes would be another image."""

    def write(b: Body, v: Val) -> Sequence[Val]:
        size, scale = dynamic_sizes(b, v, 7, places=("before", "after"))
        operands = [v, size, scale, b.constant([0.0] * 4)]
        return [b.op("interpolate", operands, [tensor("fp32", 1, 1, 1, None)], choice=(43, 0))]

    write_bundle_for(tmp_path, {"x": tensor("fp32", 1, 1, 1, None)}, write, ["y"])
    problems = [layer.problem for layer in layers_of(read_aimodel(tmp_path / "net.aimodel"))]
    assert "Core ML has no resizing with these coordinates" in problems


# Compression


def test_blocks_and_tables(tmp_path: Path) -> None:
    x = random(2, 8)
    data = np.arange(-16, 16).reshape(4, 8) % 16 - 8
    scale = np.array([[0.5, 2], [1, 1], [3, 0.25], [1, 4]], np.float32)
    table = random(16)
    indices = np.arange(32).reshape(4, 8) % 16

    def write(b: Body, v: Val) -> Sequence[Val]:
        dense = tensor("fp32", 4, 8)
        zeros, none = b.constant(np.zeros((4, 2), np.int8), "int4"), b.constant(np.zeros((4, 2), np.float32))
        blocks = b.op(
            "blockwise_shift_scale_v2", [b.constant(data, "int4"), b.constant(scale), zeros, none], [dense]
        )
        lut = b.constant(table.reshape(1, 1, 16, 1))
        looked = b.op("lut_to_dense", [b.constant(indices, "uint4"), lut, b.constant(0)], [dense])
        turned = [
            b.op("transpose", [one, b.constant([1, 0], "uint32")], [tensor("fp32", 8, 4)])
            for one in (blocks, looked)
        ]
        return [b.op("batch_matmul", [v, one], [tensor("fp32", 2, 4)]) for one in turned]

    found = run(tmp_path, {"x": x}, write)
    blocks = data * scale.repeat(4, 1)
    np.testing.assert_allclose(found["y0"], x @ blocks.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["y1"], x @ table[indices].T, rtol=1e-5, atol=1e-5)
    assert types_of(read_aimodel(tmp_path / "net.aimodel"))[-2:] == ["linear", "linear"]


# Shapes


def test_dynamic_shapes(tmp_path: Path) -> None:
    x = random(2, 5, 3)

    def write(b: Body, v: Val) -> Sequence[Val]:
        shape = b.op("get_shape_v2", [v], [tensor("uint32", 3)])
        numbers = b.op("cast", [shape], [tensor("int32", 3)])
        one, two = b.constant([1]), b.constant([2])
        middle = b.op("slice", [numbers, one, two, one], [tensor("int32", 1)])
        wanted = b.op("concat", [b.constant(0), middle, b.constant([6])], [tensor("int32", 2)])
        return [b.op("reshape_v2", [v, wanted], [tensor("fp32", None, 6)])]

    types = {"x": tensor("fp32", 2, None, 3)}
    found = run(tmp_path, {"x": x}, write, **types)
    np.testing.assert_array_equal(found["y0"], x.reshape(5, 6))


def test_sizes_of_repeated_axes_that_are_computed(tmp_path: Path) -> None:
    x, y = random(2, 1, 3), random(5)

    def write(b: Body, v: Val, w: Val) -> Sequence[Val]:
        sizes = b.op("get_shape_v2", [w], [tensor("uint32", 1)])
        return [b.op("broadcast_in_dims", [v, sizes, b.constant([1])], [tensor("fp32", 2, None, 3)])]

    found = run(tmp_path, {"x": x, "y": y}, write, y=tensor("fp32", None))
    np.testing.assert_array_equal(found["y0"], x.repeat(5, 1))


def test_negative_indices_count_from_the_end(tmp_path: Path) -> None:
    x, u = random(3, 4), random(2, 4)
    rows = np.array([[-1], [0]], np.int32)
    whole = np.repeat(np.array([[-1], [1]], np.int32), 4, 1)

    def write(b: Body, v: Val, new: Val, i: Val, w: Val) -> Sequence[Val]:
        two, axis = tensor("fp32", 2, 4), b.constant(0)
        return [
            b.op("gather_nd", [v, i], [two]),
            b.op("gather_along_axis", [v, w, axis], [two]),
            b.op("scatter_along_axis", [v, w, new, axis], [v.type], choice=(18, 0)),
        ]

    found = run(tmp_path, {"x": x, "u": u, "i": rows, "w": whole}, write)
    np.testing.assert_array_equal(found["y0"], x[[-1, 0]])
    np.testing.assert_array_equal(found["y1"], x[[-1, 1]])
    np.testing.assert_array_equal(found["y2"], np.stack([x[0], u[1], u[0]]))


def test_slices_beyond_the_end(tmp_path: Path) -> None:
    x = random(2, 7)

    def write(b: Body, v: Val) -> Sequence[Val]:
        begin, end, step = b.constant([0, 2]), b.constant([2**31 - 1, 2**31 - 1]), b.constant([1, 2])
        return [b.op("slice", [v, begin, end, step], [tensor("fp32", 2, 3)])]

    np.testing.assert_array_equal(run(tmp_path, {"x": x}, write)["y0"], x[:, 2::2])


def test_scattering_and_sums(tmp_path: Path) -> None:
    x = random(2, 4)

    def write(b: Body, v: Val) -> Sequence[Val]:
        indices, updates = b.constant([[0, 3], [1, 1]]), b.constant([[1.0, 2.0], [4.0, 8.0]])
        added = b.op("scatter_along_axis", [v, indices, updates, b.constant(1)], [v.type], choice=(20, 1))
        return [added, b.op("scan", [v, b.constant(1), b.constant(False)], [v.type], choice=(25, 0))]

    found = run(tmp_path, {"x": x}, write)
    expected = x + np.array([[1, 0, 0, 2], [0, 12, 0, 0]], np.float32)
    np.testing.assert_allclose(found["y0"], expected, atol=1e-6)
    np.testing.assert_allclose(found["y1"], x.cumsum(1), atol=1e-6)


@pytest.mark.parametrize(
    ("combine", "expected"), [("", [5, 7, 0]), ("add", [7, 12, 0]), ("maximum", [5, 7, 0])]
)
def test_writes_to_places(combine: str, expected: list[float], tmp_path: Path) -> None:
    """The block of the operation says what becomes of an element and of what is written there."""
    x = np.array([2, 5, 0], np.float32)

    def inner(b: Body, old: Val, new: Val) -> Sequence[Val]:
        return [b.op(combine, [old, new], [old.type])] if combine else [new]

    def write(b: Body, v: Val) -> Sequence[Val]:
        scalar = tensor("fp32")
        given = [v, b.constant([[[0], [1]]]), b.constant([5.0, 7.0])]
        return [b.op("scatter_nd", given, [v.type], blocks=[([scalar, scalar], inner)])]

    np.testing.assert_array_equal(run(tmp_path, {"x": x}, write)["y0"], expected)


def test_writes_that_core_ml_does_not_combine(tmp_path: Path) -> None:
    def inner(b: Body, old: Val, new: Val) -> Sequence[Val]:
        return [b.op("relu", [new], [old.type])]

    def write(b: Body, v: Val) -> Sequence[Val]:
        given = [v, b.constant([[0]]), b.constant([5.0])]
        return [b.op("scatter_nd", given, [v.type], blocks=[([tensor("fp32"), tensor("fp32")], inner)])]

    write_bundle_for(tmp_path, {"x": tensor("fp32", 3)}, write, ["y0"])
    (layer,) = (one for one in layers_of(read_aimodel(tmp_path / "net.aimodel")) if one.problem)
    assert (layer.type, layer.problem) == ("scatter_nd", "Core ML does not combine values in this way")


# Graphs, states, branches


def _double(b: Body, v: Val) -> Sequence[Val]:
    return [b.op("broadcasting_mul", [v, b.constant(2.0)], [v.type])]


def test_calls_of_graphs(tmp_path: Path) -> None:
    kind = tensor("fp32", 2, 3)

    def main(b: Body, v: Val) -> Sequence[Val]:
        return [b.call("double", [b.call("double", [v], [kind])], [kind])]

    graphs = [
        Graph("double", {"x": kind}, _double, is_private=True),
        Graph("main", {"x": kind}, main),
    ]
    model = write_bundle(tmp_path / "net.aimodel", graphs)
    x = random(2, 3)
    np.testing.assert_array_equal(api.predict(model, {"x": x})["y"], x * 4)


def test_a_composite_with_another_meaning_is_emitted_part_by_part(tmp_path: Path) -> None:
    kind = tensor("fp32", 1, 2, 3, 4)

    def attention(b: Body, q: Val, k: Val, v: Val) -> Sequence[Val]:
        return [b.op("broadcasting_add", [q, b.op("broadcasting_add", [k, v], [kind])], [kind])]

    def main(b: Body, v: Val) -> Sequence[Val]:
        return [b.call("sdpa", [v, v, v], [kind])]

    names = ["query", "key", "value"]
    declared = ("scaled_dot_product_attention", names, {"is_causal": True, "window_size": 0})
    inputs = dict.fromkeys(names, kind)
    graphs = [
        Graph("sdpa", inputs, attention, composite=declared, is_private=True),
        Graph("main", {"x": kind}, main),
    ]
    path = write_bundle(tmp_path / "net.aimodel", graphs)
    x = random(1, 2, 3, 4)
    np.testing.assert_allclose(api.predict(path, {"x": x})["y"], 3 * x, rtol=1e-6)
    assert [layer.type for layer in layers_of(read_aimodel(path))] == ["scaled_dot_product_attention"]


def test_states(tmp_path: Path) -> None:
    kind = tensor("fp32", 1, 4)

    def write(b: Body, total: Val, v: Val) -> Sequence[Val]:
        start = b.op("dataflow.create_token", [], [TOKEN])
        old, token = b.op("dataflow.read_handle", [total, start], [kind, TOKEN])
        new = b.op("broadcasting_add", [old, v], [kind])
        end = b.op("dataflow.write_handle", [total, new, token], [TOKEN])
        return [b.op("dataflow.read_handle", [total, end], [kind, TOKEN])[0]]

    graph = Graph("main", {"total": handle("fp32", 1, 4), "x": kind}, write)
    path = write_bundle(tmp_path / "net.aimodel", [graph])
    x = random(1, 4)
    with api.open(path) as predictor:
        state = predictor.new_state()  # type: ignore[union-attr]
        predictor.predict({"x": x}, state)
        np.testing.assert_allclose(predictor.predict({"x": x}, state)["y"], 2 * x)


def test_branches(tmp_path: Path) -> None:
    x = random(2, 3)

    def write(b: Body, v: Val) -> Sequence[Val]:
        total = b.op("reduce_sum", [v, b.constant([0, 1])], [tensor("fp32", 1, 1)])
        above = b.op("greater", [total, b.constant([[0.0]])], [tensor("bool", 1, 1)])
        flag = b.op("reshape_v2", [above, b.constant(np.zeros(0), "int32")], [tensor("bool")])
        blocks = [
            ([], lambda inner: [inner.op("broadcasting_mul", [v, inner.constant(2.0)], [v.type])]),
            ([], lambda inner: [inner.op("broadcasting_sub", [v, inner.constant(1.0)], [v.type])]),
        ]
        return [b.op("control.if", [flag], [v.type], blocks=blocks)]

    for sign in (1, -1):
        (tmp_path / str(sign)).mkdir()
        values = sign * np.abs(x)
        expected = values * 2 if sign > 0 else values - 1
        np.testing.assert_allclose(run(tmp_path / str(sign), {"x": values}, write)["y0"], expected)


def test_an_unknown_operation_is_translated_by_its_decomposition(tmp_path: Path) -> None:
    x = random(2, 3)

    def square(inner: Body, v: Val) -> Sequence[Val]:
        return [inner.op("mul", [v, v], [v.type])]

    def write(b: Body, v: Val) -> Sequence[Val]:
        return [b.op("frobnicate", [v], [v.type], blocks=[([v.type], square)])]

    np.testing.assert_allclose(run(tmp_path, {"x": x}, write)["y0"], x * x, rtol=1e-6)
    (layer,) = layers_of(read_aimodel(tmp_path / "net.aimodel"))
    assert (layer.type, layer.problem) == ("frobnicate", "")


def test_an_unknown_operation_is_listed(tmp_path: Path) -> None:
    def write(b: Body, v: Val) -> Sequence[Val]:
        return [b.op("relu", [b.op("frobnicate", [v], [v.type])], [v.type])]

    graph = Graph("main", {"x": tensor("fp32", 2, 3)}, write)
    path = write_bundle(tmp_path / "net.aimodel", [graph])
    summary = api.inspect(path)
    assert summary.functions[0].layers == {"frobnicate": 1, "relu": 1}
    assert ("cannot run", "frobnicate ×1: this operation is not supported") in summary.facts
    with pytest.raises(UnsupportedOpError, match="frobnicate"):
        api.predict(path, {"x": random(2, 3)})
    assert api.plan(path, devices="m2").plans


def test_a_result_that_contradicts_the_file_is_not_used(tmp_path: Path) -> None:
    def write(b: Body, v: Val) -> Sequence[Val]:
        return [b.op("reduce_sum", [v, b.constant([1])], [tensor("fp32", 2)])]

    graph = Graph("main", {"x": tensor("fp32", 2, 3)}, write)
    (layer,) = layers_of(read_aimodel(write_bundle(tmp_path / "net.aimodel", [graph])))
    assert layer.problem == "its result would be tensor<fp32, [2, 1]> instead of tensor<fp32, [2]>"


def test_several_functions(tmp_path: Path) -> None:
    kind = tensor("fp32", 2, 3)
    graphs = [Graph("encode", {"x": kind}, _double), Graph("decode", {"x": kind}, _double)]
    path = write_bundle(tmp_path / "net.aimodel", graphs)
    assert [function.name for function in api.inspect(path).functions] == ["encode", "decode"]
    x = random(2, 3)
    np.testing.assert_array_equal(api.predict(path, {"x": x}, function="decode")["y"], 2 * x)


# Hostile programs


def test_graphs_that_call_each_other_are_errors(tmp_path: Path) -> None:
    kind = tensor("fp32", 2)

    def again(b: Body, v: Val) -> Sequence[Val]:
        return [b.call("loop", [v], [kind])]

    graphs = [Graph("loop", {"x": kind}, again, is_private=True), Graph("main", {"x": kind}, again)]
    with pytest.raises(CorruptModelError, match="deeper than 16 levels"):
        read_aimodel(write_bundle(tmp_path / "net.aimodel", graphs))


def test_graphs_that_multiply_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_FREE_OPERATIONS", 0)
    monkeypatch.setattr(network, "_RATIO", 2)
    kind = tensor("fp32", 2)

    def times(name: str) -> Write:
        def write(b: Body, v: Val) -> Sequence[Val]:
            for _ in range(16):
                v = b.call(name, [v], [kind])
            return [v]

        return write

    graphs = [Graph(f"g{index}", {"x": kind}, times(f"g{index + 1}"), is_private=True) for index in range(8)]
    graphs += [Graph("g8", {"x": kind}, _double, is_private=True), Graph("main", {"x": kind}, times("g0"))]
    with pytest.raises(CorruptModelError, match="call each other too often"):
        read_aimodel(write_bundle(tmp_path / "net.aimodel", graphs))


def test_a_call_of_a_missing_graph_is_listed(tmp_path: Path) -> None:
    kind = tensor("fp32", 2)
    graph = Graph("main", {"x": kind}, lambda b, v: [b.call("gone", [v], [kind])])
    (layer,) = layers_of(read_aimodel(write_bundle(tmp_path / "net.aimodel", [graph])))
    assert layer.problem == "the graph that it calls is missing"
