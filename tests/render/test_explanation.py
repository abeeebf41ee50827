"""Explanations of operations on the console, in Markdown and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope.reports.explanation import (
    chosen_line,
    explanations_document,
    path_text,
    rule_details,
    rule_line,
)
from coremlscope.reports.json import render_json
from coremlscope.reports.renderers import EXPLANATION_RENDERERS, write_report
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.explanation import (
    PathStep,
)
from tests.support.explanations import EXPLANATIONS, PATH


@pytest.mark.parametrize("width", [60, 80, 140])
def test_screens(width: int) -> None:
    text = write_terminal(explanations_document(EXPLANATIONS), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    joined = " ".join(text.split())
    assert (
        "runs on the CPU (bnns), or on the GPU (at other likely speeds the plan goes there);"
        " planned cost of the function: 2"
    ) in joined
    assert "(Neural Engine)" in joined or "(Neural" in joined
    assert "0.4 – 0.6" in joined
    assert "60.85 G bytes a second (bytes); plans on M9" in joined
    assert "the setting does not allow it" in joined
    assert (
        "estimated 2.00 ms less (1.00 ms to 3.00 ms);"
        " 3 other operations would move too (if rules let it run there)"
    ) in joined
    assert 'fix: take an even | one ne-odd, documented; a test; Core ML says "Unsupported"' in joined
    assert joined.count("a test") == 1
    assert joined.count("ne-odd, as above") == 2
    assert "and 2 cheaper operations that 'cumsum' selects" in joined


def test_parentheses_are_explained_only_where_there_are_some() -> None:
    one = EXPLANATIONS.ops[0]
    costs = tuple(replace(cost, is_supported=True) for cost in one.costs)
    supported = write_terminal(
        explanations_document(replace(EXPLANATIONS, ops=(replace(one, costs=costs),))), width=80
    )
    assert "in parentheses" not in supported
    assert "in parentheses" in write_terminal(explanations_document(EXPLANATIONS), width=80)


def test_units_that_the_same_uncertainty_leaves_open_share_its_words() -> None:
    both = {"gpu": "rates", "neural_engine": "rates"}
    one = replace(EXPLANATIONS.ops[0], alternatives=both)
    assert chosen_line(replace(one, alternatives=dict.fromkeys(both, "tie"))).startswith(
        "runs on the CPU (bnns), or on the GPU or the Neural Engine (the plan costs the same there); "
    )
    assert chosen_line(one).startswith(
        "runs on the CPU (bnns), or on the GPU or the Neural Engine (at other likely speeds the plan"
    )


def test_paths_are_cut_around_the_operation() -> None:
    steps = [PathStep("cpu", index, index == 5) for index in range(1, 11)]
    assert path_text(steps) == "… → 2 CPU → 3 CPU → 4 CPU → [5 CPU] → 6 CPU → 7 CPU → 8 CPU → …"
    assert path_text(PATH) == "3 CPU → 9 Neural Engine → [1 CPU]"
    assert path_text((PathStep(None, 2, True),)) == "[2 unknown]"


def test_rules_that_do_not_decide_say_why() -> None:
    decides, anecdotal, overridden = map(rule_line, EXPLANATIONS.ops[0].rules)
    assert decides == "Neural Engine, rejects it: odd | operations do not run"
    assert anecdotal.startswith("Neural Engine, rejects it (anecdotal, not applied): ")
    assert overridden.startswith("Neural Engine, runs it (overridden): ")


@pytest.mark.parametrize("renderer", EXPLANATION_RENDERERS, ids=lambda one: one.suffix)
def test_every_format(renderer, tmp_path: Path) -> None:
    path = tmp_path / f"why{renderer.suffix}"
    write_report(EXPLANATIONS, path)
    text = path.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "ne-odd" in text


def test_markdown_escapes_tables(tmp_path: Path) -> None:
    write_report(EXPLANATIONS, tmp_path / "why.md")
    text = (tmp_path / "why.md").read_text(encoding="utf-8")
    assert "odd \\| operations" in text
    assert "  - fix: take an even \\| one\n  - ne-odd, documented; a test" in text
    assert "| bnns | CPU | 0.5 | 0.4 – 0.6 | fitted |" in text


def test_json_keeps_the_numbers() -> None:
    data = json.loads(render_json(EXPLANATIONS))
    assert data["schema"] == "coremlscope.explanation/1"
    assert data["ops"][0]["forced"][2]["more_ms"] == -0.5
    assert data["ops"][0]["path"][2] == {"unit": "cpu", "count": 1, "holds_it": True}


def test_units_without_rules_are_named() -> None:
    one = replace(
        EXPLANATIONS.ops[0], supported={"cpu": "yes", "gpu": "unknown", "neural_engine": "unknown"}, rules=()
    )
    text = write_terminal(explanations_document(replace(EXPLANATIONS, ops=(one,))), width=140)
    assert "? GPU and Neural Engine: no rule covers this operation, so it is not placed there" in text


def test_advice_that_differs_is_shown_with_each_operation() -> None:
    first = EXPLANATIONS.ops[0].rules[0]
    other = replace(first, reason=replace(first.reason, fix="take none"))
    told: set[str] = set()
    assert len(rule_details(first, told)) == 2
    assert rule_details(first, told) == ["ne-odd, as above"]
    assert rule_details(other, told) == ["fix: take none", "ne-odd, as above"]
