"""The latency model: its parts, and agreement with measurements of chips."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from coremlscope.devices import (
    CPU,
    GPU,
    NEURAL_ENGINE,
    Chip,
    ComputeUnit,
    ComputeUnits,
    Device,
    all_chips,
    find_device,
)
from coremlscope.planning.cost.latency.calibration import Family, Spread, UnitParameters, load_calibration
from coremlscope.planning.cost.latency.constants import (
    constants_of,
    crossing_share,
    on_system,
    peak_FLOPps,
)
from coremlscope.planning.cost.latency.geometry import Geometry
from coremlscope.planning.cost.latency.kernels import Flow, Kernel
from coremlscope.planning.cost.latency.kinds import KernelKind
from coremlscope.planning.cost.latency.model import estimate as estimate_work
from coremlscope.planning.cost.latency.model import family_of, width_of
from coremlscope.planning.cost.latency.roofline import time_kernels
from coremlscope.planning.cost.latency.table import KernelTable
from coremlscope.planning.cost.latency.work import place_kernels
from coremlscope.results.estimate import Estimate

CHIPS = all_chips()
A14 = find_device("a14")
#: Round numbers, so that expected times can be computed by hand.
ROUND = replace(
    load_calibration().units[NEURAL_ENGINE].constants,
    kernel_s=0.0,
    light_share=1.0,
    single_share=1.0,
    dense_FLOPps=1e12,
    pointwise_FLOPps=2e12,
    linear_share=0.5,
    flat_rows=8.0,
    batch_share=1.0,
    window_gain=2.0,
    channels_step=16.0,
    prefetch_bytes=0.0,
    activation_Bps=1e10,
    weights_Bps=1e10,
    spill_Bps=2e9,
    on_chip_bytes=1e6,
    on_chip_gain=1.0,
    function_Bps=1e9,
    gate_Bps=5e8,
    softmax_Bps=1e9,
    attention_Bps=1e9,
    reduce_Bps=1e9,
    elementwise_Bps=1e10,
    norm_Bps=1e9,
    int8_gain=1.0,
)


def estimate(
    kernels: list[Kernel],
    units: Mapping[str, ComputeUnit],
    device: Device,
    compute_units: ComputeUnits = "all",
    *,
    converted_bytes: int = 0,
    **more: Any,
) -> Estimate:
    """Estimates kernels that each read the result of the one before."""
    walk = [(id_, units[id_]) for one in kernels for id_ in one.ops if id_ in units]
    flows = [
        Flow(one.ops[-1], other.ops[0], "x", min(one.outputs, other.inputs))
        for one, other in itertools.pairwise(kernels)
    ]
    work = place_kernels(kernels, walk, flows, converted_bytes=converted_bytes)
    return estimate_work(work, device, compute_units, **more)


def crossing_Bps(chip: str) -> float:  # noqa: N802
    return load_calibration().convert_Bps * crossing_share(all_chips()[chip])


def kernel(
    kind: KernelKind = "conv", *, macs: int = 0, size: int = 0, weights: int = 0, **more: object
) -> Kernel:
    shape = {"height": 4, "width": 4, "in_channels": 16, "taps": 1, "stride": 1}
    shape = {name: int(more.pop(name, value)) for name, value in shape.items()}  # type: ignore[call-overload]
    geometry = Geometry(macs=macs, **shape)
    made = Kernel(
        kind=kind,
        ops=[f"main/{kind}"],
        name=kind,
        geometry=geometry,
        inputs=size // 2,
        outputs=size // 2,
        weights=weights,
        weight_bytes=2.0 * weights,
    )
    for name, value in more.items():
        setattr(made, name, value)
    return made


def seconds(made: Kernel, unit: ComputeUnit = NEURAL_ENGINE, constants: UnitParameters = ROUND) -> float:
    return float(time_kernels(KernelTable.of([made]), unit, constants).total[0])


def given(unit: ComputeUnit, chip: str) -> UnitParameters:
    return constants_of(load_calibration(), CHIPS[chip], unit)


def test_a_kernel_takes_as_long_as_the_slowest_of_three() -> None:
    assert seconds(kernel(macs=10**9)) == pytest.approx(2e-3)
    assert seconds(kernel(macs=10**9, size=10**6)) == pytest.approx(2e-3)
    assert seconds(kernel(macs=10**6, size=2 * 10**5)) == pytest.approx(4e-5)
    assert seconds(kernel(macs=10**6, size=2, weights=10**6)) == pytest.approx(2e-4)


def test_linear_depends_on_shape() -> None:
    plane = seconds(kernel("linear", macs=10**9))
    assert plane == pytest.approx(2e-3)
    assert seconds(kernel("linear", macs=10**9, height=1, width=16)) == pytest.approx(plane)
    assert seconds(kernel("linear", macs=10**9, height=1, width=1)) == pytest.approx(plane)


@pytest.mark.parametrize(("kind", "plane"), [("linear", 2e-3), ("pointwise", 1e-3)])
def test_few_flat_rows_take_as_long_as_a_block(kind: KernelKind, plane: float) -> None:
    few, block = (kernel(kind, macs=rows * 125 * 10**6, height=1, width=rows) for rows in (4, 8))
    assert seconds(few) == pytest.approx(seconds(block)) == pytest.approx(plane)
    square = kernel(kind, macs=4 * 125 * 10**6, height=2, width=2)
    assert seconds(square) == pytest.approx(plane / 2)


def test_linear_streams_weights_once_for_each_block_of_flat_rows() -> None:
    flat = kernel("linear", macs=16, height=1, width=16, weights=10**7)
    square = kernel("linear", macs=16, height=4, width=4, weights=10**7)
    assert seconds(square) == pytest.approx(2e-3)
    for bits in (16, 8, 4):
        size = bits / 8 * 10**7
        # 1 MB of them stays on the chip.
        assert seconds(replace(flat, weight_bytes=size)) == pytest.approx((2 * size - 1e6) / 1e10), bits
    assert seconds(kernel("pointwise", macs=16, height=1, width=16, weights=10**7)) == pytest.approx(2e-3)


def test_attention_over_a_batch_is_slower_than_that_of_each_sample() -> None:
    one, batch = (kernel("attention", macs=10**9, vector=10**6, height=samples) for samples in (1, 16))
    assert seconds(one, constants=replace(ROUND, batch_share=0.5)) == pytest.approx(
        seconds(batch, constants=replace(ROUND, batch_share=0.5)) / 2
    )


def test_attention_is_faster_from_macos_14_and_ios_17_on() -> None:
    attention = [kernel("attention", macs=10**11)]
    units = {"main/attention": NEURAL_ENGINE}
    before, after = (
        estimate(attention, units, find_device("m1", os), "cpu_and_ne").terms[-1].compute_s
        for os in ("13", "14")
    )
    gain = constants_of(load_calibration(), CHIPS["m1"], NEURAL_ENGINE).attention_gain
    assert before / after == pytest.approx(gain)
    assert gain > 1.1


def test_heads_are_split_faster_from_macos_14_and_ios_17_on() -> None:
    known = load_calibration()
    split = [kernel("layout", size=10**8)]
    units = {"main/layout": NEURAL_ENGINE}
    gain = constants_of(known, CHIPS["m1"], NEURAL_ENGINE).layout_gain
    assert gain > 2
    for old, new in (
        (("m1", "13"), ("m1", "14")),
        (("m1", "12.3"), ("m1", "26")),
        (("a15", "16"), ("a15", "17")),
    ):
        before, after = (
            sum(terms.activations_s for terms in estimate(split, units, find_device(*at), "cpu_and_ne").terms)
            for at in (old, new)
        )
        # What is spilled takes as long as before.
        assert 1.5 < before / after < gain
    conv = [kernel(size=10**6)]
    same = [
        estimate(conv, {"main/conv": NEURAL_ENGINE}, find_device("m1", os)).latency for os in ("13", "26")
    ]
    assert same[0] == same[1]


def test_spilled_tensors_cost_more() -> None:
    small, large = seconds(kernel(size=10**6)), seconds(kernel(size=10**7))
    assert small == pytest.approx(2e6 / 1e10)
    # Ten times the bytes, and 9 MB of each of the two tensors are spilled.
    assert large == pytest.approx(2e7 / 1e10 + 2 * 9e6 / 2e9)


def test_functions_gates_and_softmax_are_added() -> None:
    plain = seconds(kernel(macs=10**9))
    assert seconds(kernel(macs=10**9, vector=10**6)) == pytest.approx(plain + 2e-3)
    assert seconds(kernel(macs=10**9, gated=10**6)) == pytest.approx(plain + 4e-3)
    scores = seconds(kernel("attention", macs=1, vector=10**6))
    assert scores == pytest.approx(2e-3, rel=1e-3)


def test_int8_is_faster_where_the_chip_supports_it() -> None:
    made = kernel(macs=10**9, is_int8=True)
    assert seconds(made) == pytest.approx(2e-3)
    assert seconds(made, constants=replace(ROUND, int8_gain=2.0)) == pytest.approx(1e-3)


def test_compressed_weights_help_only_kernels_bound_by_weights() -> None:
    bound, free = kernel(macs=1, weights=10**7), kernel(macs=10**10, weights=10**5)
    for made, gains in ((bound, 4.0), (free, 1.0)):
        packed = replace(made, weight_bytes=made.weight_bytes / 4)
        assert seconds(made) / seconds(packed) == pytest.approx(gains)


def test_channels_are_padded() -> None:
    full = seconds(kernel(macs=10**9, in_channels=32))
    for channels, times in ((16, 1), (24, 32 / 24), (3, 16 / 3)):
        assert seconds(kernel(macs=10**9, in_channels=channels)) == pytest.approx(times * full)
    assert seconds(kernel("depthwise", macs=10**9, in_channels=1)) == pytest.approx(
        seconds(kernel("depthwise", macs=10**9))
    )


def test_heads_are_padded_to_rows_of_64_bytes_on_the_neural_engine() -> None:
    for kind in ("attention", "matmul"):
        whole = seconds(kernel(kind, macs=10**9, in_channels=64))
        for channels, times in ((32, 1), (48, 64 / 48), (16, 2)):
            made = kernel(kind, macs=10**9, in_channels=channels)
            assert seconds(made) == pytest.approx(times * whole)
            assert seconds(made, unit=GPU) == pytest.approx(
                seconds(kernel(kind, macs=10**9, in_channels=64), unit=GPU)
            )


def test_flat_rows_read_again_only_weights_that_do_not_stay_on_the_chip() -> None:
    few, many = (replace(ROUND, flat_rows=rows, on_chip_bytes=2e6) for rows in (1000.0, 100.0))

    def streams(weights: int) -> float:
        made = kernel("linear", macs=1, weights=weights, height=1, width=400)
        return seconds(made, constants=many) / seconds(made, constants=few)

    assert streams(10**6) == pytest.approx(1)
    assert streams(10**7) == pytest.approx(1 + 3 * 18 / 20)


def test_more_of_a_tensor_stays_on_later_neural_engines() -> None:
    older, newer = (given(NEURAL_ENGINE, chip).on_chip_bytes for chip in ("m3", "m4"))
    assert older == pytest.approx(2e6)
    # 4.72 MB were measured on M5 Pro, and up to 32 MB are inferred for M4.
    assert 4e6 < newer < 32e6
    assert given(GPU, "m4").on_chip_bytes == given(GPU, "m3").on_chip_bytes


def test_gpus_do_not_exceed_their_specified_arithmetic() -> None:
    for chip in CHIPS.values():
        if chip.neural_engine_generation < (17 if chip.platform == "macOS" else 18):
            peak = max(chip.value(GPU, "fp16_FLOPps") or 0, chip.value(GPU, "fp32_FLOPps") or 0)
            found = given(GPU, chip.id)
            rates = found.dense_FLOPps, found.pointwise_FLOPps * found.linear_share, found.product_FLOPps
            fastest = max(rates)
            assert not peak or fastest <= 1.0001 * peak, chip.id


def test_every_mac_has_its_own_memory_bandwidth() -> None:
    macs = [chip for chip in CHIPS.values() if chip.platform == "macOS"]
    assert [chip.id for chip in macs if not chip.memory.get("bandwidth_Bps")] == []
    streams = {chip: given(GPU, chip).weights_Bps for chip in ("m5", "m5-pro", "m5-max")}
    assert streams["m5"] < streams["m5-pro"] < streams["m5-max"]


def test_cpus_of_phones_are_those_of_macs_with_one_cluster() -> None:
    for phone, mac in (("a14", "m1"), ("a15", "m2"), ("a18", "m5")):
        assert given(CPU, phone).dense_FLOPps == pytest.approx(given(CPU, mac).dense_FLOPps)


def test_3x3_windows_with_stride_1_need_fewer_multiplications() -> None:
    plain = seconds(kernel(macs=10**9))
    for taps, stride, times in ((9, 1, 0.5), (9, 2, 1), (25, 1, 1)):
        assert seconds(kernel(macs=10**9, taps=taps, stride=stride)) == pytest.approx(times * plain)


def test_a_normalization_of_maps_reads_them_twice_before_its_elementwise_pass() -> None:
    rows, maps = seconds(kernel("norm", size=10**5)), seconds(kernel("map_norm", size=10**5))
    assert rows == pytest.approx(2e5 / 1e9)
    assert maps == pytest.approx(2 * 1e5 / 1e9 + 2e5 / 1e10)


def test_prefetched_weights_cost_no_time() -> None:
    made = kernel(macs=1, weights=10**6)
    ahead = replace(ROUND, prefetch_bytes=0.5e6)
    times = time_kernels(KernelTable.of([made]), NEURAL_ENGINE, ahead)
    assert times.total[0] == pytest.approx(1.5e-4)
    assert times.stream[0] == pytest.approx(2e-4)


def test_no_network_is_faster_than_the_streaming_of_its_weights() -> None:
    parameters = replace(given(NEURAL_ENGINE, "a14"), prefetch_bytes=1e9)
    calibration = load_calibration().with_own("a14", NEURAL_ENGINE, parameters)
    made = [replace(kernel(macs=1, weights=10**7), ops=["main/0"])]
    found = estimate(made, {"main/0": NEURAL_ENGINE}, A14, calibration=calibration)
    assert found.latency.value > 2e7 / parameters.weights_Bps
    assert found.bound == "weights"


def test_weight_streaming_scales_with_memory_up_to_a_limit() -> None:
    speed = {name: given(NEURAL_ENGINE, name).weights_Bps for name in ("a14", "a15", "a16", "m1", "m3-pro")}
    assert speed["a15"] == pytest.approx(speed["a14"])
    assert speed["a16"] == pytest.approx(51.2 / 34.1 * speed["a14"])
    assert speed["m3-pro"] == given(NEURAL_ENGINE, "m3-max").weights_Bps
    assert speed["m1"] == pytest.approx(60.87e9)


def test_no_cpu_reads_weights_faster_than_its_memory_allows() -> None:
    for chip in CHIPS.values():
        specified = chip.memory.get("bandwidth_Bps")
        if specified:
            fastest = max(fact.value for fact in specified)
            assert constants_of(load_calibration(), chip, CPU).weights_Bps < fastest, chip.id
    shares = {
        id_: constants_of(load_calibration(), CHIPS[id_], CPU).weights_Bps for id_ in ("m1", "a15", "m4")
    }
    assert shares["a15"] == pytest.approx(shares["m1"] / 2, rel=0.01)
    assert shares["m4"] == shares["m1"]


def test_the_cpu_moves_single_precision_in_full() -> None:
    made = kernel(size=10**5)
    assert seconds(replace(made, element_bytes=4), unit=CPU) == pytest.approx(2 * seconds(made, unit=CPU))
    assert seconds(replace(made, element_bytes=4)) == pytest.approx(seconds(made))


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.id)
@pytest.mark.parametrize("unit", [CPU, GPU, NEURAL_ENGINE])
def test_every_chip_has_constants(chip: Chip, unit: ComputeUnit) -> None:
    known = load_calibration()
    fitted, constants = known.units[unit], given(unit, chip.id)
    speed = constants.dense_FLOPps / fitted.constants.dense_FLOPps
    cores = (chip.value(unit, "cores") or 1.0) / (CHIPS[fitted.reference].value(unit, "cores") or 1.0)
    assert 0.15 < speed < 10 * max(cores, 1.0)
    assert 0.05 < constants.dispatch_s / fitted.constants.dispatch_s < 1.5
    if chip.id == fitted.reference:
        assert constants.dense_FLOPps == fitted.constants.dense_FLOPps


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.id)
@pytest.mark.parametrize("unit", [CPU, GPU, NEURAL_ENGINE])
def test_no_arithmetic_is_faster_than_the_unit_can_be(chip: Chip, unit: ComputeUnit) -> None:
    """Multiplications after Winograd's algorithm, by clock, width and cores or by the specification."""
    peak = peak_FLOPps(chip, unit) * (4.0 if unit == GPU and chip.value(GPU, "matrix_speedup") else 1.0)
    if unit == NEURAL_ENGINE and chip.value(unit, "dual_speedup"):
        peak *= 2
    shapes: list[tuple[KernelKind, int]] = [("conv", 9), ("conv", 25)]
    shapes += [(kind, 1) for kind in ("pointwise", "linear", "matmul", "attention", "depthwise", "grouped")]
    for kind, taps in shapes:
        one = kernel(kind, macs=10**10, in_channels=64, taps=taps, height=256, width=256)
        constants = on_system(given(unit, chip.id), find_device(chip.id).os)
        spent = float(time_kernels(KernelTable.of([one]), unit, constants).compute[0])
        least = 2 * one.geometry.macs / (2.25 if taps == 9 else 1.0) / peak
        assert spent >= least * 0.999, (kind, taps, spent / least)


