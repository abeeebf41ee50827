"""Latency estimates of published networks against published measurements."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.latency.dataset import load_measurements, load_networks
from benchmarks.latency.fit import Estimator
from coremlscope.devices import CPU, NEURAL_ENGINE, ComputeUnit, find_device
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.cost.latency.model import estimate
from coremlscope.planning.cost.latency.work import place_kernels
from tests.support import programs

NETWORKS = load_networks()
ANY = load_measurements()[0]
#: Several publications report 0.7 to 1.1 ms on A14.
MILLISECOND = ("mobilenetv2_100-224", "mobileone_s1-224", "repvit_m1_0-224", "starnet_s3-224")
PHONES = ("a14", "a15", "a16", "a17-pro", "a18", "a19-pro")


def ms(network: str, chip: str, unit: ComputeUnit = NEURAL_ENGINE, precision: str = "fp16") -> float:
    row = replace(ANY, network=network, chip=chip, precision=precision)
    family = load_calibration().units[unit]
    seconds = Estimator(unit, family.reference, [row], NETWORKS).seconds(family.constants)
    return float(seconds[0]) * 1e3


@pytest.mark.parametrize("chip", ["a14", "a15", "a17-pro"])
@pytest.mark.parametrize(
    "network", ["efficientformer_l1-224", "resnet50-224", "fastvit_sa24-256", "repvit_m1_5-224"]
)
def test_a_network_that_falls_off_the_neural_engine_costs_3_to_70_times_more(network: str, chip: str) -> None:
    assert 3 < ms(network, chip, CPU) / ms(network, chip) < 70


@pytest.mark.parametrize("network", MILLISECOND)
def test_networks_of_a_millisecond_do_not_follow_the_marketed_speed(network: str) -> None:
    a14, a15, a16, a17 = (ms(network, chip) for chip in PHONES[:4])
    assert 0.7 < a14 < 1.2
    assert 0.85 < a15 / a14 <= 1
    assert 0.97 < a17 / a16 <= 1.01
    # 3.2 times the operations a second by Apple's figures. What is gained from A15 to A16 is less time
    # before anything is computed: MobileNetV2 takes 0.5 ms on A16 and A17 Pro.
    assert a14 / a17 < 2
    large = ms("convnext_base-224", "a14") / ms("convnext_base-224", "a17-pro")
    assert large < a14 / a17


@pytest.mark.parametrize("network", ["resnet50-224", "mobilenet_v2-224"])
@pytest.mark.parametrize(
    ("chip", "helps"),
    [
        *((chip, False) for chip in ("a14", "a15", "m1", "m2")),
        # A16: ResNet50 takes 0.94 ms, and 1.52 ms with 8-bit weights alone; M3 has the same engine.
        *((chip, True) for chip in ("a16", "a17-pro", "a18", "m3", "m4", "m5")),
    ],
)
def test_eight_bits_for_weights_and_activations_help_from_a16_and_m3_on(
    network: str, chip: str, helps: bool
) -> None:
    gain = ms(network, chip, precision="w8") / ms(network, chip, precision="w8a8")
    assert gain > 1.25 if helps else gain == pytest.approx(1)


def test_palettised_weights_help_where_weights_bound() -> None:
    def gain(network: str) -> float:
        return ms(network, "a14") / ms(network, "a14", precision="pal4")

    assert gain("vgg16-224") > 1.8
    assert gain("alexnet-224") > 2.5
    assert 1 <= gain("mobilenetv2_100-224") < 1.15
    assert 1 <= gain("starnet_s3-224") < 1.15
    # ResNet50 on A16: 1.42 to 1.52 ms, and 1.37 ms with four bits.
    assert 1 < ms("resnet50-224", "a16") / ms("resnet50-224", "a16", precision="pal4") < 1.4


def test_a_small_model_is_faster_on_the_cpu() -> None:
    from coremltools.converters.mil import Builder as mb

    weight = np.ones((256, 256), np.float16)
    kernels = fuse(
        programs.bind_main(
            programs.build(lambda x: mb.linear(x=x, weight=weight), {"x": np.zeros((1, 256), np.float16)})
        ).graph
    )
    device = find_device("m1")
    units: tuple[ComputeUnit, ...] = (CPU, NEURAL_ENGINE)
    cpu, engine = (
        estimate(place_kernels(kernels, [(id_, unit) for k in kernels for id_ in k.ops]), device).latency
        for unit in units
    )
    # Published: 0.036 ms on the CPU, 0.27 ms at least on the Neural Engine.
    assert 0.03e-3 < cpu.value < 0.1e-3
    assert 0.2e-3 < engine.value < 0.35e-3
    assert cpu.high < engine.low


def test_chips_of_a_line_get_faster_or_stay() -> None:
    for network in ("mobilenetv2_100-224", "resnet50-224", "convnext_base-224", "deit_small_patch16_224-224"):
        for line in (PHONES, ("m1", "m2", "m3", "m4", "m5")):
            times = [ms(network, chip) for chip in line]
            assert all(b < 1.02 * a for a, b in itertools.pairwise(times)), (network, line)
