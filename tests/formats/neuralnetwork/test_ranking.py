"""Layers that rank elements and boxes."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import selection
from tests.support.single_layers import results_of

_X = np.random.default_rng(6).permutation(24).reshape(2, 3, 4).astype(np.float32)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("is_input", [False, True])
def test_top_k(axis: int, lowest: bool, is_input: bool) -> None:
    inputs = (_X, np.array([2])) if is_input else (_X,)
    params = {} if is_input else {"K": 2}
    values, indices = results_of("topK", *inputs, outputs=2, axis=axis, useBottomK=lowest, **params)
    order = np.take(np.argsort(_X if lowest else -_X, axis), range(2), axis)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(_X, order, axis))


def test_equal_elements_keep_their_order() -> None:
    values, indices = results_of("topK", np.array([1.0, 3, 3, 2, 3]), outputs=2, K=3, axis=0)
    np.testing.assert_array_equal(indices, [1, 2, 4])
    np.testing.assert_array_equal(values, [3, 3, 3])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argmax_and_argmin(axis: int) -> None:
    (largest,) = results_of("argMax", _X, axis=axis)
    np.testing.assert_array_equal(largest, np.argmax(_X, axis, keepdims=True))
    (smallest,) = results_of("argMin", _X, axis=axis, removeDim=True)
    np.testing.assert_array_equal(smallest, np.argmin(_X, axis))


def test_results_have_no_rank_0() -> None:
    (result,) = results_of("argMax", np.array([1.0, 5, 2]), axis=0, removeDim=True)
    np.testing.assert_array_equal(result, [1])


@pytest.mark.parametrize("descending", [False, True])
def test_argsort(descending: bool) -> None:
    (result,) = results_of("argSort", _X, axis=1, descending=descending)
    np.testing.assert_array_equal(result, np.argsort(-_X if descending else _X, 1))


# Boxes as centre and size: the second overlaps the first, the third overlaps neither.
_BOXES = np.array([[[5, 5, 4, 4], [5, 6, 4, 4], [20, 20, 4, 4]]], np.float32)
_SCORES = np.array([[[0.9, 0.1], [0.2, 0.8], [0.3, 0.1]]], np.float32)


@pytest.mark.parametrize("inputs", [0, 1, 3])
def test_suppression_by_parameters_and_inputs(inputs: int) -> None:
    given = [np.array([0.5]), np.array([0.2]), np.array([4.0])][:inputs]
    params = {"iouThreshold": 0.5, "scoreThreshold": 0.2, "maxBoxes": 4}
    if inputs == 3:
        params = {"iouThreshold": 0.99, "scoreThreshold": 0.99, "maxBoxes": 1}
    boxes, scores, indices, count = results_of(
        "NonMaximumSuppression", _BOXES, _SCORES, *given, outputs=4, **params
    )
    np.testing.assert_array_equal(indices, [[0, 2, -1, -1]])
    np.testing.assert_array_equal(count, [2])
    np.testing.assert_array_equal(boxes[0], [*_BOXES[0, [0, 2]], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(scores[0], [*_SCORES[0, [0, 2]], [0] * 2, [0] * 2])


def test_suppression_per_class() -> None:
    params = {"iouThreshold": 0.5, "scoreThreshold": 0.2, "maxBoxes": 3, "perClassSuppression": True}
    _, _, indices, _ = results_of("NonMaximumSuppression", _BOXES, _SCORES, outputs=4, **params)
    np.testing.assert_array_equal(indices, [[0, 1, 2]])


def test_every_layer_has_a_case() -> None:
    types = {"argMax", "argMin", "argSort", "NonMaximumSuppression", "topK"}
    assert {spec.type for spec in selection.LAYERS} == types
