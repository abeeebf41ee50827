"""The calibration data of the latency model, and the fitted parameters."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.latency.dataset import in_precision, load_measurements, load_networks
from benchmarks.latency.extract import MEASUREMENTS
from benchmarks.latency.fit import Estimator, fit
from benchmarks.latency.intervals import coverage, fit_spread, unseen_spreads
from benchmarks.latency.minimise import minimise
from benchmarks.latency.priors import PRIORS, REFERENCES
from benchmarks.latency.validate import HeldOut, choose, errors, noise_floor, oracle
from coremlscope.cost.latency.calibration import Spread, load_calibration
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, all_chips


def test_every_row_has_a_source_and_no_row_is_of_grade_c() -> None:
    with MEASUREMENTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 400
    assert all(row["source"] and row["publication"] and row["grade"] in "AB" for row in rows)
    assert len({row["row"] for row in rows}) == len(rows)


def test_every_measurement_has_a_network_and_a_chip() -> None:
    networks = load_networks()
    for m in load_measurements():
        assert m.network in networks
        assert m.chip in all_chips()
        assert m.ms > m.rounding > 0


@pytest.mark.parametrize("unit", [NEURAL_ENGINE, CPU, GPU])
def test_what_is_shipped_is_what_was_fitted(unit: ComputeUnit) -> None:
    known = load_calibration()
    family = known.families[unit][0]
    assert family.reference == REFERENCES[unit]
    for name, prior in PRIORS[unit].items():
        value = getattr(family.constants, name)
        if not prior.spread:
            assert value == pytest.approx(prior.value, rel=1e-3), name
        else:
            # Data may adjust a parameter, but not far from its value in micro-benchmarks.
            assert abs(np.log(value / prior.value)) < 4 * prior.spread, name


@pytest.mark.parametrize(
    ("unit", "chip", "median"),
    [(NEURAL_ENGINE, "a14", 0.06), (NEURAL_ENGINE, "a15", 0.11), (CPU, "a13", 0.2), (GPU, "a13", 0.2)],
)
def test_the_parameters_describe_their_measurements(unit: ComputeUnit, chip: str, median: float) -> None:
    chosen = [m for m in choose(load_measurements(), unit) if m.chip == chip]
    seconds = Estimator(unit, chosen, load_networks()).seconds(load_calibration().families[unit][0].constants)
    found = errors([m.ms for m in chosen], list(seconds * 1e3))
    assert found.median < median
    assert found.rank > 0.93


def test_a_fit_finds_the_speed_that_made_the_measurements() -> None:
    networks = load_networks()
    chosen = [m for m in choose(load_measurements(), NEURAL_ENGINE) if m.chip == "a14"][::3]
    known = load_calibration().families[NEURAL_ENGINE][0].constants
    truth = replace(known, dispatch_s=known.dispatch_s * 1.2)
    made = Estimator(NEURAL_ENGINE, chosen, networks).seconds(truth) * 1e3
    synthetic = [replace(m, ms=float(ms), rounding=1e-6) for m, ms in zip(chosen, made, strict=True)]
    fitted = fit(NEURAL_ENGINE, synthetic, networks)
    again = Estimator(NEURAL_ENGINE, chosen, networks).seconds(fitted.parameters) * 1e3
    assert np.median(np.abs(again / made - 1)) < 0.03


def test_least_squares() -> None:
    x = np.linspace(0, 1, 20)
    found = minimise(lambda p: p[0] * np.exp(p[1] * x) - 2 * np.exp(-1.5 * x), np.array([1.0, 0.0]), 50)
    assert found == pytest.approx([2, -1.5], abs=1e-3)


def test_precisions() -> None:
    table = load_networks()["resnet50-224"].table
    half = table.weight_bytes.sum()
    assert in_precision(table, "fp32").weight_bytes.sum() == pytest.approx(2 * half)
    assert in_precision(table, "pal4").weight_bytes.sum() == pytest.approx(half / 4)
    assert in_precision(table, "sparse75").weight_bytes.sum() == pytest.approx(half * (0.25 + 1 / 16))
    assert in_precision(table, "w8").int8.sum() == 0
    assert in_precision(table, "w8a8").int8.sum() > 20


def test_errors_by_hand() -> None:
    found = errors([1, 2, 4], [1.1, 2.0, 3.0])
    assert (found.count, found.rank) == (3, pytest.approx(1))
    assert found.median == pytest.approx(0.1)
    assert found.bias == pytest.approx(0)


def test_publications_disagree_more_on_a15() -> None:
    chosen = choose(load_measurements(), NEURAL_ENGINE)
    older, newer = noise_floor(chosen, "a14"), noise_floor(chosen, "a15")
    assert older is not None
    assert newer is not None
    assert older.median < 0.05 < 0.2 < newer.median


def test_no_estimate_can_rank_the_publications_of_a15_better_than_their_centre() -> None:
    chosen = choose(load_measurements(), NEURAL_ENGINE)
    older, newer = oracle(chosen, "a14"), oracle(chosen, "a15")
    assert older is not None
    assert newer is not None
    assert newer.rank < 0.97 < older.rank


def held_out(noise: float, seed: int = 0) -> list[HeldOut]:
    """Measurements on A14 and A15 with random estimation errors."""
    chosen = [m for m in choose(load_measurements(), NEURAL_ENGINE) if m.chip in ("a14", "a15")]
    draw = np.random.default_rng(seed)
    off = np.exp(draw.normal(0, noise, (len(chosen), 3)))
    return [HeldOut(m, *(m.ms * errors_), 0.0) for m, errors_ in zip(chosen, off, strict=True)]


def test_spreads_hold_what_they_aim_at() -> None:
    held = held_out(0.2)
    spread = fit_spread(held)
    assert np.hypot(spread.base, spread.by_chip["a14"]) == pytest.approx(0.2, rel=0.3)
    for estimate in (lambda h: h.without_publication, lambda h: h.without_family):
        assert 0.75 < coverage(held, estimate, lambda h: spread) < 0.9
    inherited = replace(spread, by_chip={})
    # Chips that inherit parameters never have smaller errors than the measured ones.
    assert spread.extrapolated >= max(spread.by_chip.values())
    assert coverage(held, lambda h: h.without_chip, lambda h: inherited) > 0.8
    narrow = Spread(
        base=0.001,
        unusual=0.0,
        by_chip={"a14": 0.0, "a15": 0.0},
        extrapolated=0.0,
        mixed=0.0,
        below=1.3,
        above=1.3,
    )
    assert coverage(held, lambda h: h.without_family, lambda h: narrow) < 0.1


def test_widths_of_other_groups_hold_for_a_group_that_they_have_not_seen() -> None:
    held = held_out(0.2, 1)
    spreads = unseen_spreads(held, lambda m: m.family)
    assert set(spreads) == {h.measurement.family for h in held}
    assert 0.72 < coverage(held, lambda h: h.without_family, lambda h: spreads[h.measurement.family]) < 0.9


def test_intervals_lean_to_where_measurements_lie() -> None:
    slow = [replace(h, measurement=replace(h.measurement, ms=h.measurement.ms * 1.3)) for h in held_out(0.2)]
    spread = fit_spread(slow)
    assert spread.above > 2 * spread.below > 0
    assert 0.75 < coverage(slow, lambda h: h.without_family, lambda h: spread) < 0.9


def test_chips_with_few_measurements_are_as_unsure_as_those_without() -> None:
    held = held_out(0.2)
    few = [*(h for h in held if h.measurement.chip == "a14"), held[-1]]
    spread = fit_spread(few)
    assert spread.by_chip["a15"] == spread.extrapolated
