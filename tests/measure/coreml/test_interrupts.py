"""Ctrl-C and limits after something was measured: it is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.base.errors import EngineError
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, Progress, resolve_settings
from coremlscope.measure.coreml.kept import KeptFolders, compiled_in
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.effort import Effort
from coremlscope.measure.partial import INTERRUPTED_EXIT, is_interrupted
from coremlscope.measure.settings import measure_settings
from coremlscope.results.measurement import Measurement, Settings
from tests.support import converted_models
from tests.support.coreml_children import scripted_timing_child

QUICK = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
SHORT = Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=1)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


def _interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@dataclasses.dataclass
class _Interrupted:
    """Measures so often, then the user interrupts."""

    times: int

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        self.times -= 1
        if self.times < 0:
            raise KeyboardInterrupt
        measurer = CoreMLMeasurer(command=scripted_timing_child())
        return measurer.measure(subject, settings, inputs=inputs, progress=progress)


def _subject(package: Path) -> MeasuredModel:
    model = container.read(package)
    return MeasuredModel.of(model, resolve_settings(model, SHORT))


@pytest.mark.parametrize(("times", "measured", "recorded"), [(1, 1, False), (2, 2, True)])
def test_in_a_later_setting_or_a_recorded_run(
    package: Path, times: int, measured: int, recorded: bool
) -> None:
    settings = [msgspec.structs.replace(SHORT, compute_units=units) for units in ("all", "cpu_only")]
    recorder = _Interrupted(0) if recorded else None
    found, (finding,) = measure_settings(_Interrupted(times), _subject(package), settings, recorder=recorder)
    assert len(found) == measured
    assert (finding.id, finding.exit_code) == ("interrupted", INTERRUPTED_EXIT)


def test_before_anything_was_measured(package: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure_settings(_Interrupted(0), _subject(package), [SHORT])


@pytest.mark.usefixtures("mac")
@pytest.mark.parametrize("where", ["ask_core_ml", "this_mac"])
def test_while_a_plan_is_loaded(package: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(f"coremlscope.measure.coreml.plan.{where}", _interrupt)
    profile = api.profile(package, **QUICK)
    assert profile.measurement.predict is not None
    assert INTERRUPTED_EXIT in [finding.exit_code for finding in profile.findings]


def test_while_the_conditions_are_read(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([lambda: None, _interrupt])
    monkeypatch.setattr("coremlscope.measure.coreml.timing.conditions", lambda: next(answers)())
    measured = CoreMLMeasurer(command=scripted_timing_child()).measure(_subject(package), SHORT)
    assert measured.predict is not None
    assert is_interrupted(measured)


@pytest.mark.usefixtures("mac")
@pytest.mark.parametrize("ended", [KeyboardInterrupt(), EngineError("not switched")])
def test_while_the_power_mode_is_to_be_switched(
    package: Path, monkeypatch: pytest.MonkeyPatch, ended: BaseException
) -> None:
    def wait(_: str) -> str:
        raise ended

    monkeypatch.setattr("coremlscope.runtime.engines.host.power_mode", lambda: "normal")
    monkeypatch.setattr("coremlscope.measure.power_modes.wait_for_other_mode", wait)
    profile = api.profile_power_modes(package, **QUICK)
    assert len(profile.measurements) == 1
    assert profile.findings[-1].exit_code


@pytest.mark.usefixtures("mac")
def test_limits_reach_the_plan_which_finds_the_compiled_model(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, Path | None]] = []

    def ask(_: Path, __: str, limits: Any, **options: Any) -> Any:
        asked.append((limits, compiled_in(options["home"])))
        raise EngineError("no plan")

    monkeypatch.setattr("coremlscope.measure.coreml.plan.ask_core_ml", ask)
    effort = Effort(load_iterations=1, warmups=0, timeout_s=77.0, memory_bytes=9 * 10**9)
    profile = api.profile(package, iterations=1, effort=effort)
    ((limits, compiled),) = asked
    assert (limits.time_s, limits.memory_bytes) == (77.0, 9 * 10**9)
    assert compiled is not None
    # Nothing is left behind.
    assert not compiled.exists()
    assert profile.measurement.predict is not None


def test_the_first_folder_of_a_setting_is_kept() -> None:
    with KeptFolders() as kept:
        with kept.make("all") as first, kept.make("all") as second:
            assert first != second
        assert (kept.of("all"), first.exists(), second.exists()) == (first, True, False)
        assert kept.of("cpu_only") is None
    assert not first.exists()
