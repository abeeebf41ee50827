"""The gather and scatter layers, compared with NumPy. Negative indices count from the end."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import indexing
from coremlscope.model.ir import Array
from tests.support.single_layers import results_of

_RANDOM = np.random.default_rng(1)
_X = _RANDOM.standard_normal((3, 4, 5)).astype(np.float32)

#: The functions of the scatter modes, by number.
_MODES = {0: None, 1: np.add, 2: np.subtract, 3: np.multiply, 4: np.divide, 5: np.maximum, 6: np.minimum}


@pytest.mark.parametrize("axis", [-3, 0, 1, 2])
def test_gather(axis: int) -> None:
    indices = np.array([[-1, 0], [2, -3]])
    (result,) = results_of("gather", _X, indices, axis=axis)
    np.testing.assert_array_equal(result, np.take(_X, indices, axis))


@pytest.mark.parametrize("axis", [0, -1])
def test_gather_along_axis(axis: int) -> None:
    shape = list(_X.shape)
    shape[axis] = 2
    indices = _RANDOM.integers(-_X.shape[axis], _X.shape[axis], shape)
    (result,) = results_of("gatherAlongAxis", _X, indices, axis=axis)
    np.testing.assert_array_equal(result, np.take_along_axis(_X, indices, axis))


def test_gather_nd() -> None:
    indices = np.array([[0, -1], [-3, 2]])
    (result,) = results_of("gatherND", _X, indices)
    np.testing.assert_array_equal(result, _X[indices[:, 0], indices[:, 1]])


def _combined(data: Array, places: object, updates: Array, mode: int) -> Array:
    """Returns `data` with updates set or combined. Indices must be unique."""
    result, function = data.copy(), _MODES[mode]
    result[places] = updates if function is None else function(result[places], updates)
    return result


@pytest.mark.parametrize("mode", _MODES)
def test_scatter(mode: int) -> None:
    indices = np.array([-1, 0])
    updates = _RANDOM.uniform(0.5, 2, (3, 2, 5)).astype(np.float32)
    (result,) = results_of("scatter", _X, indices, updates, axis=1, mode=mode)
    np.testing.assert_allclose(
        result, _combined(_X, (slice(None), indices), updates, mode), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("mode", _MODES)
def test_scatter_along_axis(mode: int) -> None:
    indices = _RANDOM.permutation(4)[:2].reshape(1, 2, 1) - 4 * np.ones((3, 2, 5), int)
    updates = _RANDOM.uniform(0.5, 2, (3, 2, 5)).astype(np.float32)
    (result,) = results_of("scatterAlongAxis", _X, indices, updates, axis=-2, mode=mode)
    first, _, last = np.indices(indices.shape)
    np.testing.assert_allclose(
        result, _combined(_X, (first, indices, last), updates, mode), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("mode", _MODES)
def test_scatter_nd(mode: int) -> None:
    indices = np.array([[0, -1], [2, 1]])
    updates = _RANDOM.uniform(0.5, 2, (2, 5)).astype(np.float32)
    (result,) = results_of("scatterND", _X, indices, updates, mode=mode)
    np.testing.assert_allclose(
        result, _combined(_X, (indices[:, 0], indices[:, 1]), updates, mode), rtol=1e-6, atol=1e-6
    )


def test_duplicate_indices_accumulate() -> None:
    (result,) = results_of(
        "scatter", np.zeros(3), np.array([1, 1, -2]), np.array([1.0, 2, 4]), axis=0, mode=1
    )
    np.testing.assert_array_equal(result, [0, 7, 0])


def test_every_layer_has_a_case() -> None:
    assert {spec.type for spec in indexing.LAYERS} == {
        "gather",
        "gatherAlongAxis",
        "gatherND",
        "scatter",
        "scatterAlongAxis",
        "scatterND",
    }
