from __future__ import annotations

import pytest

from coremlscope.base.findings import CONFIDENCES, Confidence
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, find_device
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.traits import Trait
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphRule,
    ProgramFacts,
    Rule,
    RuleContext,
    Scope,
    example_view,
    fp16,
)
from coremlscope.planning.placement import eligibility
from coremlscope.planning.placement.coreml_view import CoreMLGraph, view_function
from coremlscope.planning.placement.eligibility import apply, judge, judge_op
from tests.support import graphs

DEVICE = find_device("m1", "15")
_EXAMPLES = (Example("relu", {"x": fp16(1, 8)}),)
RELU = example_view(_EXAMPLES[0])


def rule(effect, confidence="measured", ops=EVERY_OP, when=lambda view, context: True, **more) -> Rule:
    id_ = more.pop("id", f"{effect}-{confidence}")
    return Rule(
        id=id_,
        unit=NEURAL_ENGINE,
        ops=ops,
        when=when,
        message="says {detail}",
        source="a test",
        confidence=confidence,
        effect=effect,
        **more,
    )


def verdict(*rules: Rule):
    return judge_op(RELU, RuleContext.on(DEVICE), rules)[NEURAL_ENGINE]


def test_without_a_rule_nothing_is_known() -> None:
    assert verdict().supported == "unknown"
    assert verdict(rule("advises")).supported == "unknown"


def test_a_rejection_overrides_a_rule_that_runs() -> None:
    assert verdict(rule("runs")).supported == "yes"
    rejected = verdict(rule("runs"), rule("rejects", "static analysis"))
    assert rejected.supported == "no"
    assert [reason.rule for reason in rejected.reasons] == ["rejects-static analysis"]


def test_an_anecdote_alone_is_a_doubt() -> None:
    doubted = verdict(rule("runs"), rule("rejects", "anecdotal"))
    assert (doubted.supported, doubted.reasons) == ("yes", ())
    assert [reason.rule for reason in doubted.doubts] == ["rejects-anecdotal"]
    beside = verdict(rule("runs"), rule("rejects", "anecdotal"), rule("rejects"))
    assert (beside.supported, beside.doubts) == ("no", ())
    assert [reason.rule for reason in beside.reasons] == ["rejects-measured"]
    unsure = verdict(rule("runs", "anecdotal"))
    assert (unsure.supported, [reason.rule for reason in unsure.doubts]) == ("yes", ["runs-anecdotal"])
    assert verdict(rule("runs", "anecdotal"), rule("runs")).doubts == ()
    assert verdict(rule("runs", "anecdotal"), rule("rejects", "anecdotal")).supported == "no"


def test_all_reasons_are_given() -> None:
    several = [rule("rejects", id="one"), rule("fails", id="two"), rule("rejects", "documented", id="three")]
    assert [reason.rule for reason in verdict(*several).reasons] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("confidence", "against", "supported"),
    [
        ("measured", "documented", "yes"),
        ("documented", "measured", "no"),
        ("measured", "measured", "no"),
        ("static analysis", "anecdotal", "yes"),
    ],
)
def test_a_confirmation_overrides_lower_confidence(confidence, against, supported) -> None:
    assert verdict(rule("confirms", confidence), rule("rejects", against)).supported == supported


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_only_what_was_measured_on_others_of_a_kind_is_by_analogy(confidence: Confidence) -> None:
    lending = rule("advises", confidence, ops=(Trait.ACTIVATION, "gelu"), applies_to=_EXAMPLES)
    assert [lending.confidence_of(op) for op in ("relu", "gelu")] == [confidence] * 2
    assert lending.confidence_of("tanh") == ("by analogy" if confidence == "measured" else confidence)
    assert rule("advises", confidence, ops=EVERY_OP).confidence_of("tanh") == confidence


def test_the_detail_of_an_operation_is_in_the_message() -> None:
    detailed = verdict(rule("rejects", when=lambda view, context: f"{view.shape('x')[1]} columns"))
    assert detailed.reasons[0].text == "says 8 columns"
    plain = verdict(rule("rejects"))
    assert plain.reasons[0].text == "says"