def test_a_chip_without_a_unit_for_matrices_multiplies_with_its_cores() -> None:
    assert peak_FLOPps(CHIPS["a12"], CPU) == pytest.approx(2 * 2.49e9 * 48)
    assert peak_FLOPps(CHIPS["m1-max"], CPU) == pytest.approx(2 * 2.96e12)


def test_half_precision_is_that_of_single_precision_on_cpus_before_macos_15_and_ios_18() -> None:
    half = kernel("linear", macs=10**9, size=10**6, weights=10**6)
    single = replace(half, element_bytes=4, weight_bytes=4.0 * 10**6)
    for system, is_equal in (("14", True), ("15", False)):
        constants = on_system(given(CPU, "m1"), find_device("m1", system).os)
        table = KernelTable.of([replace(half, weight_bytes=2.0 * 10**6), single])
        ours, theirs = time_kernels(table, CPU, constants).total
        assert (ours == pytest.approx(theirs)) == is_equal


def test_unpublished_numbers_of_a_chip_come_from_its_relatives() -> None:
    def speed(unit: ComputeUnit, chip: str) -> float:
        return given(unit, chip).dense_FLOPps

    assert CHIPS["m2-ultra"].value(GPU, "fp32_FLOPps") is None
    progress = given(GPU, "m2-ultra").progress
    assert speed(GPU, "m2-ultra") / speed(GPU, "m2-max") == pytest.approx(2**progress, rel=1e-3)
    assert CHIPS["m3"].value(CPU, "performance_clock_Hz") is None
    assert speed(CPU, "m3") >= speed(CPU, "m2")
    assert speed(CPU, "a18") == pytest.approx(speed(CPU, "a18-pro"))
    for line in (
        ["a13", "a14", "a15", "a16", "a17-pro", "a18-pro", "a19-pro"],
        ["m1", "m2", "m3", "m4", "m5"],
    ):
        for unit in (CPU, GPU, NEURAL_ENGINE):
            speeds = [speed(unit, chip) for chip in line]
            assert speeds == sorted(speeds), (unit, line)


