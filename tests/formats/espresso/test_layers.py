"""Layers of compiled networks, each with numbers computed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import UnsupportedOpError
from coremlscope.formats import container
from coremlscope.formats.espresso.layers import LAYERS
from coremlscope.model import ir
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.compiled_networks import WeightTable, exact, run_layers, shape, write_network

_IMAGE = np.arange(1, 13, dtype=np.float32).reshape(1, 3, 4)
_ROW = np.array([-2.0, -0.5, 0.0, 1.0, 3.0], np.float32)


def _run(
    folder: Path,
    layer: Mapping[str, Any],
    x: object,
    y: tuple[int, ...],
    weights: WeightTable | None = None,
) -> ir.Array:
    """Runs one layer of an exact network."""
    given = np.asarray(x, np.float32)
    shapes = {"x": exact(*given.shape), "y": exact(*y)}
    return np.asarray(run_layers(write_network(folder, [layer], shapes, weights), x=given)["y"])


def _layer(model: Path) -> ir.Layer:
    """The last layer of a network."""
    content = container.read(model).content
    assert isinstance(content, ir.Program)
    (function,) = content.functions.values()
    return function.layers[-1]


# Convolutions and pooling


def test_convolution_with_fused_relu(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {
        "type": "convolution",
        "C": 2,
        "K": 1,
        "Nx": 2,
        "Ny": 1,
        "has_biases": 1,
        "fused_relu": 1,
        "blob_biases": weights.add([0.5, -4.0]),
        "blob_weights": weights.add([1, -1, 1, 1]),
    }
    result = _run(tmp_path, layer, [[[[1, 3, 2]]]], (1, 2, 1, 2), weights)
    # The first kernel is the difference of neighbours: -2 and 1. The second one is their sum.
    np.testing.assert_array_equal(result, [[[[0, 1.5]], [[0, 1]]]])


def test_strides_groups_and_fp16(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {
        "type": "convolution",
        "C": 2,
        "K": 2,
        "Nx": 1,
        "Ny": 2,
        "n_groups": 2,
        "stride_x": 2,
        "pad_t": 1,
        "blob_weights_f16": weights.add([1, 2, 10, 20], "<f2"),
    }
    x = [[[[1, 2, 3]], [[4, 5, 6]]]]
    # One row of padding above: only the second element of each kernel meets the row.
    result = _run(tmp_path, layer, x, (1, 2, 1, 2), weights)
    np.testing.assert_array_equal(result, [[[[2, 6]], [[80, 120]]]])


@pytest.mark.parametrize(
    ("mode", "expected"), [(1, [4, 5, 2]), (2, [4, 5]), (4, [1, 4, 5])], ids=["same", "valid", "same_lower"]
)
def test_padding_of_a_convolution(tmp_path: Path, mode: int, expected: list[float]) -> None:
    weights = WeightTable()
    ones = weights.add([1, 1])
    layer = {"type": "convolution", "C": 1, "K": 1, "Nx": 2, "Ny": 1, "pad_mode": mode, "blob_weights": ones}
    result = _run(tmp_path, layer, [[[[1, 3, 2]]]], (1, 1, 1, len(expected)), weights)
    np.testing.assert_array_equal(result, [[[expected]]])


def test_quantised_weights(tmp_path: Path) -> None:
    for index, encoding in enumerate(("W_U8", "ranges")):
        weights = WeightTable()
        codes = weights.add([0, 255, 100, 200], "u1")
        layer: dict[str, Any] = {"type": "convolution", "C": 2, "K": 1, "Nx": 2, "Ny": 1}
        if encoding == "W_U8":
            scale, bias = weights.add([0.25, 0.5]), weights.add([-1, -2])
            layer["weights"] = {"W_U8": codes, "per_ch_qscale": scale, "per_ch_qbias": bias}
        else:
            layer["quantization_lut_weights_blob"] = codes
            layer["quantization_ranges_blob"] = weights.add([-1, -2, 255 * 0.25 - 1, 255 * 0.5 - 2])
        result = _run(tmp_path / str(index), layer, [[[[1, 10]]]], (1, 2, 1, 1), weights)
        # The weights are -1, 62.75 and 48, 98.
        np.testing.assert_allclose(result.reshape(-1), [626.5, 1028], rtol=1e-6)


def test_depthwise_deconvolution(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {
        "type": "deconvolution",
        "C": 1,
        "K": 1,
        "Nx": 2,
        "Ny": 1,
        "stride_x": 2,
        "blob_weights": weights.add([1, 10]),
    }
    result = _run(tmp_path, layer, [[[[2, 3]]]], (1, 1, 1, 4), weights)
    np.testing.assert_array_equal(result, [[[[2, 20, 3, 30]]]])


def test_deconvolution_between_channels(tmp_path: Path) -> None:
    weights = WeightTable()
    # The first input channel adds 1 and 2 to the outputs, the second one 3 and 4.
    four = weights.add([1, 2, 3, 4])
    layer = {"type": "deconvolution", "C": 2, "K": 2, "Nx": 1, "Ny": 1, "blob_weights": four}
    result = _run(tmp_path, layer, [[[[10]], [[100]]]], (1, 2, 1, 1), weights)
    np.testing.assert_array_equal(result, [[[[310]], [[420]]]])


def test_zeros_after_the_biases_of_the_oldest_compilers(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {"type": "convolution", "C": 2, "K": 1, "Nx": 1, "Ny": 1, "has_biases": 1}
    layer |= {"blob_weights": weights.add([1, 2])}
    layer |= {"blob_biases": weights.add([10, 20, *[0] * 6])}
    result = _run(tmp_path, layer, [[[[3]]]], (1, 2, 1, 1), weights)
    np.testing.assert_array_equal(result, [[[[13]], [[26]]]])
    layer["blob_biases"] = weights.add([10, 20, *[0] * 5, 1])
    shapes = {"x": exact(1, 1, 1, 1), "y": exact(1, 2, 1, 1)}
    assert "bytes instead of" in _layer(write_network(tmp_path / "other", [layer], shapes, weights)).doubt


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"avg_or_max": 1, "size_x": 2, "size_y": 1, "stride_x": 2, "top_shape_style": 0}, [[5]]),
        ({"avg_or_max": 1, "size_x": 2, "size_y": 1, "stride_x": 2, "top_shape_style": 2}, [[5, 3]]),
        ({"avg_or_max": 0, "size_x": 2, "size_y": 1}, [[3, 4]]),
        ({"avg_or_max": 0, "is_global": 1, "size_x": 9, "size_y": 9}, [[3]]),
        ({"avg_or_max": 0, "size_x": 2, "size_y": 1, "pad_l": 1}, [[0.5, 3, 4]]),
        (
            {"avg_or_max": 0, "size_x": 2, "size_y": 1, "pad_l": 1, "average_count_exclude_padding": 1},
            [[1, 3, 4]],
        ),
        ({"avg_or_max": 2, "is_global": 1}, [[np.sqrt(35)]]),
    ],
    ids=["max", "ceil", "mean", "global", "counted", "excluded", "l2"],
)
def test_pooling(tmp_path: Path, given: Mapping[str, Any], expected: object) -> None:
    target = np.asarray(expected, np.float32)[None, None]
    result = _run(tmp_path, {"type": "pool", **given}, [[[[1, 5, 3]]]], target.shape)
    np.testing.assert_allclose(result, target, rtol=1e-6)


# Elementwise functions


@pytest.mark.parametrize(
    ("mode", "parameters", "expected"),
    [
        (0, {}, [0, 0, 0, 1, 3]),
        (1, {}, np.tanh(_ROW)),
        (2, {"alpha": 0.5}, [-1, -0.25, 0, 1, 3]),
        (3, {}, 1 / (1 + np.exp(-_ROW))),
        (5, {"alpha": 2, "beta": 0.5}, 2 * np.tanh(0.5 * _ROW)),
        (6, {"alpha": 2, "beta": 1}, [-3, 0, 1, 3, 7]),
        (6, {"beta": 0}, _ROW),
        (7, {"alpha": 0.5, "beta": 0.5}, [0, 0.25, 0.5, 1, 1]),
        (7, {"beta": 0}, [0, 0, 0, 1, 1]),
        (8, {"alpha": 1}, [np.exp(-2) - 1, np.exp(-0.5) - 1, 0, 1, 3]),
        (9, {"alpha": 1.5}, [0, 0, 0, 0, 3]),
        (10, {}, np.log1p(np.exp(_ROW))),
        (12, {}, [-2 / 3, -1 / 3, 0, 0.5, 0.75]),
        (13, {"alpha": -1}, [-1, -0.5, 0, 1, 3]),
        (16, {}, 1.0507 * np.where(_ROW > 0, _ROW, 1.67326 * np.expm1(_ROW))),
        (23, {}, [0, 0, 1, 1, 1]),
        (24, {"alpha": 2}, [-2, -0.5, 0, 1, 2]),
        (25, {}, _ROW / (1 + np.exp(-_ROW))),
        (26, {}, [-2 * (1 / 6), -0.5 * (2.5 / 6), 0, 4 / 6, 3]),
    ],
)
def test_activation(tmp_path: Path, mode: int, parameters: Mapping[str, float], expected: object) -> None:
    result = _run(tmp_path, {"type": "activation", "mode": mode, **parameters}, _ROW, (5,))
    np.testing.assert_allclose(result, np.asarray(expected, np.float32), rtol=1e-4, atol=1e-6)


def test_slope_per_channel(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {"type": "activation", "mode": 2, "weights": {"alpha": weights.add([0.5, 2])}}
    result = _run(tmp_path, layer, [[[[-1, 1]], [[-1, 1]]]], (1, 2, 1, 2), weights)
    np.testing.assert_array_equal(result, [[[[-0.5, 1]], [[-2, 1]]]])


@pytest.mark.parametrize(
    ("operation", "parameters", "expected"),
    [
        (0, {"alpha": 2}, _ROW + 2),
        (1, {"alpha": 2}, _ROW * 2),
        (2, {"alpha": 3}, _ROW + 3),
        (3, {"alpha": 0.5}, _ROW / 2),
        (8, {}, _ROW**2),
        (24, {}, np.abs(_ROW)),
        (25, {"alpha": -1}, [-1, -0.5, 0, 1, 3]),
        (27, {}, np.exp(_ROW)),
        (35, {}, 2**_ROW),
        (38, {}, [-1, -1, 0, 1, 1]),
        (112, {}, [0, 0, 1, 0, 0]),
        (114, {}, np.cos(_ROW)),
        (117, {}, [-2, -1, 0, 1, 3]),
        (118, {}, [-2, 0, 0, 1, 3]),
        (119, {"alpha": -1, "beta": 1}, [-1, -0.5, 0, 1, 1]),
        (131, {"alpha": 1}, [1, 1, 1, 0, 0]),
        (136, {"alpha": 3}, [0, 0, 0, 0, 1]),
    ],
)
def test_function_of_one_blob(
    tmp_path: Path, operation: int, parameters: Mapping[str, float], expected: object
) -> None:
    result = _run(tmp_path, {"type": "elementwise", "operation": operation, **parameters}, _ROW, (5,))
    np.testing.assert_allclose(result, np.asarray(expected, np.float32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(10, [1, 0.5]), (11, [1, np.sqrt(2)]), (12, [1, np.sqrt(0.5)]), (26, [0, np.log(2)])],
)
def test_function_of_positive_numbers(tmp_path: Path, operation: int, expected: object) -> None:
    result = _run(tmp_path, {"type": "elementwise", "operation": operation, "alpha": 1}, [1, 2], (2,))
    np.testing.assert_allclose(result, np.asarray(expected, np.float32), rtol=1e-5)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (0, [5, 5]),
        (1, [6, 4]),
        (13, [9, 4]),
        (22, [2, 1]),
        (23, [3, 4]),
        (33, [1, 3]),
        (36, [1, 0]),
        (100, [0, 0]),
        (102, [1.5, 4]),
        (103, [0, 0]),
        (105, [1, 1]),
        (107, [1, 1]),
        (1021, [1, 4]),
    ],
)
def test_function_of_two_blobs(tmp_path: Path, operation: int, expected: object) -> None:
    shapes = {name: exact(2) for name in ("a", "b", "y")}
    layer = {"type": "elementwise", "operation": operation, "bottom": "a,b", "alpha": 1, "beta": 0}
    result = run_layers(write_network(tmp_path, [layer], shapes), a=[3, 4], b=[2, 1])["y"]
    np.testing.assert_array_equal(result, np.asarray(expected, np.float32))


def test_selection_and_fused_relu(tmp_path: Path) -> None:
    shapes = {name: exact(2) for name in ("c", "a", "b", "y")}
    layer = {"type": "elementwise", "operation": 101, "bottom": "c,a,b", "fused_relu": 1}
    result = run_layers(write_network(tmp_path, [layer], shapes), c=[1, 0], a=[-3, 4], b=[2, 1])["y"]
    np.testing.assert_array_equal(result, [0, 1])


@pytest.mark.parametrize(
    "given",
    [
        {"operation": 0, "bottom": "x,x", "alpha": 2},
        {"operation": 3, "alpha": 2, "beta": 1},
        {"operation": 13, "alpha": 2},
    ],
    ids=["alpha", "beta", "power"],
)
def test_parameters_of_unknown_meaning_are_not_guessed(tmp_path: Path, given: Mapping[str, Any]) -> None:
    shapes = {"x": exact(2), "y": exact(2)}
    write_network(tmp_path, [{"type": "elementwise", **given}], shapes)
    assert "not established" in _layer(tmp_path).doubt
    with pytest.raises(Exception, match="not established"):
        run_layers(tmp_path, x=[1, 2])


# Products and norms


def test_inner_product_along_the_last_axis(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {
        "type": "inner_product",
        "nB": 2,
        "nC": 3,
        "has_biases": 1,
        "has_relu": 1,
        "blob_biases": weights.add([0, 0, 10]),
        "blob_weights": weights.add([1, 2, -1, 0, 0, 1]),
    }
    result = _run(tmp_path, layer, [[1, 2], [3, 4]], (2, 3), weights)
    np.testing.assert_array_equal(result, [[5, 0, 12], [11, 0, 14]])


def test_inner_product_along_the_last_of_four_axes(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {"type": "inner_product", "nB": 2, "nC": 1, "blob_weights": weights.add([1, 10])}
    result = _run(tmp_path, layer, [[[[1, 2]], [[3, 4]]]], (1, 2, 1, 1), weights)
    np.testing.assert_array_equal(result.reshape(-1), [21, 43])


def test_inner_product_of_images(tmp_path: Path) -> None:
    weights = WeightTable()
    layer = {"type": "inner_product", "nB": 4, "nC": 1, "blob_weights": weights.add([1, 10, 100, 1000])}
    shapes = {"x": shape(2, 1, 2), "y": shape(1, 1, 1)}
    result = run_layers(write_network(tmp_path, [layer], shapes, weights), x=[[[1, 2]], [[3, 4]]])["y"]
    np.testing.assert_array_equal(np.asarray(result).reshape(-1), [4321])


def test_products_of_matrices(tmp_path: Path) -> None:
    shapes = {"a": exact(1, 2), "b": exact(2, 2), "y": exact(1, 2)}
    layer = {"type": "batch_matmul", "bottom": "a,b", "transpose_y": True}
    result = run_layers(write_network(tmp_path, [layer], shapes), a=[[1, 2]], b=[[3, 4], [5, 6]])["y"]
    np.testing.assert_array_equal(result, [[11, 17]])


def test_batch_normalization(tmp_path: Path) -> None:
    weights = WeightTable()
    # Gamma, beta, mean and variance of each channel.
    number = weights.add([[2, 1, 3, 4], [1, 0, 0, 1]])
    layer = {"type": "batchnorm", "C": 2, "blob_batchnorm_params": number, "training_eps": 0}
    result = _run(tmp_path, layer, [[[[5]], [[7]]]], (1, 2, 1, 1), weights)
    np.testing.assert_allclose(result.reshape(-1), [3, 7], rtol=1e-6)


def test_normalization_of_each_item(tmp_path: Path) -> None:
    weights = WeightTable()
    number = weights.add([[2, 1, 0, 1]])
    layer = {
        "type": "batchnorm",
        "C": 1,
        "training": 1,
        "training_instancenorm": 1,
        "training_eps": 1e-6,
        "blob_batchnorm_params": number,
    }
    result = _run(tmp_path, layer, [[[[1, 3]]]], (1, 1, 1, 2), weights)
    np.testing.assert_allclose(result.reshape(-1), [-1, 3], rtol=1e-5)


def test_layer_normalization(tmp_path: Path) -> None:
    weights = WeightTable()
    roles = {"wGamma": weights.add([2, 2]), "wBeta": weights.add([5, 5])}
    result = _run(
        tmp_path, {"type": "instancenorm_1d", "eps": 1e-6, "weights": roles}, [[1, -1]], (1, 2), weights
    )
    np.testing.assert_allclose(result, [[7, 3]], rtol=1e-5)


def test_norms(tmp_path: Path) -> None:
    x = [[[[3]], [[4]]]]
    result = _run(tmp_path / "l2", {"type": "l2_normalize", "eps": 1e-12, "axis": 2}, x, (1, 2, 1, 1))
    np.testing.assert_allclose(result.reshape(-1), [0.6, 0.8], rtol=1e-6)
    layer = {"type": "lrn", "alpha": 3.0, "beta": 1.0, "local_size": 3}
    result = _run(tmp_path / "lrn", layer, x, (1, 2, 1, 1))
    # x / (k + alpha / size * sum of squares) with k = 1: 3 / 26 and 4 / 26.
    np.testing.assert_allclose(result.reshape(-1), [3 / 26, 4 / 26], rtol=1e-5)


# Softmax and reductions


@pytest.mark.parametrize(
    ("layer", "axis"),
    [
        ({"type": "softmax", "C": 2}, 1),
        ({"type": "softmax", "C": 0}, 3),
        ({"type": "softmax_nd", "nd_axis": -2}, 2),
    ],
    ids=["channels", "width", "nd"],
)
def test_softmax(tmp_path: Path, layer: Mapping[str, Any], axis: int) -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    result = _run(tmp_path, layer, x, (1, 2, 2, 2))
    exponentials = np.exp(x)
    np.testing.assert_allclose(result, exponentials / exponentials.sum(axis, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0, 6), (1, 2), (2, 6), (4, 14), (5, np.sqrt(14)), (8, 6), (9, 3), (10, 1), (11, 2), (12, 0)],
)
def test_reduction_along_the_channels(tmp_path: Path, mode: int, expected: float) -> None:
    shapes = {"x": shape(3, 1, 1), "y": shape(1, 1, 1)}
    layer = {"type": "reduce", "mode": mode, "axis_mode": 4, "use_version": 1}
    result = run_layers(write_network(tmp_path, [layer], shapes), x=[1, 2, 3])["y"]
    np.testing.assert_allclose(np.asarray(result).reshape(-1), [expected], rtol=1e-6)


def test_reduced_axis_without_a_shapes_file(tmp_path: Path) -> None:
    layer = {"type": "reduce", "mode": 0, "axis_mode": 1, "use_version": 1}
    write_network(tmp_path, [layer], {"x": shape(1, 2, 2)})
    result = run_layers(tmp_path, x=[[[1, 2], [3, 4]]])["y"]
    np.testing.assert_array_equal(np.asarray(result).reshape(-1), [3, 7])


def test_reduction_of_an_exact_axis(tmp_path: Path) -> None:
    layer = {"type": "reduce", "mode": 9, "nd_axis": 0, "nd_mode": True}
    result = _run(tmp_path, layer, [[1, 4], [3, 2]], (1, 2))
    np.testing.assert_array_equal(result, [[3, 4]])


def test_reduction_that_removes_its_axis(tmp_path: Path) -> None:
    """The shapes alone would suggest the first axis."""
    layer = {"type": "reduce", "mode": 0, "nd_axis": 1, "nd_mode": True}
    result = _run(tmp_path, layer, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], (2, 2))
    np.testing.assert_array_equal(result, [[4, 6], [12, 14]])


# Arrangement


def test_transposition_names_the_source_of_each_axis(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    # Height from the width, width from the channels, channels from the height.
    layer = {"type": "transpose", "axis_w": 2, "axis_h": 0, "axis_k": 1, "axis_n": 3, "axis_seq": 4}
    result = _run(tmp_path / "exact", layer, x, (2, 3, 1))
    np.testing.assert_array_equal(result, x.transpose(1, 2, 0))
    write_network(tmp_path / "five", [layer], {"x": shape(1, 2, 3), "y": shape(2, 3, 1)})
    result = np.asarray(run_layers(tmp_path / "five", x=x)["y"])
    np.testing.assert_array_equal(result, x.transpose(1, 2, 0))


def test_transposition_of_the_sequence(tmp_path: Path) -> None:
    layer = {"type": "transpose", "axis_w": 0, "axis_h": 1, "axis_k": 4, "axis_n": 3, "axis_seq": 2}
    write_network(tmp_path, [layer], {"x": shape(3, 1, 1), "y": shape(3, 1, 1, 1, 1)})
    result = np.asarray(run_layers(tmp_path, x=[1, 2, 3])["y"])
    assert result.shape == (3, 1, 1, 1, 1)
    np.testing.assert_array_equal(result.reshape(-1), [1, 2, 3])


def test_reshape_keeps_and_infers_sizes(tmp_path: Path) -> None:
    layer = {
        "type": "reshape",
        "dst_n": 0,
        "dst_k": -1,
        "dst_h": 2,
        "dst_w": 1,
        "dst_nd_rank": 4,
        "dst_seq": 1,
    }
    result = _run(tmp_path, layer, _IMAGE[None], (1, 6, 2, 1))
    np.testing.assert_array_equal(result.reshape(-1), np.arange(1, 13))


def test_reshape_to_a_sequence(tmp_path: Path) -> None:
    layer = {"type": "reshape", "mode": 0, "dst_seq": -1, "dst_n": 0, "dst_k": 2, "dst_h": 1, "dst_w": 1}
    write_network(tmp_path, [layer], {"x": shape(1, 3, 4), "y": shape(6, 1, 2, 1, 1)})
    result = np.asarray(run_layers(tmp_path, x=_IMAGE)["y"])
    assert result.shape == (6, 1, 2, 1, 1)
    np.testing.assert_array_equal(result.reshape(-1), np.arange(1, 13))


def test_reshape_with_the_channels_last(tmp_path: Path) -> None:
    layer = {"type": "reshape", "mode": 1, "dst_n": 0, "dst_seq": 1, "dst_k": 4, "dst_h": 1, "dst_w": 1}
    write_network(tmp_path, [layer], {"x": shape(2, 1, 2), "y": shape(4, 1, 1)})
    result = np.asarray(run_layers(tmp_path, x=[[[1, 2]], [[3, 4]]])["y"])
    np.testing.assert_array_equal(result.reshape(-1), [1, 3, 2, 4])


def test_flatten(tmp_path: Path) -> None:
    write_network(tmp_path / "five", [{"type": "flatten"}], {"x": shape(1, 3, 4), "y": shape(12, 1, 1)})
    result = np.asarray(run_layers(tmp_path / "five", x=_IMAGE)["y"])
    np.testing.assert_array_equal(result.reshape(-1), np.arange(1, 13))
    result = _run(tmp_path / "exact", {"type": "flatten", "nd_axis": 2}, _IMAGE, (3, 4))
    np.testing.assert_array_equal(result, _IMAGE[0])


def test_flatten_to_an_image(tmp_path: Path) -> None:
    result = _run(tmp_path, {"type": "flatten", "nd_axis": 0}, _IMAGE[None], (1, 12, 1, 1))
    np.testing.assert_array_equal(result.reshape(-1), np.arange(1, 13))


def test_axes_of_one_element(tmp_path: Path) -> None:
    layer = {"type": "expand_dims", "size_of_axes": 2, "axes_0": 0, "axes_1": 2}
    assert _run(tmp_path / "more", layer, [[1, 2], [3, 4]], (1, 2, 1, 2)).shape == (1, 2, 1, 2)
    layer = {"type": "squeeze", "size_of_axes": 2, "axes_0": 0, "axes_1": 2}
    assert _run(tmp_path / "less", layer, [[[[1, 2]], [[3, 4]]]], (2, 2)).shape == (2, 2)


def test_tile_and_copy(tmp_path: Path) -> None:
    layers = [{"type": "copy"}, {"type": "tile", "dst_h": 1, "dst_w": 2}]
    shapes = {"x": exact(1, 2), "b1": exact(1, 2), "y": exact(1, 4)}
    result = run_layers(write_network(tmp_path, layers, shapes), x=[[1, 2]])["y"]
    np.testing.assert_array_equal(result, [[1, 2, 1, 2]])


@pytest.mark.parametrize("type_", ["concat", "general_concat"])
def test_concatenation_along_the_axis_that_the_shapes_show(tmp_path: Path, type_: str) -> None:
    shapes = {"a": exact(1, 1, 1, 2), "b": exact(1, 1, 1, 1), "y": exact(1, 1, 1, 3)}
    layer = {"type": type_, "bottom": "a,b"}
    result = run_layers(write_network(tmp_path, [layer], shapes), a=[[[[1, 2]]]], b=[[[[3]]]])["y"]
    np.testing.assert_array_equal(result, [[[[1, 2, 3]]]])


def test_concatenation_along_the_channels(tmp_path: Path) -> None:
    shapes = {"a": shape(1, 1, 1), "b": shape(2, 1, 1)}
    result = run_layers(
        write_network(tmp_path, [{"type": "concat", "bottom": "a,b"}], shapes), a=[1], b=[2, 3]
    )
    np.testing.assert_array_equal(np.asarray(result["y"]).reshape(-1), [1, 2, 3])


def test_concatenation_of_sequences(tmp_path: Path) -> None:
    shapes = {"a": shape(1, 1, 1, 1, 1), "b": shape(1, 1, 1, 1, 1), "y": shape(2, 1, 1, 1, 1)}
    layer = {"type": "sequence_concat", "bottom": "a,b"}
    result = np.asarray(run_layers(write_network(tmp_path, [layer], shapes), a=[1], b=[2])["y"])
    assert result.shape == (2, 1, 1, 1, 1)
    np.testing.assert_array_equal(result.reshape(-1), [1, 2])


def test_splits(tmp_path: Path) -> None:
    shapes = {"x": exact(3, 2), "p": exact(1, 2), "q": exact(2, 2)}
    layer = {"type": "split_nd", "nd_axis": 0, "top": "p,q", "begin_0": 0}
    result = run_layers(write_network(tmp_path / "nd", [layer], shapes), x=[[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(result["q"], [[3, 4], [5, 6]])
    shapes = {"x": shape(2, 1, 1), "p": shape(1, 1, 1), "q": shape(1, 1, 1)}
    result = run_layers(write_network(tmp_path / "k", [{"type": "split", "top": "p,q"}], shapes), x=[1, 2])
    assert [float(np.asarray(result[name]).reshape(-1)[0]) for name in "pq"] == [1, 2]


def test_stack(tmp_path: Path) -> None:
    shapes = {"a": exact(2), "b": exact(2), "y": exact(2, 2)}
    layer = {"type": "stack_nd", "nd_axis": 1, "bottom": "a,b"}
    result = run_layers(write_network(tmp_path, [layer], shapes), a=[1, 2], b=[3, 4])["y"]
    np.testing.assert_array_equal(result, [[1, 3], [2, 4]])


def test_slice_counts_axes_from_the_innermost_and_ends_at_the_end(tmp_path: Path) -> None:
    layer = {"type": "slice", "axis": 2, "start": 1, "end": 3420}
    write_network(tmp_path, [layer], {"x": shape(3, 1, 1), "y": shape(2, 1, 1)})
    np.testing.assert_array_equal(np.asarray(run_layers(tmp_path, x=[1, 2, 3])["y"]).reshape(-1), [2, 3])


@pytest.mark.parametrize(
    ("mode", "expected"), [(0, [9, 9, 1, 2, 3]), (1, [3, 2, 1, 2, 3]), (2, [1, 1, 1, 2, 3])]
)
def test_padding(tmp_path: Path, mode: int, expected: list[int]) -> None:
    layer = {"type": "general_padding", "pad_l": 2, "pad_pad_mode": mode, "pad_value": 9}
    result = _run(tmp_path, layer, [[[[1, 2, 3]]]], (1, 1, 1, 5))
    np.testing.assert_array_equal(result.reshape(-1), expected)


def test_crop(tmp_path: Path) -> None:
    layer = {"type": "crop", "t": 1, "b": 0, "l": 1, "r": 2}
    result = _run(tmp_path, layer, _IMAGE[None], (1, 1, 2, 1))
    np.testing.assert_array_equal(result.reshape(-1), [6, 10])


def test_constant(tmp_path: Path) -> None:
    weights = WeightTable()
    constant = {"type": "load_constant", "bottom": "", "top": "c", "k": 2, "h": 1, "w": 1, "n": 1}
    constant |= {"constant_blob": weights.add([10, 20]), "nd_rank": 1, "w": 2, "k": 1}
    layers = [constant, {"type": "elementwise", "operation": 0, "bottom": "x,c"}]
    shapes = {"x": exact(2), "c": exact(2), "y": exact(2)}
    result = run_layers(write_network(tmp_path, layers, shapes, weights), x=[1, 2])["y"]
    np.testing.assert_array_equal(result, [11, 22])


# Resizing and selection


def test_upsampling(tmp_path: Path) -> None:
    layer = {"type": "upsample", "mode": 0, "scaling_factor_x": 2, "scaling_factor_y": 1}
    result = _run(tmp_path / "nearest", layer, [[[[1, 3]]]], (1, 1, 1, 4))
    np.testing.assert_array_equal(result.reshape(-1), [1, 1, 3, 3])
    layer = {"type": "upsample", "mode": 1, "scaling_factor_x": 2, "scaling_factor_y": 1, "align_corners": 0}
    result = _run(tmp_path / "linear", layer, [[[[1, 3]]]], (1, 1, 1, 4))
    np.testing.assert_allclose(result.reshape(-1), [1, 1.5, 2.5, 3], rtol=1e-6)


def test_resizing_to_a_size(tmp_path: Path) -> None:
    layer = {
        "type": "crop_and_resize",
        "target_size_h": 1,
        "target_size_w": 3,
        "mode": 1,
        "grid_sampling_mode": 1,
    }
    result = _run(tmp_path, layer, [[[[1, 3]]]], (1, 1, 1, 3))
    np.testing.assert_allclose(result.reshape(-1), [1, 2, 3], rtol=1e-6)


def test_space_and_depth(tmp_path: Path) -> None:
    layer = {"type": "space_to_depth", "block_size": 2}
    result = _run(tmp_path / "to", layer, [[[[1, 2], [3, 4]]]], (1, 4, 1, 1))
    np.testing.assert_array_equal(result.reshape(-1), [1, 2, 3, 4])
    layer = {"type": "space_to_depth", "block_size": 2, "reverse": 1}
    result = _run(tmp_path / "from", layer, [[[[1]], [[2]], [[3]], [[4]]]], (1, 1, 2, 2))
    np.testing.assert_array_equal(result, [[[[1, 2], [3, 4]]]])


def test_largest_elements(tmp_path: Path) -> None:
    shapes = {"x": exact(1, 3), "v": exact(1, 2), "i": exact(1, 2)}
    layer = {"type": "topk", "num_k": 2, "axis": 1, "do_bottomk": False, "top": "v,i"}
    result = run_layers(write_network(tmp_path, [layer], shapes), x=[[1, 3, 2]])
    np.testing.assert_array_equal(result["v"], [[3, 2]])
    np.testing.assert_array_equal(result["i"], [[1, 2]])


def test_sorting_gathering_summing_and_shapes(tmp_path: Path) -> None:
    result = _run(tmp_path / "sort", {"type": "argsort", "axis": 0, "ascending": True}, [3, 1, 2], (3,))
    np.testing.assert_array_equal(result, [1, 2, 0])
    assert list(_run(tmp_path / "shape", {"type": "get_shape"}, [[1, 2, 3]], (2,))) == [1, 3]
    shapes = {"x": exact(3), "i": exact(2), "y": exact(2)}
    layer = {"type": "gather_nd", "mode": 0, "axis": 0, "bottom": "x,i"}
    result = run_layers(write_network(tmp_path / "gather", [layer], shapes), x=[5, 6, 7], i=[2, 0])["y"]
    np.testing.assert_array_equal(result, [7, 5])
    weights = WeightTable()
    axis = {
        "type": "load_constant",
        "bottom": "",
        "top": "a",
        "constant_blob": weights.add([0]),
        "nd_rank": 1,
    }
    layers = [axis, {"type": "cumsum", "bottom": "x,a"}]
    shapes = {"x": exact(3), "a": exact(1), "y": exact(3)}
    result = run_layers(write_network(tmp_path / "sum", layers, shapes, weights), x=[1, 2, 3])["y"]
    np.testing.assert_array_equal(result, [1, 3, 6])


@pytest.mark.parametrize("axis", [1, -1])
def test_axis_that_the_shapes_do_not_show(tmp_path: Path, axis: int) -> None:
    layer = {"type": "argsort", "axis": axis, "ascending": True}
    write_network(tmp_path, [layer], {"x": exact(2, 3), "y": exact(2, 3)})
    assert ("its axis is counted" in _layer(tmp_path).doubt) == (axis > 0)


# Recurrent layers and unknown ones


def test_lstm_in_both_directions_is_planned_but_not_run(tmp_path: Path) -> None:
    weights = WeightTable()
    roles = {
        f"{name}{suffix}": weights.add(np.zeros(size))
        for suffix in ("", "_reverse")
        for name, size in (("W_t_x", 4 * 3 * 2), ("W_t_h", 4 * 3 * 3), ("b", 4 * 3))
    }
    layer = {
        "type": "rnn_arch",
        "arch": 1,
        "input_size": 2,
        "hidden_size": 3,
        "encoder_bidirectional_mode": 1,
        "encoder_output_sequence": 1,
        "top": "y,hf,cf,hb,cb",
        "weights": roles,
    }
    state = exact(1, 1, 3, 1, 1)
    shapes = {"x": exact(5, 1, 2, 1, 1), "y": exact(5, 1, 6, 1, 1)} | dict.fromkeys(
        ("hf", "cf", "hb", "cb"), state
    )
    model = container.read(write_network(tmp_path, [layer], shapes, weights))
    assert isinstance(model.content, ir.Program)
    ops = model.content.functions["main"].graph.ops
    assert "lstm" in [op.type for op in ops]
    assert "order of its gates" in _layer(tmp_path).doubt
    with pytest.raises(Exception, match="order of its gates"):
        run_layers(tmp_path, x=np.zeros((5, 1, 2, 1, 1)))


def test_recurrent_layer_without_its_blobs_runs_with_random_weights(tmp_path: Path) -> None:
    layer = {"type": "rnn_arch", "arch": 1, "input_size": 2, "hidden_size": 3, "encoder_output_sequence": 1}
    layer |= {"top": "y,h,c", "weights": {}}
    state = exact(1, 1, 3, 1, 1)
    shapes = {"x": exact(5, 1, 2, 1, 1), "y": exact(5, 1, 3, 1, 1), "h": state, "c": state}
    path = write_network(tmp_path, [layer], shapes)
    lowered = lower_function(container.read(path), random_weights=0)
    assert lowered.random_weights == 0
    with pytest.raises(UnsupportedOpError, match="order of its gates"):
        lower_function(container.read(path))


def test_unknown_layer_stays_visible(tmp_path: Path) -> None:
    layers = [{"type": "warp", "angle": 30, "mode": "fast"}, {"type": "activation", "mode": 0}]
    shapes = {"x": exact(1, 2), "b1": exact(1, 3), "y": exact(1, 3)}
    model = container.read(write_network(tmp_path, layers, shapes))
    assert isinstance(model.content, ir.Program)
    warp, relu = model.content.functions["main"].graph.ops
    assert (warp.type, warp.name, warp.outputs[0].type) == (
        "warp",
        "layer0",
        ir.TensorType(ir.DType.FP32, (1, 3)),
    )
    assert warp.attributes["angle"].item() == 30
    assert warp.attributes["mode"].item() == "fast"
    assert relu.outputs[0].type == ir.TensorType(ir.DType.FP32, (1, 3))
    with pytest.raises(Exception, match="warp"):
        run_layers(tmp_path, x=[[1, 2]])


def test_every_row_has_a_test() -> None:
    tested = Path(__file__).read_text()
    assert [type_ for type_ in LAYERS if f'"{type_}"' not in tested] == []
