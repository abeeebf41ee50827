"""The stored costs of launches, changes and ends make up the planned total together with the operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coremlscope import api
from coremlscope.formats.sample import sample_model
from coremlscope.results.plan import Plan, SettingPlan


def path(plan: Plan, setting: SettingPlan) -> Iterator[tuple[str, float]]:
    """The backend and the cost of every operation of the path, with those that Core ML inserts, in order."""
    for op in plan.ops:
        chosen = op.choices[setting.compute_units]
        if chosen.backend is not None and op.id.count("/") == 1:
            yield chosen.backend, chosen.planned_ms or 0.0


@pytest.mark.parametrize("device", ["m1", "iphone-15-pro"])
def test_transitions_and_operations_are_the_total(device: str) -> None:
    model = sample_model(size=224, width=0.5, classes=4)
    profile = api.plan(model, [device], compute_units=["all", "cpu_and_gpu", "cpu_only"])
    (plan,) = profile.plans
    assert plan.transitions is not None
    for setting in plan.settings:
        total, last = 0.0, ""
        for backend, cost in path(plan, setting):
            if backend != last:
                total += plan.transitions.launch_ms.get(backend, 0.0)
                total += plan.transitions.switch_ms if last else 0.0
            total += cost
            last = backend
        total += plan.transitions.finish_ms.get(last, 0.0)
        assert total == pytest.approx(setting.total_ms, rel=1e-9)
