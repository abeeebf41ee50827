from __future__ import annotations

from pathlib import Path

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import PROFILES_RENDERERS, Renderer
from coremlscope.reports.side_by_side import side_by_side_document
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import golden
from tests.support.aicode import write_numbered
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


def test_power_modes_have_tables_of_their_own() -> None:
    text = write_terminal(side_by_side_document(mac_matrix()), width=100)
    normal, low = text.index("power mode: normal"), text.index("power mode: low power")
    assert normal < text.index("a.mlpackage") < low < text.index("b.mlpackage")
    assert "stopped before all was done" in text


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
