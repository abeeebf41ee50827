"""The factors of Core AI follow from the collected latencies, and hold for publications that are left out."""

from __future__ import annotations

import math

import pytest

from benchmarks.latency.core_ai import fit, hold_out, load_rows
from coremlscope.planning.cost.latency.core_ai import load_factors


def test_the_package_has_the_fitted_factors() -> None:
    """Small changes of the model of Core ML need no new fit: `python -m benchmarks.latency core-ai`."""
    fitted, included = fit(load_rows()), load_factors()
    assert set(fitted) == set(included)
    for unit, known in included.items():
        assert (known.rows, known.publications) == (fitted[unit].rows, fitted[unit].publications)
        assert known.factor == pytest.approx(fitted[unit].factor, rel=0.15)
        assert known.width == pytest.approx(fitted[unit].width, rel=0.3)


def test_intervals_hold_for_publications_left_out() -> None:
    held = hold_out(load_rows())
    assert len(held) >= 15
    assert sum(one.holds for one in held) / len(held) >= 0.7
    errors = sorted(abs(math.log(one.estimated_s / one.row.measured_s)) for one in held)
    assert errors[len(errors) // 2] < math.log(1.6)
