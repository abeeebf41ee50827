"""Conditions that change times: what is remarked, and what is not."""

from __future__ import annotations

import pytest

from coremlscope.results.measurement import Conditions, condition_findings

CALM = Conditions("normal", "AC Power", "nominal")


@pytest.mark.parametrize(
    ("before", "after", "ids"),
    [
        (None, None, []),
        (CALM, CALM, []),
        (Conditions(), Conditions(), []),
        (CALM, Conditions("normal", "Battery Power", "nominal"), ["power-source-changed"]),
        (CALM, Conditions("low power", "AC Power", "heavy"), ["power-mode-changed", "thermal-state-changed"]),
        (Conditions(thermal_state="fair"), Conditions(thermal_state="fair"), ["thermal-state"]),
    ],
)
def test_conditions_are_remarked(before: Conditions | None, after: Conditions | None, ids: list[str]) -> None:
    found = condition_findings(before, after)
    assert [finding.id for finding in found] == ids
    assert {finding.severity for finding in found} <= {"warning"}


def test_the_remark_names_both_states() -> None:
    (finding,) = condition_findings(CALM, Conditions("normal", "AC Power", "moderate"))
    assert "from nominal to moderate" in finding.text
