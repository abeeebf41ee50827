from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import PROFILES_RENDERERS, Renderer
from coremlscope.reports.side_by_side import side_by_side_document
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import golden
from tests.support.aicode import write_numbered
from tests.support.foreign_files import runner_record, runner_setting
from tests.support.matrices import host_matrix, mac_matrix
from tests.support.partial_profiles import PROFILES

MATRICES = {"host": host_matrix, "mac": mac_matrix}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", MATRICES)
def test_screens(name: str, width: int) -> None:
    golden.check(
        f"side_by_side_{name}_{width}.txt",
        write_terminal(side_by_side_document(MATRICES[name]()), width=width),
    )


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("name", MATRICES)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = write_terminal(side_by_side_document(MATRICES[name](), state="…"), width=width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("renderer", PROFILES_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_format(renderer: Renderer) -> None:
    text = renderer.render(host_matrix())
    assert renderer.suffix == ".csv" or "is not a Core ML model" in text
    assert "estimated" in text


@pytest.mark.parametrize("renderer", PROFILES_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_profiles_of_every_kind_in_every_format(renderer: Renderer) -> None:
    profiles = [make() for make in PROFILES.values()]
    assert renderer.render(profiles).endswith("\n")
    assert renderer.render([]).endswith("\n")


def test_markdown() -> None:
    golden.check("side_by_side.md", write_markdown(side_by_side_document(host_matrix())))


def _on_phone(model: str, mode: str, seconds: float) -> list[dict[str, Any]]:
    state = {"thermal_state": "nominal", "is_low_power": mode == "low power", "is_charging": True}
    changed: dict[str, Any] = {"before": state, "after": state, "power_mode": mode}
    slower = {"all": 1.1, "cpu_and_ne": 1.0, "cpu_and_gpu": 2.0, "cpu_only": 4.0}
    return [
        runner_setting(model, setting, predict_s=[seconds * factor] * 3, **changed)
        for setting, factor in slower.items()
    ]


_PHONE = {
    ("Detector", "normal"): 0.002,
    ("Detector", "low power"): 0.003,
    ("Classifier", "normal"): 0.001,
    ("Classifier", "low power"): 0.002,
}


@pytest.mark.parametrize("by", ["all", "mode", "model"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_power_modes_of_a_phone_are_columns_of_one_table(by: str, width: int, tmp_path: Path) -> None:
    files: dict[str, list[dict[str, Any]]] = {}
    for (model, mode), seconds in _PHONE.items():
        name = {"all": "results", "mode": mode, "model": model}[by]
        files.setdefault(name, []).extend(_on_phone(model, mode, seconds))
    paths = []
    for name, results in files.items():
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(runner_record(*results)), encoding="utf-8")
    comparison = api.compare(*paths)
    text = write_terminal(comparison_document(comparison), width=width)
    rows = [line.split() for line in text.splitlines()]
    first = next(place for place, row in enumerate(rows) if row[:2] == ["model", "setting"])
    assert rows[first] == ["model", "setting", "normal", "low", "power", "÷", "normal"]
    assert [row[-5:] for row in rows[first + 1 : first + 9]] == [
        ["2.20", "ms", "3.30", "ms", "1.50"],
        ["2.00", "ms", "3.00", "ms", "1.50"],
        ["4.00", "ms", "6.00", "ms", "1.50"],
        ["8.00", "ms", "12.0", "ms", "1.50"],
        ["1.10", "ms", "2.20", "ms", "2.00"],
        ["1.00", "ms", "2.00", "ms", "2.00"],
        ["2.00", "ms", "4.00", "ms", "2.00"],
        ["4.00", "ms", "8.00", "ms", "2.00"],
    ]
    sentence = "takes 1.75 times as long as in normal mode, the median of 8 rows: 1.50 to 2.00 times"
    assert sentence in " ".join(text.split())
    report = write_markdown(comparison_document(comparison))
    for best in ("| **2.00 ms** | **3.00 ms** |", "| **1.00 ms** | **2.00 ms** |"):
        assert report.count(best) == 1


def test_models_before_anything_is_known() -> None:
    text = write_terminal(
        side_by_side_document([PROFILES["operations"](), PROFILES["operations"]()], state="reading")
    )
    assert text.splitlines() == ["Side by side  2 models", "", "reading"]


def test_plans_without_costs_have_no_planned_times(tmp_path: Path) -> None:
    """The costs of Core AI are not published."""
    bundle = write_numbered(tmp_path / "net.aimodel")
    profile = msgspec.structs.replace(api.estimate(bundle, "m4"), plans=api.plan(bundle, "m4").plans)
    text = write_terminal(side_by_side_document([profile]), width=140)
    assert "estimated" in text
    assert "planned" not in text
    assert "0 ns" not in text
