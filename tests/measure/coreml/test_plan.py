"""Apple's plan, asked through coremltools; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import coremltools as ct
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.api.core_ml_plans import plan_by_core_ml
from coremlscope.base.errors import EngineError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.devices import CPU, ComputeUnits, find_device
from coremlscope.measure.coreml.objective_c import find_framework
from coremlscope.measure.coreml.plan import (
    PlansOfModel,
    ask_core_ml,
    plan_findings,
    plan_from_core_ml,
    this_mac,
)
from coremlscope.measure.coreml.units import effective_units
from coremlscope.planning.placement.analytics import AnalysedOp
from coremlscope.results.plan import PlanView
from coremlscope.results.profile import Profile
from tests.support import converted_models, networks
from tests.support.coreml_children import PLAN_CHILD, child_over_dropin, child_over_frameworks
from tests.support.planned_rows import rows
from tests.support.processes import skip_unless_limited


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


def test_a_process_of_its_own_answers(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_DEVICE", "m1")
    monkeypatch.setenv("COREMLSCOPE_OS", "14.5")
    answer = ask_core_ml(package, "cpu_only", command=PLAN_CHILD)
    ours = planned(package, "cpu_only")
    theirs = core_ml_view(ours, answer, "cpu_only")
    # MLComputePlan has no operations that Core ML inserts.
    own = [op for op in rows(view_of(ours).plan) if not op.inserted]
    for apple, rules in zip(rows(theirs.plan), own, strict=True):
        assert apple.id == rules.id
        assert apple.unit == CPU
        assert apple.weight == pytest.approx(rules.weight)
    assert theirs.compute_units == "cpu_only"
    assert (theirs.plan.planner, theirs.plan.origin) == ("Core ML", "planned")
    assert "not yet confirmed on a device" in theirs.plan.notes[0]


@pytest.mark.usefixtures("free_units")
def test_analytics_give_costs_and_messages(package: Path) -> None:
    ours = planned(package)
    op = next(op for op in rows(view_of(ours).plan) if op.type == "linear")
    places = {
        "type": "linear",
        "outputs": list(op.output_names),
        "preferred": "cpu",
        "supported": ["cpu", "gpu"],
        "weight": 0.25,
    }
    analysed = AnalysedOp(
        function="main",
        type="linear",
        outputs=op.output_names,
        selected="bnns",
        estimated_ms={"bnns": 0.5, "classic_cpu": 0.6},
        messages={"ane": "No."},
    )
    theirs = core_ml_view(ours, PlansOfModel(functions={"main": [places]}, analysed=[analysed]))
    (apple,) = [found for found in rows(theirs.plan) if found.id == op.id]
    assert (apple.backend, apple.weight) == ("bnns", 0.25)
    assert (apple.planned_ms, apple.cost_ms) == (0.5, {"bnns": 0.5, "classic_cpu": 0.6})
    assert apple.cost_basis == {"bnns": "Core ML", "classic_cpu": "Core ML"}
    assert apple.supported == {"cpu": "yes", "gpu": "yes", "neural_engine": "no"}
    assert [(reason.unit, reason.core_ml) for reason in apple.why] == [("neural_engine", "No.")]
    assert theirs.plan.reasons(apple, theirs.compute_units) == list(apple.why)
    others = [found for found in rows(theirs.plan) if found.id != op.id]
    assert {found.unit for found in others} == {None}
    assert {unit for found in others for unit in found.supported.values()} == {"unknown"}
    assert (theirs.setting.total_ms, theirs.setting.switches) == (0.5, 0)


def test_an_analysis_of_another_type_does_not_count(package: Path) -> None:
    ours = planned(package)
    op = next(op for op in rows(view_of(ours).plan) if op.type == "linear")
    analysed = AnalysedOp(
        function="main",
        type="conv",
        outputs=op.output_names,
        selected="bnns",
        estimated_ms={"bnns": 0.5},
        messages={},
    )
    theirs = core_ml_view(ours, PlansOfModel(functions={}, analysed=[analysed]))
    assert {found.unit for found in rows(theirs.plan)} == {None}


def test_changes_of_the_unit_are_counted(package: Path) -> None:
    ours = planned(package)
    listed = [op for op in rows(view_of(ours).plan) if not op.inserted]
    assert len(listed) > 3
    preferred = ["gpu" if index % 2 else "cpu" for index in range(len(listed))]
    places = [
        {
            "type": op.type,
            "outputs": list(op.output_names),
            "preferred": unit,
            "supported": ["cpu", "gpu"],
            "weight": 0.1,
        }
        for op, unit in zip(listed, preferred, strict=True)
    ]
    theirs = core_ml_view(ours, PlansOfModel(functions={"main": places}))
    assert theirs.setting.switches == theirs.setting.functions["main"].switches == len(listed) - 1
    assert [op.unit for op in rows(theirs.plan) if not op.inserted] == preferred


def test_both_plans_stand_beside_each_other(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_DEVICE", "m1")
    monkeypatch.setenv("COREMLSCOPE_OS", "14.5")
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "14.5"))
    ask = partial(ask_core_ml, command=PLAN_CHILD)
    monkeypatch.setattr("coremlscope.measure.coreml.plan.ask_core_ml", ask)
    profile = plan_by_core_ml(package, compute_units="cpu_and_ne")
    assert [plan.planner for plan in profile.plans] == ["Core ML", "rules"]
    assert [plan.device for plan in profile.plans] == ["M1", "M1"]
    assert [[s.compute_units for s in plan.settings] for plan in profile.plans] == [
        [effective_units("cpu_and_ne")]
    ] * 2
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


def planned(package: Path, setting: ComputeUnits = "all") -> Profile:
    return api.plan(package, "m1", os="14.5", compute_units=setting)


def view_of(profile: Profile) -> PlanView:
    return profile.plans[0].view()


def core_ml_view(ours: Profile, answer: PlansOfModel, setting: ComputeUnits = "all") -> PlanView:
    """Returns Core ML's answer as a plan."""
    return plan_from_core_ml(ours.plans[0], ours.ops, setting, answer).view()


