from __future__ import annotations

import json
import re
from typing import Any

import msgspec.structs
import pytest
from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.devices import all_chips
from coremlscope.reports.devices import chip_document, chips_document, devices_to_json
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.plan import (
    CHOSEN,
    POSSIBLE,
    SUPPORTED,
    UNKNOWN,
    UNSUPPORTED,
    plan_document,
    plan_to_json,
)
from coremlscope.reports.reasons import find_dearer, group_reasons
from coremlscope.reports.renderers import document_of, notebook_card
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.plan import OtherPlan, PlannedOp
from coremlscope.results.profile import Profile
from tests.support import golden
from tests.support.partial_profiles import PROFILES
from tests.support.planned_profiles import planned_profile
from tests.support.planned_rows import with_choices, with_ops
from tests.support.plans import small_plan


@pytest.mark.parametrize("width", [80, 140])
def test_screens(width: int) -> None:
    text = write_terminal(plan_document(small_plan(every=True)), width=width)
    golden.check(f"plan_{width}.txt", text)


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    chips = list(all_chips().values())
    texts = [
        write_terminal(plan_document(small_plan(), list_ops=True), width=width),
        write_terminal(chips_document(chips), width=width),
    ]
    texts.append(write_terminal(chip_document(chips[-1]), width=width))
    for text in texts:
        assert max(map(len, text.splitlines())) <= width


def test_marks() -> None:
    rows = [
        line.split()[:4]
        for line in write_terminal(plan_document(small_plan()), width=140).splitlines()
        if re.match(rf"\s+[{CHOSEN}{SUPPORTED}{UNSUPPORTED}{UNKNOWN}] ", line)
    ]
    names = [f"a_rather_long_name_of_a_layer_{index}" for index in range(6)]
    assert rows == [
        [SUPPORTED, SUPPORTED, CHOSEN, "(tensor_buffer_to_tensor)"],
        *([SUPPORTED, SUPPORTED, CHOSEN, name] for name in names[:3]),
        [UNKNOWN, UNKNOWN, UNKNOWN, names[3]],
        *([CHOSEN, UNSUPPORTED, UNSUPPORTED, name] for name in names[4:]),
    ]


def test_planned_figures_never_look_measured() -> None:
    text = write_terminal(plan_document(small_plan()))
    assert "nothing was measured" in text
    assert "planned" in text
    assert plan_to_json(small_plan().plans[0])["origin"] == "planned"


def test_reasons_are_grouped() -> None:
    profile = small_plan()
    view = profile.plans[0].view()
    groups = group_reasons(view, "main", view.plan.functions()["main"])
    assert [(group.reason.rule, len(group.ops)) for group in groups] == [("gpu-odd", 2), ("ne-int32", 2)]


def _with_costs_on_neural_engine(*costs: float) -> Profile:
    """The small profile, whose first operations take 0.5 and 0 ms on the CPU, with costs elsewhere."""
    profile = planned_profile()
    plan = profile.plans[0]
    changes: dict[str, dict[str, Any]] = {op.id: {"why": ()} for op in plan.ops}
    for op, ms in zip(plan.ops[1:], costs, strict=False):
        changes[op.id] |= {
            "cost_ms": {**op.cost_ms, "ane": ms},
            "supported": {**op.supported, "neural_engine": "yes"},
        }
    changed = with_ops(plan, changes)
    return replace(profile, plans=(changed,))


@pytest.mark.parametrize(
    ("costs", "text"),
    [
        (
            (0.75, 0.0),
            "2 ops: the Neural Engine can run these, at a planned cost of 0.25 more by themselves (",
        ),
        ((0.5,), "1 op: the Neural Engine can run it, at the same planned cost by itself ("),
        ((0.25,), ""),
    ],
)
def test_what_costs_as_much_or_more_elsewhere_is_explained(costs: tuple[float, ...], text: str) -> None:
    profile = _with_costs_on_neural_engine(*costs)
    console = " ".join(write_terminal(plan_document(profile)).split())
    assert text in console
    assert ("by themselves" in console or "by itself" in console) == bool(text)
    markdown = write_markdown(document_of(replace(profile, estimates=())))
    assert text.removeprefix("2 ops: ").removeprefix("1 op: ").partition(" (")[0] in markdown


def test_plans_of_others_are_not_explained_by_our_costs() -> None:
    profile = _with_costs_on_neural_engine(0.75)
    theirs = replace(profile.plans[0], planner="Core ML")
    view = theirs.view()
    assert find_dearer(view, "neural_engine", view.plan.ops) is None


