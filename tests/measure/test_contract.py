"""Contract of measurers: a label, the runtime, phases with samples, and rows that exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coremlscope.api.assemble import assemble
from coremlscope.base.errors import UsageError
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, Measurer, resolve_settings
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.reports.renderers import RENDERERS
from coremlscope.results.measurement import Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support import converted_models
from tests.support.coreml_children import TIMING_CHILD

QUICK = Settings(compute_units="cpu_only", iterations=3, compile_iterations=1, load_iterations=2, warmups=0)


def engine_measurer() -> Measurer:
    engine = ScriptedEngine(clock=ScriptedClock())
    return EngineMeasurer(engine=engine, clock=engine.clock)


MEASURERS: dict[str, Callable[[], Measurer]] = {
    "engine": engine_measurer,
    "core ml": lambda: CoreMLMeasurer(command=TIMING_CHILD),
    "scripted": ScriptedMeasurer,
}
every_measurer = pytest.mark.parametrize("name", MEASURERS)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@every_measurer
def test_every_measurement_is_complete(name: str, package: Path) -> None:
    model = container.read(package)
    settings = resolve_settings(model, QUICK)
    subject = MeasuredModel.of(model, settings)
    phases: list[str] = []
    measured = MEASURERS[name]().measure(subject, settings, progress=lambda phase, *_: phases.append(phase))
    assert measured.label
    assert measured.runtime.name in measured.label
    assert measured.machine.processor
    assert measured.settings == settings
    assert measured.measured_at.endswith("Z")
    assert {"load", "predict"} <= set(measured.phases)
    assert measured.phases["predict"].statistics.count == 3
    assert {phase.origin for phase in measured.phases.values()} == {"measured"}
    assert "predict" in phases
    # Only a runtime that has compute units says that a setting was in effect.
    assert measured.compute_units == (
        "" if measured.runtime.id == "scripted" and name == "engine" else "cpu_only"
    )
    profile = assemble(subject.summary, subject.ops, measurements=[measured])
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile
    for renderer in RENDERERS:
        assert renderer.render(profile)


def test_settings_are_checked_before_anything_is_measured(package: Path) -> None:
    model = container.read(package)
    with pytest.raises(UsageError, match="invalid compute units 'npu'"):
        resolve_settings(model, Settings(compute_units="npu"))
