from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.base.units import format_rate
from coremlscope.devices import SETTINGS
from coremlscope.formats.sample import sample_model
from coremlscope.reports.estimates import estimates_document, estimates_to_json
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.profile import Profile


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    """Two models on two devices under every setting."""
    model = sample_model(size=32, width=0.5, classes=4)
    profile = api.estimate(model, ["m1", "iphone-15-pro"], compute_units=list(SETTINGS))
    return [
        msgspec.structs.replace(profile, model=msgspec.structs.replace(profile.model, path=path))
        for path in ("folder/a_rather_long_name_of_a_model.mlpackage", "b.mlpackage")
    ]


def first(profile: Profile, count: int) -> Profile:
    """The profile with its first estimates and answers only."""
    return msgspec.structs.replace(
        profile, estimates=profile.estimates[:count], answers=profile.answers[:count]
    )


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("count", [1, 8, 16])
def test_tables_fit_the_width(profiles: list[Profile], count: int, width: int) -> None:
    listed = profiles if count == 16 else [first(profiles[0], count)]
    lines = write_terminal(estimates_document(listed), width=width).splitlines()
    assert max(map(len, lines)) <= width


def test_what_all_have_in_common_has_no_column(profiles: list[Profile]) -> None:
    def head(listed: list[Profile]) -> str:
        text = write_terminal(estimates_document(listed), width=140)
        return next(line for line in text.splitlines() if line.strip().startswith("device"))

    assert "model" not in head(profiles[:1])
    assert "model" in head(profiles)
    assert "setting" in head(profiles)
    assert "setting" not in head([first(profiles[0], 1)])


def test_kernels_of_a_single_estimate(profiles: list[Profile]) -> None:
    assert "costliest kernels" in write_terminal(estimates_document([first(profiles[0], 1)]))
    assert "costliest kernels" not in write_terminal(estimates_document([first(profiles[0], 2)]))


def test_json(profiles: list[Profile]) -> None:
    shown = estimates_to_json(profiles)
    assert [(e["model"], e["device"], e["compute_units"]) for e in shown[:5:4]] == [
        (profiles[0].model.path, "M1", "all"),
        (profiles[0].model.path, "iPhone 15 Pro", "all"),
    ]
    estimate, one = profiles[0].estimates[0], shown[0]
    assert one["origin"] == "estimated"
    assert one["latency_ms"]["value"] == estimate.latency.value * 1e3
    assert one["frames_per_second"] == 1 / estimate.latency.value
    assert sum(one["parts_ms"].values()) == pytest.approx(one["latency_ms"]["value"])
    times = [kernel["ms"] for kernel in one["kernels"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 5
    assert set(one["kernels"][0]["operations"]) <= set(profiles[0].ops.id)


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [(0.00642, "156"), (0.0016629, "602"), (0.000771, "1300"), (0.0333, "30.0"), (2.33, "0.429")],
)
def test_rates_are_those_of_the_durations_shown(seconds: float, rate: str) -> None:
    assert format_rate(seconds) == rate