def test_json() -> None:
    profile = small_plan(every=True)
    plan = plan_to_json(profile.plans[0])
    assert plan["schema"] == "coremlscope.plan/1"
    assert [plan[name] for name in ("device", "chip", "os")] == ["M1", "m1", "macOS 15"]
    ops = plan["ops"]
    first, refused, unknown = ops[1], ops[5], ops[4]
    assert (first["choices"]["all"]["unit"], first["choices"]["all"]["backend"]) == ("neural_engine", "ane")
    assert set(first["cost_ms"]) == {"ane", "bnns", "classic_cpu", "mps_graph"}
    assert refused["supported"] == {"cpu": "yes", "gpu": "no", "neural_engine": "no"}
    assert [reason["unit"] for reason in refused["why"]] == ["gpu", "neural_engine"]
    assert set(refused["why"][0]) >= {"unit", "rule", "text", "fix", "confidence", "source"}
    assert unknown["choices"]["all"]["unit"] is None
    assert set(unknown["supported"].values()) == {"unknown"}
    assert set(first["choices"]) == {"all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"}
    assert first["choices"]["cpu_only"]["unit"] == "cpu"
    assert sum(op["choices"]["all"]["weight"] for op in ops) == pytest.approx(1)
    assert msgspec.convert(ops, list[PlannedOp]) == list(profile.plans[0].ops)


def test_two_plans_side_by_side() -> None:
    profile = PROFILES["several measurements"]()
    text = write_terminal(plan_document(profile), width=100)
    first, second = text.index("planned by Core ML itself"), text.index("planned by Core ML's cost model")
    assert first < text.index("Operations") < second
    assert plan_to_json(profile.plans[1])["settings"][0]["compute_units"] == "all"


def test_chips_as_json() -> None:
    shown = devices_to_json(list(all_chips().values()))
    json.dumps(shown)
    (m4,) = [chip for chip in shown["chips"] if chip["id"] == "m4"]
    assert m4["units"]["neural_engine"]["cores"][0]["source"]


def _undecided_plan() -> Profile:
    """The first operation goes to the GPU with other rates, the second ties; both run on the ANE."""
    profile = small_plan()
    (plan,) = profile.plans
    setting, *rest = plan.settings
    setting = msgspec.structs.replace(
        setting,
        other_plan=OtherPlan(
            units={"gpu": 3},
            moved=3,
            latency=Figure(3.3e-3, 2e-3, 5e-3, "estimated"),
            planned=Figure(0.84e-3, 0.5e-3, 1e-3, "estimated"),
        ),
    )
    changes = {
        plan.ops[1].id: {"alternatives": {"gpu": "rates"}},
        plan.ops[2].id: {"alternatives": {"cpu": "tie"}},
    }
    plan = with_choices(msgspec.structs.replace(plan, settings=(setting, *rest)), "all", changes)
    return msgspec.structs.replace(profile, plans=(plan,))


def test_undecided_operations_are_shown_with_the_other_plan_and_its_estimate() -> None:
    profile = _undecided_plan()
    wide = write_terminal(plan_document(profile), width=140)
    assert ("2 operations may run on another unit: 1 at equal cost, 1 at other likely speeds") in wide
    close = "too close to call: or all 3 operations on the GPU, estimated at 3.30 ms instead of 840 µs"
    assert wide.index(close) < wide.index("Units"), "once, before the functions"
    table = [line for line in wide.splitlines() if CHOSEN in line]
    rows = {name: line for line in table for name in re.findall(r"layer_[01]\b", line)}
    assert rows["layer_0"].split()[:3] == [SUPPORTED, POSSIBLE, CHOSEN]
    assert "GPU" in rows["layer_0"]
    assert "CPU tie" in rows["layer_1"]
    assert "may go to" not in write_terminal(plan_document(profile), width=80)
    assert "may go to" not in write_terminal(plan_document(small_plan()), width=140)

    first, second = plan_to_json(profile.plans[0])["ops"][1:3]
    alternatives = [op["choices"]["all"]["alternatives"] for op in (first, second)]
    assert tuple(alternatives) == ({"gpu": "rates"}, {"cpu": "tie"})

    for text in (write_markdown(document_of(profile)), notebook_card(profile)):
        assert "2 operations may run on another unit: 1 at equal cost, 1 at other likely speeds" in text
        assert close in text
