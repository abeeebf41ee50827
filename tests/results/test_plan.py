"""A plan seen operation by operation under one setting."""

from __future__ import annotations

import msgspec.structs

from coremlscope.results.plan import (
    COST_RULE,
    Plan,
    PlanView,
    join_fixes,
    segments,
    unit_costs_ms,
    unit_counts,
)
from tests.support.planned_profiles import planned_profile

PROFILE = planned_profile()
PLAN = PROFILE.plans[0]


def view(plan: Plan = PLAN, setting: str = "all") -> PlanView:
    return plan.view(PROFILE.ops, plan.setting(setting))


def with_detours(**detours: tuple[float | None, ...]) -> Plan:
    """The plan under all units, where the cheapest path through other units costs more."""
    first, *others = PLAN.settings
    return msgspec.structs.replace(
        PLAN, settings=(msgspec.structs.replace(first, detour_ms=detours), *others)
    )


def test_operations_stand_in_program_order() -> None:
    assert [op.id for op in view().ops] == ["main/input", *PROFILE.ops.id]
    assert [op.inserted for op in view().ops] == [True] + [False] * 6
    places = (0, 3, 3, 6)
    inserted = tuple(
        msgspec.structs.replace(PLAN.inserted[0], id=f"main/{index}/new", before=before)
        for index, before in enumerate(places)
    )
    more = msgspec.structs.replace(
        PLAN,
        inserted=inserted,
        supported={unit: (*column, 0, 0, 0) for unit, column in PLAN.supported.items()},
        cost_ms={backend: (*column, None, None, None) for backend, column in PLAN.cost_ms.items()},
        why=(*PLAN.why, (), (), ()),
        advice=(*PLAN.advice, (), (), ()),
        settings=tuple(msgspec.structs.replace(s, backend=(*s.backend, -1, -1, -1)) for s in PLAN.settings),
    )
    first, second, third, *rest = PROFILE.ops.id
    new = [op.id for op in inserted]
    expected = [new[0], first, second, third, *new[1:3], *rest, new[3]]
    assert [op.id for op in view(more).ops] == expected


def test_operations_that_plans_do_not_list_have_no_row() -> None:
    bare = msgspec.structs.replace(
        PLAN, supported={unit: (None, *column[1:]) for unit, column in PLAN.supported.items()}
    )
    assert [op.id for op in view(bare).ops] == ["main/input", *PROFILE.ops.id[1:]]


def test_costs_counts_and_shares() -> None:
    ops = view().ops
    assert unit_counts(ops) == {"cpu": 4, "neural_engine": 2, None: 1}
    assert unit_costs_ms(ops, "all") == {"cpu": 1.5, "gpu": 0.0, "neural_engine": 0.375}
    assert [op.weight for op in ops] == [0.0, 0.5 / 1.875, 0.0, 0.25 / 1.875, 0.125 / 1.875, 1 / 1.875, 0.0]
    assert [(backend, len(run)) for backend, run in segments(ops)] == [
        ("bnns", 3),
        ("ane", 2),
        ("bnns", 1),
        (None, 1),
    ]


def test_shares_that_core_ml_reports_are_its_own() -> None:
    first, *others = PLAN.settings
    weights = (0.5, 0.25, None, 0.125, 0.125, None, 0.0)
    reported = msgspec.structs.replace(
        PLAN, settings=(msgspec.structs.replace(first, weight=weights), *others)
    )
    assert [op.weight for op in view(reported).ops] == [0.0, 0.5, 0.25, 0.0, 0.125, 0.125, 0.0]


def test_reasons_are_those_of_units_that_the_setting_allows() -> None:
    (mul,) = [op for op in view().ops if op.type == "mul"]
    assert [reason.rule for reason in mul.why] == ["ne-odd"]
    assert view().reasons(mul) == list(mul.why)
    assert view(setting="cpu_only").reasons(mul) == []


def test_costs_are_reasons_where_another_unit_could_run_it() -> None:
    nothing = (None,) * 7
    plan = with_detours(cpu=(None, None, 0.75, None, None, None, None), neural_engine=nothing)
    (conv, clip) = (op for op in view(plan).ops if op.unit == "neural_engine")
    (reason,) = view(plan).reasons(conv)
    assert (reason.rule, reason.unit, reason.fix) == (COST_RULE, "cpu", "")
    assert reason.text == (
        "the CPU can run it, but costs more: at a planned cost of 4 against 0.25 where it is"
    )
    assert view(plan).reasons(clip) == []
    tie = with_detours(cpu=(None, None, 0.0, None, None, None, None))
    (same,) = view(tie).reasons(next(op for op in view(tie).ops if op.type == "conv"))
    assert same.text.endswith("would cost the same")
    equal = msgspec.structs.replace(tie, cost_ms={**tie.cost_ms, "ane": tie.cost_ms["bnns"]})
    (same,) = view(equal).reasons(next(op for op in view(equal).ops if op.type == "conv"))
    assert same.text == "the CPU can run it, at the same planned cost: the whole plan would cost the same"
    assert same.fix == ""


def test_advice_that_differs_is_counted() -> None:
    assert join_fixes(["a", "", "a"]) == "a"
    assert join_fixes(["b", "a", "a"]) == "for 2 of them, a; for 1 of them, b"
    assert join_fixes("abcdd").endswith("; --explain shows the others")
    assert not join_fixes([""])
