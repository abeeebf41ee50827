"""Arithmetic, activations and other elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from tests.support.networks import Floats, layers_of, network, predict, random, read

X = random(3, 4, 5)
POSITIVE = np.abs(X) + 0.1


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("mode", "join"),
    [("ADD", np.add), ("MULTIPLY", np.multiply), ("MAX", np.maximum), ("MIN", np.minimum), ("AVE", np.add)],
)
@pytest.mark.parametrize("exact", [False, True])
def test_several_inputs_are_broadcast(mode: str, join: Callable[..., Floats], exact: bool) -> None:
    shapes = {"x": (3, 4, 5), "v": (3, 1, 1), "p": (1, 4, 5)}
    values = {name: random(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    builder = network(shapes, exact=exact)
    builder.add_elementwise("join", list(shapes), "y", mode)
    expected = reduce(join, values.values()) / (3 if mode == "AVE" else 1)
    np.testing.assert_allclose(predict(builder, **values), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("mode", "expected"), [("ADD", X + 2.5), ("MULTIPLY", X * 2.5)])
def test_single_input_and_a_number(mode: str, expected: Floats) -> None:
    builder = network({"x": X.shape})
    builder.add_elementwise("join", ["x"], "y", mode, 2.5)
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-6)


def test_sequences_and_batches_are_not_mixed_up() -> None:
    """A sequence of two and a batch of two have the same folded shape, but must be broadcast."""
    builder = network({"x": (2, 1, 3, 1, 1), "z": (1, 2, 3, 1, 1)})
    builder.add_activation("a", "LINEAR", "x", "a", [1.0, 0.0])
    builder.add_activation("b", "LINEAR", "z", "b", [1.0, 0.0])
    builder.add_elementwise("add", ["a", "b"], "y", "ADD")
    x, z = random(2, 1, 3, 1, 1), random(1, 2, 3, 1, 1)
    np.testing.assert_allclose(predict(builder, x=x, z=z), x + z, rtol=1e-6)


@pytest.mark.parametrize("is_cosine", [False, True])
def test_dot_products(is_cosine: bool) -> None:
    a, b = random(2, 6, 1, 1), random(2, 6, 1, 1, seed=1)
    builder = network({"a": a.shape, "b": b.shape}, exact=True)
    builder.add_elementwise("dot", ["a", "b"], "y", "COS" if is_cosine else "DOT")
    expected = (a * b).sum(1, keepdims=True)
    if is_cosine:
        expected = expected / np.sqrt((a**2).sum(1, keepdims=True) * (b**2).sum(1, keepdims=True))
    np.testing.assert_allclose(predict(builder, a=a, b=b), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 4, 5), (3, 4, 5)])
def test_scale_and_bias(shape: tuple[int, ...]) -> None:
    scale, bias = random(*shape, seed=1), random(*shape, seed=2)
    builder = network({"x": X.shape}, outputs=("y", "biased"))
    builder.add_scale("scale", scale, bias, True, "x", "y", shape, shape)
    builder.add_bias("bias", bias, "x", "biased", shape)
    planes = (-1, 1, 1) if len(shape) == 1 else shape
    results = predict(builder, x=X)
    np.testing.assert_allclose(results["y"], X * scale.reshape(planes) + bias.reshape(planes), rtol=1e-5)
    np.testing.assert_allclose(results["biased"], X + bias.reshape(planes), rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "function"),
    [
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x + 0.25)),
        ("inverse", lambda x: 1 / (x + 0.25)),
        ("power", lambda x: x**1.5),
        ("exp", np.exp),
        ("log", lambda x: np.log(x + 0.25)),
        ("abs", np.abs),
        ("threshold", lambda x: np.maximum(x, 1.5)),
    ],
)
def test_unary_functions(mode: str, function: Callable[[Floats], Floats]) -> None:
    builder = network({"x": X.shape}, outputs=("y", "moved"))
    builder.add_unary("plain", "x", "y", mode, alpha=1.5, epsilon=0.25)
    builder.add_unary("moved", "x", "moved", mode, alpha=1.5, epsilon=0.25, scale=2.0, shift=0.5)
    results = predict(builder, x=POSITIVE)
    np.testing.assert_allclose(results["y"], function(POSITIVE), rtol=1e-5)
    np.testing.assert_allclose(results["moved"], function(2 * POSITIVE + 0.5), rtol=1e-5)


def test_default_epsilon_of_divisors() -> None:
    builder = network({"x": (1,)}, exact=True)
    builder.add_unary("inverse", "x", "y", "inverse", epsilon=0)
    np.testing.assert_allclose(predict(builder, x=np.zeros(1)), [1e6], rtol=1e-5)


_PLANES = np.array([0.5, -1.0, 2.0], np.float32)[:, None, None]
_ERF = np.vectorize(math.erf)
_ACTIVATIONS: dict[str, tuple[object, Callable[[Floats], Floats]]] = {
    "RELU": (None, lambda x: np.maximum(x, 0)),
    "LEAKYRELU": ([0.3], lambda x: np.where(x >= 0, x, 0.3 * x)),
    "THRESHOLDEDRELU": (0.4, lambda x: np.where(x >= 0.4, x, 0)),
    "PRELU": (_PLANES.reshape(-1), lambda x: np.where(x >= 0, x, _PLANES * x)),
    "TANH": (None, np.tanh),
    "SCALED_TANH": ([1.5, 0.5], lambda x: 1.5 * np.tanh(0.5 * x)),
    "SIGMOID": (None, _sigmoid),
    "SIGMOID_HARD": ([0.3, 0.6], lambda x: np.clip(0.3 * x + 0.6, 0, 1)),
    "ELU": (0.7, lambda x: np.where(x >= 0, x, 0.7 * np.expm1(x))),
    "SOFTSIGN": (None, lambda x: x / (1 + np.abs(x))),
    "SOFTPLUS": (None, lambda x: np.log1p(np.exp(x))),
    "PARAMETRICSOFTPLUS": (
        [_PLANES.reshape(-1), np.array([2.0])],
        lambda x: _PLANES * np.log1p(np.exp(2 * x)),
    ),
    "LINEAR": ([2.0, -1.0], lambda x: 2 * x - 1),
}


@pytest.mark.parametrize("kind", _ACTIVATIONS)
@pytest.mark.parametrize("exact", [False, True])
def test_activations(kind: str, exact: bool) -> None:
    params, function = _ACTIVATIONS[kind]
    builder = network({"x": X.shape}, exact=exact)
    builder.add_activation("f", kind, "x", "y", params)
    np.testing.assert_allclose(predict(builder, x=X), function(X), rtol=1e-4, atol=1e-6)


def test_clipping() -> None:
    builder = network({"x": X.shape}, exact=True, outputs=("y", "clamped"))
    builder.add_clip("clip", "x", "y", -0.5, 0.25)
    builder.add_clamped_relu("clamped", "x", "clamped", alpha=-2.0, beta=0.75)
    results = predict(builder, x=X)
    np.testing.assert_allclose(results["y"], np.clip(X, -0.5, 0.25))
    np.testing.assert_allclose(results["clamped"], np.minimum(0.75, np.where(X >= 0, X, -2 * X)), rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "function"),
    [
        ("EXACT", lambda x: x / 2 * (1 + _ERF(x / math.sqrt(2)))),
        (
            "TANH_APPROXIMATION",
            lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
        ("SIGMOID_APPROXIMATION", lambda x: x * _sigmoid(1.702 * x)),
    ],
)
def test_gelu(mode: str, function: Callable[[Floats], Floats]) -> None:
    builder = network({"x": X.shape}, exact=True)
    builder.add_gelu("gelu", "x", "y", mode)
    np.testing.assert_allclose(predict(builder, x=X), function(X), rtol=1e-4, atol=1e-6)


def _softmax(x: Floats, axis: int) -> Floats:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("exact", [False, True])
def test_softmax_along_the_channels(exact: bool) -> None:
    builder = network({"x": X.shape}, exact=exact)
    builder.add_softmax("softmax", "x", "y")
    np.testing.assert_allclose(predict(builder, x=X), _softmax(X, 0), rtol=1e-5)


def test_softmax_of_a_matrix_runs_over_the_classes() -> None:
    builder = network({"x": (4, 5)}, exact=True)
    builder.add_softmax("softmax", "x", "y")
    np.testing.assert_allclose(predict(builder, x=X[0, :4, :5]), _softmax(X[0, :4, :5], 1), rtol=1e-5)


def test_softmax_of_a_tensor_without_channels() -> None:
    builder = network({"x": (4,)}, exact=True)
    builder.add_softmax("softmax", "x", "y")
    layer = layers_of(read(builder))[0].layer
    assert layer is not None
    assert layer.problem == "its input has 1 dimensions, but at least 2 are required"


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_along_any_axis(axis: int) -> None:
    builder = network({"x": X.shape}, exact=True)
    builder.add_softmax_nd("softmax", "x", "y", axis)
    np.testing.assert_allclose(predict(builder, x=X), _softmax(X, axis), rtol=1e-5)
