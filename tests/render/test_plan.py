from __future__ import annotations

import json
import re

import pytest

from coremlscope.devices import all_chips
from coremlscope.render.plan_json import plan_to_json
from coremlscope.render.reasons import group_reasons
from coremlscope.render.terminal.devices import devices_to_json, render_chip, render_chips
from coremlscope.render.terminal.plan import (
    CHOSEN,
    SUPPORTED,
    UNKNOWN,
    UNSUPPORTED,
    render_plan,
)
from tests.support import golden
from tests.support.partial_profiles import PROFILES
from tests.support.plans import small_plan


@pytest.mark.parametrize("width", [80, 140])
def test_screens(width: int) -> None:
    text = render_plan(small_plan(every=True), width=width)
    golden.check(f"plan_{width}.txt", text)


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    chips = list(all_chips().values())
    texts = [render_plan(small_plan(), width=width, list_ops=True), render_chips(chips, width=width)]
    texts.append(render_chip(chips[-1], width=width))
    for text in texts:
        assert max(map(len, text.splitlines())) <= width


def test_marks() -> None:
    rows = [
        line.split()[:4]
        for line in render_plan(small_plan(), width=140).splitlines()
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
    text = render_plan(small_plan())
    assert "nothing was measured" in text
    assert "planned" in text
    assert plan_to_json(small_plan())["origin"] == "planned"


def test_reasons_are_grouped() -> None:
    profile = small_plan()
    view = profile.plans[0].view(profile.ops)
    groups = group_reasons(view, "main", view.functions()["main"])
    assert [(group.reason.rule, len(group.ops)) for group in groups] == [("gpu-odd", 2), ("ne-int32", 2)]


def test_json() -> None:
    plan = plan_to_json(small_plan(every=True))
    assert plan["schema"] == "coremlscope.plan/1"
    values = [plan[name] for name in ("device", "chip", "os", "compute_units")]
    assert values == ["M1", "m1", "macOS 15", "all"]
    ops = plan["functions"]["main"]["operations"]
    first, refused, unknown = ops[1], ops[5], ops[4]
    assert set(first) >= {
        *("id", "name", "type", "outputs", "preferred", "supported", "weight", "planned_ms"),
        *("selected_backend", "reasons"),
    }
    assert (first["preferred"], first["selected_backend"]) == ("neural_engine", "ane")
    assert set(first["planned_ms"]) == {"ane", "bnns", "classic_cpu", "mps_graph"}
    assert refused["supported"] == ["cpu"]
    assert [reason["unit"] for reason in refused["reasons"]] == ["gpu", "neural_engine"]
    assert set(refused["reasons"][0]) >= {"unit", "rule", "text", "fix", "confidence", "source"}
    assert (unknown["preferred"], unknown["supported"]) == (None, [])
    assert unknown["unknown"] == ["cpu", "gpu", "neural_engine"]
    assert set(plan["functions"]["main"]["settings"]) == {"all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"}
    assert first["settings"]["cpu_only"]["preferred"] == "cpu"
    assert sum(op["weight"] for op in ops) == pytest.approx(1)


def test_two_plans_side_by_side() -> None:
    profile = PROFILES["several measurements"]()
    text = render_plan(profile, width=100)
    first, second = text.index("planned by Core ML itself"), text.index("planned by Core ML's cost model")
    assert first < text.index("Operations") < second
    assert plan_to_json(profile, profile.plans[1])["compute_units"] == "all"


def test_no_plan() -> None:
    with pytest.raises(LookupError):
        plan_to_json(PROFILES["operations"]())


def test_chips_as_json() -> None:
    shown = devices_to_json(list(all_chips().values()))
    json.dumps(shown)
    (m4,) = [chip for chip in shown["chips"] if chip["id"] == "m4"]
    assert m4["units"]["neural_engine"]["cores"][0]["source"]
