"""The agreement of plans by rules with Core ML's: what is compared, counted, weighed and listed."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.reports.agreement import agreement_line
from coremlscope.results.agreement import Agreement, find_agreements
from coremlscope.results.plan import Choice, Plan, PlannedOps, Reason
from tests.support.planned_profiles import device_plan
from tests.support.planned_rows import with_choices
from tests.support.profiles import small_ops

#: Where `device_plan` may put an operation.
ANE, GPU, CPU, UNKNOWN = (
    Choice(backend="ane", unit="neural_engine"),
    Choice(backend="mps_graph", unit="gpu"),
    Choice(backend="bnns", unit="cpu"),
    Choice(),
)


def by_core_ml(
    choices: tuple[Choice, ...], weight: tuple[float, ...] = (), *, is_free: bool = False, **changes: object
) -> Plan:
    """Core ML's plan under `all`: by rules, `mul`, `cast` and `linear` are on the CPU, `conv` and `clip` on
    the Neural Engine, the last cast and what is inserted are unknown and on the CPU."""
    plan = device_plan()
    ops = []
    for place, (op, choice) in enumerate(zip(plan.ops, (CPU, *choices), strict=True)):
        cost = None if is_free or choice.backend is None else op.cost_ms.get(choice.backend)
        share = weight[place] if weight else 0.0
        moved = msgspec.structs.replace(choice, planned_ms=cost, weight=share)
        ops.append(msgspec.structs.replace(op, choices={"all": moved}, **(changes if place == 1 else {})))
    settings = plan.settings[:1]
    return msgspec.structs.replace(plan, planner="Core ML", settings=settings, ops=PlannedOps(ops))


def agreement(theirs: Plan) -> Agreement:
    (found,) = find_agreements([theirs, device_plan()])
    return found


def test_equal_plans_agree() -> None:
    found = agreement(by_core_ml((CPU, CPU, ANE, ANE, CPU, UNKNOWN)))
    assert (found.theirs, found.ours, found.compute_units) == (0, 1, "all")
    assert (found.compared, found.agreed, found.unknown, found.share) == (5, 5, 0, 1.0)
    assert (found.cost_share, found.weighted_by) == (1.0, "Core ML")
    assert found.disagreements == ()


def test_costs_weigh_operations() -> None:
    """By its costs: 0.5 + 0 + 0.25 + 2 + 1 ms, of which 2 ms, `clip` on the CPU, are elsewhere."""
    found = agreement(by_core_ml((CPU, CPU, ANE, CPU, CPU, UNKNOWN)))
    assert (found.compared, found.agreed, found.share) == (5, 4, 0.8)
    assert found.cost_share == pytest.approx(1.75 / 3.75)
    (one,) = found.disagreements
    assert (one.op, one.type, one.ours, one.theirs) == (small_ops().id[3], "clip", "neural_engine", "cpu")
    assert one.share == pytest.approx(2 / 3.75)


def test_shares_weigh_operations_where_core_ml_gives_no_costs() -> None:
    shares = (0.0, 0.5, 0.0, 0.1, 0.3, 0.1, 0.0)
    found = agreement(by_core_ml((CPU, CPU, ANE, CPU, CPU, UNKNOWN), shares, is_free=True))
    assert (found.weighted_by, found.cost_share) == ("Core ML", pytest.approx(0.7))
    ours = agreement(by_core_ml((CPU, CPU, ANE, CPU, CPU, UNKNOWN), is_free=True))
    assert (ours.weighted_by, ours.cost_share) == ("rules", pytest.approx(1.75 / 1.875))


def test_what_rules_do_not_cover_is_not_compared() -> None:
    found = agreement(by_core_ml((CPU, CPU, ANE, ANE, CPU, GPU)))
    assert (found.compared, found.agreed, found.unknown, found.share) == (5, 5, 1, 1.0)
    assert [(one.ours, one.theirs, one.share) for one in found.disagreements] == [(None, "gpu", None)]


def test_what_core_ml_does_not_place_is_not_compared() -> None:
    found = agreement(by_core_ml((UNKNOWN,) * 6))
    assert (found.compared, found.share, found.cost_share, found.weighted_by) == (0, None, None, "")


def test_both_sides_say_why() -> None:
    """`mul` is on the Neural Engine by Core ML, against a rule; Core ML says why it is not on the CPU."""
    message = Reason(unit="cpu", rule="core-ml", text="No.", core_ml="No.")
    found = agreement(by_core_ml((ANE, CPU, ANE, ANE, CPU, UNKNOWN), why=(message,)))
    (one,) = found.disagreements
    assert (one.why, one.message) == (("too odd",), "No.")


def test_plans_for_other_chips_and_systems_are_not_compared() -> None:
    theirs = by_core_ml((CPU,) * 6)
    for other in (
        msgspec.structs.replace(theirs, chip="m2"),
        msgspec.structs.replace(theirs, chip=""),
        msgspec.structs.replace(theirs, os="macOS 26"),
        msgspec.structs.replace(theirs, planner="rules"),
    ):
        assert find_agreements([other, device_plan()]) == ()


def test_undecided_operations_are_counted_apart() -> None:
    open_plan = with_choices(device_plan(), "all", {small_ops().id[3]: {"alternatives": {"cpu": "tie"}}})
    theirs = by_core_ml((CPU, CPU, ANE, CPU, CPU, UNKNOWN))
    (found,) = find_agreements([theirs, open_plan])
    assert (found.share, found.undecided, found.decided_share) == (0.8, 1, 1.0)
    assert [one.undecided for one in found.disagreements] == ["tie"]
    assert "100 % of the 4 operations whose unit the evidence decides" in agreement_line(found).replace(
        ".0 %", " %"
    )