def network(count: int = 40) -> list[Kernel]:
    """Of about 1 ms on A14."""
    return [
        replace(kernel(macs=2 * 10**7, size=6 * 10**5, weights=10**5), ops=[f"main/{n}"])
        for n in range(count)
    ]


def on(unit: ComputeUnit, chip: str, kernels: list[Kernel] | None = None) -> Estimate:
    made = network() if kernels is None else kernels
    return estimate(made, {id_: unit for k in made for id_ in k.ops}, find_device(chip))


def test_parts_add_up_to_the_whole() -> None:
    found = on(NEURAL_ENGINE, "a14")
    assert sum(found.parts.values()) == pytest.approx(found.latency.value)
    assert sum(one.total_s for one in found.terms) == pytest.approx(found.latency.value)
    assert sum(found.kernel_s) < found.latency.value
    assert found.latency.low < found.latency.value < found.latency.high
    assert found.latency.origin == "estimated"
    assert found.placement == {NEURAL_ENGINE: pytest.approx(1.0)}
    assert found.bound == max(found.parts, key=lambda part: found.parts[part])
    assert found.per_second == pytest.approx(1 / found.latency.value)
    assert (found.device, found.chip, found.os) == (A14.name, "a14", str(A14.os))


def test_every_kernel_has_a_time_a_unit_and_a_bound() -> None:
    made = network(3)
    found = estimate(
        made, {"main/0": NEURAL_ENGINE, "main/1": GPU}, A14, "cpu_and_ne", left_out=("model1 (glmRegressor)",)
    )
    assert [found.units[unit] for unit in found.kernel_unit] == [NEURAL_ENGINE, GPU, CPU]
    assert (len(found.kernel_s), len(found.kernel_bound)) == (3, 3)
    assert all(seconds > 0 for seconds in found.kernel_s)
    assert (found.compute_units, found.left_out) == ("cpu_and_ne", ("model1 (glmRegressor)",))


