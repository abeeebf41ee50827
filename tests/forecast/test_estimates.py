"""Estimates of whole models: placement, fusion and prices together."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope import api
from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.describe.model import list_operations
from coremlscope.devices import CPU, SETTINGS, ComputeUnits, all_chips, find_device
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.formats.external import vision_feature_print
from coremlscope.measure.effort import Effort
from coremlscope.model import ir
from coremlscope.planning.advice import FunctionView
from coremlscope.planning.forecast import estimates as making
from coremlscope.planning.forecast.planner import forecast
from coremlscope.reports.estimates import estimates_document, estimates_to_json
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.profile import Profile
from tests.support import classical_specs, ir_models, programs
from tests.support.graphs import op, tensor, value
from tests.support.pipelines import external, image_feature, pipeline

QUICK: dict[str, Any] = {
    "iterations": 2,
    "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0),
}
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
    settings: tuple[ComputeUnits, ...] = ("all", "cpu_and_gpu", "cpu_only")
    estimates = forecast(deep, list_operations(deep), [find_device("iphone-12")], settings).estimates
    found = {e.compute_units: e for e in estimates}
    shares = {setting: set(e.placement) for setting, e in found.items()}
    assert shares == {"all": {"neural_engine"}, "cpu_and_gpu": {"gpu"}, "cpu_only": {"cpu"}}
    assert found["cpu_only"].latency.value > 2.5 * found["all"].latency.value


@pytest.mark.parametrize("clearly", [1.1, 0.5])
def test_a_note_names_a_setting_that_is_faster_than_all_units(
    deep: ir.Model, clearly: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the second factor a setting may even take twice as long.
    monkeypatch.setattr(making, "_CLEARLY", clearly)
    settings: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu")
    chips = [find_device(name) for name in ("m5-pro", "m1-ultra", "iphone-12")]
    estimates = forecast(deep, list_operations(deep), chips, settings).estimates
    alone = forecast(deep, list_operations(deep), chips).estimates
    for place, only in enumerate(alone):
        both, engine, gpu = estimates[3 * place : 3 * place + 3]
        fastest = min(engine, gpu, key=lambda one: one.latency.value)
        is_noted = any(
            note.startswith(f"{SETTING_WORDS[fastest.compute_units]} is estimated at ") for note in both.notes
        )
        assert is_noted == (both.latency.value >= clearly * fastest.latency.value)
        # What is not requested is compared as well.
        assert only.notes == both.notes
        assert not any(note.startswith("CPU + ") for note in (*engine.notes, *gpu.notes))
    assert clearly > 1 or is_noted


def test_small_models_stay_on_the_cpu() -> None:
    (found,) = api.estimate(ir_models.perceptron(units=16), "m1").estimates
    assert found.placement == {"cpu": pytest.approx(1.0)}
    assert found.latency.value < 0.1e-3


def test_every_chip_in_the_order_that_was_asked_for(deep: ir.Model) -> None:
    names = list(all_chips())
    found = api.estimate(deep, names)
    assert [e.chip for e in found.estimates] == [plan.chip for plan in found.plans] == names
    assert all(e.latency.value > 0 for e in found.estimates)
    # Each by itself is the same: chips that share a plan share nothing else.
    alone = api.estimate(deep, ["m3-max"])
    assert alone.estimates == (found.estimates[names.index("m3-max")],)
    assert alone.plans == (found.plans[names.index("m3-max")],)
    assert alone.kernels == found.kernels


def test_single_precision_at_the_edges_is_converted(deep: ir.Model) -> None:
    def body(x: Any) -> Any:
        return mb.cast(x=stack(mb.cast(x=x, dtype="fp16")), dtype="fp32")

    whole = programs.build(body, {"x": MAP.astype(np.float32)})
    half, single = (api.estimate(m, ["a14"]).estimates[0] for m in (deep, whole))
    assert single.parts["dispatch"] > half.parts["dispatch"]


def test_weights_may_be_absent() -> None:
    model = ir_models.perceptron()
    there, absent = (api.estimate(m, ["a15"]).estimates[0] for m in (model, ir_models.absent_weights(model)))
    assert there.latency == absent.latency


def test_stages_of_a_pipeline_follow_each_other(deep: ir.Model) -> None:
    alone = api.estimate(deep, ["a14"])
    twice = ir.Model(
        spec_version=5,
        description=deep.description,
        content=ir.Pipeline("pipeline", ("one", "two"), (deep, deep)),
    )
    both = api.estimate(twice, ["a14"])
    assert len(both.kernels) == 2 * len(alone.kernels)
    rows, others = ({row for kernel in found.kernels for row in kernel.ops} for found in (both, alone))
    assert len(rows) == 2 * len(others)
    assert {both.ops.function[row] for row in rows} == {"one/main", "two/main"}
    # The second stage does not cost another dispatch.
    once, again = alone.estimates[0], both.estimates[0]
    launches = sum(one.launch_s for one in once.terms)
    assert again.latency.value == pytest.approx(2 * once.latency.value - launches)


@pytest.mark.parametrize("setting", SETTINGS)
def test_units_have_the_same_shares_of_the_time_in_plans_and_estimates(
    deep: ir.Model, setting: ComputeUnits
) -> None:
    small = programs.build(lambda x: mb.relu(x=x), {"x": MAP})
    content = ir.Pipeline("pipeline", ("one", "two"), (deep, small))
    both = ir.Model(spec_version=5, description=deep.description, content=content)
    for device in ("m1", "a14"):
        found = api.estimate(both, device, compute_units=[setting])
        planned = api.plan(both, device, compute_units=setting)
        functions = planned.plans[0].settings[0].functions
        assert list(functions) == ["one/main", "two/main"]
        shares = Counter[str]()
        for one in functions.values():
            shares.update(one.time_shares)
        assert shares == pytest.approx(dict(found.estimates[0].placement))
        assert 0 < sum(functions["two/main"].time_shares.values()) < 0.5


def test_other_kinds_are_refused() -> None:
    model = ir.Model(
        spec_version=1,
        description=ir_models.perceptron().description,
        content=ir.Opaque("treeEnsembleClassifier"),
    )
    with pytest.raises(UnsupportedModelError, match="tree ensemble classifier"):
        api.estimate(model, ["m1"])


def test_unknown_devices_are_refused(deep: ir.Model) -> None:
    with pytest.raises(UsageError, match="unknown device 'pixel'"):
        api.estimate(deep, ["pixel"])


def test_a_profile_keeps_estimates_apart_from_what_was_measured() -> None:
    model = ir_models.perceptron(units=16)
    profile = api.profile(model, devices=["iphone-12", "m1"], **QUICK)
    assert [(e.device, e.compute_units, e.latency.origin) for e in profile.headline_estimates()] == [
        ("iPhone 12", "all", "estimated"),
        ("M1", "all", "estimated"),
    ]
    assert len(profile.estimates) == 2 * len(SETTINGS)
    assert profile.measurement.predict is not None
    assert profile.measurement.predict.origin == "measured"
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.estimates == profile.estimates
    for text in (write_terminal(document_of(profile)), write_markdown(document_of(profile))):
        assert "iPhone 12" in text
        assert "not measured" in text or "nothing of it was measured" in text


def test_a_profile_without_devices_estimates_nothing() -> None:
    profile = api.profile(ir_models.perceptron(units=16), **QUICK)
    assert (profile.plans, profile.kernels, profile.estimates) == ((), (), ())
    assert list(profile.headline_estimates()) == []
    assert "On Apple devices" not in write_terminal(document_of(profile))


def test_what_cannot_be_estimated_is_left_out_by_name(deep: ir.Model) -> None:
    trees = ir.Model(
        spec_version=5, description=deep.description, content=ir.Opaque("treeEnsembleClassifier")
    )
    whole = ir.Model(
        spec_version=5,
        description=deep.description,
        content=ir.Pipeline("pipelineClassifier", ("net", "trees"), (deep, trees)),
    )
    profile = api.estimate(whole, "a14")
    assert profile.estimates[0].left_out == ("trees (tree ensemble classifier)",)
    assert profile.estimates[0].latency.value > 0


def test_a_classical_model_is_bounded_on_the_cpu() -> None:
    model = classical_specs.read_spec(classical_specs.regressor([[1, 2]], [3]))
    profile = api.profile(model, devices="m1", **QUICK)
    assert "generalized linear regressor on the CPU" in profile.plans[0].notes[0]
    (found,) = [one for one in profile.estimates if one.compute_units == "all"]
    assert (dict(found.placement), found.left_out, found.basis) == ({CPU: 1.0}, (), "extrapolated")
    assert found.latency.low < found.latency.value < found.latency.high < 1e-3


def test_stages_of_the_system_are_named_and_the_rest_is_a_bound() -> None:
    spec = classical_specs.classifier([[1.0, 2.0]], [0.0], ["a", "b"])
    last = classical_specs.read_spec(spec)
    image, numbers = image_feature("image"), ir.Feature("x", last.description.main.inputs[0].type)
    first = external(vision_feature_print("scene", 1, [numbers.name]), [image], [numbers])
    whole = pipeline([image], last.description.main.outputs, first, last)
    (found,) = api.estimate(whole, "m1").estimates
    assert found.left_out == ("model0 (Vision feature print)",)
    assert found.is_at_least
    (listed,) = estimates_to_json([api.estimate(whole, "m1")])
    assert (listed["is_at_least"], listed["left_out_share"]) == (True, 0.0)
    with pytest.raises(UnsupportedModelError, match="Vision feature print"):
        api.estimate(pipeline([image], [numbers], first), "m1")


def _with_unknown(known: int, unknown: int) -> ir.Model:
    """A product of `known` weights, and an operation without a definition that reads `unknown` weights."""
    x, y, z = (value(name, tensor(1, 4)) for name in "xyz")
    weight, table = np.ones((4, known // 4), np.float32), np.ones(unknown, np.float32)
    product = op("matmul", y, x=x, y=np.asarray(weight), transpose_x=False, transpose_y=False)
    body = ir.Graph(name="main", inputs=(x,), ops=(product, op("warp", z, x=y, table=table)), outputs=(z,))
    inputs, outputs = [ir_models.array_feature("x", (1, 4))], [ir_models.array_feature("z", (1, 4))]
    return ir_models.model(inputs, outputs, {"main": body})


@pytest.mark.parametrize(
    ("known", "unknown", "is_too_much"), [(400, 4, False), (400, 98, False), (400, 120, True)]
)
def test_what_is_left_out_is_one_share_everywhere(known: int, unknown: int, is_too_much: bool) -> None:
    model = _with_unknown(known, unknown)
    share = pytest.approx(unknown / (known + unknown))
    work = api.inspect(model).main.work
    assert work is not None
    assert (work.left_out_share, work.is_complete, work.is_too_incomplete) == (share, False, is_too_much)
    plan = api.plan(model, "m1").plans[0]
    assert (plan.left_out_share, plan.total_ms(plan.settings[0]) is None) == (share, is_too_much)
    profile = api.estimate(model, "m1")
    assert ["left-out" in finding.id for finding in profile.findings].count(True) == is_too_much
    assert len(profile.estimates) == (not is_too_much)
    for one in profile.estimates:
        assert (one.left_out_share, one.is_at_least) == (share, True)


def test_estimates_are_found_by_device_or_chip_and_setting(deep: ir.Model) -> None:
    profile = api.estimate(deep, ["iphone-12", "m1"], compute_units="every")
    first = profile.estimate("iPhone 12")
    assert first is profile.estimates[0]
    assert profile.estimate("a14") is first
    found = profile.estimate("m1", "cpu_only")
    assert found is not None
    assert (found.chip, found.compute_units) == ("m1", "cpu_only")
    assert profile.estimate("m2") is None
    assert [e.device for e in profile.headline_estimates()] == ["iPhone 12", "M1"]


def _looped(limit: int | None) -> ir.Model:
    """A linear layer that is repeated; as often as an input says if there is no limit."""
    weight = np.ones((64, 64), np.float32)

    def body(x: Any, n: Any) -> Any:
        most = mb.squeeze(x=mb.cast(x=n, dtype="int32"), axes=[0]) if limit is None else limit
        return mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=most),
            _body=lambda i, a: (mb.add(x=i, y=1), mb.linear(x=a, weight=weight)),
            loop_vars=(np.int32(0), x),
        )[1]

    return programs.build(body, {"x": np.zeros((1, 64), np.float32), "n": np.zeros(1, np.float32)})


def test_the_steps_of_a_loop_are_counted() -> None:
    device = find_device("m1")
    kernels, totals = [], []
    for limit in (1, 10, 100):
        model = _looped(limit)
        found = forecast(model, list_operations(model), [device])
        (estimate,) = found.estimates
        times = zip(found.kernels, estimate.kernel_s, strict=True)
        kernels.append(next(seconds for kernel, seconds in times if kernel.kind == "linear"))
        totals.append(estimate.latency.value)
    assert kernels == pytest.approx([kernels[0] * count for count in (1, 10, 100)])
    assert totals[2] - totals[1] == pytest.approx(10 * (totals[1] - totals[0]))


def _branching(layers: int, others: int) -> ir.Model:
    """A choice at run time between two chains of linear layers of different lengths."""
    weight = np.ones((512, 512), np.float32)

    def chain(x: Any, length: int) -> Any:
        for _ in range(length):
            x = mb.linear(x=x, weight=weight)
        return x

    def body(x: Any, n: Any) -> Any:
        pred = mb.squeeze(x=mb.cast(x=n, dtype="bool"), axes=[0])
        return mb.cond(pred=pred, _true_fn=lambda: chain(x, layers), _false_fn=lambda: chain(x, others))

    return programs.build(body, {"x": np.zeros((64, 512), np.float32), "n": np.zeros(1, np.float32)})


@pytest.mark.parametrize("others", [1, 4, 8])
def test_the_costlier_branch_of_a_choice_is_counted(others: int) -> None:
    totals = [
        api.estimate(_branching(*layers), "m1", compute_units="cpu_only").estimates[0].latency.value
        for layers in ((8, others), (others, 8), (8, 8))
    ]
    assert totals == pytest.approx([totals[2]] * 3)


def test_no_total_is_estimated_for_a_loop_of_unknown_length() -> None:
    profile = api.estimate(_looped(None), "m1")
    assert profile.estimates == ()
    assert len(profile.plans) == 1
    (finding,) = [one for one in profile.findings if one.id == "loop-not-estimated"]
    assert [profile.ops.type[profile.ops.id.index(op)] for op in finding.ops] == ["while_loop"]
    assert re.search(r"the number of steps of the loop \S+ depends on values of a prediction", finding.text)
    assert re.search(r"One step is estimated at \S+ .s on M1 \(all\)", finding.text)
    text = write_terminal(estimates_document([profile]))
    assert "no estimate" in text
    assert "80 % within" not in text
    assert estimates_to_json([profile]) == []


def test_a_measured_profile_says_that_no_total_is_estimated() -> None:
    profile = coremlscope.profile(_looped(None), devices="m1", **QUICK)
    assert profile.estimates == ()
    assert "No latency is estimated" in write_terminal(document_of(profile))
    assert "No latency is estimated" in write_markdown(document_of(profile))


@pytest.mark.parametrize(("color_space", "copied"), [("RGB", True), ("GRAYSCALE_FLOAT16", False)])
def test_a_half_precision_image_needs_no_conversion(color_space: str, copied: bool) -> None:
    from coremlscope.planning.forecast.kernels import _converted_bytes

    feature = ir.Feature(name="x", type=ir.ImageFeature(color_space, 100, 50))
    assert bool(_converted_bytes(feature)) == copied


def test_the_interval_of_an_estimate_holds_that_of_the_other_plan() -> None:
    """A small transformer on M4: Core ML may run all of it on the Neural Engine."""

    def layers(x: Any) -> Any:
        for _ in range(8):
            x = mb.gelu(x=mb.linear(x=x, weight=np.ones((192, 192), np.float16)), mode="EXACT")
        return x

    model = programs.build(layers, {"x": np.zeros((1, 197, 192), np.float16)})
    found = forecast(model, list_operations(model), [find_device("m4")], ("all",))
    other, (estimate,) = found.plans[0].settings[0].other_plan, found.estimates
    assert other is not None
    assert other.latency is not None
    assert set(other.units) == {"neural_engine"}
    assert other.latency.value < estimate.latency.value
    assert estimate.latency.low <= other.latency.value <= estimate.latency.high


def test_a_neural_network_computes_in_single_precision_on_a_cpu_alone() -> None:
    class _Function(FunctionView):
        def __init__(self, bound: Any, is_network: bool) -> None:
            self.bound, self.__dict__["is_network"] = bound, is_network

    bound = programs.bind_main(programs.build(stack, {"x": MAP}))
    program, network = (_Function(bound, is_network).fused for is_network in (False, True))
    assert {kernel.element_bytes for kernel in program if kernel.weights} == {2}
    assert {kernel.element_bytes for kernel in network if kernel.weights} == {4}
    assert sum(k.weight_bytes for k in network) == 2 * sum(k.weight_bytes for k in program)
