"""Matrix products and embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.networks import Floats, layers_of, network, predict, random, read

W, B = random(5, 24, seed=1), random(5, seed=2)


def _inner(shape: tuple[int, ...], *, exact: bool = True) -> tuple[Floats, Floats]:
    x = random(*shape)
    builder = network({"x": shape}, exact=exact)
    builder.add_inner_product("product", W, B, 24, 5, True, "x", "y")
    return x, np.asarray(predict(builder, x=x))


@pytest.mark.parametrize("shape", [(24,), (3, 24), (2, 3, 24)])
def test_product_along_the_last_axis(shape: tuple[int, ...]) -> None:
    x, result = _inner(shape)
    np.testing.assert_allclose(result, x @ W.T + B, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(7, 2, 3, 4), (2, 7, 2, 3, 4), (7, 24, 1, 1)])
def test_product_along_three_merged_axes(shape: tuple[int, ...]) -> None:
    x, result = _inner(shape)
    expected = (x.reshape(*shape[:-3], 24) @ W.T + B)[..., None, None]
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(24,), (2, 3, 4)])
def test_product_in_the_legacy_layout(shape: tuple[int, ...]) -> None:
    x, result = _inner(shape, exact=False)
    assert result.shape == (5,)
    np.testing.assert_allclose(result, x.reshape(24) @ W.T + B, rtol=1e-4, atol=1e-5)


def test_matrix_of_another_size() -> None:
    builder = network({"x": (2, 23)}, exact=True)
    builder.add_inner_product("product", W, None, 24, 5, False, "x", "y")
    layer = layers_of(read(builder))[0].layer
    assert layer is not None
    assert "[2, 23], but its matrix requires 24 channels" in layer.problem


@pytest.mark.parametrize("shape", [(24,), (3, 24), (2, 1, 3, 24)])
def test_column_major_matrix(shape: tuple[int, ...]) -> None:
    x = random(*shape)
    builder = network({"x": shape}, exact=True)
    builder.add_batched_mat_mul(
        "product", ["x"], "y", weight_matrix_rows=24, weight_matrix_columns=5, W=W.T, bias=B
    )
    np.testing.assert_allclose(predict(builder, x=x), x @ W.T + B, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((4,), (4,), (1, 1)),
        ((3, 4), (4,), (3, 1)),
        ((4,), (2, 4, 5), (2, 1, 5)),
        ((2, 1, 3, 4), (6, 4, 5), (2, 6, 3, 5)),
    ],
)
def test_product_of_two_inputs(
    left: tuple[int, ...], right: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    a, b = random(*left), random(*right, seed=1)
    builder = network({"a": left, "b": right}, exact=True)
    builder.add_batched_mat_mul("product", ["a", "b"], "y")
    result = predict(builder, a=a, b=b)
    np.testing.assert_allclose(result, np.matmul(a, b).reshape(expected), rtol=1e-4, atol=1e-5)


def test_product_of_two_transposed_inputs() -> None:
    a, b = random(4, 3), random(5, 4, seed=1)
    builder = network({"a": a.shape, "b": b.shape}, exact=True)
    builder.add_batched_mat_mul("product", ["a", "b"], "y", transpose_a=True, transpose_b=True)
    np.testing.assert_allclose(predict(builder, a=a, b=b), a.T @ b.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exact", [False, True])
def test_embedding(exact: bool) -> None:
    table = random(3, 7, seed=1)
    numbers = np.array([4, 0, 6], np.float32)
    shape = (3, 1, 1, 1) if exact else (1,)
    builder = network({"x": shape}, exact=exact)
    builder.add_embedding("embed", table, B[:3], 7, 3, True, "x", "y")
    if exact:
        result, expected = predict(builder, x=numbers.reshape(shape))[:, :, 0, 0], table.T[[4, 0, 6]] + B[:3]
    else:
        result, expected = predict(builder, x=numbers[:1]), table[:, 4] + B[:3]
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 1), (2, 3, 1)])
def test_embedding_of_any_rank(shape: tuple[int, ...]) -> None:
    table = random(3, 7, seed=1)
    numbers = np.random.default_rng(0).integers(0, 7, shape)
    builder = network({"x": shape}, exact=True)
    builder.add_embedding_nd("embed", "x", "y", 7, 3, table, b=B[:3])
    expected = table.T[numbers[..., 0]] + B[:3]
    np.testing.assert_allclose(predict(builder, x=numbers.astype(np.float32)), expected, rtol=1e-5)
