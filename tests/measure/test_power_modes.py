"""Two power modes in one profile: the user switches, nothing is averaged, and the wait ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.base.errors import EngineError, UsageError
from coremlscope.cli import main
from coremlscope.formats.sample import sample_model
from coremlscope.measure.power_modes import wait_for_other_mode
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.reports.timing import measurement_name
from coremlscope.results.measurement import Machine, Measurement


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The power mode of a Mac, under the key `now`."""
    mode = {"now": "normal"}
    for module in ("coremlscope.runtime.engines.host", "coremlscope.measure.power_modes"):
        monkeypatch.setattr(f"{module}.power_mode", lambda: mode["now"])
    return mode


class Measurer:
    """Measures half as fast in low power mode."""

    def __init__(self, modes: dict[str, str]) -> None:
        self._modes = modes

    def measure(self, *arguments: Any, **options: Any) -> Measurement:
        mode = self._modes["now"]
        measurer = ScriptedMeasurer(
            machine=Machine(processor="Apple M1", power_mode=mode),
            predict_s=(0.5 if mode == "low power" else 0.25,),
        )
        return measurer.measure(*arguments, **options)


def test_both_modes_stand_in_one_profile(modes: dict[str, str]) -> None:
    announced: list[str] = []

    def switch(mode: str) -> None:
        announced.append(mode)
        modes["now"] = "low power"

    profile = api.profile_power_modes(sample_model(), announce=switch, engine=Measurer(modes), iterations=3)
    assert announced == ["normal"]
    assert [
        (m.machine.power_mode, m.predict.statistics.median) for m in profile.measurements if m.predict
    ] == [("normal", 0.25), ("low power", 0.5)]
    names = [measurement_name(m, profile.measurements) for m in profile.measurements]
    assert [name.rpartition(", ")[2] for name in names] == ["power mode: normal", "power mode: low power"]


def test_the_wait_ends(modes: dict[str, str]) -> None:
    def clock() -> Iterator[float]:
        yield from (0.0, 1.0, 2.0, 99.0)

    ticks = clock()
    with pytest.raises(EngineError, match="not switched from normal within 1 minutes"):
        wait_for_other_mode("normal", patience_s=60, clock=lambda: next(ticks), sleep=lambda _: None)


def test_a_mode_that_cannot_be_read_is_not_another_mode(modes: dict[str, str]) -> None:
    answers = iter(["", "low power"])
    modes["now"] = ""
    assert wait_for_other_mode("normal", sleep=lambda _: modes.update(now=next(answers))) == "low power"


def test_without_power_modes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("coremlscope.runtime.engines.host.power_mode", lambda: "")
    with pytest.raises(UsageError, match="does not report a power mode"):
        api.profile_power_modes(msgspec.structs.replace(sample_model()))


def test_the_option(
    modes: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from coremlscope.formats.sample import write_sample

    package = tmp_path / "sample.mlpackage"
    write_sample(package)
    assert main(["profile", str(package), "--power-mode", "low-power"]) == 2
    assert "is normal, not low power" in capsys.readouterr().err
    modes["now"] = ""
    assert main(["profile", str(package), "--power-mode", "both"]) == 2
    assert "does not report a power mode" in capsys.readouterr().err
