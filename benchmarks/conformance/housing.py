"""Synthetic data that replace the Boston housing data set, which coremltools' tests download.

The tests train models on the data and compare these with the converted models, for which any data of the same
layout are sufficient. With synthetic data they depend neither on the network nor on a shared file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NAMES", "synthetic_housing"]

#: The columns of the original.
NAMES = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT")
_ROWS = 506


def synthetic_housing() -> dict[str, npt.NDArray[Any]]:
    """Synthetic samples: as many as in the original, with the same kinds of columns."""
    rng = np.random.default_rng(1978)
    crime = np.round(rng.lognormal(-0.8, 2.1, _ROWS), 5)
    zoned = np.where(rng.random(_ROWS) < 0.73, 0.0, 2.5 * rng.integers(5, 41, _ROWS))
    industry = np.round(rng.choice(rng.uniform(0.5, 27.7, 76), _ROWS), 2)
    river = (rng.random(_ROWS) < 0.07).astype(float)
    oxides = np.round(0.385 + 0.486 * rng.beta(2, 3, _ROWS), 3)
    rooms = np.round(np.clip(rng.normal(6.28, 0.7, _ROWS), 3.5, 8.8), 3)
    age = np.round(100 * rng.beta(2, 1, _ROWS), 1)
    distance = np.round(1.1 + rng.gamma(2.0, 1.35, _ROWS), 4)
    roads = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 24], _ROWS).astype(float)
    tax = rng.integers(187, 712, _ROWS).astype(float)
    pupils = np.round(rng.uniform(12.6, 22.0, _ROWS), 1)
    share = np.round(np.where(rng.random(_ROWS) < 0.24, 396.9, rng.uniform(0.3, 396.9, _ROWS)), 2)
    status = np.round(1.7 + rng.gamma(2.3, 4.8, _ROWS), 2)
    price = (
        14 + 6.2 * (rooms - 6) + 3 * river - 9 * (oxides - 0.55) - 0.45 * (status - 12) - 0.3 * (pupils - 18)
    )
    price = np.round(np.clip(price + 8 + rng.normal(0, 3, _ROWS), 5, 50), 1)
    columns = [crime, zoned, industry, river, oxides, rooms, age, distance, roads, tax, pupils, share, status]
    return {"data": np.stack(columns, axis=1), "target": price, "feature_names": np.array(NAMES, "<U7")}
