"""The faster of two engines measures, and a finding says what each took."""

from __future__ import annotations

from pathlib import Path

import msgspec
import msgspec.structs
import pytest

from coremlscope.base.errors import EngineError
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.embedded.fastest import FastestMeasurer
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.results.measurement import Measurement, Settings
from tests.support import converted_models

SETTINGS = Settings(iterations=20, compile_iterations=2, load_iterations=2)


class _Engine(ScriptedMeasurer, frozen=True):
    """Predicts so many times slower than the script; fails if that is 0."""

    slower: float = 1.0
    asked: list[int] = msgspec.field(default_factory=list)

    def measure(self, subject: MeasuredModel, settings: Settings, **options: object) -> Measurement:
        if not self.slower:
            raise EngineError("no kernel for it")
        self.asked.append(settings.iterations)
        found = super().measure(subject, settings, **options)  # type: ignore[arg-type]
        assert found.predict is not None
        statistics = msgspec.structs.replace(
            found.predict.statistics, median=found.predict.statistics.median * self.slower
        )
        return msgspec.structs.replace(
            found, predict=msgspec.structs.replace(found.predict, statistics=statistics)
        )


@pytest.fixture
def subject(tmp_path: Path) -> MeasuredModel:
    path = tmp_path / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    model = container.read(path)
    return MeasuredModel.of(model, resolve_settings(model, SETTINGS))


@pytest.mark.parametrize(
    ("speeds", "best"),
    [
        ({"onnxruntime": 2.0, "openvino": 1.0}, "openvino"),
        ({"onnxruntime": 1.0, "openvino": 2.0}, "onnxruntime"),
        ({"onnxruntime": 1.0, "openvino": 0.0}, "onnxruntime"),
        ({"onnxruntime": 0.0, "openvino": 5.0}, "openvino"),
    ],
)
def test_the_faster_engine_measures(speeds: dict[str, float], best: str, subject: MeasuredModel) -> None:
    asked: dict[str, list[int]] = {name: [] for name in speeds}
    fastest = FastestMeasurer(lambda name: _Engine(slower=speeds[name], asked=asked[name]), tuple(speeds))
    measured = fastest.measure(subject, SETTINGS)
    assert asked[best] == [10, 20]
    assert measured.findings[0].id == "engine-chosen"
    assert best in (measured.findings[0].hint or "")


def test_engines_that_all_fail_are_an_error(subject: MeasuredModel) -> None:
    fastest = FastestMeasurer(lambda _: _Engine(slower=0.0), ("onnxruntime", "openvino"))
    with pytest.raises(EngineError, match="no kernel"):
        fastest.measure(subject, SETTINGS)


def test_one_engine_needs_no_trial(subject: MeasuredModel) -> None:
    asked: list[int] = []
    measured = FastestMeasurer(lambda _: _Engine(asked=asked), ("onnxruntime",)).measure(subject, SETTINGS)
    assert asked == [20]
    assert "engine-chosen" not in {finding.id for finding in measured.findings}
