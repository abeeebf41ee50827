"""The calibration data of the latency model, and the fitted parameters."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from benchmarks.latency.by_date import score_by_date
from benchmarks.latency.dataset import in_precision, load_measurements, load_networks, load_rows
from benchmarks.latency.fit import Estimator, fit
from benchmarks.latency.intervals import coverage, fit_spread, unseen_spreads
from benchmarks.latency.priors import PRIORS
from benchmarks.latency.validate import KINDS, HeldOut, choose, errors, hold_out, kind_of, noise_floor, oracle
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, all_chips, find_device
from coremlscope.planning.cost.latency.calibration import FAMILIES, Spread, load_calibration
from coremlscope.planning.cost.latency.model import width_of


def test_every_row_has_a_source_and_no_row_is_of_grade_c() -> None:
    rows = load_rows()
    assert len(rows) > 400
    assert all(row["source"] and row["publication"] and row["grade"] in "AB" for row in rows)
    assert all(re.fullmatch(r"20\d\d-\d\d", row["date"]) and row["use"] in ("fit", "check") for row in rows)
    assert len({row["row"] for row in rows}) == len(rows)


def test_every_measurement_has_a_network_and_a_chip() -> None:
    networks = load_networks()
    for m in load_measurements():
        assert m.network in networks
        assert m.chip in all_chips()
        assert m.ms > m.rounding > 0


@pytest.mark.parametrize("unit", PRIORS)
def test_what_is_shipped_is_what_was_fitted(unit: ComputeUnit) -> None:
    family, priors = load_calibration().units[unit], PRIORS[unit]
    assert family.reference == priors.reference
    chosen = choose(load_measurements(), unit)
    assert family.rows == len(chosen)
    assert set(family.publications) == {m.publication for m in chosen}
    for name, prior in priors.priors.items():
        value = getattr(family.constants, name)
        if not prior.spread:
            assert value == pytest.approx(prior.value, rel=1e-3), name
        else:
            # Data may adjust a constant, but not far from its value in micro-benchmarks.
            assert abs(np.log(value / prior.value)) < 4 * prior.spread, name
            assert 0 < family.spreads[name] < 1.1 * prior.spread, name


@pytest.mark.parametrize(
    ("unit", "chips", "median"),
    [
        (NEURAL_ENGINE, ("a14",), 0.06),
        (NEURAL_ENGINE, ("a15",), 0.12),
        (NEURAL_ENGINE, ("m1", "m4-pro"), 0.2),
        (CPU, ("m1", "m1-pro", "m4"), 0.2),
        (GPU, ("m1", "m1-pro", "m4-pro"), 0.4),
    ],
)
def test_the_constants_describe_their_measurements(
    unit: ComputeUnit, chips: tuple[str, ...], median: float
) -> None:
    chosen = [m for m in choose(load_measurements(), unit) if m.chip in chips]
    family = load_calibration().units[unit]
    seconds = Estimator(unit, family.reference, chosen, load_networks()).seconds(family.constants)
    found = errors([m.ms for m in chosen], list(seconds * 1e3))
    assert found.median < median
    assert found.rank > 0.93


def test_systems_before_ios_15_stay_out_of_every_fit_and_widen_intervals() -> None:
    measurements = load_measurements()
    for unit in PRIORS:
        assert min(m.release.core_ml[0] for m in choose(measurements, unit)) >= 15
    old = [m for m in choose(measurements, CPU, oldest=0) if m.release.core_ml[0] < 15]
    assert {m.chip for m in old} == {"a13"}
    older = load_calibration().spreads[CPU].older
    assert set(older) == {15, 26}
    assert older[15] > 2 * older[26] > 0.3


def test_idle_gpus_and_old_transformers_stay_out() -> None:
    measurements = load_measurements()
    kept = [m for unit in PRIORS for m in choose(measurements, unit)]
    assert not [m for m in kept if m.ran_on == "idle"]
    assert [m for m in measurements if m.ran_on == "idle"]
    assert "MobileViT" not in {m.publication for m in kept if m.family == "deit"}
    # A publication of sporadic calls from Python says so of its CPU as well as of its GPU.
    assert {m.ran_on for m in measurements if m.network == "comma_segnet-384x512-fp32"} <= {"idle", ""}


def test_batches_are_part_of_the_network() -> None:
    networks = load_networks()
    one, sixteen = networks["whisper_tiny_encoder-3000"], networks["whisper_tiny_encoder-3000-b16"]
    macs = [float((n.table.macs * n.times).sum()) for n in (one, sixteen)]
    assert macs[1] / macs[0] == pytest.approx(16, rel=0.01)


def test_a_fit_finds_the_speed_that_made_the_measurements() -> None:
    networks, family = load_networks(), PRIORS[NEURAL_ENGINE]
    chosen = [m for m in choose(load_measurements(), NEURAL_ENGINE) if m.chip == "a14"][::3]
    known = load_calibration().units[NEURAL_ENGINE].constants
    truth = structs.replace(known, dispatch_s=known.dispatch_s * 1.2)
    made = Estimator(NEURAL_ENGINE, family.reference, chosen, networks).seconds(truth) * 1e3
    synthetic = [replace(m, ms=float(ms), rounding=1e-6) for m, ms in zip(chosen, made, strict=True)]
    fitted = fit(NEURAL_ENGINE, family, synthetic, networks)
    again = Estimator(NEURAL_ENGINE, family.reference, chosen, networks).seconds(fitted.parameters) * 1e3
    assert np.median(np.abs(again / made - 1)) < 0.03
    assert set(fitted.spreads) == {name for name, prior in family.priors.items() if prior.spread}


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
    off = np.exp(draw.normal(0, noise, len(chosen)))
    return [HeldOut(m, m.ms * error, "convolutional") for m, error in zip(chosen, off, strict=True)]


def test_spreads_hold_what_they_aim_at() -> None:
    held = held_out(0.2)
    spread = fit_spread(held)
    assert spread.widths["iOS"]["convolutional"] == pytest.approx(1.55 * 0.2, rel=0.2)
    assert 0.82 < coverage(held, lambda h: spread) < 0.95
    narrow = Spread(widths={"iOS": dict.fromkeys(FAMILIES, 0.001)})
    assert coverage(held, lambda h: narrow) < 0.1


def test_a_platform_that_few_publications_measured_has_a_wider_interval() -> None:
    spread = load_calibration().spreads[GPU]
    assert width_of(spread, find_device("a16"), "token") >= 0.69
    assert width_of(spread, find_device("m3-ultra"), "token") == width_of(
        spread, find_device("m4-max"), "token"
    )


def test_widths_of_other_groups_hold_for_a_group_that_they_have_not_seen() -> None:
    held = held_out(0.2, 1)
    spreads = unseen_spreads(held, lambda m: m.family)
    assert set(spreads) == {h.measurement.family for h in held}
    assert 0.8 < coverage(held, lambda h: spreads[h.measurement.family]) < 0.95


def test_only_chips_with_several_publications_and_families_are_calibrated() -> None:
    held = held_out(0.2)
    assert fit_spread(held).calibrated == ("a14", "a15")
    one = [h for h in held if h.measurement.chip == "a14" or h.measurement.publication == "iFormer"]
    assert fit_spread(one).calibrated == ("a14",)


def test_every_network_in_a_fit_is_of_one_kind() -> None:
    measurements = load_measurements()
    chosen = [m for unit in PRIORS for m in choose(measurements, unit)]
    for family in {m.family for m in chosen}:
        assert sum(family in families for families in KINDS.values()) == 1, family


def test_no_network_of_the_kind_is_in_the_fit_that_estimates_it() -> None:
    networks, family = load_networks(), PRIORS[CPU]
    rows = choose(load_measurements(), CPU)
    dense = [m for m in rows if kind_of(m) == "dense convolutions"]
    text = [m for m in rows if m.publication == "EKS-A9"]
    found = {}
    for factor in (1, 3):
        seen = [*text, *(replace(m, ms=m.ms * factor) for m in dense)]
        whole = fit(CPU, family, text + dense, networks)
        held = hold_out(CPU, family, seen, networks, whole, kind_of)
        found[factor] = [h.ms for h in held if h.measurement.family == "densenet"]
    assert found[1] == pytest.approx(found[3])


def test_a_publication_is_scored_by_earlier_ones_only() -> None:
    # Each date costs a fit: two before those that change, two that change, one with many networks.
    dates = ("2020-07", "2022-11", "2026-04", "2026-05", "2026-06")
    networks = load_networks()
    measurements = [m for m in load_measurements() if m.ran_on == CPU and m.date in dates]
    later = [replace(m, ms=m.ms * 3) if m.date > "2026-04" else m for m in measurements]
    before = {one.held.measurement.row: one.held.ms for one in score_by_date(CPU, measurements, networks)}
    after = {one.held.measurement.row: one.held.ms for one in score_by_date(CPU, later, networks)}
    early = [m.row for m in choose(measurements, CPU) if m.date <= "2026-04"]
    assert early
    assert all(before[row] == pytest.approx(after[row]) for row in early)
    assert any(before[row] != pytest.approx(after[row], rel=0.05) for row in set(before) - set(early))
