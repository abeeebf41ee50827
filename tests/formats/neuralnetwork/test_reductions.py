"""Reductions over arbitrary axes, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import reduction
from coremlscope.model.ir import Array
from tests.support.single_layers import results_of

_X = np.random.default_rng(4).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)

_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "reduceL1": lambda x, **k: np.sum(np.abs(x), **k),
    "reduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "reduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "reduceLogSumExp": lambda x, **k: np.log(np.sum(np.exp(x), **k)),
    "reduceMax": np.max,
    "reduceMean": np.mean,
    "reduceMin": np.min,
    "reduceProd": np.prod,
    "reduceSum": np.sum,
    "reduceSumSquare": lambda x, **k: np.sum(x * x, **k),
}


@pytest.mark.parametrize("type_", [spec.type for spec in reduction.LAYERS])
@pytest.mark.parametrize(
    ("params", "axis", "keepdims"),
    [
        ({"axes": [1]}, (1,), False),
        ({"axes": [0, -1], "keepDims": True}, (0, 2), True),
        ({"reduceAll": True, "axes": [1]}, None, False),
        ({"keepDims": True}, None, True),
    ],
)
def test_reductions(type_: str, params: dict[str, Any], axis: tuple[int, ...] | None, keepdims: bool) -> None:
    (result,) = results_of(type_, _X, **params)
    expected = np.atleast_1d(_FUNCTIONS[type_](_X, axis=axis, keepdims=keepdims))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert result.shape == expected.shape
