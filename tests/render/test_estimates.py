from __future__ import annotations

import pytest
from coremlscope.forecast.estimating import Estimated, estimate_model

from coremlscope.devices import SETTINGS, find_device
from coremlscope.formats.sample import sample_model
from coremlscope.render.terminal.estimates import render_estimates


@pytest.fixture(scope="module")
def results() -> list[Estimated]:
    """Two models on two devices under every setting."""
    model = sample_model(size=32, width=0.5, classes=4)
    devices = [find_device("m1"), find_device("iphone-15-pro")]
    return [
        found
        for name in ("folder/a_rather_long_name_of_a_model.mlpackage", "b.mlpackage")
        for found in estimate_model(model, devices, list(SETTINGS), name=name)
    ]


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("count", [1, 8, 16])
def test_every_estimate_is_one_line(results: list[Estimated], count: int, width: int) -> None:
    lines = render_estimates(results[:count], width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(" ms" in line and "–" in line for line in lines) == count


def test_what_all_have_in_common_has_no_column(results: list[Estimated]) -> None:
    assert "model" not in render_estimates(results[:8], width=140).splitlines()[1]
    assert "model" in render_estimates(results, width=140).splitlines()[1]
    assert "setting" not in render_estimates(results[:1], width=140).splitlines()[1]
