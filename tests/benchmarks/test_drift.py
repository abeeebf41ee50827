"""How runs of `make drift` are compared."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.drift import compare_outputs

_BASE = {"y": np.array([1.0, -4.0]), "label": np.array("cat")}


@pytest.mark.parametrize(
    ("changes", "difference", "same"),
    [
        ({}, 0.0, 2),
        ({"y": np.array([1.0, -4.0 + 1e-6])}, 2.5e-7, 1),
        ({"y": np.array([np.nan, -4.0])}, np.inf, 1),
        ({"y": np.array([1.0])}, np.inf, 1),
        ({"label": np.array("dog")}, np.inf, 1),
        ({"y (repeated)": np.array([1.0])}, np.inf, 0),
    ],
)
def test_differences_are_relative_to_the_largest(
    changes: dict[str, np.ndarray], difference: float, same: int
) -> None:
    found, equal = compare_outputs(_BASE, {**_BASE, **changes})
    assert found == pytest.approx(difference)
    assert equal == same


def test_alike_values_that_are_not_finite_are_equal() -> None:
    odd = {"y": np.array([np.nan, np.inf, 1.0])}
    assert compare_outputs(odd, {"y": odd["y"].copy()}) == (0.0, 1)
    assert compare_outputs({"y": np.zeros(2)}, {"y": np.array([0.0, 1e-9])}) == (np.inf, 0)
