"""Plans of large real models compared with what was published about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.devices import ComputeUnits
from tests.support.planned_rows import rows

#: FluidInference/FluidAudio, profile of the Neural Engine: on an M5 with macOS 26 and CPU_AND_NE, 1,139 of
#: the 1,174 operations of this encoder ran on it. The length of the chunks is not stated.
_PUBLISHED, _ALL = 1139, 1174
#: Published and planned units agree if they differ in at most this share of a network.
_AGREEMENT = 0.05


@pytest.mark.parametrize(
    ("folder", "share"),
    [
        pytest.param("streaming_encoder", 0.01, id="1280 ms"),
        # Its first part would save 334 µs on the Neural Engine, less than the 375 µs of launches.
        pytest.param("streaming_encoder-2", _AGREEMENT, id="160 ms"),
    ],
)
def test_a_streaming_encoder_stays_on_the_neural_engine(
    folder: str, share: float, pytestconfig: pytest.Config
) -> None:
    models: Path = pytestconfig.rootpath.parent / "shared" / "corpus" / "models"
    path = models / "FluidInference__FluidAudio" / f"{folder}.mlmodelc"
    if not path.is_dir():
        pytest.skip(f"no model at {path}")
    profile = api.plan(path, "m5", os="26", compute_units="cpu_and_ne")
    view = profile.plans[0].view()
    listed = [op for op in rows(view.plan, view.compute_units) if op.id not in ("main/input", "main/output")]
    assert len(listed) == _ALL
    assert sum(op.unit == "neural_engine" for op in listed) == pytest.approx(_PUBLISHED, abs=share * _ALL)
    # A rule that is known by anecdote would take dozens of them; it is shown, not applied.
    (doubt,) = (one for one in view.setting.what_ifs if one.hypothesis == "doubt")
    assert doubt.rule == "ne-mask-from-elsewhere"
    assert doubt.moved["cpu"] >= len(doubt.ops) > 50
    assert doubt.saved_ms < 0


def test_networks_on_an_m4_pro_and_an_m5_max_have_the_published_units() -> None:
    """erwinzhang7/coreml-compute-placement and the comma scorers; PoseNet is partly guessed."""
    from benchmarks.plan.wholes import MODELS, compare_networks

    if not MODELS.is_dir():
        pytest.skip(f"no models at {MODELS}")
    misses = [miss.partition(":")[0] for found in compare_networks() for miss in found.misses]
    assert misses == ["comma_posenet-192x256, all"]


def test_networks_for_depth_on_an_m1_max_have_the_published_units_and_costs() -> None:
    """jvcleave/DepthStudies: three settings; one normalization costs the GPU as much as the Neural Engine."""
    from benchmarks.plan.depth import compare_depth

    everywhere, on_gpu, on_engine, costs = compare_depth()
    assert [miss.partition(": ")[2].partition(" ")[0] for miss in everywhere.misses] == ["layer_norm"] * 3
    assert everywhere.total == on_gpu.total == on_engine.total == 1412
    assert not on_gpu.misses
    assert not on_engine.misses
    assert (costs.right, costs.total) == (236, 236)


def test_programs_of_one_kind_of_layer_have_the_published_units() -> None:
    """thisisthepy/torchnative: 49 programs on a chip that is not stated; one is known to differ."""
    from benchmarks.plan.programs import compare_programs

    found, _ = compare_programs()
    assert [miss.partition(":")[0] for miss in found.misses] == ["linear 512×576→49152 ×1"]


def test_whole_networks_go_where_published_plans_of_an_m5_max_and_an_m5_put_them() -> None:
    """On an M5 Max everything is on the GPU, on an M5 about 37 % of a transformer's operations.

    These shares are from erwinzhang7/coreml-compute-placement. They bound how much faster a core of these
    GPUs is in matrix products and in convolutions.
    """
    models = Path(__file__).parents[3] / "shared" / "knowledge" / "plan" / "models"
    if not models.is_dir():
        pytest.skip(f"no models at {models}")
    for name in ("siglip-vision", "resnet50", "mobilenet"):
        profile = api.plan(models / f"{name}-b16.mlpackage", "m5-max")
        assert {op.unit for op in rows(profile.plans[0])} == {"gpu"}
    for name in ("siglip-vision", "bert"):
        profile = api.plan(models / f"{name}-b16.mlpackage", "m5")
        units = [op.unit for op in rows(profile.plans[0])]
        assert units.count("gpu") / len(units) == pytest.approx(0.37, abs=0.02)


@pytest.mark.parametrize(
    ("network", "setting", "unit"),
    [
        ("comma_segnet-384x512", "all", "neural_engine"),
        ("comma_segnet-384x512-fp32", "cpu_and_ne", "cpu"),
        ("comma_posenet-192x256-fp32", "cpu_and_ne", "cpu"),
    ],
)
def test_networks_at_batch_1_on_an_m5_max_have_the_published_unit(
    network: str, setting: ComputeUnits, unit: str
) -> None:
    """The comma scorers on an M5 Max with macOS 26.4: every operation of a plan is on one unit."""
    models = Path(__file__).parents[3] / "shared" / "knowledge" / "latency" / "models"
    if not models.is_dir():
        pytest.skip(f"no models at {models}")
    profile = api.plan(models / f"{network}.mlpackage", "m5-max", os="26.4", compute_units=setting)
    assert {op.unit for op in rows(profile.plans[0])} == {unit}