SEND = "from coremlscope.base.processes.channel import send"


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        ("raise SystemExit('no such chip')", ChildLimits(), "failed: no such chip"),
        ("import time; time.sleep(60)", ChildLimits(silence_s=0.3), "no sign of life for 0.3 s"),
        (
            "import time; x = bytearray(10**8); time.sleep(60)",
            ChildLimits(memory_bytes=5 * 10**6),
            "GB of memory",
        ),
        ("pass", ChildLimits(), "gave no plan"),
        (f"{SEND}; send(others={{}})", ChildLimits(), "gave no plan"),
    ],
)
def test_what_can_go_wrong(code: str, limits: ChildLimits, message: str) -> None:
    skip_unless_limited(limits)
    with pytest.raises(EngineError, match=message):
        ask_core_ml(Path("model.mlpackage"), "all", limits, child(code))


def test_analytics_are_found_below_the_fresh_home() -> None:
    line = 'tensor<fp16, [1]> y = relu(x = x)[BackendSupport = list(), SelectedBackend = string("ane")];'
    text = f"func main<ios18>() {{\n{line}\n"
    code = (
        "import os, sys, pathlib\n"
        "folder = pathlib.Path(os.environ['CFFIXED_USER_HOME'], 'Library', 'Caches', 'x')\n"
        "folder.mkdir(parents=True)\n"
        f"(folder / 'analytics.mil').write_text({text!r})\n"
        f"{SEND}; send(functions={{}})\n"
    )
    answer = ask_core_ml(Path("m"), "all", None, child(code))
    assert [(op.function, op.type, op.selected) for op in answer.analysed] == [("main", "relu", "ane")]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with the functions `sine`, the default one, and `cosine`."""
    path = tmp_path_factory.mktemp("models") / "functions.mlpackage"
    converted_models.sine_and_cosine(path)
    return path


def test_coremltools_plans_the_default_function_only(functions: Path) -> None:
    answer = ask_core_ml(functions, "cpu_only", command=PLAN_CHILD)
    assert {name: bool(ops) for name, ops in answer.functions.items()} == {"sine": True, "cosine": False}


@pytest.mark.parametrize("over", [child_over_dropin, child_over_frameworks])
def test_other_functions_have_plans(
    functions: Path, monkeypatch: pytest.MonkeyPatch, over: Callable[[str], tuple[str, ...]]
) -> None:
    """Without pyobjc the function is copied into a package of its own; with it Core ML is asked by name."""
    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "15"))
    ask = partial(ask_core_ml, command=over("coremlscope.measure.coreml.plan_child:send_plan"))
    monkeypatch.setattr("coremlscope.measure.coreml.plan.ask_core_ml", ask)
    profile = plan_by_core_ml(functions, compute_units="cpu_only")
    assert profile.findings == ()
    units = {(op.function, op.type, op.unit) for op in rows(view_of(profile).plan) if not op.inserted}
    assert units >= {("sine", "sin", CPU), ("cosine", "cos", CPU)}
    weights = {op.weight for op in rows(view_of(profile).plan) if op.type == "cos"}
    assert (weights == {0.125}) == (over is child_over_frameworks)


def test_a_function_without_a_plan_is_a_finding(functions: Path) -> None:
    answer = ask_core_ml(functions, "cpu_only", command=PLAN_CHILD, functions=["tangent"])
    assert answer.functions["sine"]
    (finding,) = plan_findings(answer)
    assert finding.id == "no-core-ml-plan"
    assert "the function tangent" in finding.text
    assert "[mac]'" in finding.hint


def test_without_pyobjc_nothing_is_harmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "CoreML", None)
    assert find_framework() is None


def test_layers_of_a_neural_network_have_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = networks.network({"x": (4,)})
    weights = networks.random(3, 4)
    builder.add_inner_product("dense", weights, None, 4, 3, False, "x", "h")
    builder.add_activation("act", "RELU", "h", "y")
    path = tmp_path / "network.mlmodel"
    ct.models.MLModel(builder.spec, skip_model_load=True).save(str(path))
    monkeypatch.setattr(
        "coremlscope.measure.coreml.plan.ask_core_ml", partial(ask_core_ml, command=PLAN_CHILD)
    )
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "14.5"))
    profile = plan_by_core_ml(path, compute_units="cpu_only")
    assert profile.findings == ()
    # Core ML says nothing of operations that belong to no layer: they are this package's own.
    layers = dict(zip(profile.ops.id, profile.ops.layer, strict=True))
    units = {(layers.get(op.id), op.unit) for op in rows(view_of(profile).plan) if not op.inserted}
    assert units >= {("dense", CPU), ("act", CPU)}
    assert {unit for layer, unit in units if layer} == {CPU}


@pytest.mark.parametrize(
    "brand", ["Intel(R) Core(TM) i9-9980HK CPU @ 2.40GHz", "Apple M99", "Apple M1 (Virtual)"]
)
def test_macs_that_rules_do_not_know(package: Path, monkeypatch: pytest.MonkeyPatch, brand: str) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.plan.processor_name", lambda: brand)
    monkeypatch.setattr("coremlscope.measure.coreml.plan.macos_version", lambda: "26.1")
    monkeypatch.setattr(
        "coremlscope.measure.coreml.plan.ask_core_ml", partial(ask_core_ml, command=PLAN_CHILD)
    )
    profile = plan_by_core_ml(package, compute_units="cpu_only")
    assert [plan.planner for plan in profile.plans] == ["Core ML"]
    assert [finding.id for finding in profile.findings] == ["mac-not-known"]
    assert {op.unit for op in rows(view_of(profile).plan)} == {CPU}
    assert profile.plans[0].os == "macOS 26.1"


def test_this_mac_is_known_by_its_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.plan.processor_name", lambda: "Apple M1")
    monkeypatch.setattr("coremlscope.measure.coreml.plan.macos_version", lambda: "26.0")
    assert (this_mac().chip.id, str(this_mac().os)) == ("m1", "macOS 26")


@pytest.mark.usefixtures("free_units")
def test_a_plan_without_places_says_so(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = PlansOfModel(functions={"main": []}, asked=5)
    monkeypatch.setattr("coremlscope.measure.coreml.plan.ask_core_ml", lambda *_, **__: answer)
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "14.5"))
    profile = plan_by_core_ml(package)
    assert [finding.id for finding in profile.findings] == ["core-ml-plan-empty"]
    assert "no place for any of 5 operations" in profile.plans[0].notes[1]


def test_every_stage_of_a_pipeline_has_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 5))], opset_version=ct.target.iOS16)
    def negated(y: Any) -> Any:
        return mb.mul(x=y, y=-1.0, name="z")

    second = ct.convert(negated, minimum_deployment_target=ct.target.iOS16)
    path = tmp_path / "pipeline.mlpackage"
    ct.utils.make_pipeline(converted_models.mlp(), second).save(str(path))
    archive = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path, path.name))
    monkeypatch.setattr(
        "coremlscope.measure.coreml.plan.ask_core_ml", partial(ask_core_ml, command=PLAN_CHILD)
    )
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "14.5"))
    for source in (path, archive):
        profile = plan_by_core_ml(source, compute_units="cpu_only")
        units = {(op.function, op.unit) for op in rows(view_of(profile).plan) if not op.inserted}
        assert units == {("model0/main", CPU), ("model1/main", CPU)}
