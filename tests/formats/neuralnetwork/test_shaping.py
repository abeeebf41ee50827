"""Layers that reshape, concatenate, split, tile and reverse, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import shaping
from coremlscope.model.ir import Array
from tests.support.networks import network, predict
from tests.support.single_layers import results_of

_RANDOM = np.random.default_rng(2)
_X = _RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
_Z = _RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
_THIN = _RANDOM.standard_normal((1, 3, 1)).astype(np.float32)

#: Layer type, inputs, parameters, expected result.
_CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Array]] = [
    ("broadcastToDynamic", (_THIN, np.array([2, 1, 3, 4])), {}, np.broadcast_to(_THIN, (2, 1, 3, 4))),
    ("broadcastToLike", (_THIN, _X), {}, np.broadcast_to(_THIN, (2, 3, 4))),
    ("broadcastToStatic", (_THIN,), {"targetShape": [5, 1, 3, 2]}, np.broadcast_to(_THIN, (5, 1, 3, 2))),
    ("concatND", (_X, _Z), {"axis": -2}, np.concatenate([_X, _Z], 1)),
    ("concatND", (_X, _Z), {"axis": 1, "interleave": True}, np.stack([_X, _Z], 2).reshape(2, 6, 4)),
    ("concatND", (np.ones((1, 1)), np.array([2, 3])), {"axis": 0}, np.array([1, 2, 3])),
    ("concatND", (_THIN, np.array([[2], [3]])), {"axis": -2}, np.vstack([_THIN[0], [[2], [3]]])),
    ("expandDims", (_X,), {"axes": [0, -1]}, _X[None, ..., None]),
    ("flattenTo2D", (_X,), {"axis": 2}, _X.reshape(6, 4)),
    ("flattenTo2D", (_X,), {"axis": -2}, _X.reshape(2, 12)),
    ("flattenTo2D", (_X,), {"axis": 3}, _X.reshape(24, 1)),
    ("rankPreservingReshape", (_X,), {"targetShape": [0, 6, -1]}, _X.reshape(2, 6, 2)),
    ("reshapeDynamic", (_X, np.array([4, -1])), {}, _X.reshape(4, 6)),
    ("reshapeDynamic", (_X, np.array([[4], [-1]])), {}, _X.reshape(4, 6)),
    ("reshapeLike", (_X, np.zeros((6, 2, 2))), {}, _X.reshape(6, 2, 2)),
    ("reshapeStatic", (_X,), {"targetShape": [4, -1]}, _X.reshape(4, 6)),
    ("reverse", (_X,), {"reverseDim": [True, False, True]}, _X[::-1, :, ::-1]),
    (
        "reverseSeq",
        (_X, np.array([2, 3])),
        {"batchAxis": 0, "sequenceAxis": 1},
        np.stack([_X[0, [1, 0, 2]], _X[1, [2, 1, 0]]]),
    ),
    ("squeeze", (_THIN,), {"axes": [-1]}, _THIN[..., 0]),
    ("squeeze", (_THIN,), {"squeezeAll": True}, _THIN[0, :, 0]),
    ("squeeze", (np.ones((1, 1)),), {"axes": [0, 1]}, np.ones(1)),
    ("squeeze", (np.ones((1, 1)),), {"squeezeAll": True}, np.ones(1)),
    ("stack", (_X, _Z), {"axis": -1}, np.stack([_X, _Z], -1)),
    ("tile", (_X,), {"reps": [2, 1, 3]}, np.tile(_X, (2, 1, 3))),
    ("tile", (_X,), {"reps": [2]}, np.tile(_X, 2)),
    ("tile", (_X, np.array([3, 2])), {}, np.tile(_X, (3, 2))),
    ("tile", (_X, np.array([2, 1, 1, 2])), {}, np.tile(_X, (2, 1, 1, 2))),
    ("transpose", (_X,), {"axes": [2, 0, 1]}, _X.transpose(2, 0, 1)),
]


@pytest.mark.parametrize(("type_", "inputs", "params", "expected"), _CASES)
def test_against_numpy(
    type_: str, inputs: tuple[Array, ...], params: dict[str, Any], expected: Array
) -> None:
    (result,) = results_of(type_, *inputs, **params)
    np.testing.assert_array_equal(result, np.asarray(expected, np.float32))
    assert result.shape == expected.shape


@pytest.mark.parametrize(
    ("params", "ends"),
    [({"numSplits": 2}, [2]), ({"splitSizes": [1, 3]}, [1]), ({"numSplits": 3}, [2, 3])],
)
def test_split(params: dict[str, Any], ends: list[int]) -> None:
    expected = np.split(_X, ends, 2)
    results = results_of("splitND", _X, outputs=len(expected), axis=-1, **params)
    for result, part in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, part)


def test_legacy_layout_has_rank_5() -> None:
    (result,) = results_of("transpose", _X, exact=False, axes=[0, 1, 3, 4, 2])
    np.testing.assert_array_equal(result, _X.transpose(1, 2, 0)[None, None])


def test_every_layer_has_a_case() -> None:
    assert {spec.type for spec in shaping.LAYERS} == {case[0] for case in _CASES} | {"splitND"}


@pytest.mark.parametrize("constant", [True, False], ids=["with a constant", "gathered only"])
def test_gathered_sizes_are_joined(constant: bool) -> None:
    """Sizes that are gathered from a shape as scalars, given a dimension and joined, as converters do it."""
    builder = network({"x": (2, 3, 4)}, exact=True)
    builder.add_get_shape("shape", "x", "shape")
    names = []
    for axis in (0, 1):
        builder.add_load_constant_nd(f"i{axis}", f"i{axis}", np.array([axis], np.float32), [1])
        builder.add_gather(f"g{axis}", ["shape", f"i{axis}"], f"g{axis}", axis=0)
        builder.add_expand_dims(f"e{axis}", f"g{axis}", f"e{axis}", axes=[0])
        names.append(f"e{axis}")
    if constant:
        builder.add_load_constant_nd("rest", "rest", np.array([2, -1], np.float32), [2])
        names.append("rest")
    else:
        names.append("e0")
        builder.add_load_constant_nd("two", "two", np.array([[2]], np.float32), [1, 1])
        names.append("two")
    builder.add_concat_nd("sizes", names, "sizes", axis=0)
    builder.add_reshape_dynamic("reshaped", ["x", "sizes"], "y")
    expected = _X.reshape(2, 3, 2, 2)
    np.testing.assert_array_equal(predict(builder, x=_X), expected)
