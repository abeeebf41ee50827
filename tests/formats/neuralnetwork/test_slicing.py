"""Slices by parameters and by inputs, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.formats.neuralnetwork import slicing_nd
from tests.support.networks import network, predict
from tests.support.single_layers import results_of

_X = np.random.default_rng(3).standard_normal((4, 5, 6)).astype(np.float32)

#: begin, end, stride, begin masks, end masks, squeeze masks, and the equivalent Python slices.
_CASES: list[tuple[list[int], list[int], list[int], list[int], list[int], list[int], tuple[Any, ...]]] = [
    ([1, 0, -2], [3, 4, 6], [1, 2, 1], [0] * 3, [0] * 3, [0] * 3, np.s_[1:3, 0:4:2, -2:6]),
    ([-1, 4, 1], [0, -6, 1], [-1, -2, 1], [0] * 3, [0] * 3, [0, 0, 1], np.s_[-1:0:-1, 4:-6:-2, 1]),
    ([2, 3, 3], [0, 0, 0], [-1, 1, -2], [1, 0, 0], [0, 1, 1], [0] * 3, np.s_[:0:-1, 3:, 3::-2]),
    ([-1, -1, 9], [9, 9, 9], [1, 1, 1], [0, 0, 1], [0, 0, 1], [1, 0, 0], np.s_[-1, -1:, :]),
]


@pytest.mark.parametrize("case", _CASES)
def test_static(case: tuple[Any, ...]) -> None:
    begin, end, stride, begin_mask, end_mask, squeeze, expected = case
    (result,) = results_of(
        "sliceStatic",
        _X,
        beginIds=begin,
        endIds=end,
        strides=stride,
        beginMasks=_flags(begin_mask),
        endMasks=_flags(end_mask),
        squeezeMasks=_flags(squeeze),
    )
    np.testing.assert_array_equal(result, _X[expected])


def _taken(builder: NeuralNetworkBuilder, name: str) -> None:
    builder.add_slice_static(
        "taken",
        "x",
        name,
        begin_ids=[1],
        end_ids=[2],
        strides=[1],
        begin_masks=[False],
        end_masks=[False],
        squeeze_masks=[True],
    )


def test_an_element_of_a_vector_has_one_axis() -> None:
    builder = network({"x": (3,)}, exact=True)
    _taken(builder, "y")
    np.testing.assert_array_equal(predict(builder, x=_X[0, 0, :3]), _X[0, 0, 1:2])


@pytest.mark.parametrize(("axes", "shape"), [([0], (1,)), ([0, 1], (1, 1)), ([-1], (1,))])
def test_axes_are_added_to_an_element_as_to_a_number(axes: list[int], shape: tuple[int, ...]) -> None:
    builder = network({"x": (3,)}, exact=True)
    _taken(builder, "element")
    builder.add_expand_dims("expanded", "element", "y", axes)
    np.testing.assert_array_equal(predict(builder, x=_X[0, 0, :3]), _X[0, 0, 1].reshape(shape))


def test_an_element_is_the_number_of_repetitions() -> None:
    builder = network({"x": (3,)}, exact=True)
    _taken(builder, "element")
    builder.add_expand_dims("expanded", "element", "repetitions", [0])
    builder.add_load_constant_nd("value", "value", np.array([7.0]), [1])
    builder.add_tile("tiled", ["value", "repetitions"], "y")
    np.testing.assert_array_equal(predict(builder, x=np.array([1.0, 4.0, 2.0])), [7.0] * 4)


def _flags(values: list[int]) -> list[bool]:
    return [bool(value) for value in values]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("case", _CASES)
def test_dynamic_with_any_number_of_inputs(case: tuple[Any, ...], count: int) -> None:
    begin, end, stride, begin_mask, end_mask, squeeze, expected = case
    inputs = [np.array(given) for given in (begin, end, stride, begin_mask, end_mask)]
    (result,) = results_of(
        "sliceDynamic",
        _X,
        *inputs[: count - 1],
        endIds=end,
        strides=stride,
        beginMasks=_flags(begin_mask),
        endMasks=_flags(end_mask),
        squeezeMasks=_flags(squeeze),
    )
    np.testing.assert_array_equal(result, _X[expected])


@pytest.mark.parametrize(("axis", "size", "begin"), [(0, 2, 1), (-1, 3, 2), (1, 5, 0)])
def test_by_size(axis: int, size: int, begin: int) -> None:
    (result,) = results_of("sliceBySize", _X, np.array([begin]), axis=axis, size=size)
    np.testing.assert_array_equal(result, np.take(_X, range(begin, begin + size), axis))


def test_sliding_windows() -> None:
    (result,) = results_of("slidingWindows", _X, axis=-1, windowSize=3, step=2)
    np.testing.assert_array_equal(result, np.stack([_X[..., 0:3], _X[..., 2:5]], 2))


def test_every_layer_has_a_case() -> None:
    types = {"sliceBySize", "sliceDynamic", "sliceStatic", "slidingWindows"}
    assert {spec.type for spec in slicing_nd.LAYERS} == types