def test_leaving_the_neural_engine_is_expensive() -> None:
    # Published ratios are of networks with much work; for little, the launch of the Neural Engine counts.
    large, small = (
        on(CPU, "a14", made).latency.value / on(NEURAL_ENGINE, "a14", made).latency.value
        for made in (network(400), network(1))
    )
    assert 2 < large < 70
    assert small < 1


def test_coming_back_to_an_accelerator_costs_a_round_trip() -> None:
    made = network(4)
    apart = estimate(
        made, {"main/0": NEURAL_ENGINE, "main/1": CPU, "main/2": NEURAL_ENGINE, "main/3": CPU}, A14
    )
    together = estimate(
        made, {"main/0": NEURAL_ENGINE, "main/1": NEURAL_ENGINE, "main/2": CPU, "main/3": CPU}, A14
    )
    assert (apart.switches, together.switches) == (3, 1)
    difference = apart.latency.value - together.latency.value
    moved = 2 * min(made[0].outputs, made[1].inputs)
    assert difference == pytest.approx(load_calibration().switch_s + 2 * moved / crossing_Bps("a14"))
    assert apart.latency.high / apart.latency.low > on(CPU, "a13").latency.high / on(CPU, "a13").latency.low


def test_the_launch_includes_the_first_way_to_an_accelerator_and_back() -> None:
    kernels = [replace(kernel(size=10**5), ops=[name]) for name in ("first", "main", "last")]
    found = estimate(kernels, {"first": CPU, "main": NEURAL_ENGINE, "last": CPU}, A14)
    assert found.switches == 2
    assert found.parts["switches"] == pytest.approx(2 * 10**5 / crossing_Bps("a14"))


