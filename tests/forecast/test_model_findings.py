from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.api.assemble import with_devices
from coremlscope.base.findings import Finding
from coremlscope.devices import find_device
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.model_findings import TOGETHER
from coremlscope.reports.words import describe_finding, finding_hint
from tests.support.advised_models import F16, MODELS, Builder, half_between_casts
from tests.support.planned_rows import rows

#: Newer systems run float32 and layer normalizations with several shapes on the Neural Engine.
_OS = {"fp32-program": "17", "flexible-shapes": "17"}
_WITH_TIMES = sorted(MODELS)


def _finding(rule: str, device: str = "iphone-13") -> Finding | None:
    found = api.estimate(MODELS[rule][0][0], [device], os=_OS.get(rule)).findings
    return next((one for one in found if one.id == rule), None)


@pytest.mark.parametrize("rule", _WITH_TIMES)
def test_each_finding_has_its_saving(rule: str) -> None:
    finding = _finding(rule)
    assert finding is not None
    (saving,) = finding.savings
    assert (saving.device, saving.compute_units) == ("iPhone 13", "all")
    assert saving.saved_s is not None
    assert saving.saved_s.value > 0
    assert saving.saved_s.low <= saving.saved_s.value <= saving.saved_s.high


@pytest.mark.parametrize("rule", _WITH_TIMES)
def test_models_without_the_cause_have_no_finding(rule: str) -> None:
    for model in MODELS[rule][1]:
        found = api.estimate(model, ["iphone-13"], os=_OS.get(rule)).findings
        assert rule not in {one.id for one in found}


def test_a_finding_that_saves_nothing_on_a_device_is_not_shown_there() -> None:
    """Axes of 20,000 elements are too long for the Neural Engine of A15, not for that of A17 Pro."""
    assert _finding("long-axes", "iphone-13") is not None
    assert _finding("long-axes", "iphone-15-pro") is None
    both = api.estimate(MODELS["long-axes"][0][0], ["iphone-13", "iphone-15-pro"]).findings
    savings = [saving.device for one in both if one.id == "long-axes" for saving in one.savings]
    assert savings == ["iPhone 13"]


def test_the_saving_is_the_difference_of_two_plans() -> None:
    """A model with an unused convolution costs as much more as the plan without it says."""
    shows, others = MODELS["unused-operations"]
    with_it, without = (api.estimate(model, ["m1"]) for model in (shows[0], others[0]))
    (finding,) = (one for one in with_it.findings if one.id == "unused-operations")
    (saving,) = finding.savings
    planned = [profile.plans[0].settings[0].total_ms for profile in (with_it, without)]
    assert saving.planned_ms == pytest.approx(planned[1])
    assert saving.saved_ms == pytest.approx(planned[0] - planned[1])
    assert saving.saved_s is not None
    seconds = [profile.estimates[0].latency.value for profile in (with_it, without)]
    assert saving.saved_s.value == pytest.approx(seconds[0] - seconds[1])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("device", ["iphone-13", "m1"])
def test_an_activation_that_is_one_operation_ends_the_layer_before_it(place: int, device: str) -> None:
    """Written out, a GELU reads the layer's result twice: its saving has the pass that fusing saves."""
    shows, others = MODELS["composed-activation"]
    with_it, without = (api.estimate(model, [device]) for model in (shows[place], others[0]))
    (finding,) = (one for one in with_it.findings if one.id == "composed-activation")
    seconds = [profile.estimates[0].latency.value for profile in (with_it, without)]
    assert finding.savings[0].saved_s is not None
    assert finding.savings[0].saved_s.value == pytest.approx(seconds[0] - seconds[1])


def _overlapping() -> Model:
    """Two transposes that cancel out, and an operation that nothing reads."""
    shape, turned = (1, 64, 128, 128), (1, 128, 128, 64)
    b = Builder({"x": (F16, shape)})
    y = b.conv("c", b["x"], 64)
    first = b.op("transpose", "t1", turned, x=y, perm=[0, 2, 3, 1])
    second = b.op("transpose", "t2", shape, x=first, perm=[0, 3, 1, 2])
    b.op("exp", "unused", shape, x=second)
    return b.model(b.conv("d", second, 64))


def test_findings_that_overlap_are_weighed_together() -> None:
    found = api.estimate(_overlapping(), ["iphone-13"]).findings
    assert [one.id for one in found[-1:]] == [TOGETHER]
    each = {one.id: one.savings[0].saved_s for one in found}
    assert {"redundant-transposes", "unused-operations"} < set(each)
    both = each.pop(TOGETHER)
    values = [saved.value for saved in each.values() if saved is not None]
    assert both is not None
    assert max(values) < both.value <= sum(values) * (1 + 1e-9)


def test_one_finding_has_nothing_to_be_weighed_with() -> None:
    assert TOGETHER not in {one.id for one in api.estimate(MODELS["long-axes"][0][0], ["m1"]).findings}


def test_what_would_be_computed_in_float16_is_planned_as_such_a_program() -> None:
    """Between a float32 input and a float32 output, but for the two casts there."""
    (finding,) = (
        one
        for one in api.plan(MODELS["fp32-program"][0][0], ["m1"], os="14").findings
        if one.id == "fp32-program"
    )
    plan = api.plan(half_between_casts(), ["m1"], os="14")
    view = plan.plans[0].view()
    casts = sum(op.planned_ms or 0.0 for op in rows(view.plan, view.compute_units) if op.type == "cast")
    assert finding.savings[0].planned_ms == pytest.approx(view.setting.total_ms - casts, rel=0.02)


def test_words_name_no_operation_by_its_id() -> None:
    for rule in MODELS:
        finding = _finding(rule)
        if finding is not None:
            assert "main/" not in describe_finding(finding) + finding_hint(finding)


def test_words_tell_the_saving_and_the_confidence() -> None:
    finding = _finding("unused-operations")
    assert finding is not None
    text = describe_finding(finding)
    assert "1 operation computes what nothing reads: debug. If fixed, on iPhone 13: estimated" in text
    assert "estimated" in text
    assert finding_hint(finding).endswith("evidence: static analysis")
    savings = [msgspec.structs.replace(one, compute_units="cpu_only") for one in finding.savings]
    on_cpu = msgspec.structs.replace(finding, savings=tuple(savings))
    assert "If fixed, on iPhone 13 with cpu_only: estimated" in describe_finding(on_cpu)


def test_devices_that_are_added_have_their_savings() -> None:
    model = MODELS["unused-operations"][0][0]
    profile = with_devices(api.estimate(model, ["m1"]), model, [find_device("iphone-13")])
    (finding,) = (one for one in profile.findings if one.id == "unused-operations")
    assert list(dict.fromkeys(saving.device for saving in finding.savings)) == ["M1", "iPhone 13"]


def test_a_finding_survives_json() -> None:
    profile = api.estimate(MODELS["unused-operations"][0][0], ["m1"])
    again = type(profile).from_json(profile.to_json())
    assert again.findings == profile.findings
    assert msgspec.to_builtins(again.findings[0])["savings"]
