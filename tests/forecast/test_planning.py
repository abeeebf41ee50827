from __future__ import annotations

import pytest
from coremlscope.forecast.planning import plan_model

from coremlscope import ir
from coremlscope.devices import find_device
from coremlscope.errors import UnsupportedModelError
from tests.support import graphs

TYPE = graphs.tensor(1, 8, dtype=ir.DType.FP16)
M1 = find_device("m1", "15")


def program(*functions: str) -> ir.Model:
    def built(name: str) -> ir.Function:
        x, y = graphs.value("x", TYPE), graphs.value("y", TYPE)
        op = ir.Op(id=f"{name}/0", type="relu", inputs={"x": (x,)}, outputs=(y,))
        return ir.Function(name=name, opset="CoreML8", graph=graphs.graph(name, (x,), (op,), (y,)))

    array = ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 8))
    interface = ir.FunctionDescription(inputs=(ir.Feature("x", array),), outputs=(ir.Feature("y", array),))
    description = ir.Description(dict.fromkeys(functions, interface), functions[0])
    return ir.Model(
        spec_version=9,
        description=description,
        content=ir.Program(functions={name: built(name) for name in functions}),
    )


def opaque() -> ir.Model:
    return ir.Model(
        spec_version=1,
        description=ir.Description({"main": ir.FunctionDescription(inputs=(), outputs=())}, "main"),
        content=ir.Opaque("glmRegressor"),
    )


def pipeline(*stages: tuple[str, ir.Model]) -> ir.Model:
    names, models = zip(*stages, strict=True)
    content = ir.Pipeline("pipeline", names, models)
    interface = ir.FunctionDescription(inputs=program("main").description.main.inputs, outputs=())
    return ir.Model(spec_version=2, description=ir.Description({"main": interface}, "main"), content=content)


def test_every_function_is_planned() -> None:
    plan = plan_model(program("encode", "decode"), M1, "cpu_and_ne")
    assert list(plan.functions) == ["encode", "decode"]
    assert [op.id for op in plan.functions["decode"].ops] == ["decode/input", "decode/0"]
    assert plan.settings == ("cpu_and_ne",)


def test_every_setting_is_planned_with_the_wanted_one_first() -> None:
    plan = plan_model(program("main"), M1, "cpu_only", every_setting=True)
    assert plan.settings == ("cpu_only", "all", "cpu_and_ne", "cpu_and_gpu")
    assert set(plan.functions["main"].ops[1].choices) == set(plan.settings)


def test_stages_of_a_pipeline_are_planned_apart() -> None:
    inner = pipeline(("last", program("main")))
    plan = plan_model(pipeline(("first", program("main")), ("", opaque()), ("more", inner)), M1)
    assert list(plan.functions) == ["first/main", "more/last/main"]
    assert [op.id for op in plan.functions["more/last/main"].ops] == [
        "more/last/main/input", "more/last/main/0",
    ]  # fmt: skip
    assert plan.notes == ("model1 is a model of the kind glmRegressor, which Core ML runs on the CPU",)


def test_a_classical_model_has_no_plan() -> None:
    with pytest.raises(UnsupportedModelError, match="glmRegressor has no operations to plan"):
        plan_model(opaque(), M1)


def test_large_gpus_are_remarked_on() -> None:
    device = find_device("m5-max")
    assert "GPU" in plan_model(program("main"), device, "all").notes[0]
    assert plan_model(program("main"), device, "cpu_and_ne").notes == ()
    assert plan_model(program("main"), M1, "all").notes == ()


def test_the_published_network(corpus) -> None:
    """The plan of an M1 with macOS 14.5, operation by operation."""
    from benchmarks.plan.agreement import compare_network
    from benchmarks.plan.published import FOLDER

    if not FOLDER.is_dir():
        pytest.skip("no published plans")
    for found in compare_network():
        assert found.misses == []
        assert found.total > 50
