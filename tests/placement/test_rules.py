"""Every rule applies to its examples and not to its negative examples."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coremlscope.base.errors import MissingWeightsError
from coremlscope.base.findings import CONFIDENCES
from coremlscope.devices import UNITS, all_chips, find_device
from coremlscope.model.ir import Array, Constant, DType, TensorType
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import always
from coremlscope.planning.patterns.rule import (
    Example,
    GraphExample,
    GraphRule,
    ProgramFacts,
    Result,
    Rule,
    RuleContext,
    boolean,
    example_view,
    fp16,
    fp32,
    int32,
    weight,
)
from coremlscope.planning.patterns.verdict import Reason, Verdict
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.eligibility import apply, judge
from coremlscope.planning.placement.rules import GRAPH_RULES as CORE_ML_GRAPH_RULES
from coremlscope.planning.placement.rules import RULES as CORE_ML_RULES
from coremlscope.planning.placement.rules import core_ai, join_rules

RULES = (*CORE_ML_RULES, *core_ai.OWN_RULES)
GRAPH_RULES = (*CORE_ML_GRAPH_RULES, *core_ai.OWN_GRAPH_RULES)
_PREFIX = {"neural_engine": "ne-", "gpu": "gpu-", "cpu": "cpu-"}


def _context(example: Example) -> RuleContext:
    return RuleContext.on(find_device(example.chip, example.os), example.facts)


def _holds(rule: Rule, example: Example) -> bool | str:
    return apply(rule, example_view(example), _context(example))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_examples(rule: Rule) -> None:
    assert rule.applies_to
    assert rule.negative_examples or rule.when is always, "only rules about every form need none"
    for example in (*rule.applies_to, *rule.negative_examples):
        device = find_device(example.chip, example.os)
        assert rule.scope.holds(device.chip, device.os), (example.chip, example.os)
        assert rule.concerns(example.type)
    for example in rule.applies_to:
        detail = _holds(rule, example)
        assert detail is not False, example
        text = rule.reason(detail).text
        assert "{" not in text
        assert text == text.strip(" :")
        assert isinstance(detail, str) == ("{detail}" in rule.message)
    for example in rule.negative_examples:
        assert _holds(rule, example) is False, example


@pytest.mark.parametrize("rule", [*RULES, *GRAPH_RULES], ids=lambda rule: rule.id)
def test_rows_are_complete(rule: Rule | GraphRule) -> None:
    assert rule.unit in UNITS
    assert rule.id.startswith(_PREFIX[rule.unit])
    assert rule.id == rule.id.lower()
    assert set(rule.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert rule.message
    assert not rule.message.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.source
    assert rule.confidence in CONFIDENCES
    if rule.effect in ("rejects", "fails"):
        assert rule.fix, "say what to do about it"


def _told(verdict: Verdict) -> list[Reason]:
    return [*verdict.reasons, *verdict.advice, *verdict.doubts]


def _graph(example: GraphExample) -> CoreMLGraph:
    views: list[OpView] = []
    for position, op in enumerate(example.ops):
        views.append(example_view(op, f"main/{position}", views))
    packed = [view for view in views if view.op.type.startswith("constexpr_")]
    return CoreMLGraph("main", tuple(Node(view) for view in views if view not in packed), tuple(packed))


@pytest.mark.parametrize("rule", GRAPH_RULES, ids=lambda rule: rule.id)
def test_examples_of_functions(rule: GraphRule) -> None:
    assert any(example.hits for example in rule.examples)
    assert any(not example.hits for example in rule.examples)
    for example in rule.examples:
        device = find_device(example.chip, example.os)
        assert rule.scope.holds(device.chip, device.os)
        verdicts = judge(_graph(example), device, example.facts)
        texts_by_op = {
            id_: [
                r.text
                for r in _told(by_unit[rule.unit])
                if r.rule == rule.id and not r.text.startswith("the compiler rejects")
            ]
            for id_, by_unit in verdicts.items()
        }
        hits = {id_ for id_, texts in texts_by_op.items() if texts}
        assert hits == {f"main/{position}" for position in example.hits}, example
        types = {example.ops[position].type for position in example.hits}
        assert not rule.ops or all(map(rule.concerns, types))
        assert all("{" not in text for texts in texts_by_op.values() for text in texts)


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="two rules with the id ne-int32"):
        join_rules(RULES, [next(rule for rule in RULES if rule.id == "ne-int32")])


def _rejections(example: Example) -> list[str]:
    device = find_device(example.chip, example.os)
    verdicts = judge(CoreMLGraph("main", (Node(example_view(example)),)), device, example.facts)
    return [reason.rule for reason in verdicts["main/0"]["neural_engine"].reasons]


def _scoped() -> Sequence[Rule]:
    return [rule for rule in RULES if rule.effect == "rejects" and rule.scope.neural_engine[1] is not None]


@pytest.mark.parametrize("rule", _scoped(), ids=lambda rule: rule.id)
def test_rules_do_not_apply_to_chips_beyond_their_scope(rule: Rule) -> None:
    example = rule.applies_to[0]
    assert rule.id in _rejections(example)
    newer = Example(example.type, example.arguments, outputs=example.outputs, chip="m4", os="27")
    assert rule.id not in _rejections(newer)


def test_rules_do_not_apply_to_systems_beyond_their_scope() -> None:
    rule = next(rule for rule in RULES if rule.id == "ne-fp32-result")
    example = rule.applies_to[0]
    assert "ne-fp32-result" in _rejections(example)
    newer = Example(example.type, example.arguments, chip="m4", os="27")
    assert _rejections(newer) == []


def test_several_reasons_are_all_given() -> None:
    shape = Example("conv", {"x": fp32(1, 4, 8, 20000), "weight": fp32(4, 4, 1, 31)}, chip="m2", os="26")
    assert _rejections(shape) == ["ne-conv-width", "ne-fp32-result", "ne-extent-16384"]


@pytest.mark.parametrize("chip", [*all_chips()])
def test_every_chip_runs_a_convolution_on_every_unit(chip: str) -> None:
    view = example_view(Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}))
    device = find_device(chip)
    verdicts = judge(CoreMLGraph("main", (Node(view),)), device, ProgramFacts())["main/0"]
    assert {unit: verdict.supported for unit, verdict in verdicts.items()} == dict.fromkeys(UNITS, "yes")


def test_an_operation_without_rules_is_unknown() -> None:
    view = example_view(Example("new_in_ios_30", {"x": fp16(1, 8)}, outputs=(fp16(1, 8),)))
    verdicts = judge(CoreMLGraph("main", (Node(view),)), find_device("m4"), ProgramFacts())["main/0"]
    assert [verdict.supported for verdict in verdicts.values()] == ["unknown"] * 3
    assert not any(verdict.reasons for verdict in verdicts.values())


def test_one_failure_takes_the_function_off_the_unit() -> None:
    views = [
        example_view(Example("relu", {"x": fp16(1, 8)}), "main/0"),
        example_view(Example("tile", {"x": boolean(1, 8), "reps": [1, 2]}), "main/1"),
    ]
    graph = CoreMLGraph("main", tuple(map(Node, views)))
    verdicts = judge(graph, find_device("m2", "26.5"), ProgramFacts())
    assert [verdicts[id_]["neural_engine"].supported for id_ in ("main/0", "main/1")] == ["no", "no"]
    (reason,) = verdicts["main/0"]["neural_engine"].reasons
    assert reason.effect == "fails"
    assert reason.text.startswith("the compiler rejects the whole function because of main/1:0: ")
    assert verdicts["main/0"]["gpu"].supported == "yes"


def test_rejected_operations_cause_no_compiler_failure() -> None:
    dilated = {
        "x": fp32(1, 27, 1, 8192),
        "weight": weight(27, 27, 1, 3),
        "dilations": [1, 2],
        "pad_type": "same",
    }
    views = [
        example_view(Example("conv", dilated), "main/0"),
        example_view(Example("relu", {"x": fp16(1, 8)}), "main/1"),
    ]
    graph = CoreMLGraph("main", tuple(map(Node, views)))
    verdicts = judge(graph, find_device("m2", "26.5"), ProgramFacts())
    reasons = verdicts["main/0"]["neural_engine"].reasons
    assert {reason.effect for reason in reasons} == {"rejects", "fails"}
    assert [by_unit["neural_engine"].supported for by_unit in verdicts.values()] == ["no", "yes"]


def test_operations_planned_elsewhere_cause_no_compiler_failure() -> None:
    views = [
        example_view(Example("tile", {"x": boolean(1, 8), "reps": [1, 2]}), "main/0"),
        example_view(Example("relu", {"x": fp16(1, 8)}), "main/1"),
    ]
    graph, device = CoreMLGraph("main", tuple(map(Node, views))), find_device("m2", "26.5")

    def supported(reached: set[str]) -> list[str]:
        verdicts = judge(graph, device, ProgramFacts(), reach=lambda unit, known: reached)
        return [by_unit["neural_engine"].supported for by_unit in verdicts.values()]

    assert supported({"main/1"}) == ["no", "yes"]
    assert supported({"main/0", "main/1"}) == ["no", "no"]


def test_anecdotes_alone_move_nothing() -> None:
    views = [example_view(Example("equal", {"x": int32(1, 8), "y": 0}), "main/0")]
    select = Example("select", {"cond": Result(0), "a": fp16(1, 8), "b": fp16(1, 8)})
    views.append(example_view(select, "main/1", views))
    graph = CoreMLGraph("main", tuple(map(Node, views)))
    verdict = judge(graph, find_device("m5", "26"), ProgramFacts())["main/1"]["neural_engine"]
    assert (verdict.supported, verdict.reasons) == ("yes", ())
    assert [doubt.rule for doubt in verdict.doubts] == ["ne-mask-from-elsewhere"]


@pytest.mark.parametrize(
    ("kinds", "advised"), [(("relu",), False), (("batch_norm", "clip"), False), ((), True)]
)
def test_large_results_are_remarked_on_unless_they_are_fused(kinds: tuple[str, ...], advised: bool) -> None:
    """An activation of a convolution's result is applied before that is stored; a softmax is not."""
    shape = fp16(1, 64, 256, 256)
    views = [example_view(Example("conv", {"x": shape, "weight": weight(64, 64, 3, 3)}), "main/0")]
    more = {"batch_norm": {"mean": fp16(64), "variance": fp16(64)}, "clip": {"alpha": 0.0, "beta": 6.0}}
    for kind in kinds or ("softmax",):
        last = {"axis": 1} if kind == "softmax" else more.get(kind, {})
        example = Example(kind, {"x": Result(len(views) - 1), **last}, outputs=(shape,))
        views.append(example_view(example, f"main/{len(views)}", views))
    verdicts = judge(CoreMLGraph("main", tuple(map(Node, views))), find_device("m4"), ProgramFacts())
    advice = verdicts[f"main/{len(views) - 1}"]["neural_engine"].advice
    assert any(reason.rule == "ne-slow-large-operand" for reason in advice) is advised


