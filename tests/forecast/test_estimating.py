"""Estimates of whole models: placement, fusion and prices together."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from coremlscope.forecast.estimating import estimate_model
from coremltools.converters.mil import Builder as mb

from coremlscope import api, ir
from coremlscope.devices import all_chips, find_device
from coremlscope.errors import UnsupportedModelError, UsageError
from coremlscope.render import render_console
from coremlscope.render.markdown.report import render_markdown
from coremlscope.results.profile import Profile
from tests.support import ir_models, programs

MAP = np.zeros((1, 64, 56, 56), np.float16)


def stack(x: Any) -> Any:
    """Convolutions enough for the Neural Engine."""
    for _ in range(12):
        x = mb.relu(x=mb.conv(x=x, weight=np.ones((64, 64, 3, 3), np.float16), pad_type="same"))
    return x


@pytest.fixture(scope="module")
def deep() -> ir.Model:
    return programs.build(stack, {"x": MAP})


def test_settings_decide_about_the_unit(deep: ir.Model) -> None:
    device = find_device("iphone-12")
    settings = ("all", "cpu_and_gpu", "cpu_only")
    found = {e.compute_units: e.estimate for e in estimate_model(deep, [device], settings)}
    shares = {setting: set(e.placement) for setting, e in found.items()}
    assert shares == {"all": {"neural_engine"}, "cpu_and_gpu": {"gpu"}, "cpu_only": {"cpu"}}
    assert found["cpu_only"].latency.value > 5 * found["all"].latency.value


def test_small_models_stay_on_the_cpu() -> None:
    found = api.estimate(ir_models.perceptron(units=16), ["m1"])[0]
    assert found.estimate.placement == {"cpu": pytest.approx(1.0)}
    assert found.estimate.latency.value < 0.1e-3


def test_every_chip_in_the_order_that_was_asked_for(deep: ir.Model) -> None:
    names = list(all_chips())
    found = api.estimate(deep, names)
    assert [e.device.chip.id for e in found] == names
    assert all(e.estimate.latency.value > 0 for e in found)
    # Each by itself is the same: chips that share a plan share nothing else.
    alone = api.estimate(deep, ["m3-max"])[0]
    assert alone.estimate == found[names.index("m3-max")].estimate


def test_single_precision_at_the_edges_is_converted(deep: ir.Model) -> None:
    def body(x: Any) -> Any:
        return mb.cast(x=stack(mb.cast(x=x, dtype="fp16")), dtype="fp32")

    whole = programs.build(body, {"x": MAP.astype(np.float32)})
    half, single = (api.estimate(m, ["a14"])[0].estimate for m in (deep, whole))
    assert single.parts["dispatch"] > half.parts["dispatch"]


def test_weights_may_be_absent() -> None:
    model = ir_models.perceptron()
    there, absent = (api.estimate(m, ["a15"])[0] for m in (model, ir_models.absent_weights(model)))
    assert there.estimate.latency == absent.estimate.latency


def test_stages_of_a_pipeline_follow_each_other(deep: ir.Model) -> None:
    alone = api.estimate(deep, ["a14"])[0].estimate
    twice = ir.Model(
        spec_version=5,
        description=deep.description,
        content=ir.Pipeline("pipeline", ("one", "two"), (deep, deep)),
    )
    both = api.estimate(twice, ["a14"])[0].estimate
    assert len(both.kernels) == 2 * len(alone.kernels)
    assert len({id_ for kernel in both.kernels for id_ in kernel.ops}) == 2 * len(
        {id_ for kernel in alone.kernels for id_ in kernel.ops}
    )
    # The second stage does not cost another dispatch.
    assert both.latency.value == pytest.approx(2 * alone.latency.value - alone.parts["dispatch"])


def test_other_kinds_are_refused() -> None:
    model = ir.Model(
        spec_version=1,
        description=ir_models.perceptron().description,
        content=ir.Opaque("treeEnsembleClassifier"),
    )
    with pytest.raises(UnsupportedModelError, match="treeEnsembleClassifier"):
        api.estimate(model, ["m1"])


def test_unknown_devices_are_refused(deep: ir.Model) -> None:
    with pytest.raises(UsageError, match="unknown device 'pixel'"):
        api.estimate(deep, ["pixel"])


def test_a_profile_keeps_estimates_apart_from_what_was_measured() -> None:
    model = ir_models.perceptron(units=16)
    profile = api.profile(
        model, devices=["iphone-12", "m1"], iterations=2, compile_iterations=1, load_iterations=1, warmups=0
    )
    assert [(e.device, e.latency.origin) for e in profile.estimates] == [
        ("iPhone 12", "estimated"), ("M1", "estimated"),
    ]  # fmt: skip
    assert profile.measurement.predict.origin == "measured"
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.estimates == profile.estimates
    for text in (render_console(profile), render_markdown(profile)):
        assert "On Apple devices" in text
        assert "iPhone 12" in text
        assert "not measured" in text or "nothing of it was measured" in text


def test_a_profile_without_devices_estimates_nothing() -> None:
    profile = api.profile(
        ir_models.perceptron(units=16), iterations=2, compile_iterations=1, load_iterations=1, warmups=0
    )
    assert profile.estimates == ()
    assert "On Apple devices" not in render_console(profile)
