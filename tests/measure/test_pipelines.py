"""Pipelines in profiles, summaries, plans and estimates: one table, joined by ids that name the stage."""

from __future__ import annotations

import json

import msgspec.structs
import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import InputError, MissingWeightsError, UnsupportedModelError, UsageError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.measure.embedded.interleaved import ROUNDS, time_interleaved
from coremlscope.model import ir
from coremlscope.model.schema import message_class
from coremlscope.results.encoding import decode
from coremlscope.results.measurement import Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support.ir_models import absent_weights, array_feature, perceptron
from tests.support.measuring import joined_rows, measure, op_ids
from tests.support.pipelines import arithmetic, image_feature, pipeline, scene_print, tripler
from tests.support.planned_rows import rows

A = [array_feature("a", (3,))]
QUICK = Settings(iterations=4, compile_iterations=1, load_iterations=1, warmups=1)
BUILD_S, RUN_S = 0.5, 0.125


def _outputs(*names: str) -> list[ir.Feature]:
    return [array_feature(name, (3,)) for name in names]


def _chain() -> ir.Model:
    """Two operations, the second in a pipeline of its own."""
    inner = pipeline(_outputs("b"), _outputs("c"), arithmetic("add", "c", "b"), names=("plus",))
    return pipeline(A, _outputs("c"), arithmetic("mul", "b", "a"), inner)


def _standing() -> ir.Model:
    source, target = (array_feature(name, (2048,), ir.DType.FP64) for name in ("print", "y"))
    return pipeline([image_feature("image")], [target], scene_print(), tripler(source, target))


def _measure(model: ir.Model, request: Settings = QUICK, **more: object) -> Profile:
    engine = ScriptedEngine(
        clock=ScriptedClock(),
        build_s=BUILD_S,
        run_s=(RUN_S,),
        node_s={"model0/main/0/Mul:0": (0.1875,), "model1/plus/main/0/Add:0": (0.0625,)},
    )
    return measure(model, request, engine=engine, clock=engine.clock, **more)  # type: ignore[arg-type]


def test_one_profile_for_all_stages() -> None:
    profile = _measure(_chain())
    assert profile.measurement.compile.samples_s == (2 * BUILD_S,)
    assert profile.measurement.predict.samples_s == (2 * RUN_S,) * 4
    assert [(row.id, row.function, row.type, row.status) for row in joined_rows(profile)] == [
        ("model0/main/0", "model0/main", "mul", "timed"),
        ("model1/plus/main/0", "model1/plus/main", "add", "timed"),
    ]
    assert [
        (g.label, op_ids(profile, g), g.wall_s, g.share, g.stage) for g in profile.measurement.groups
    ] == [
        ("mul", ("model0/main/0",), 0.1875, 0.75, "model0"),
        ("add", ("model1/plus/main/0",), 0.0625, 0.25, "model1/plus"),
    ]
    assert [(s.name, s.run_s, s.convert_s, s.operations_s) for s in profile.measurement.stages] == [
        ("model0", RUN_S, 0.0, 0.1875),
        ("model1/plus", RUN_S, 0.0, 0.0625),
    ]
    nodes = profile.measurement.nodes
    assert (nodes.run_s, nodes.nodes_s, nodes.profiler_overhead_s) == (0.25, 0.25, 0.0)
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


def test_a_stage_that_is_not_run_is_a_row_and_a_finding() -> None:
    profile = _measure(_standing())
    first, second = joined_rows(profile)
    assert (first.id, first.type, first.status, first.group) == (
        "model0/main",
        "visionFeaturePrint",
        "not run",
        -1,
    )
    assert (first.flops, first.outputs) == (None, ("float64 2048",))
    assert (second.id, second.status) == ("model1/main/0", "timed")
    (finding,) = [f for f in profile.all_findings if f.id == "stage-not-run"]
    assert finding.text.startswith("The stage model0 (Vision feature print) was not run, because its network")
    assert (finding.severity, finding.ops) == ("warning", ("model0/main",))
    assert "operations-not-run" not in {f.id for f in profile.all_findings}
    assert [(s.name, s.run_s, bool(s.absent)) for s in profile.measurement.stages] == [
        ("model0", None, True),
        ("model1", RUN_S, False),
    ]
    work = profile.model.main.work
    assert work is not None
    assert not work.is_complete


def test_rounding_speaks_of_every_stage() -> None:
    features = [array_feature(name, (3,), ir.DType.FP16) for name in "abc"]
    stages = [tripler(features[i], features[i + 1], ir.DType.FP16) for i in range(2)]
    given = pipeline(features[:1], features[2:], *stages)
    request = msgspec.structs.replace(QUICK, precision="fp16")
    profile = measure(given, request, inputs={"a": np.float32([1, 2, 20000])})
    assert [row.fp16_overflows for row in joined_rows(profile)] == [0, 1]
    found = {f.id: f for f in profile.all_findings if f.severity == "warning"}
    assert found["fp16-overflow"].ops == ("model1/main/0",)


