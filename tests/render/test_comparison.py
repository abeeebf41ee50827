from __future__ import annotations

import pytest

from coremlscope.api.sources import compare_sources
from coremlscope.base.units import format_ratio
from coremlscope.describe.comparison.profiles import compare_profiles
from coremlscope.planning.answer.comparison import compare_judged
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import golden
from tests.support.comparisons import changed, small_comparison, timed
from tests.support.planned_profiles import planned_profile
from tests.support.profiles import small_profile


@pytest.mark.parametrize("width", [80, 140])
def test_screens(width: int) -> None:
    golden.check(f"compare_{width}.txt", write_terminal(comparison_document(small_comparison()), width=width))


@pytest.mark.parametrize("width", [80, 140])
def test_screens_of_plans(width: int) -> None:
    profile = planned_profile()
    comparison = compare_sources([("one", profile)], [profile])
    golden.check(f"compare_plans_{width}.txt", write_terminal(comparison_document(comparison), width=width))


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    three = compare_profiles([small_profile(), changed(), timed(changed(), linear=3)])
    placed = compare_judged([planned_profile(), planned_profile(slow=3)])
    for comparison in (small_comparison(), three, placed):
        assert (
            max(map(len, write_terminal(comparison_document(comparison), width=width).splitlines())) <= width
        )


def test_nothing_changed() -> None:
    profile = timed(small_profile())
    text = write_terminal(comparison_document(compare_profiles([profile, profile])))
    assert "the same model and settings" in text
    assert "no operation's time changed" in text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.05, "+5.0 %"), (0.727, "−27.3 %"), (1.0001, "±0.0 %"), (3.21, "×3.21"), (None, "–")],
)
def test_ratios(ratio: float | None, text: str) -> None:
    assert format_ratio(ratio) == text