def test_each_iteration_of_a_loop_on_two_units_comes_back_to_the_accelerator() -> None:
    known = load_calibration()
    names = ("before", "body", "more", "after")
    kernels = [replace(kernel(size=10), ops=[name], steps=100 if name in names[1:3] else 1) for name in names]
    whole: dict[str, ComputeUnit] = dict.fromkeys(names, NEURAL_ENGINE)
    assert estimate(kernels, whole, A14).parts["switches"] == 0
    split = estimate(kernels, {**whole, "more": CPU}, A14)
    assert split.switches == 2
    # 99 iterations after the first one, and the operation after the loop.
    assert split.parts["switches"] == pytest.approx(100 * known.switch_s, rel=0.01)


def test_tensors_are_transferred_where_the_unit_changes() -> None:
    kernels = [kernel(size=10**6), replace(kernel(size=10**5), ops=["main/second"])]
    for chip in ("a14", "m1", "m4-max"):
        found = estimate(kernels, {"main/conv": NEURAL_ENGINE, "main/second": GPU}, find_device(chip))
        assert found.parts["switches"] == pytest.approx(10**5 / crossing_Bps(chip))
    assert crossing_Bps("a14") < crossing_Bps("m1") == crossing_Bps("m4-max")


def test_a_tensor_crosses_once_to_each_unit_that_reads_it() -> None:
    names = ("stem", "there", "shortcut", "back")
    kernels = [replace(kernel(size=10**5), ops=[name]) for name in names]
    units: dict[str, ComputeUnit] = dict.fromkeys(names, NEURAL_ENGINE) | dict.fromkeys(names[1:3], GPU)
    flows = [
        *(Flow("stem", reader, "x", 10**6) for reader in ("there", "shortcut", "back")),
        Flow("shortcut", "back", "y", 10**5),
    ]
    work = place_kernels(kernels, list(units.items()), flows)
    assert work.moved == {(NEURAL_ENGINE, GPU): 10**6, (GPU, NEURAL_ENGINE): 10**5}
    assert (work.switches, work.returns) == (2, 1)