def test_inputs_shapes_and_weights() -> None:
    flexible = ir.RangeShapes(((4, 9), (6, 9)))
    image, last = (image_feature(name, "RGB", flexible) for name in ("image", "last"))
    given = pipeline([image], [last], tripler(image, last))
    profile = _measure(given, msgspec.structs.replace(QUICK, shapes={"image": (5, 8)}))
    assert list(profile.ops.outputs) == [("tensor<fp32, [1, 3, 5, 8]>",)]
    by_value = _measure(_chain(), inputs={"a": np.ones(3, np.float32)})
    assert by_value.measurement.settings.inputs == ("a",)
    with pytest.raises(InputError, match="does not allow"):
        _measure(given, msgspec.structs.replace(QUICK, shapes={"image": (1, 8)}))
    with pytest.raises(UsageError, match="unknown function 'other'"):
        _measure(given, msgspec.structs.replace(QUICK, function="other"))
    hollow = absent_weights(perceptron())
    interface = hollow.description.main
    whole = pipeline(interface.inputs, interface.outputs, hollow)
    with pytest.raises(MissingWeightsError, match="in the stage 'model0' of the pipeline"):
        _measure(whole)
    made = _measure(whole, msgspec.structs.replace(QUICK, random_weights=True))
    assert "random-weights" in {f.id for f in made.all_findings}


def test_operations_that_stages_share_a_status_with() -> None:
    """Operations that engines remove at the start of a stage are folded, as in a single model."""
    x, y = array_feature("x", (3,)), array_feature("y", (3,))
    value, same = (ir.Value(name, ir.TensorType(ir.DType.FP32, (3,))) for name in "xy")
    row = ir.Op(id="main/0", type="identity", inputs={"x": (value,)}, outputs=(same,))
    function = ir.Function(
        name="main",
        opset="CoreML8",
        graph=ir.Graph(name="main", inputs=(value,), ops=(row,), outputs=(same,)),
    )
    interface = ir.FunctionDescription(inputs=(x,), outputs=(y,))
    stage = ir.Model(
        spec_version=9,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": function}),
    )
    single, whole = measure(stage, QUICK), measure(pipeline([x], [y], stage), QUICK)
    assert single.measurement.status == whole.measurement.status


def test_a_summary_tells_of_every_stage() -> None:
    summary = describe_model(_standing(), list_ops=True)
    first, second = summary.stages
    assert (first.name, first.kind, first.operations) == ("model0", "visionFeaturePrint", None)
    assert dict(first.facts) == {
        "extractor": "scene, version 1",
        "looks at": "an image of 299×299 pixels",
    }
    assert first.absent
    assert (second.operations, second.inputs) == (1, (("print", "float64 2048"),))
    assert [row.id for row in summary.ops] == ["model0/main", "model1/main/0"]
    assert summary.main.ops == {"mul": 1}
    assert decode(json.loads(json.dumps(summary.to_json())), ModelSummary) == summary


def test_operations_are_linked_across_stages() -> None:
    assert [row.inputs for row in describe_model(_chain(), list_ops=True).ops] == [(), (0,)]
    assert [row.inputs for row in describe_model(_standing(), list_ops=True).ops] == [(), (0,)]
    assert _measure(_chain()).ops.inputs == ((), (0,))
    assert _measure(_standing()).ops.inputs == ((), (0,))


def test_parameters_of_all_stages_are_counted() -> None:
    stage = perceptron()
    interface = stage.description.main
    summary = describe_model(pipeline(interface.inputs, interface.outputs, stage))
    assert summary.parameters == 64 * 64
    assert summary.stages[0].parameters == 64 * 64


def test_a_model_of_the_system_tells_all_that_its_file_holds() -> None:
    spec = message_class("Model")(
        specificationVersion=4,
        description={"output": [{"name": "words", "type": {"stringType": {}}}]},
        wordTagger={
            "revision": 3,
            "modelParameterData": bytes(1500),
            "stringTags": {"vector": ["A", "B"]},
            "tokensOutputFeatureName": "words",
        },
    )
    summary = describe_model(container.read(spec.SerializeToString()))
    assert dict(summary.facts) == {
        "revision": "3",
        "language": "unspecified",
        "data": "1.50 kB",
        "tokens in": "words",
        "to run it": "an app on an Apple device runs it with NLModel of the Natural Language framework",
    }
    assert summary.labels is not None
    assert summary.labels.first == ("A", "B")
    assert "Natural Language" in summary.absent


def test_plans_and_profiles_join_by_id() -> None:
    given = _chain()
    planned = api.plan(given, "m1", os="15")
    view = planned.plans[0].view()
    profile = _measure(given)
    assert set(profile.ops.id) <= {op.id for op in rows(view.plan, view.compute_units)}
    assert set(profile.ops.function) == set(view.plan.functions())
    assert profile.ops == planned.ops


def test_plans_and_estimates_say_what_they_lack() -> None:
    source, target = array_feature("print", (2048,), ir.DType.FP32), array_feature("y", (2048,))
    given = pipeline([image_feature("image")], [target], scene_print(), tripler(source, target))
    (plan,) = api.plan(given, "m1", os="15").plans
    assert "model0 (Vision feature print)" in plan.notes[0]
    (estimated,) = api.estimate(given, "m1").estimates
    assert estimated.left_out == ("model0 (Vision feature print)",)


def test_pipelines_are_timed_interleaved() -> None:
    engine = ScriptedEngine(clock=ScriptedClock(), run_s=(RUN_S,))
    quick = msgspec.structs.replace(QUICK, iterations=ROUNDS)
    models = [_chain(), _standing()]
    first, second = time_interleaved(models, [quick, quick], engine=engine, clock=engine.clock)
    assert first == [(2 * RUN_S,)] * ROUNDS
    assert second == [(RUN_S,)] * ROUNDS


def test_pipelines_without_known_stages_are_not_estimated() -> None:
    first = scene_print()
    interface = first.description.main
    given = pipeline(interface.inputs, interface.outputs, first)
    with pytest.raises(UnsupportedModelError, match=r"these stages .*: model0 \(Vision feature print\)"):
        api.estimate(given, "m1")
