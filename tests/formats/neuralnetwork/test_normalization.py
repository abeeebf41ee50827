"""Normalizations, compared with their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.networks import Floats, layers_of, network, predict, random, read

X = random(3, 4, 5)
GAMMA, BETA, MEAN = (random(3, seed=seed) for seed in (1, 2, 3))
VARIANCE = random(3, seed=4) ** 2


def _planes(parameters: Floats) -> Floats:
    return parameters[:, None, None]


def _normalized(x: Floats, axes: tuple[int, ...], epsilon: float) -> Floats:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_given_moments(rank: int) -> None:
    shape = (2, 2, *X.shape)[5 - rank :]
    x = random(*shape)
    builder = network({"x": shape}, exact=True)
    builder.add_batchnorm("norm", 3, GAMMA, BETA, MEAN, VARIANCE, "x", "y", epsilon=1e-2)
    expected = _planes(GAMMA) * (x - _planes(MEAN)) / np.sqrt(_planes(VARIANCE) + 1e-2) + _planes(BETA)
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-4, atol=1e-5)


def test_epsilon_of_zero_is_the_default() -> None:
    builder = network({"x": X.shape})
    builder.add_batchnorm("norm", 3, GAMMA, BETA, MEAN, 0 * VARIANCE, "x", "y", epsilon=0.0)
    expected = _planes(GAMMA) * (X - _planes(MEAN)) / np.sqrt(1e-5) + _planes(BETA)
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-3)


@pytest.mark.parametrize(("of_instances", "axes"), [(True, (2, 3)), (False, (0, 2, 3))])
def test_moments_of_each_item_or_of_the_batch(of_instances: bool, axes: tuple[int, ...]) -> None:
    x = random(2, 3, 4, 5)
    builder = network({"x": x.shape}, exact=True)
    builder.add_batchnorm(
        "norm",
        3,
        GAMMA,
        BETA,
        input_name="x",
        output_name="y",
        compute_mean_var=True,
        instance_normalization=True,
        epsilon=1e-3,
    )
    # The format allows batch moments, but the builder cannot write them.
    builder.nn_spec.layers[0].batchnorm.instanceNormalization = of_instances
    expected = _planes(GAMMA) * _normalized(x, axes, 1e-3) + _planes(BETA)
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("across", "axes"), [(True, (-3, -2, -1)), (False, (-2, -1))])
@pytest.mark.parametrize("divides", [True, False])
def test_mean_and_variance(across: bool, axes: tuple[int, ...], divides: bool) -> None:
    builder = network({"x": X.shape})
    builder.add_mvn("norm", "x", "y", across, divides, epsilon=1e-3)
    expected = _normalized(X, axes, 1e-3) if divides else X - X.mean(axes, keepdims=True)
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exact", [False, True])
def test_l2_normalization(exact: bool) -> None:
    x = random(2, 3, 4, 5) if exact else X
    builder = network({"x": x.shape}, exact=exact)
    builder.add_l2_normalize("norm", "x", "y", epsilon=0.5)
    expected = x / np.sqrt((x**2).sum((-3, -2, -1), keepdims=True) + 0.5)
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-5)


@pytest.mark.parametrize("size", [3, 4])
def test_local_response_normalization(size: int) -> None:
    x = random(6, 2, 2)
    builder = network({"x": x.shape})
    builder.add_lrn("norm", "x", "y", alpha=0.7, beta=0.6, local_size=size, k=1.5)
    before, after = (size - 1) // 2, size // 2
    if size % 2 == 0:
        before, after = after, before
    sums = np.stack([(x[max(0, c - before) : c + after + 1] ** 2).sum(0) for c in range(6)])
    np.testing.assert_allclose(predict(builder, x=x), x / (1.5 + 0.7 / size * sums) ** 0.6, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 2])
def test_layer_normalization(count: int) -> None:
    x, shape = random(2, 3, 4), (2, 3, 4)[-count:]
    gamma, beta = random(*shape, seed=1), random(*shape, seed=2)
    builder = network({"x": x.shape}, exact=True)
    builder.add_layer_normalization("norm", "x", "y", shape, gamma, beta, eps=1e-3)
    expected = gamma * _normalized(x, tuple(range(-count, 0)), 1e-3) + beta
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-4, atol=1e-5)


def test_layer_normalization_of_another_shape() -> None:
    builder = network({"x": (2, 3)}, exact=True)
    builder.add_layer_normalization("norm", "x", "y", (4,), random(4), random(4))
    layer = layers_of(read(builder))[0].layer
    assert layer is not None
    assert layer.problem == "its shape [4] does not match a tensor of shape [2, 3]"
