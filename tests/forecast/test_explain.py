"""Explanations of single operations of a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE
from coremlscope.model import ir
from coremlscope.planning.forecast import explain as forecast_explain
from coremlscope.planning.patterns.rule import weight
from coremlscope.planning.placement.catalog import find_rule, list_rules
from coremlscope.results.explanation import Explanation, Explanations
from tests.forecast.test_planner import opaque, program
from tests.support import graphs
from tests.support.planned_rows import rows

_TYPE = graphs.tensor(1, 64, 64, 64, dtype=ir.DType.FP16)


def model(*kinds: str) -> ir.Model:
    """A chain of operations on 512 kB."""
    x = given = graphs.value("image", _TYPE)
    ops = []
    for index, kind in enumerate(kinds):
        y = graphs.value(f"{kind}_{index}", _TYPE)
        more: dict[str, ir.Argument] = {"alpha": ir.constant(1.0)} if kind == "cumsum" else {}
        if kind == "conv":
            more = {"weight": weight(64, 64, 3, 3), "pad_type": ir.constant("same")}
        ops.append(graphs.op(kind, y, x=x, **more))
        x = y
    return _model(given, ops, [x])


def _model(given: ir.Value, ops: Sequence[ir.Op], results: Sequence[ir.Value]) -> ir.Model:
    graph = graphs.graph("main", (given,), tuple(ops), tuple(results))
    function = ir.Function(name="main", opset="CoreML8", graph=graph)
    description = ir.Description({"main": ir.FunctionDescription(inputs=(), outputs=())}, "main")
    return ir.Model(spec_version=9, description=description, content=ir.Program(functions={"main": function}))


CHAIN = model("exp", "tan", "exp", "relu")


def explain(op: str, **options: object) -> Explanations:
    return forecast_explain.explain(CHAIN, op, "m4", compute_units="cpu_and_ne", **options)  # type: ignore[arg-type]


def one(op: str) -> Explanation:
    (found,) = explain(op).ops
    return found


@pytest.mark.parametrize("wanted", ["tan_1", "tan"])
def test_an_operation_is_found_by_its_id_name_or_type(wanted: str) -> None:
    assert one(wanted).id == one(one(wanted).id).id
    assert (one(wanted).type, one(wanted).name) == ("tan", "tan_1")


def test_a_type_selects_several_operations_the_costliest_first() -> None:
    assert [found.name for found in explain("exp").ops] == ["exp_0", "exp_2"]
    many = forecast_explain.explain(model(*["exp"] * 8), "exp", "m4")
    assert (len(many.ops), many.left_out) == (5, 3)


def test_an_unknown_name_suggests_others() -> None:
    with pytest.raises(UsageError, match="no planned operation has the id, name or type 'tan_2'") as raised:
        explain("tan_2")
    assert "tan_1" in (raised.value.hint or "")
    with pytest.raises(UsageError):
        explain("")


def test_what_is_known_before_run_time_is_part_of_the_operation_that_reads_it() -> None:
    x, doubled, y = (graphs.value(name, _TYPE) for name in ("x", "doubled", "y"))
    half = ir.constant(np.ones((1, 64, 64, 64), np.float16))
    ops = graphs.op("add", doubled, x=half, y=half), graphs.op("mul", y, x=x, y=doubled)
    (found,) = forecast_explain.explain(_model(x, ops, [y]), "doubled", "m4").ops
    assert (found.type, found.part) == ("mul", "doubled")


def test_a_model_without_operations_is_not_searched() -> None:
    with pytest.raises(UnsupportedModelError, match="no operations to plan"):
        forecast_explain.explain(opaque(), "x", "m4")


def test_paths_count_all_operations_of_the_plan() -> None:
    short = program("main", kind="exp")
    (found,) = forecast_explain.explain(short, "exp", "m4").ops
    planned = api.plan(short, "m4")
    count = len(rows(planned.plans[0]))
    assert planned.plans[0].ops[-1].type == "tensor_to_tensor_buffer"
    assert sum(step.count for step in found.path) == count
    others = [forced.path for forced in found.forced if not forced.is_chosen]
    assert [sum(step.count for step in path) for path in others] == [count, count]


def test_costs_have_rates_with_their_source() -> None:
    found = one("exp_0")
    assert [cost.backend for cost in found.costs] == ["bnns", "classic_cpu", "mps_graph", "ane"]
    for cost in found.costs:
        assert cost.low_ms <= cost.planned_ms <= cost.high_ms
        assert cost.rate.endswith("G bytes a second (bytes)")
        assert cost.rate_source.startswith("plans on M")
    assert [cost.is_supported for cost in one("tan_1").costs] == [True, True, True, False]


def test_rates_of_thousands_are_written_in_full() -> None:
    found = next(op for op in forecast_explain.explain(model("conv"), "conv", "m4").ops if op.type == "conv")
    rates = {cost.backend: cost.rate for cost in found.costs}
    assert rates["ane"] == "16,152 G operations a second (convolution, dense)"
    assert rates["bnns"] == "754.5 G operations a second (convolution, dense)"


def test_rules_are_told_with_confidence_and_source() -> None:
    rules = one("tan_1").rules
    assert {rule.reason.unit for rule in rules} == {CPU, GPU, NEURAL_ENGINE}
    (rejected,) = (rule for rule in rules if rule.reason.effect == "rejects")
    assert (rejected.reason.rule, rejected.counts) == ("ne-tan", True)
    assert rejected.reason.source
    assert all(rule.counts for rule in rules if rule.reason.unit == CPU)


def _searched(*kinds: str) -> ir.Model:
    """Places of the extremes along the channels, each found by an operation of one type."""
    place = graphs.tensor(1, 1, 64, 64, dtype=ir.DType.INT32)
    x, results = graphs.value("image", _TYPE), [graphs.value(kind, place) for kind in kinds]
    more = {"axis": ir.constant(1), "keep_dims": ir.constant(True)}
    ops = [graphs.op(kind, result, x=x, **more) for kind, result in zip(kinds, results, strict=True)]
    return _model(x, ops, results)


def test_what_a_trait_lends_is_by_analogy_everywhere() -> None:
    """Published plans hold an arg-max with int32 results; the rule reaches arg-min through the trait."""
    measured, lent = "reduce_argmax", "reduce_argmin"
    found = _searched(measured, lent)
    for kind, confidence in ((measured, "measured"), (lent, "by analogy")):
        one = next(one for one in forecast_explain.explain(found, kind, "m4").ops if one.type == kind)
        reasons = {rule.reason.rule: rule.reason for rule in one.rules}
        assert reasons["ne-argument-place"].confidence == confidence
        (entry,) = (entry for entry in list_rules(op=kind) if entry.id == "ne-argument-place")
        assert entry.confidence == confidence
    assert find_rule("ne-argument-place").by_analogy == (lent,)
    told = {
        op.type: reason.confidence
        for op in api.plan(found, "m4").plans[0].ops
        for reason in op.why
        if reason.rule == "ne-argument-place"
    }
    assert told == {measured: "measured", lent: "by analogy"}
    group = {
        kind: next(
            one
            for one in api.plan(model, "m4").plans[0].settings[0].what_ifs
            if one.rule == "ne-argument-place"
        )
        for kind, model in ((measured, _searched(measured)), ("both", found))
    }
    assert {kind: one.confidence for kind, one in group.items()} == {
        measured: "measured",
        "both": "by analogy",
    }


def test_the_plan_if_an_operation_had_to_run_elsewhere() -> None:
    found = one("tan_1")
    forced = {item.unit: item for item in found.forced}
    assert found.unit == CPU
    assert (forced[CPU].is_chosen, forced[CPU].path) == (True, ())
    assert (forced[GPU].is_allowed, forced[GPU].path) == (False, ())
    engine = forced[NEURAL_ENGINE]
    assert (engine.is_supported, engine.is_allowed) == (False, True)
    assert engine.planned_ms == pytest.approx(found.planned_ms + engine.more_ms)
    (step,) = (step for step in engine.path if step.holds_it)
    assert step.unit == NEURAL_ENGINE
    assert sum(step.count for step in engine.path) == sum(step.count for step in found.path)
    assert engine.more_s is not None
    assert engine.more_s.low <= engine.more_s.value <= engine.more_s.high
