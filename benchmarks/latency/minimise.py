"""Nonlinear least squares with the Levenberg-Marquardt algorithm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coremlscope.cost.latency.table import Floats

_STEP = 1e-4
#: Relative decrease of the sum of squares below which the iteration stops.
_ENOUGH = 1e-5


def minimise(residuals: Callable[[Floats], Floats], start: Floats, iterations: int) -> Floats:
    """Returns a local minimum of the sum of squares.

    Args:
        residuals: Returns the residuals at a point.
        start: The initial point.
        iterations: Maximum number of steps.
    """
    point, damping = start, 1e-2
    here = residuals(point)
    for _ in range(iterations):
        slope = _jacobian(residuals, point, here)
        normal, gradient = slope.T @ slope, slope.T @ here
        before = here @ here
        while damping < 1e8:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -gradient)
            there = residuals(point + step)
            if there @ there < before:
                break
            damping *= 4
        else:
            return point
        point, here, damping = point + step, there, damping / 6
        if 1 - here @ here / before < _ENOUGH:
            break
    return point


def _jacobian(residuals: Callable[[Floats], Floats], point: Floats, here: Floats) -> Floats:
    columns = []
    for place in range(len(point)):
        moved = point.copy()
        moved[place] += _STEP
        columns.append((residuals(moved) - here) / _STEP)
    return np.array(columns).T