def test_the_message_names_the_operand_of_a_moving_slice() -> None:
    slice_ = Example(
        "slice_by_size",
        {"x": fp16(1, 64), "begin": int32(2), "size": [1, 32]},
        outputs=(fp16(1, 32),),
    )
    verdicts = judge(CoreMLGraph("main", (Node(example_view(slice_)),)), find_device("m4"), ProgramFacts())
    (reason,) = verdicts["main/0"]["neural_engine"].reasons
    expected = (
        'Op "main/0:0" is connected to an invalid live-in "main/0/begin0": Unsupported tensor data type'
    )
    assert reason.core_ml == f"{expected}: int32"


class _Absent:
    """The content of a missing file."""

    stored_bytes = 0
    is_available = False

    def numpy(self) -> Array:
        raise MissingWeightsError("weights.bin is absent", "put it back")


def test_constants_in_absent_files_count_as_constants() -> None:
    places = Constant(TensorType(DType.INT32, (2,)), _Absent())
    assert _rejections(Example("gather", {"x": fp16(1, 64), "indices": places, "axis": 1})) == []
    kernel = {"x": fp16(1, 8, 8, 8), "weight": weight(8, 8, 17, 17), "strides": places}
    assert _rejections(Example("conv", kernel, outputs=(fp16(1, 8, 8, 8),))) == ["ne-conv-width"]