def test_a_segment_without_work_is_a_kernel_that_starts() -> None:
    first, last = (replace(kernel(size=10**5), ops=[name]) for name in ("first", "last"))
    walk: list[tuple[str, ComputeUnit | None]] = [
        ("first", NEURAL_ENGINE),
        ("nothing", None),
        ("shape", GPU),
        ("last", NEURAL_ENGINE),
    ]
    found = estimate_work(place_kernels([first, last], walk), A14)
    assert [found.units[unit] for unit in found.kernel_unit] == [NEURAL_ENGINE, GPU, NEURAL_ENGINE]
    assert found.kernel_of == (0, -1, 1)
    assert found.placement[GPU] > 0


def test_networks_of_about_a_millisecond_hardly_gain_from_a14_to_a15() -> None:
    older, newer = on(NEURAL_ENGINE, "a14"), on(NEURAL_ENGINE, "a15")
    assert 0.7e-3 < older.latency.value < 1.6e-3
    assert 0.8 < newer.latency.value / older.latency.value < 1


@pytest.mark.parametrize(
    ("older", "newer", "least", "most"),
    [
        # 751K, Microarchitecture of the Apple M6 Neural Engine: 1.4 to 2.7 times as fast in applications.
        ("m4", "m6", 1.4, 2.7),
        # Geekbench AI, ifeng.com: 1.37 in single precision, 1.52 in half precision.
        ("a19-pro", "a20-pro", 1.25, 1.92),
    ],
)
def test_both_engines_of_a_dual_neural_engine_share_a_prediction(
    older: str, newer: str, least: float, most: float
) -> None:
    made = [kernel("pointwise", macs=10**9)] * 40
    times = [on(NEURAL_ENGINE, chip, made).latency.value for chip in (older, newer)]
    assert least < times[0] / times[1] < most


