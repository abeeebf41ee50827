"""Times of loading: the line through published ones, its interval, and where nothing is known."""

from __future__ import annotations

import math

import pytest

from coremlscope import api
from coremlscope.formats.sample import sample_model
from coremlscope.planning.cost.latency.loads import estimate_loads, fit_line, load_published
from coremlscope.reports.estimates import estimates_document
from coremlscope.reports.terminal.writer import write_terminal


@pytest.mark.parametrize("kind", ["first", "cached"])
def test_times_grow_with_the_model_and_have_several_publications(kind: str) -> None:
    rows = [row for row in load_published() if row.kind == kind]
    assert len({row.publication for row in rows}) >= 2
    assert 0 < fit_line(kind).slope < 1.2  # type: ignore[arg-type]


def test_intervals_hold_published_times() -> None:
    inside = []
    for row in load_published():
        found = estimate_loads(row.parameters)
        assert found is not None
        figure = found.first_s if row.kind == "first" else found.cached_s
        assert figure.low < figure.value < figure.high
        assert figure.origin == "estimated"
        inside.append(figure.low <= row.seconds <= figure.high)
    assert sum(inside) / len(inside) > 0.75


def test_a_first_load_takes_longer_than_a_later_one() -> None:
    for parameters in (1e7, 1e8, 1e9, 7e9):
        found = estimate_loads(parameters)
        assert found is not None
        assert found.first_s.value > 10 * found.cached_s.value
    small, large = estimate_loads(1e8), estimate_loads(1e9)
    assert small is not None
    assert large is not None
    assert math.log10(large.first_s.value / small.first_s.value) == pytest.approx(fit_line("first").slope)


def test_small_models_and_other_units_are_not_known() -> None:
    assert estimate_loads(1e6) is None
    profile = api.estimate(
        sample_model(size=224, width=1.0, classes=10),
        "m1",
        compute_units=["cpu_and_ne", "cpu_only"],
        explain=True,
    )
    assert [e.load for e in profile.estimates] == [None, None]
    text = " ".join(write_terminal(estimates_document([profile], explained=True)).split())
    assert "loading not known" in text
    assert "peak memory" in text


def test_a_large_model_has_times_on_the_neural_engine_alone() -> None:
    model = sample_model(size=224, width=4.0, classes=1000)
    profile = api.estimate(model, "m1", compute_units=["cpu_and_ne", "cpu_only"], explain=True)
    on_engine, on_cpu = profile.estimates
    assert on_cpu.load is None
    assert on_engine.load is not None
    assert "compiles for the Neural Engine" in " ".join(
        write_terminal(estimates_document([profile], explained=True)).split()
    )
