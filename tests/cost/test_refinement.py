"""The factor of a unit by measurements: shrinkage, spreads, outliers, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coremlscope.planning.cost.latency.refinement import refine

BETWEEN, WITHIN = 0.3, 0.2


def test_nothing_measured_leaves_the_prior() -> None:
    found = refine([], [], BETWEEN, WITHIN)
    assert (found.factor, found.models) == (1, 0)
    assert (found.factor_spread, found.network_spread) == (pytest.approx(BETWEEN), WITHIN)


def test_one_measurement_moves_the_factor_part_of_the_way_by_hand() -> None:
    found = refine([math.log(1.4)], ["a"], BETWEEN, WITHIN)
    # Precisions: 1 / 0.09 of the prior, 1 / 0.04 of the measurement.
    share = (1 / 0.04) / (1 / 0.04 + 1 / 0.09)
    assert math.log(found.factor) == pytest.approx(share * math.log(1.4))
    assert found.factor_spread**2 == pytest.approx(1 / (1 / 0.04 + 1 / 0.09))


def test_agreeing_measurements_move_it_nearly_all_the_way_and_narrow_it() -> None:
    widths = []
    for count in (1, 3, 5, 10, 20):
        found = refine([math.log(1.4)] * count, [str(i) for i in range(count)], BETWEEN, WITHIN)
        widths.append(math.hypot(found.factor_spread, found.network_spread))
        assert 1.2 < found.factor < 1.4
    assert widths == sorted(widths, reverse=True)
    assert found.factor == pytest.approx(1.4, rel=0.01)


def test_many_measurements_of_one_model_are_one_opinion() -> None:
    once = refine([0.3], ["a"], BETWEEN, WITHIN)
    often = refine([0.3] * 50, ["a"] * 50, BETWEEN, WITHIN)
    assert often.factor == pytest.approx(once.factor)
    assert often.factor_spread == pytest.approx(once.factor_spread)
    assert (often.measurements, often.models) == (50, 1)


def test_scatter_widens_the_spread_of_networks() -> None:
    tight = refine([0.3, 0.31, 0.29, 0.3], list("abcd"), BETWEEN, WITHIN)
    wide = refine([0.0, 0.7, -0.3, 0.8], list("abcd"), BETWEEN, WITHIN)
    assert tight.network_spread < WITHIN < wide.network_spread
    assert wide.factor_spread > tight.factor_spread


@pytest.mark.parametrize("outlier", [math.log(8), -math.log(8)])
@pytest.mark.parametrize("others", [[], [0.1], [0.3, 0.35, 0.25], [0.3, 0.35, 0.25, 0.4, 0.2]])
def test_an_outlier_changes_nothing(outlier: float, others: list[float]) -> None:
    names = [str(i) for i in range(len(others))]
    found = refine([*others, outlier], [*names, "far"], BETWEEN, WITHIN)
    plain = refine(others, names, BETWEEN, WITHIN)
    assert list(found.apart) == [len(others)]
    assert found.apart[len(others)] > 3
    assert (found.factor, found.models) == (pytest.approx(plain.factor), plain.models)


def test_outliers_do_not_hide_each_other() -> None:
    far = math.log(6)
    found = refine([far, far, 0.0, 0.1, -0.1], list("abcde"), BETWEEN, WITHIN)
    assert sorted(found.apart) == [0, 1]
    assert found.factor == pytest.approx(1, abs=0.05)


def test_a_machine_far_from_the_estimates_is_believed_when_several_agree() -> None:
    found = refine([1.1, 1.2, 1.15, 1.05], list("abcd"), BETWEEN, WITHIN)
    assert not found.apart
    assert found.factor == pytest.approx(math.exp(1.125), rel=0.1)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
def test_intervals_hold_what_they_promise(count: int) -> None:
    draw = np.random.default_rng(count)
    trials, inside = 600, 0
    for _ in range(trials):
        unit = draw.normal(0, BETWEEN)
        seen, new = unit + draw.normal(0, WITHIN, count), unit + draw.normal(0, WITHIN)
        found = refine(list(seen), [str(i) for i in range(count)], BETWEEN, WITHIN)
        half = 1.2816 * math.hypot(found.factor_spread, found.network_spread)
        inside += abs(new - math.log(found.factor)) <= half
    assert 0.74 < inside / trials < 0.86