def test_the_second_engine_helps_large_kernels_more() -> None:
    """751K: ResNet-50 takes 1.42 times as long on M4 as on M6, and 2.3 times as long at batch 16."""
    small, large = (
        on(NEURAL_ENGINE, "m4", made).latency.value / on(NEURAL_ENGINE, "m6", made).latency.value
        for made in ([kernel("pointwise", macs=10**8)] * 20, [kernel("pointwise", macs=10**10)] * 20)
    )
    assert 1.1 < small < 1.7 < 2.0 < large < 2.6


def test_every_unit_in_use_has_terms_that_add_up_with_changes_and_conversions() -> None:
    made = network(3)
    known = load_calibration()
    units: dict[str, ComputeUnit] = {"main/0": NEURAL_ENGINE, "main/1": CPU, "main/2": NEURAL_ENGINE}
    found = estimate(made, units, A14, converted_bytes=10**6)
    assert [one.unit for one in found.terms] == [CPU, NEURAL_ENGINE]
    assert [one.launch_s for one in found.terms] == [given(one.unit, "a14").dispatch_s for one in found.terms]
    whole = sum(one.total_s for one in found.terms) + 1e6 / known.convert_Bps + found.parts["switches"]
    assert whole == pytest.approx(found.latency.value)
    assert sum(one.compute_s for one in found.terms) == pytest.approx(found.parts["compute"])


def test_constants_of_ones_own_replace_those_of_the_family_on_one_chip() -> None:
    known = load_calibration()
    twice = replace(given(NEURAL_ENGINE, "m4"), dispatch_s=1.0)
    own = known.with_own("m4", NEURAL_ENGINE, twice)
    made = network()
    units = {id_: NEURAL_ENGINE for k in made for id_ in k.ops}
    found = estimate(made, units, find_device("m4"), calibration=own)
    assert found.latency.value > 1
    assert found.basis == "calibrated"
    other = estimate(made, units, find_device("m4-pro"), calibration=own)
    assert other == on(NEURAL_ENGINE, "m4-pro")


def test_units_that_are_slower_than_the_cpu_alone_are_explained() -> None:
    tiny = network(2)
    slow, alone, large = on(GPU, "m1", tiny), on(CPU, "m1", tiny), on(GPU, "m5-max", network(400))
    assert alone.latency.value < slow.latency.value
    assert alone.notes == large.notes == ()
    (note,) = slow.notes
    assert note.startswith("the CPU alone is estimated at ")
    assert "to launch the GPU" in note


def test_thousands_of_operations_on_the_neural_engine_take_longer_than_their_launch() -> None:
    # 2,532 operations of 100 elements each: their arithmetic takes nothing, their start does.
    tiny = [replace(kernel(size=200), ops=[f"main/{n}"]) for n in range(2532)]
    assert on(NEURAL_ENGINE, "m1", tiny).latency.value > 1e-3


LINES = (
    ("m1", "m2", "m3", "m4", "m5", "m6"),
    ("m1-pro", "m2-pro", "m4-pro", "m5-pro"),
    ("m1-max", "m2-max", "m3-max", "m4-max", "m5-max", "m5-ultra"),
    ("a14", "a15", "a16", "a17-pro", "a18-pro", "a19-pro", "a20-pro"),
    ("m1", "m1-pro", "m1-max", "m1-ultra"),
    ("m4", "m4-pro", "m4-max"),
)


@pytest.mark.parametrize("line", LINES, ids=" ".join)
@pytest.mark.parametrize("unit", [CPU, GPU, NEURAL_ENGINE])
def test_newer_and_larger_chips_are_not_slower(line: tuple[str, ...], unit: ComputeUnit) -> None:
    convolutions, products = network(60), network(20)
    weights = [replace(kernel("linear", macs=10**7, size=10**4, weights=10**7), ops=["main/w"])]
    for product in products:
        product.kind = "attention"
    for made in (convolutions, products, weights):
        times = [on(unit, chip, made).latency.value for chip in line]
        # anemll-bench: M1 Pro and M4 Max stream weights 6 to 10 % slower than M1 and M4 Pro.
        least = 1.12 if made is weights else 1.02
        assert all(b <= least * a for a, b in itertools.pairwise(times)), times


def test_all_units_of_a_mac_are_less_certain_than_a_setting_with_one_accelerator() -> None:
    made = network()
    units = {id_: NEURAL_ENGINE for k in made for id_ in k.ops}
    every, one = (estimate(made, units, find_device("m1"), s).latency for s in ("all", "cpu_and_ne"))
    assert every.value == one.value
    assert every.high > one.high
    assert every.low < one.low


