"""Plans of whole models: every function, every stage, every setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope import api
from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.describe.model import list_operations
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.model import ir
from coremlscope.planning.forecast.functions import planned_functions
from coremlscope.planning.forecast.planner import forecast, place_functions, plan_functions
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import PlanView
from coremlscope.runtime.execution.wiring import bind_functions
from tests.support import graphs
from tests.support.planned_rows import rows

TYPE = graphs.tensor(1, 8, dtype=ir.DType.FP16)
M1 = find_device("m1", "15")


def program(*functions: str, kind: str = "relu", size: int = 8) -> ir.Model:
    type_ = graphs.tensor(1, size, dtype=ir.DType.FP16)

    def built(name: str) -> ir.Function:
        x, y = graphs.value("x", type_), graphs.value("y", type_)
        op = ir.Op(id=f"{name}/0", type=kind, inputs={"x": (x,)}, outputs=(y,))
        return ir.Function(name=name, opset="CoreML8", graph=graphs.graph(name, (x,), (op,), (y,)))

    array = ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, size))
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


def plan(
    model: ir.Model, device: str = "m1", setting: ComputeUnits = "all", os: str | None = "15"
) -> PlanView:
    """The plan under one setting."""
    profile = api.plan(model, device, os=os, compute_units=setting)
    return profile.plans[0].view()


def ids(view: PlanView) -> dict[str, list[str]]:
    return {name: [op.id for op in ops] for name, ops in view.plan.functions().items()}


def test_every_function_is_planned() -> None:
    view = plan(program("encode", "decode"), setting="cpu_and_ne")
    assert ids(view) == {"encode": ["encode/input", "encode/0"], "decode": ["decode/input", "decode/0"]}
    assert list(view.setting.functions) == ["encode", "decode"]
    assert [setting.compute_units for setting in view.plan.settings] == ["cpu_and_ne"]
    assert (view.plan.device, view.plan.os, view.plan.planner) == ("M1", "macOS 15", "rules")


def test_the_default_function_comes_first() -> None:
    model = program("encode", "decode")
    default = ir.Description(model.description.functions, "decode")
    other = ir.Model(spec_version=9, description=default, content=model.content)
    profile = api.plan(other, "m1")
    assert profile.ops.id == ("decode/0", "encode/0")
    plan = profile.plans[0]
    assert [op.id for op in plan.ops if op.inserted] == [
        "decode/input",
        "decode/output",
        "encode/input",
        "encode/output",
    ]
    # What Core ML inserts stays with its function.
    functions = [op.function for op in rows(plan)]
    assert functions == ["decode"] * 3 + ["encode"] * 3


def test_one_function_is_planned_where_it_is_named() -> None:
    model = program("encode", "decode")
    ops = list_operations(model, functions=["decode"])
    found = forecast(model, ops, [M1], function="decode")
    assert list(found.plans[0].settings[0].functions) == ["decode"]
    assert [kernel.ops for kernel in found.kernels] == [(0,)]
    with pytest.raises(UsageError, match="absent"):
        forecast(model, ops, [M1], function="absent")


def test_every_setting_is_planned_with_the_requested_one_first() -> None:
    model = program("main")
    settings: tuple[ComputeUnits, ...] = ("cpu_only", "all", "cpu_and_ne", "cpu_and_gpu")
    found = forecast(model, list_operations(model), [M1], settings)
    assert tuple(setting.compute_units for setting in found.plans[0].settings) == settings
    assert tuple(estimate.compute_units for estimate in found.estimates) == settings
    placed = place_functions(model, M1, settings)
    assert set(placed["main"].ops[1].choices) == set(settings)


def test_stages_of_a_pipeline_are_planned_apart() -> None:
    inner = pipeline(("last", program("main")))
    view = plan(pipeline(("first", program("main")), ("", opaque()), ("more", inner)))
    assert list(view.plan.functions()) == list(view.setting.functions) == ["first/main", "more/last/main"]
    assert ids(view)["more/last/main"] == ["more/last/main/input", "more/last/main/0"]
    assert view.plan.notes == (
        "on the CPU, as a whole, without operations to plan: model1 (generalized linear regressor)",
    )


def test_a_model_without_operations_runs_on_the_cpu() -> None:
    found = forecast(opaque(), OpTable(), [M1], with_estimates=False)
    assert found.plans[0].notes == (
        "Core ML runs a generalized linear regressor on the CPU, as a whole; it has no operations to plan",
    )
    with pytest.raises(
        UnsupportedModelError, match="the latency of a generalized linear regressor cannot be estimated"
    ):
        forecast(opaque(), OpTable(), [M1])


def test_without_estimates_nothing_is_fused() -> None:
    model = program("main")
    found = forecast(model, list_operations(model), [M1], with_estimates=False)
    assert (found.kernels, found.estimates) == ((), ())
    assert len(found.plans) == 1


def test_devices_that_place_alike_keep_their_own_names() -> None:
    model = program("main")
    devices = [find_device("m1", "15"), find_device("m1-max", "15"), find_device("iphone-12")]
    found = forecast(model, list_operations(model), devices)
    assert [plan.device for plan in found.plans] == [device.name for device in devices]
    assert [plan.chip for plan in found.plans] == ["m1", "m1-max", "a14"]
    assert [(e.device, e.os) for e in found.estimates] == [(p.device, p.os) for p in found.plans]


def test_plans_name_the_chips_of_their_rates() -> None:
    model = program("main")
    assert plan(model, "m4-pro", "all", None).plan.cost_model.startswith("rates of M4 Pro, macOS 26.5.1; ")
    assert plan(model, "m5-max", "all", None).plan.cost_model.startswith("rates transferred from M4")


@pytest.mark.corpus
def test_the_published_network(corpus: Path) -> None:
    """The plan of an M1 with macOS 14.5, operation by operation."""
    from benchmarks.plan.agreement import compare_network

    for found in compare_network():
        assert found.misses == []
        assert found.total > 50


def test_equal_operations_share_their_costs() -> None:
    x, y, z = (graphs.value(name, TYPE) for name in "xyz")
    ops = [
        ir.Op(id=f"main/{index}", type="relu", inputs={"x": (given,)}, outputs=(result,))
        for index, (given, result) in enumerate(((x, y), (y, z)))
    ]
    model = program("main")
    main = ir.Function(name="main", opset="CoreML8", graph=graphs.graph("main", (x,), ops, (z,)))
    both = replace(model, content=ir.Program(functions={"main": main}))
    planned, _ = plan_functions(planned_functions(bind_functions(both, every=True)), M1, "all")
    prices = planned["main"].prices
    assert prices["main/0"] is prices["main/1"]
    first, second = (op for op in planned["main"].placed.ops if not op.inserted)
    assert first.cost_ms is second.cost_ms


def test_what_reasons_cost_is_estimated_for_every_function() -> None:
    view = plan(program("encode", "decode", kind="exp", size=8192))
    assert {one.function for one in view.setting.what_ifs} == {"encode", "decode"}
    assert all(one.saved_s is not None for one in view.setting.what_ifs)
    # Costs that differ by less than a nanosecond are equal.
    assert not plan(program("encode", kind="exp")).setting.what_ifs
