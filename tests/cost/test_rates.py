"""Published rates, and their transfer to other chips."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coremlscope.devices import Device, all_chips, find_device
from coremlscope.planning.cost.planned.publications import BNNS_SPEEDUP, Border, publications
from coremlscope.planning.cost.planned.rates import CLASSES, rate_table
from coremlscope.planning.placement.backend import BACKENDS, Backend, Rate


def rate(chip: str, name: str, backend: Backend, os: str | None = None) -> Rate:
    return rate_table(find_device(chip, os)).rates[name][backend]


@pytest.mark.parametrize("one", publications(), ids=lambda one: one.name)
def test_every_published_rate_has_a_source_a_class_and_bounds(one) -> None:
    assert one.source
    assert one.url.startswith("https://")
    assert set(one.rates) <= set(CLASSES)
    assert one.name.startswith(one.chip.name)
    for of_class in one.rates.values():
        assert of_class
        assert set(of_class) <= set(BACKENDS)
        for known in of_class.values():
            assert 0 < known.low <= known.value <= known.high
            assert known.high / known.low < 2


@pytest.mark.parametrize("chip", all_chips())
def test_every_chip_has_every_rate(chip: str) -> None:
    table = rate_table(find_device(chip))
    for name in CLASSES:
        for backend in BACKENDS:
            known = table.rates[name][backend]
            assert 0 < known.low <= known.value <= known.high
            assert known.publication
    assert table.transition_costs.launch_ms["ane"] == 0.125


def test_rates_of_a_published_chip_are_its_own() -> None:
    own = rate("m4-pro", "convolution, dense", "ane")
    assert (own.value, own.basis, own.publication, own.law) == (
        6870.994,
        "recovered",
        "M4 Pro, macOS 26.5.1",
        "",
    )
    assert rate("m4", "convolution, dense", "ane").value == 16151.6767578125
    assert rate("m1-max", "bytes", "ane").value == pytest.approx(57 * 2**30 / 1e9)
    assert rate("m1", "bytes", "ane", "14.5").value == pytest.approx(68 * 2**30 / 1e9)


def test_rates_of_the_gpu_are_transferred_by_cores() -> None:
    m4 = rate("m4", "add", "mps_graph")
    assert m4.value == pytest.approx(28.0 * 10 / 20)
    assert (m4.basis, m4.publication, m4.law) == ("transferred", "M4 Pro, macOS 26.5.1", "number of cores")
    # All published GPUs lie within the interval.
    for chip, per_core in (("m1", 10.207612 / 8), ("m1-max", 45 / 32), ("m4-max", 50.25 / 40)):
        assert m4.low <= per_core * 10 <= m4.high, chip


def test_matrix_units_of_later_gpus_count() -> None:
    faster = rate("m5-pro", "convolution, dense", "mps_graph")
    # Per core, M1 Max is in the middle of M1, M1 Max and M4 Max.
    assert faster.value == pytest.approx(2.1 * 5491.837 / 32 * 20, rel=1e-4)
    assert faster.low < 1.6 * 5491.837 / 32 * 20 < 2.8 * 5491.837 / 32 * 20 < faster.high
    assert rate("m5-pro", "linear, large", "mps_graph").value == pytest.approx(3.2 * 6604.552734375 / 32 * 20)
    assert rate("m5-pro", "add", "mps_graph").value == pytest.approx(28.0)


def test_rates_of_a_leaf_that_other_chips_lack_are_not_transferred() -> None:
    assert rate("m1-max", "convolution, sparse", "ane", "27").value == 200.0
    for chip in ("m1-pro", "m1-ultra", "m2-max"):
        transferred = rate(chip, "convolution, sparse", "ane")
        assert "M1 Max" not in transferred.publication
        assert transferred.low > 200.0


def test_a_gpu_with_as_many_cores_is_nearer_than_the_middle() -> None:
    # M3 Max, M4 Max and M5 Max have 40 cores; per core, M4 Max has the least of `mul`.
    for chip in ("m3-max", "m5-max"):
        known = rate(chip, "mul", "mps_graph")
        assert (known.value, known.publication) == (27.5, "M4 Max, macOS 26.6.2")
        assert known.low <= 1.25 * 40 <= known.high
    assert rate("m5-max", "convolution, dense", "mps_graph").value == pytest.approx(2.1 * 6400)


def test_plans_bound_linear_layers_on_matrix_units() -> None:
    layer = rate("m5-pro", "linear, large", "mps_graph")
    per_core = 6604.552734375 / 32 * 20
    bounds = (layer.low / per_core, layer.value / per_core, layer.high / per_core)
    assert bounds == pytest.approx((2.75, 3.2, 3.9))


def test_linear_layers_do_not_grow_beyond_the_cores_of_an_m1_max() -> None:
    """Published for M1 Max and M4 Max, with 32 and 40 cores, to all digits; that of two dies is assumed."""
    others = [one for one in publications() if one.chip.id != "m4-max"]
    medium = rate_table(find_device("m4-max", "26"), others).rates["linear, medium"]["mps_graph"]
    assert medium.value == 3620.9482421875
    assert medium.high > medium.value * 40 / 32
    assert rate("m2-max", "linear, large", "mps_graph").value == 6604.552734375
    ultra = rate("m2-ultra", "linear, large", "mps_graph")
    assert ultra.value == pytest.approx(2 * 6604.552734375)
    assert ultra.low < 6604.552734375 < 6604.552734375 * 76 / 32 < ultra.high
    assert rate("m1", "linear, large", "mps_graph").value == pytest.approx(6604.552734375 * 8 / 32)


@pytest.mark.parametrize(
    ("chip", "launch_ms"),
    [
        *(
            ("m1", 0.125),
            ("m2-pro", 0.125),
            ("m4", 0.125),
            ("m4-pro", 0.125),
            ("m5", 0.125),
            ("m5-pro", 0.125),
        ),
        *(("a17-pro", 0.125), ("m1-max", 0.375), ("m3-max", 0.41), ("m4-max", 0.41), ("m5-max", 0.41)),
    ],
)
def test_the_launch_of_a_gpu_follows_its_size(chip: str, launch_ms: float) -> None:
    transition_costs = rate_table(find_device(chip)).transition_costs
    assert transition_costs.launch_ms["mps_graph"] == launch_ms
    bounds = transition_costs.launch_bounds["mps_graph"]
    assert bounds.low <= launch_ms <= bounds.high


def test_small_gpus_have_the_launch_of_the_neural_engine_without_a_published_one() -> None:
    others = [one for one in publications() if one.chip.id != "m4-pro"]
    assert rate_table(find_device("m4-pro"), others).transition_costs.launch_ms["mps_graph"] == 0.125


def test_of_several_gpus_the_median_per_core_is_transferred() -> None:
    others = [one for one in publications() if one.chip.id != "m4-pro"]
    kept_aside = rate_table(find_device("m4-pro"), others).rates["mul"]["mps_graph"]
    # M1 has 1.25 per core, M1 Max 1.72, and M4 Max, the nearest chip, 0.69; M4 Pro has 1.67.
    assert kept_aside.value == pytest.approx(10 / 8 * 20)
    assert kept_aside.publication == "M1, macOS 14.5"
    assert kept_aside.low == pytest.approx(27.5 / 40 * 20, rel=1e-3)


@pytest.mark.parametrize(
    ("chip", "system", "basis"),
    [
        ("m4-max", "26", "recovered"),
        ("m4", "26.6", "transferred"),
        ("m1-max", "27", "transferred"),
        *(("a15", "17", "assumed"), ("m3", "14", "assumed")),
    ],
)
def test_small_layers_on_the_gpu_have_a_rate_with_systems_like_the_published_one(
    chip: str, system: str, basis: str
) -> None:
    small, engine = (rate(chip, "linear, small", backend, system) for backend in ("mps_graph", "ane"))
    assert small.basis == basis
    assert (small.value > 5 * engine.value) == (basis != "assumed")


@pytest.mark.parametrize(
    ("chip", "system"), [("m4", "15"), ("m4-max", "15"), ("a19-pro", "27"), ("a16", "18")]
)
def test_a_lent_rate_has_an_interval_with_both_values(chip: str, system: str) -> None:
    small = rate(chip, "linear, small", "mps_graph", system)
    engine = rate(chip, "linear, small", "ane", system)
    assert small.basis == "assumed"
    assert small.low < engine.value
    assert small.high > 5 * engine.value
    if all_chips()[chip].platform == "macOS":
        assert small.value == rate(chip, "linear, small", "mps_graph", "26").value


def test_rates_of_another_system_of_the_chip_are_not_its_own() -> None:
    later = rate("m1", "convolution, dense", "ane", "27")
    assert (later.value, later.basis) == (11582.1572265625, "transferred")
    # The Neural Engine of an M1 Max with macOS 27 is the same; those of M4 Pro and M4 are not.
    assert 6871 < later.low < 12125 < later.high < 16151
    gpu = rate("m1", "convolution, dense", "mps_graph", "27")
    assert gpu.low < 5487 / 4 < gpu.value < gpu.high


def test_the_peak_of_a_cpu_is_one_rate() -> None:
    (m4,) = (one for one in publications() if one.chip.id == "m4")
    less = {name: of_class for name, of_class in m4.rates.items() if name != "convolution, dense"}
    table = rate_table(find_device("m4"), [replace(m4, rates=less), *publications()[:2]])
    left_out = table.rates["convolution, dense"]["bnns"]
    assert left_out.value == pytest.approx(754.4927368164062, rel=1e-3)
    assert (left_out.basis, left_out.note) == ("assumed", "the rate of: matmul")
    assert rate("m1-max", "matmul", "bnns").value == pytest.approx(1441.2357, rel=1e-6)


def test_both_backends_of_the_cpu_differ_by_one_factor() -> None:
    for one in publications():
        for name, of_class in one.rates.items():
            if "bnns" in of_class and CLASSES[name] != "bytes":
                ratio = of_class["bnns"].value / of_class["classic_cpu"].value
                assert ratio == pytest.approx(BNNS_SPEEDUP, rel=1e-6), name


def test_plans_say_where_their_rates_come_from() -> None:
    assert rate_table(find_device("m4-pro")).name.startswith(
        "rates of M4 Pro, macOS 26.5.1; others transferred"
    )
    name = rate_table(find_device("m2")).name
    assert name.startswith("rates transferred from ")
    assert {"M1", "M4"} <= set(name.removeprefix("rates transferred from ").split(", "))
    assert "transferred from M1 with macOS 14.5, " in rate_table(find_device("m1", "27")).name


def test_transposes_on_the_gpu_follow_the_speed_of_a_core() -> None:
    m5 = rate("m5", "transpose, large", "mps_graph")
    assert m5.value == pytest.approx(14.03 * (5.7 / 10) / (9.2 / 20), rel=1e-6)
    # The same ratio takes the rate of an M1 Max to that of an M4 Pro.
    m4_pro = 10.27 * (9.2 / 20) / (10.617 / 32)
    assert m4_pro == pytest.approx(14.03, rel=0.02)


@pytest.mark.parametrize("backend", ["ane", "mps_graph", "bnns"])
def test_intervals_hold_most_rates_of_a_chip_that_is_left_out(backend: Backend) -> None:
    within = []
    for one in publications():
        others = [other for other in publications() if other.chip.id != one.chip.id]
        table = rate_table(Device(one.chip, one.os, one.chip.id), others)
        for name, of_class in one.rates.items():
            ours = table.rates[name][backend]
            if backend in of_class and not ours.is_common and ours.basis == "transferred":
                within.append(ours.low <= of_class[backend].value <= ours.high)
    assert len(within) > 15
    assert sum(within) / len(within) > 0.85


def test_the_neural_engine_has_the_median_of_several_chips() -> None:
    # 13.3, 15, 16.4, 16.5 and 18 elements a nanosecond; the nearest chip is M4.
    assert rate("m5", "add", "ane").value == pytest.approx(16.413)


def test_medium_convolutions_of_gpus_grow_with_the_root_of_their_cores() -> None:
    """261, 269 and 224 GFLOP/s for it are published for M1, M4 Pro and M1 Max."""
    others = [one for one in publications() if one.chip.id not in ("m1", "m4-pro")]
    eight, thirty_two = (
        rate_table(find_device(chip, "27"), others).rates["convolution, medium"]["mps_graph"]
        for chip in ("m1", "m1-max")
    )
    assert thirty_two.value / eight.value == pytest.approx(2.0)
    assert eight.low < 737.86 < eight.high


def test_assumed_rates_have_wider_intervals_than_transferred_ones() -> None:
    table = rate_table(find_device("m5", "26")).rates
    assumed, transferred = table["matmul"]["mps_graph"], table["add"]["mps_graph"]
    assert (assumed.basis, transferred.basis) == ("assumed", "transferred")
    assert assumed.high / assumed.low > 2.5**2 > transferred.high / transferred.low


def test_a_wide_border_is_narrowed_by_those_of_other_chips() -> None:
    others = [Border.between(14, 19), Border.between(80, 100), Border.between(18, 32)]
    border = Border.between(4, 31).narrowed(others)
    assert (border.low, border.high) == (4, 31)
    assert border.likely == pytest.approx((18 * 19) ** 0.5)
    assert Border.between(4, 31).narrowed([Border.between(80, 100)]).likely == pytest.approx((4 * 31) ** 0.5)


@pytest.mark.parametrize("chip", ["m1", "m1-max", "m4", "m4-pro"])
def test_published_chips_share_the_border_of_the_sparse_leaf(chip: str) -> None:
    borders = rate_table(find_device(chip)).borders
    for size, low, high in ((1_000, 18.32, 19.3), (7_000, 12.75, 14.31)):
        sparse = next(one.sparse for one in borders if size >= one.weights_bytes)
        assert sparse.low < sparse.likely < sparse.high
        assert low < sparse.likely < high