def test_an_empty_network_costs_the_dispatch() -> None:
    found = estimate([], {}, find_device("m1"))
    assert found.latency.value == pytest.approx(given(CPU, "m1").dispatch_s)
    assert found.placement == {CPU: 1.0}


def test_operations_without_a_unit_run_on_the_cpu() -> None:
    assert estimate(network(), {}, A14).placement == {CPU: pytest.approx(1.0)}


def test_chips_without_measurements_are_marked() -> None:
    known, guessed = on(NEURAL_ENGINE, "a14"), on(NEURAL_ENGINE, "m3")
    assert (known.basis, guessed.basis) == ("calibrated", "extrapolated")


#: Widths by family, of a platform.
WIDTHS: dict[Family, float] = {"convolutional": 0.1, "token": 0.2, "small": 0.3}


def test_widths_are_those_of_the_platform_the_family_and_the_system() -> None:
    spread = Spread(
        widths={"iOS": WIDTHS, "macOS": dict.fromkeys(WIDTHS, 0.4)}, mixed=0.5, older={18: 0.6, 16: 0.7}
    )
    a14, m1 = find_device("a14"), find_device("m1")
    for family, width in WIDTHS.items():
        assert width_of(spread, a14, family) == pytest.approx(width)
    assert width_of(spread, m1, "token", 0.5) == pytest.approx(math.hypot(0.4, 0.5))
    assert width_of(spread, find_device("m1", "15"), "token") == pytest.approx(0.4)
    assert width_of(spread, find_device("m1", "14"), "token") == pytest.approx(math.hypot(0.4, 0.6))
    assert width_of(spread, find_device("m1", "12"), "token") == pytest.approx(math.hypot(0.4, 0.6, 0.7))


def test_families_are_those_of_convolutions_of_tokens_and_of_few_launches() -> None:
    assert family_of(0.2, 1e-3, 0.3e-3) == "convolutional"
    assert family_of(0.8, 1e-3, 0.3e-3) == "token"
    assert family_of(0.2, 0.8e-3, 0.3e-3) == "small"


def test_intervals_follow_the_calibration() -> None:
    known = load_calibration()
    spread = Spread(widths={"iOS": WIDTHS})
    calibration = replace(known, spreads={**known.spreads, NEURAL_ENGINE: spread})
    for count, width in ((4, 0.3), (400, 0.1)):
        made = network(count)
        found = estimate(
            made, {id_: NEURAL_ENGINE for k in made for id_ in k.ops}, A14, calibration=calibration
        ).latency
        assert found.low == pytest.approx(found.value * math.exp(-width))
        assert found.high == pytest.approx(found.value * math.exp(width))


def test_every_parameter_is_a_positive_number() -> None:
    for fitted in load_calibration().units.values():
        assert fitted.rows > 0
        assert fitted.publications
        for field in UnitParameters.__struct_fields__:
            value = getattr(fitted.constants, field)
            assert np.isfinite(value)
            assert value > 0 or (field in {"weights_hidden", "flat_rows", "second_gain"} and value == 0), (
                field
            )


@pytest.mark.parametrize(("chip", "clusters"), [("m1-max", 2), ("m1-ultra", 4), ("m2-pro", 2), ("m3-pro", 1)])
def test_a_cpu_gains_by_its_clusters(chip: str, clusters: int) -> None:
    known = load_calibration()
    base = constants_of(known, CHIPS[CHIPS[chip].family], CPU)
    variant = constants_of(known, CHIPS[chip], CPU)
    gain = clusters**base.progress
    for name in ("dense_FLOPps", "pointwise_FLOPps", "product_FLOPps", "depthwise_FLOPps", "elementwise_Bps"):
        assert getattr(variant, name) == pytest.approx(getattr(base, name) * gain)


def test_steps_of_a_recurrence_start_one_by_one_and_are_assumed() -> None:
    known = load_calibration().units[CPU].constants
    one, fifty = (
        replace(kernel("recurrent", macs=10**6, weights=10**6, height=steps, width=1), ops=["main/lstm"])
        for steps in (1, 50)
    )
    small = [estimate([made], {"main/lstm": CPU}, find_device("m1")) for made in (one, fifty)]
    more = small[1].latency.value - small[0].latency.value
    assert more == pytest.approx(49 * known.kernel_s)
    long = estimate(
        [replace(fifty, ops=["main/lstm"], weight_bytes=8e7)], {"main/lstm": CPU}, find_device("m1")
    )
    # Weights that do not stay on the chip are read again by each step.
    assert long.latency.value > 49 * (8e7 - known.on_chip_bytes) / known.weights_Bps
    assert long.latency.high / long.latency.value > 1.9
