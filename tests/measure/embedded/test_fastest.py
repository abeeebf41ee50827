"""The faster of two engines measures, and a finding says what each took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coremlscope.base.errors import EngineError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.embedded import fastest
from coremlscope.measure.embedded.fastest import FastestMeasurer, Trial, race, try_engines
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.model.ir import Model
from coremlscope.results.measurement import Measurement, Settings
from tests.support import converted_models

SETTINGS = Settings(iterations=20, compile_iterations=2, load_iterations=2)


class _Clock:
    """Time that only passes when a runner takes it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: Sequence[float]) -> Callable[[], None]:
        """A runner whose predictions take these seconds in turn."""
        left: list[float] = []

        def run() -> None:
            if not left:
                left.extend(seconds)
            self.now += left.pop(0)

        return run


class _Engine(ScriptedMeasurer, frozen=True):
    asked: list[str] = msgspec.field(default_factory=list)
    name: str = ""

    def measure(self, subject: MeasuredModel, settings: Settings, **options: object) -> Measurement:
        self.asked.append(self.name)
        return super().measure(subject, settings, **options)  # type: ignore[arg-type]


@pytest.fixture
def subject(tmp_path: Path) -> MeasuredModel:
    path = tmp_path / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    model = container.read(path)
    return MeasuredModel.of(model, resolve_settings(model, SETTINGS))


def _measured(
    subject: MeasuredModel, trial: Trial, engines: tuple[str, ...]
) -> tuple[list[str], Measurement]:
    asked: list[str] = []

    def tries(model: Model, settings: Settings, names: Sequence[str], inputs: Mapping[str, Any]) -> Trial:
        assert names == engines
        return trial

    fastest = FastestMeasurer(lambda name: _Engine(asked=asked, name=name), tries, engines)
    return asked, fastest.measure(subject, SETTINGS)


@pytest.mark.parametrize(
    ("blocks", "best"),
    [
        ({"onnxruntime": [2.0, 2.0], "openvino": [1.0, 1.5]}, "openvino"),
        ({"onnxruntime": [1.0, 1.0, 9.0], "openvino": [2.0, 2.0, 2.0]}, "onnxruntime"),
        ({"openvino": [5.0]}, "openvino"),
    ],
)
def test_the_faster_engine_measures(
    blocks: dict[str, list[float]], best: str, subject: MeasuredModel
) -> None:
    failed = {name: "no kernel" for name in ("onnxruntime", "openvino") if name not in blocks}
    asked, measured = _measured(subject, Trial(blocks, failed), ("onnxruntime", "openvino"))
    assert asked == [best]
    assert measured.findings[0].id == "engine-chosen"
    assert best in (measured.findings[0].hint or "")
    assert ("no kernel" in measured.findings[0].text) == bool(failed)


def test_one_engine_needs_no_trial(subject: MeasuredModel) -> None:
    asked, measured = _measured(subject, Trial({}, {}), ("onnxruntime",))
    assert asked == ["onnxruntime"]
    assert "engine-chosen" not in {finding.id for finding in measured.findings}


@pytest.mark.parametrize("ratio", [1.0, 1.005, 0.995, 1.3, 0.7])
def test_a_trial_ends_once_the_order_is_clear_or_does_not_matter(ratio: float) -> None:
    clock = _Clock()
    blocks = race({"a": clock.takes([0.01]), "b": clock.takes([0.01 * ratio])}, clock=clock)
    assert len(blocks["a"]) == len(blocks["b"]) < 12
    assert Trial(blocks, {}).medians["b"] == pytest.approx(0.01 * ratio)


def test_a_trial_goes_on_while_noise_hides_the_order() -> None:
    """Every other block of one engine is slow: a few rounds cannot tell, and the budget ends the trial."""
    clock = _Clock()
    noisy = clock.takes([*[0.02] * 3, *[0.03] * 3, *[0.01] * 4])
    blocks = race({"a": noisy, "b": clock.takes([0.02])}, clock=clock)
    assert len(blocks["a"]) > 12
    assert clock.now < 6.0


def test_slow_predictions_end_a_trial_by_its_budget() -> None:
    clock = _Clock()
    blocks = race({"a": clock.takes([3.0]), "b": clock.takes([2.0])}, clock=clock)
    assert Trial(blocks, {}).medians == {"b": 2.0, "a": 3.0}
    assert clock.now < 20.0


@pytest.mark.parametrize("limits", [None, ChildLimits()])
def test_engines_are_tried_on_the_model(limits: ChildLimits | None, subject: MeasuredModel) -> None:
    trial = try_engines(subject.model, _settings(subject), ("onnxruntime",), {}, 1, limits)
    assert trial.failed == {}
    assert trial.medians["onnxruntime"] > 0


def test_engines_that_all_fail_are_an_error(subject: MeasuredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise EngineError("no kernel for it")

    monkeypatch.setattr("coremlscope.runtime.engines.onnxruntime.OnnxRuntimeEngine.build", fail)
    with pytest.raises(EngineError, match="no kernel"):
        try_engines(subject.model, _settings(subject), ("onnxruntime",), {}, 1)


@pytest.mark.parametrize(("size", "most", "loads"), [(1 << 10, 2, "ab"), (1 << 20, 1, "aaba")])
def test_large_models_are_tried_in_one_engine_at_a_time(
    size: int, most: int, loads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(size))
    monkeypatch.setattr(fastest, "_LARGE_BYTES", 1 << 20)
    monkeypatch.setattr(fastest, "_BUDGET_S", 0.0)
    loaded: list[str] = []
    held = {"now": 0, "most": 0}

    @contextmanager
    def load(name: str) -> Iterator[Callable[[], None]]:
        loaded.append(name)
        held["now"] += 1
        held["most"] = max(held.values())
        yield lambda: time.sleep(0.001 if name == "a" else 0.02)
        held["now"] -= 1

    trial = fastest._try_loaded(load, ("a", "b"), tmp_path / "weights.bin")
    assert list(trial.medians) == ["a", "b"]
    assert (held["most"], "".join(loaded)) == (most, loads)


def _settings(subject: MeasuredModel) -> Settings:
    return resolve_settings(subject.model, SETTINGS)
