"""Layers that are defined for five dimensions, in the legacy layout and for tensors of rank 5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from tests.support.networks import Floats, layers_of, network, predict, random, read

X = random(4, 3, 2)
FIVE = random(3, 2, 4, 3, 2)


def _flat(x: Floats, mode: int) -> Floats:
    ordered = np.moveaxis(x, -3, -1) if mode else x
    return ordered.reshape(*x.shape[:-3], -1, 1, 1)


@pytest.mark.parametrize("mode", [0, 1])
def test_flatten(mode: int) -> None:
    builder = network({"x": FIVE.shape}, exact=True)
    builder.add_flatten("flat", mode, "x", "y")
    np.testing.assert_array_equal(predict(builder, x=FIVE), _flat(FIVE, mode))


@pytest.mark.parametrize("mode", [0, 1])
def test_flatten_in_the_legacy_layout(mode: int) -> None:
    builder = network({"x": X.shape})
    builder.add_flatten("flat", mode, "x", "y")
    np.testing.assert_array_equal(predict(builder, x=X), _flat(X, mode)[:, 0, 0])


@pytest.mark.parametrize(
    ("target", "mode", "expected"),
    [
        ((2, 6, 2), 0, X.reshape(2, 6, 2)),
        ((-1, 6, 2), 0, X.reshape(2, 6, 2)),
        ((2, 6, 2), 1, X.transpose(1, 2, 0).reshape(6, 2, 2).transpose(2, 0, 1)),
        ((3, 4, 2, 1), 0, X.reshape(3, 1, 4, 2, 1)),
        ((-1, 4, 1, 2), 1, X.transpose(1, 2, 0).reshape(3, 1, 2, 4).transpose(0, 3, 1, 2)[:, None]),
    ],
)
def test_reshape(target: tuple[int, ...], mode: int, expected: Floats) -> None:
    builder = network({"x": X.shape})
    builder.add_reshape("reshape", "x", "y", target, mode)
    np.testing.assert_array_equal(predict(builder, x=X), expected)


@pytest.mark.parametrize("target", [(5, -1, 2), (-1, -1, 2), (2, 6)])
def test_invalid_target_shape(target: tuple[int, ...]) -> None:
    builder = network({"x": X.shape})
    builder.add_reshape("reshape", "x", "y", (2, 6, 2), 0)
    params = builder.nn_spec.layers[0].reshape
    del params.targetShape[:]
    params.targetShape.extend(target)
    problems = [op.layer.problem for op in layers_of(read(builder)) if op.layer]
    assert any("does not match" in p or "instead of 3 or 4" in p for p in problems)


@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (3, 1, 2, 0), (1, 0, 3, 2)])
@pytest.mark.parametrize("batch", [1, 2])
def test_permute(axes: tuple[int, ...], batch: int) -> None:
    x = FIVE[:, :batch]
    builder = network({"x": x.shape}, exact=True)
    builder.add_permute("permute", axes, "x", "y")
    five = [axis + 1 if axis else 0 for axis in axes]
    expected = x.transpose(five[0], 1, *five[1:])
    np.testing.assert_array_equal(predict(builder, x=x), expected)


def test_permute_to_a_sequence() -> None:
    builder = network({"x": X.shape})
    builder.add_permute("permute", (3, 1, 0, 2), "x", "y")
    expected = X[None, None].transpose(4, 1, 2, 0, 3)
    np.testing.assert_array_equal(predict(builder, x=X), expected)


def test_concatenation_of_channels_and_sequences() -> None:
    other = random(5, 3, 2, seed=1)
    builder = network({"x": X.shape, "z": other.shape}, outputs=("y", "long"))
    builder.add_elementwise("both", ["x", "z"], "y", "CONCAT")
    builder.add_sequence_repeat("twice", 2, "x", "two")
    builder.add_elementwise("long", ["x", "two"], "long", "SEQUENCE_CONCAT")
    results = predict(builder, x=X, z=other)
    np.testing.assert_array_equal(results["y"], np.concatenate([X, other]))
    np.testing.assert_array_equal(results["long"], np.stack([X, X, X])[:, None])


def test_concatenation_of_tensors() -> None:
    builder = network({"x": FIVE.shape, "z": FIVE.shape}, exact=True, outputs=("y", "long"))
    builder.add_elementwise("both", ["x", "z"], "y", "CONCAT")
    builder.add_elementwise("long", ["x", "z"], "long", "SEQUENCE_CONCAT")
    results = predict(builder, x=FIVE, z=-FIVE)
    np.testing.assert_array_equal(results["y"], np.concatenate([FIVE, -FIVE], 2))
    np.testing.assert_array_equal(results["long"], np.concatenate([FIVE, -FIVE], 0))


def test_sequence_repetition() -> None:
    builder = network({"x": FIVE.shape}, exact=True)
    builder.add_sequence_repeat("repeat", 3, "x", "y")
    np.testing.assert_array_equal(predict(builder, x=FIVE), np.concatenate([FIVE] * 3))


def test_split() -> None:
    builder = network({"x": X.shape}, outputs=("a", "b"))
    builder.add_split("split", "x", ["a", "b"])
    results = predict(builder, x=X)
    np.testing.assert_array_equal(results["a"], X[:2])
    np.testing.assert_array_equal(results["b"], X[2:])


@pytest.mark.parametrize(
    ("axis", "start", "end", "stride"),
    [("channel", 1, -1, 1), ("height", 1, 100, 1), ("width", 0, 2**31 - 1, 2), ("channel", 0, 4, 3)],
)
def test_slice(axis: str, start: int, end: int, stride: int) -> None:
    builder = network({"x": X.shape})
    builder.add_slice("slice", "x", "y", axis, start, end, stride)
    index = [slice(None)] * 3
    index[("channel", "height", "width").index(axis)] = slice(start, end, stride)
    expected = X[tuple(index)]
    np.testing.assert_array_equal(predict(builder, x=X).reshape(expected.shape), expected)


_REDUCTIONS: dict[str, Callable[[Floats, tuple[int, ...]], Floats]] = {
    "sum": lambda x, axes: x.sum(axes, keepdims=True),
    "avg": lambda x, axes: x.mean(axes, keepdims=True),
    "prod": lambda x, axes: x.prod(axes, keepdims=True),
    "logsum": lambda x, axes: np.log(x + 0.5).sum(axes, keepdims=True),
    "sumsquare": lambda x, axes: (x**2).sum(axes, keepdims=True),
    "L1": lambda x, axes: np.abs(x).sum(axes, keepdims=True),
    "L2": lambda x, axes: np.sqrt((x**2).sum(axes, keepdims=True)),
    "max": lambda x, axes: x.max(axes, keepdims=True),
    "min": lambda x, axes: x.min(axes, keepdims=True),
    "argmax": lambda x, axes: x.argmax(axes[0], keepdims=True).astype(np.float32),
}


def _reduce(builder: NeuralNetworkBuilder, mode: str, axis: str) -> None:
    builder.add_reduce("reduce", "x", "y", axis, mode, epsilon=0.5)


@pytest.mark.parametrize("mode", _REDUCTIONS)
def test_reductions(mode: str) -> None:
    x = np.abs(FIVE) if mode == "logsum" else FIVE
    builder = network({"x": x.shape}, exact=True)
    _reduce(builder, mode, "C")
    np.testing.assert_allclose(predict(builder, x=x), _REDUCTIONS[mode](x, (2,)), rtol=1e-5)


@pytest.mark.parametrize(("axis", "axes"), [("CHW", (0, 1, 2)), ("HW", (1, 2)), ("H", (1,)), ("W", (2,))])
def test_reduction_axes(axis: str, axes: tuple[int, ...]) -> None:
    builder = network({"x": X.shape})
    _reduce(builder, "sum", axis)
    expected = X.sum(axes, keepdims=True)
    np.testing.assert_allclose(predict(builder, x=X).reshape(expected.shape), expected, rtol=1e-5)


def test_constant() -> None:
    constant = random(4, 1, 2, seed=1)
    builder = network({"x": X.shape})
    builder.add_load_constant("load", "k", constant, constant.shape)
    builder.add_elementwise("add", ["x", "k"], "y", "ADD")
    np.testing.assert_allclose(predict(builder, x=X), X + constant, rtol=1e-6)
