"""Explanations of operations on the console, in Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from coremlscope.errors import UsageError
from coremlscope.figures import Figure
from coremlscope.render import EXPLANATION_RENDERERS, render_explanations, render_json, write_report
from coremlscope.render.explanation import path_text, rule_line
from coremlscope.results.explanation import (
    BackendCost,
    Explanation,
    Explanations,
    Forced,
    PathStep,
    SpokenRule,
)
from coremlscope.results.plan import Reason

_REASON = Reason(
    unit="neural_engine",
    rule="ne-odd",
    text="odd | operations do not run",
    core_ml="Unsupported",
    confidence="documented",
    source="a test",
)
_PATH = (PathStep("cpu", 3, False), PathStep("neural_engine", 9, False), PathStep("cpu", 1, True))
_COST = BackendCost(
    backend="bnns",
    unit="cpu",
    is_supported=True,
    planned_ms=0.5,
    low_ms=0.4,
    high_ms=0.6,
    basis="fitted",
    rate="60.85 G bytes a second (bytes)",
    rate_source="plans on M9",
)
_ONE = Explanation(
    id="main/7",
    name="odd\x1b[2J",
    type="cumsum",
    function="main",
    outputs=("tensor<fp16, [1, 64]>",),
    output_names=("y",),
    unit="cpu",
    backend="bnns",
    planned_ms=2.0,
    supported={"cpu": "yes", "gpu": "yes", "neural_engine": "no"},
    costs=(_COST, dataclasses.replace(_COST, backend="ane", unit="neural_engine", is_supported=False)),
    path=_PATH,
    forced=(
        Forced(unit="cpu", is_chosen=True, is_supported=True, is_allowed=True),
        Forced(unit="gpu", is_chosen=False, is_supported=True, is_allowed=False),
        Forced(
            unit="neural_engine",
            is_chosen=False,
            is_supported=False,
            is_allowed=True,
            planned_ms=1.5,
            more_ms=-0.5,
            more_s=Figure(-0.002, -0.003, -0.001, "estimated"),
            moved=4,
            path=(PathStep("neural_engine", 13, True),),
        ),
    ),
    rules=(
        SpokenRule(reason=_REASON, counts=True),
        SpokenRule(reason=dataclasses.replace(_REASON, confidence="anecdotal"), counts=False),
        SpokenRule(reason=dataclasses.replace(_REASON, effect="runs"), counts=False),
    ),
)
FOUND = Explanations(
    path="folder/net.mlpackage",
    device="M9",
    os="macOS 99",
    compute_units="cpu_and_ne",
    cost_model="rates of M9",
    wanted="cumsum",
    ops=(_ONE,),
    left_out=2,
)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_screens(width: int) -> None:
    text = render_explanations(FOUND, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    joined = " ".join(text.split())
    assert "runs on the CPU (bnns); the function is planned at 2.00 ms" in joined
    assert "(Neural Engine)" in joined or "(Neural" in joined
    assert "400 µs – 600 µs" in joined
    assert "60.85 G bytes a second (bytes); plans on M9" in joined
    assert "the setting does not allow it" in joined
    assert (
        "planned 500 µs less (2.00 ms → 1.50 ms), estimated 2.00 ms less (1.00 ms to 3.00 ms);"
        " 3 other operations would move too (if rules let it run there)"
    ) in joined
    assert 'ne-odd, documented; a test; Core ML says "Unsupported"' in joined
    assert "and 2 cheaper operations that 'cumsum' selects" in joined


def test_paths_are_cut_around_the_operation() -> None:
    steps = [PathStep("cpu", index, index == 5) for index in range(1, 11)]
    assert path_text(steps) == "… → 2 CPU → 3 CPU → 4 CPU → [5 CPU] → 6 CPU → 7 CPU → 8 CPU → …"
    assert path_text(_PATH) == "3 CPU → 9 Neural Engine → [1 CPU]"
    assert path_text((PathStep(None, 2, True),)) == "[2 unknown]"


def test_rules_that_do_not_decide_say_why() -> None:
    decides, told, overridden = map(rule_line, _ONE.rules)
    assert decides == "Neural Engine, rejects it: odd | operations do not run"
    assert told.startswith("Neural Engine, rejects it (anecdotal, not applied): ")
    assert overridden.startswith("Neural Engine, runs it (overridden): ")


@pytest.mark.parametrize("renderer", EXPLANATION_RENDERERS, ids=lambda one: one.suffix)
def test_every_format(renderer, tmp_path: Path) -> None:
    path = tmp_path / f"why{renderer.suffix}"
    write_report(FOUND, path)
    text = path.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "ne-odd" in text


def test_markdown_escapes_tables(tmp_path: Path) -> None:
    write_report(FOUND, tmp_path / "why.md")
    text = (tmp_path / "why.md").read_text(encoding="utf-8")
    assert "odd \\| operations" in text
    assert "| bnns | CPU | 500 µs | 400 µs – 600 µs | fitted |" in text


def test_json_keeps_the_numbers() -> None:
    data = json.loads(render_json(FOUND))
    assert data["schema"] == "coremlscope.explanation/1"
    assert data["ops"][0]["forced"][2]["more_ms"] == -0.5
    assert data["ops"][0]["path"][2] == {"unit": "cpu", "count": 1, "holds_it": True}


def test_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no report format has the suffix"):
        write_report(FOUND, tmp_path / "why.html")
