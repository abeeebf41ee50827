"""Layer and group normalizations that converters spell out."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.ops.lower import lower
from coremlscope.runtime.execution.binding import bind_model
from tests.support.networks import network, predict, random, read
from tests.support.programs import bind_main, build, run

X = random(2, 3, 5)


def _normalized(x: np.ndarray, axes: tuple[int, ...] = (-1,), epsilon: float = 1e-3) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _add_norm(builder: NeuralNetworkBuilder) -> None:
    builder.add_mvn(
        "norm",
        input_name="i",
        output_name="n",
        across_channels=False,
        normalize_variance=True,
        epsilon=1e-3,
    )


def _add_scale(builder: NeuralNetworkBuilder, gamma: np.ndarray, beta: np.ndarray) -> None:
    builder.add_scale(
        "scale",
        W=gamma,
        b=beta,
        has_bias=True,
        input_name="n",
        output_name="s",
        shape_scale=gamma.shape,
        shape_bias=beta.shape,
    )


def _rows(width: int):
    """A normalization of the last axis of matrices, as converters write it."""
    x, gamma, beta = random(2, 3, width), random(width, seed=1), random(width, seed=2)
    builder = network({"x": x.shape}, exact=True)
    builder.add_reshape_static("images", "x", "i", [2, 3, 1, width])
    _add_norm(builder)
    shape = (1, 1, width)
    _add_scale(builder, gamma.reshape(shape), beta.reshape(shape))
    builder.add_reshape_static("back", "s", "y", [2, 3, width])
    return builder, x, gamma, beta


@pytest.mark.parametrize("width", [5, 1200])
def test_rows_reshaped_to_images(width: int) -> None:
    builder, x, gamma, beta = _rows(width)
    nodes = lower(bind_model(read(builder))).model.graph.node
    assert [node.op_type for node in nodes] == ["Reshape", "LayerNormalization"]
    np.testing.assert_allclose(predict(builder, x=x), gamma * _normalized(x) + beta, rtol=1e-4, atol=1e-5)


def test_images_of_several_rows_stay() -> None:
    builder = network({"x": (2, 3, 10)}, exact=True)
    builder.add_reshape_static("images", "x", "i", [2, 3, 2, 5])
    _add_norm(builder)
    shape = (1, 2, 5)
    gamma, beta = random(*shape, seed=1), random(*shape, seed=2)
    _add_scale(builder, gamma, beta)
    builder.add_reshape_static("back", "s", "y", [2, 3, 10])
    x = random(2, 3, 10)
    images = gamma * _normalized(x.reshape(2, 3, 2, 5), (-2, -1)) + beta
    np.testing.assert_allclose(predict(builder, x=x), images.reshape(2, 3, 10), rtol=1e-4, atol=1e-5)


def _spelled_out(axes: list[int], count: float, shape: tuple[int, ...], power: float = 2.0):
    gamma, beta = random(*shape, seed=1), random(*shape, seed=2)

    def body(x):
        mean = mb.reduce_mean(x=x, axes=axes, keep_dims=True)
        difference = mb.sub(x=x, y=mean)
        total = mb.reduce_sum(x=mb.pow(x=difference, y=np.float32(power)), axes=axes, keep_dims=True)
        variance = mb.real_div(x=total, y=np.float32(count))
        root = mb.sqrt(x=mb.add(x=variance, y=np.float32(1e-3)))
        normal = mb.real_div(x=difference, y=root)
        return mb.add(x=mb.mul(x=normal, y=gamma), y=beta)

    return body, gamma, beta


@pytest.mark.parametrize(("axes", "shape"), [([2], (1, 1, 5)), ([1, 2], (1, 3, 5)), ([-1], (1, 1, 5))])
def test_separate_operations(axes: list[int], shape: tuple[int, ...]) -> None:
    body, gamma, beta = _spelled_out(axes, float(np.prod(shape)), shape)
    nodes = lower(bind_main(build(body, {"x": X}))).model.graph.node
    assert [node.op_type for node in nodes] == ["LayerNormalization"]
    (result,) = run(body, {"x": X})
    np.testing.assert_allclose(result, gamma * _normalized(X, tuple(axes)) + beta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "count", "shape", "power"),
    [
        ([1], 3.0, (1, 3, 1), 2.0),  # not the last axis
        ([2], 4.0, (1, 1, 5), 2.0),  # n - 1, as in an unbiased variance
        ([2], 5.0, (1, 1, 5), 4.0),  # another power
    ],
)
def test_similar_chains_stay(axes: list[int], count: float, shape: tuple[int, ...], power: float) -> None:
    body, gamma, beta = _spelled_out(axes, count, shape, power)
    nodes = lower(bind_main(build(body, {"x": X}))).model.graph.node
    assert "LayerNormalization" not in [node.op_type for node in nodes]
    difference = X - X.mean(tuple(axes), keepdims=True)
    variance = (difference**power).sum(tuple(axes), keepdims=True) / count
    (result,) = run(body, {"x": X})
    np.testing.assert_allclose(
        result, gamma * difference / np.sqrt(variance + 1e-3) + beta, rtol=1e-4, atol=1e-5
    )


def _groups(axes: list[int], epsilon: float = 1e-3, power: float = 2.0):
    def body(x):
        grouped = mb.reshape(x=x, shape=[2, 2, 2, 3, 5])
        difference = mb.sub(x=grouped, y=mb.reduce_mean(x=grouped, axes=axes, keep_dims=True))
        square = mb.square(x=difference) if power == 2 else mb.pow(x=difference, y=np.float32(power))
        variance = mb.reduce_mean(x=square, axes=axes, keep_dims=True)
        normal = mb.real_div(x=difference, y=mb.sqrt(x=mb.add(x=variance, y=np.float32(epsilon))))
        return mb.reshape(x=normal, shape=[2, 4, 3, 5])

    return body


def test_groups_of_channels() -> None:
    x, body = random(2, 4, 3, 5), _groups([2, 3, 4])
    nodes = lower(bind_main(build(body, {"x": x}))).model.graph.node
    assert [node.op_type for node in nodes] == ["Reshape", "InstanceNormalization", "Reshape"]
    (result,) = run(body, {"x": x})
    expected = _normalized(x.reshape(2, 2, 2, 3, 5), (2, 3, 4)).reshape(x.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("axes", "power"), [([3, 4], 2.0), ([2, 3, 4], 4.0)])
def test_similar_groups_stay(axes: list[int], power: float) -> None:
    x, body = random(2, 4, 3, 5), _groups(axes, power=power)
    nodes = lower(bind_main(build(body, {"x": x}))).model.graph.node
    assert "InstanceNormalization" not in [node.op_type for node in nodes]
    grouped = x.reshape(2, 2, 2, 3, 5)
    difference = grouped - grouped.mean(tuple(axes), keepdims=True)
    variance = (difference**power).mean(tuple(axes), keepdims=True)
    (result,) = run(body, {"x": x})
    expected = (difference / np.sqrt(variance + 1e-3)).reshape(x.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
