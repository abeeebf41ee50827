from __future__ import annotations

import pytest

from coremlscope.batch import Matrix
from coremlscope.render import MATRIX_RENDERERS, Renderer
from coremlscope.render.terminal.matrix import render_matrix
from tests.support import golden
from tests.support.matrices import host_matrix, mac_matrix

MATRICES = {"host": host_matrix, "mac": mac_matrix}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", MATRICES)
def test_screens(name: str, width: int) -> None:
    golden.check(f"matrix_{name}_{width}.txt", render_matrix(MATRICES[name](), width=width))


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("name", MATRICES)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = render_matrix(MATRICES[name](), width=width, state="…").splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("renderer", MATRIX_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_format(renderer: Renderer[Matrix]) -> None:
    text = renderer.render(host_matrix())
    assert "is not a Core ML model" in text
    assert "estimated" in text
    assert "planned" in text


def test_markdown() -> None:
    golden.check("matrix.md", MATRIX_RENDERERS[1].render(host_matrix()))


def test_power_modes_stand_apart() -> None:
    text = render_matrix(mac_matrix(), width=100)
    normal, low = text.index("power mode: normal"), text.index("power mode: low power")
    assert normal < text.index("a.mlpackage") < low < text.index("b.mlpackage")
    assert "stopped before all was done" in text
