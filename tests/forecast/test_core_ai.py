"""Plans of Core AI: published rules, the order of preference, and no costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.planning.forecast.explain import explain
from coremlscope.reports.explanation import explanations_document
from coremlscope.reports.plan import plan_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.plan import Plan
from tests.support.aicode import Body, Graph, Type, Val, tensor, write_bundle
from tests.support.planned_rows import rows

_SETTINGS = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")


def _functions(b: Body, x: Val) -> Sequence[Val]:
    for name in ("relu", "exp", "tanh"):
        x = b.op(name, [x], [x.type])
    return [x]


def _cast_between(b: Body, x: Val) -> Sequence[Val]:
    x = b.op("relu", [x], [x.type])
    x = b.op("cast", [x], [tensor("fp32", *x.type.dims)])
    x = b.op("cast", [x], [tensor("fp16", *x.type.dims)])
    return [b.op("tanh", [x], [x.type])]


def _write(folder: Path, kind: Type, body: object = _functions) -> Path:
    return write_bundle(folder / "net.aimodel", [Graph("main", {"x": kind}, body)])  # type: ignore[arg-type]


def _units(plan: Plan, profile: object, setting: str) -> list[str | None]:
    return [op.unit for op in rows(plan, setting)]  # type: ignore[attr-defined]


def test_units_by_preference(tmp_path: Path) -> None:
    profile = api.plan(_write(tmp_path, tensor("fp16", 1, 8, 64)), "iphone-17-pro", compute_units="every")
    (plan,) = profile.plans
    assert [s.compute_units for s in plan.settings] == list(_SETTINGS)
    assert _units(plan, profile, "all") == ["neural_engine"] * 3
    assert _units(plan, profile, "cpu_and_ne") == ["neural_engine"] * 3
    assert _units(plan, profile, "cpu_and_gpu") == ["gpu"] * 3
    assert _units(plan, profile, "cpu_only") == ["cpu"] * 3
    default, preferring = (rows(plan, name) for name in _SETTINGS[:2])
    assert {op.alternatives["gpu"] for op in default} == {"unpublished"}
    assert not any(op.alternatives for op in preferring)


def test_no_costs_are_planned(tmp_path: Path) -> None:
    profile = api.plan(_write(tmp_path, tensor("fp16", 1, 8, 64)), "m4", compute_units="every")
    (plan,) = profile.plans
    assert plan.cost_model == ""
    assert all(plan.total_ms(setting) is None for setting in plan.settings)
    assert not any(setting.what_ifs for setting in plan.settings)
    text = write_terminal(plan_document(profile))
    assert "costs are not published" in text
    assert "Core ML" not in text


@pytest.mark.parametrize(
    ("kind", "rule", "confidence"),
    [
        (tensor("fp32", 1, 8, 64), "ne-core-ai-element-type", "measured"),
        (tensor("fp16", 1, 1, 2, 2, 2, 64), "ne-core-ai-rank", "documented"),
        (tensor("fp16", 1, None, 64), "ne-core-ai-dynamic", "documented"),
    ],
)
def test_reasons_against_the_neural_engine(kind: Type, rule: str, confidence: str, tmp_path: Path) -> None:
    profile = api.plan(_write(tmp_path, kind), "m4", compute_units="cpu_and_ne")
    (plan,) = profile.plans
    assert _units(plan, profile, "cpu_and_ne") == ["gpu"] * 3, "a preferred unit forbids no other"
    reasons = [reason for op in rows(plan) for reason in op.why]
    assert {(reason.rule, reason.confidence) for reason in reasons} == {(rule, confidence)}
    assert all(reason.source and reason.fix for reason in reasons)


def test_crossings_are_counted(tmp_path: Path) -> None:
    path = _write(tmp_path, tensor("fp16", 1, 8, 64), _cast_between)
    profile = api.plan(path, "m4", compute_units="cpu_and_ne")
    (plan,) = profile.plans
    assert _units(plan, profile, "cpu_and_ne") == ["neural_engine", "gpu", "gpu", "neural_engine"]
    assert plan.settings[0].switches == 2
    (note,) = (note for note in plan.notes if "cross" in note)
    assert "once" in note
    assert "0.6 to 1.75 ms" in note


def _masked(b: Body, x: Val) -> Sequence[Val]:
    x = b.op("relu", [x], [x.type])
    mask = b.op("broadcasting_greater", [x, x], [tensor("bool", *x.type.dims)])
    mask = b.op("logical_not", [mask], [mask.type])
    return [b.op("broadcasting_where", [mask, x, x], [x.type])]


def test_default_options_avoid_many_crossings(tmp_path: Path) -> None:
    """Each crossing takes longer than such a program takes on the GPU."""

    def body(b: Body, x: Val) -> Sequence[Val]:
        for _ in range(20):
            (x,) = _cast_between(b, x)
        return [x]

    path = _write(tmp_path, tensor("fp16", 1, 8, 64), body)
    profile = api.plan(path, "m4", compute_units="every")
    (plan,) = profile.plans
    assert set(_units(plan, profile, "all")) == {"gpu"}
    assert set(_units(plan, profile, "cpu_and_ne")) == {"gpu", "neural_engine"}, "it is the preferred unit"
    (note,) = (note for note in plan.notes if "minimise latency" in note)
    assert "would cross 20 times" in note
    default, preferring = (
        api.estimate(path, "m4", compute_units=setting).estimates[0].latency.value
        for setting in ("all", "cpu_and_ne")
    )
    assert default < preferring / 10


@pytest.mark.parametrize(("dtype", "unit"), [("fp32", "gpu"), ("fp16", "neural_engine")])
def test_masks_are_computed_where_their_values_are(dtype: str, unit: str, tmp_path: Path) -> None:
    profile = api.plan(_write(tmp_path, tensor(dtype, 1, 8, 64), _masked), "m4", compute_units="every")
    (plan,) = profile.plans
    for setting in ("all", "cpu_and_ne"):
        units = dict(zip(profile.ops.type, _units(plan, profile, setting), strict=True))
        assert units["logical_not"] == unit
        assert units["relu"] == unit
        assert plan.setting(setting).switches == 0


def test_a_long_plan_without_costs_lists_the_first_operations(tmp_path: Path) -> None:
    def many(b: Body, x: Val) -> Sequence[Val]:
        for _ in range(40):
            x = b.op("relu", [x], [x.type])
        return [x]

    text = write_terminal(plan_document(api.plan(_write(tmp_path, tensor("fp16", 1, 8, 64), many), "m4")))
    assert "The first 30 operations" in text
    assert "costliest" not in text


def test_operations_are_explained_without_costs(tmp_path: Path) -> None:
    found = explain(_write(tmp_path, tensor("fp32", 1, 8, 64)), "relu", "m4")
    (op,) = found.ops
    assert (op.unit, op.costs, found.cost_model) == ("gpu", (), "")
    assert {rule.reason.rule for rule in op.rules if rule.counts} >= {
        "ne-core-ai-element-type",
        "gpu-core-ai-runs",
    }
    text = write_terminal(explanations_document(found))
    assert "costs are not published" in text
    assert "Incompatible" in text