def test_a_rule_that_needs_an_absent_argument_does_not_apply() -> None:
    missing = rule("rejects", when=lambda view, context: view.integer("axis") > 0)
    assert apply(missing, RELU, RuleContext.on(DEVICE)) is False
    unknown = rule("rejects", when=lambda view, context: bool(view.value("x").any()))
    assert apply(unknown, RELU, RuleContext.on(DEVICE)) is False


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        (Scope(), True),
        (Scope(chips=("m1",)), True),
        (Scope(chips=("m1-max",)), False),
        (Scope(neural_engine=(13, 13)), True),
        (Scope(neural_engine=(14, None)), False),
        (Scope(neural_engine=(None, 12)), False),
        (Scope(since=(18, 0)), True),
        (Scope(since=(26, 0)), False),
        (Scope(before=(18, 0)), False),
        (Scope(before=(18, 1)), True),
    ],
)
def test_scopes(scope: Scope, holds: bool) -> None:
    assert scope.holds(DEVICE.chip, DEVICE.os) is holds


def test_families_include_their_variants() -> None:
    chip = find_device("m1-max").chip
    assert Scope(chips=("m1",)).holds(chip, DEVICE.os)
    assert not Scope(chips=("m2",)).holds(chip, DEVICE.os)


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[object, ...]]:
    tables: dict[str, tuple[object, ...]] = {"RULES": (), "GRAPH_RULES": ()}

    class Tables(dict[str, tuple[object, ...]]):
        def __setitem__(self, name: str, value: tuple[object, ...]) -> None:
            monkeypatch.setattr(eligibility, name, value)
            super().__setitem__(name, value)

    return Tables(tables)


def chain() -> CoreMLGraph:
    type_ = graphs.tensor(1, 8, dtype=ir.DType.FP16)
    x, y, z = (graphs.value(name, type_) for name in "xyz")
    ops = (graphs.op("relu", y, x=x), graphs.op("abs", z, x=y))
    function = ir.Function(name="main", opset="CoreML8", graph=graphs.graph("main", (x,), ops, (z,)))
    return view_function(bind(function, OPS, None), DEVICE.os)


def test_rules_about_one_operation_do_not_affect_others(rules) -> None:
    rules["RULES"] = (rule("runs"), rule("rejects", ops=("abs",)))
    rules["GRAPH_RULES"] = ()
    found = judge(chain(), DEVICE, ProgramFacts())
    assert {id_: by_unit[NEURAL_ENGINE].supported for id_, by_unit in found.items()} == {
        "main/input": "yes",
        "y": "yes",
        "z": "no",
    }
    assert found["y"][GPU].supported == "unknown"
    assert found["y"][CPU].supported == "unknown"


def test_rules_see_producers_and_consumers(rules) -> None:
    def fed_by_relu(view, context):
        producer = context.producers.get(view.op.inputs["x"][0].name)
        return producer is not None and producer.op.type == "relu"

    rules["RULES"] = (rule("runs"), rule("rejects", ops=("abs", "relu"), when=fed_by_relu))
    rules["GRAPH_RULES"] = ()
    found = judge(chain(), DEVICE, ProgramFacts())
    assert [found[id_][NEURAL_ENGINE].supported for id_ in ("y", "z")] == ["yes", "no"]


def graph_rule(effect: str) -> GraphRule:
    def find(context):
        return {id_: "too long" for id_, view in context.ops if view.op.type == "abs"}

    return GraphRule(
        id="whole",
        unit=NEURAL_ENGINE,
        find=find,
        message="graph {detail}",
        source="a test",
        confidence="measured",
        effect=effect,
    )


def test_rules_of_a_graph_add_their_reasons(rules) -> None:
    rules["RULES"] = (rule("runs"),)
    rules["GRAPH_RULES"] = (graph_rule("rejects"),)
    found = judge(chain(), DEVICE, ProgramFacts())
    assert [reason.text for reason in found["z"][NEURAL_ENGINE].reasons] == ["graph too long"]
    assert found["y"][NEURAL_ENGINE].supported == "yes"
    rules["GRAPH_RULES"] = (graph_rule("advises"),)
    found = judge(chain(), DEVICE, ProgramFacts())
    assert found["z"][NEURAL_ENGINE].supported == "yes"
    assert [reason.rule for reason in found["z"][NEURAL_ENGINE].advice] == ["whole"]


def test_a_failure_of_one_operation_affects_all(rules) -> None:
    rules["RULES"] = (rule("runs"), rule("fails", ops=("abs",), id="breaks"))
    rules["GRAPH_RULES"] = ()
    found = judge(chain(), DEVICE, ProgramFacts())
    assert {by_unit[NEURAL_ENGINE].supported for by_unit in found.values()} == {"no"}
    assert [reason.rule for reason in found["y"][NEURAL_ENGINE].reasons] == ["breaks"]
    assert "because of z" in found["y"][NEURAL_ENGINE].reasons[0].text
