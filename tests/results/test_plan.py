"""A plan seen operation by operation under one setting."""

from __future__ import annotations

from coremlscope.results.plan import COST_RULE, find_segments, join_fixes, unit_costs_ms, unit_counts
from tests.support.planned_profiles import planned_profile
from tests.support.planned_rows import with_choices, with_columns, with_ops

PROFILE = planned_profile()
PLAN = PROFILE.plans[0]


MUL, CONV = PROFILE.ops.id[0], PROFILE.ops.id[2]


def test_operations_stand_in_program_order() -> None:
    assert [op.id for op in PLAN.ops] == ["main/input", *PROFILE.ops.id]
    assert [op.inserted for op in PLAN.ops] == [True] + [False] * 6
    assert PLAN.functions() == {"main": tuple(PLAN.ops)}
    assert PLAN.ops.get(CONV) is PLAN.ops[3]
    assert PLAN.ops.get("main/nothing") is None


def test_costs_counts_and_shares() -> None:
    assert unit_counts(PLAN.ops, "all") == {"cpu": 4, "neural_engine": 2, None: 1}
    assert unit_costs_ms(PLAN.ops, "all") == {"cpu": 1.5, "gpu": 0.0, "neural_engine": 0.375}
    choices = [op.choices["all"] for op in PLAN.ops]
    shares = [0.0, 0.5 / 1.875, 0.0, 0.25 / 1.875, 0.125 / 1.875, 1 / 1.875, 0.0]
    assert [choice.weight for choice in choices] == shares
    walk = [(op.id, op.choices["all"].unit) for op in PLAN.ops]
    assert [(segment.unit, len(segment.ops)) for segment in find_segments(walk)] == [
        ("cpu", 3),
        ("neural_engine", 2),
        ("cpu", 1),
    ]


def test_shares_that_core_ml_reports_are_its_own() -> None:
    weights = dict(
        zip(["main/input", *PROFILE.ops.id], (0.0, 0.5, 0.25, 0.0, 0.125, 0.125, 0.0), strict=True)
    )
    reported = with_choices(PLAN, "all", {id_: {"weight": weight} for id_, weight in weights.items()})
    again = with_columns(reported, PROFILE.ops)
    assert [op.choices["all"].weight for op in again.ops] == list(weights.values())
    assert again == reported


def test_reasons_are_those_of_units_that_the_setting_allows() -> None:
    (mul,) = [op for op in PLAN.ops if op.type == "mul"]
    assert [reason.rule for reason in mul.why] == ["ne-odd"]
    assert PLAN.reasons(mul, "all") == list(mul.why)
    assert PLAN.reasons(mul, "cpu_only") == []


def test_costs_are_reasons_where_another_unit_could_run_it() -> None:
    plan = with_choices(PLAN, "all", {CONV: {"detour_ms": {"cpu": 0.75}}})
    (conv, clip) = (op for op in plan.ops if op.choices["all"].unit == "neural_engine")
    (reason,) = plan.reasons(conv, "all")
    assert (reason.rule, reason.unit, reason.fix) == (COST_RULE, "cpu", "")
    assert reason.text == (
        "the CPU can run it, but costs more: at a planned cost of 4 against 0.25 where it is"
    )
    assert plan.reasons(clip, "all") == []
    tie = with_choices(PLAN, "all", {CONV: {"detour_ms": {"cpu": 0.0}}})
    (same,) = tie.reasons(tie.ops[3], "all")
    assert same.text.endswith("would cost the same")
    equal = with_ops(tie, {CONV: {"cost_ms": {"ane": 0.25, "bnns": 0.25}}})
    (same,) = equal.reasons(equal.ops[3], "all")
    assert same.text == "the CPU can run it, at the same planned cost: the whole plan would cost the same"
    assert same.fix == ""


def test_advice_that_differs_is_counted() -> None:
    assert join_fixes(["a", "", "a"]) == "a"
    assert join_fixes(["b", "a", "a"]) == "for 2 of them, a; for 1 of them, b"
    assert join_fixes("abcdd").endswith("; --explain shows the others")
    assert not join_fixes([""])
