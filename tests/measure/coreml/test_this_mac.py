"""What a first answer says of this Mac; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import sys
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest

from coremlscope import api
from coremlscope.api.this_mac import measure_this_mac
from coremlscope.base.errors import InputError
from coremlscope.cli.predict import predict_files
from coremlscope.describe.this_mac import say_measured
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.measure.coreml.units import UNITS_VARIABLE
from coremlscope.measure.effort import Effort
from coremlscope.model.subject import Subject
from coremlscope.reports.answer import this_mac_values
from tests.support import converted_models
from tests.support.converted_models import mlp_result
from tests.support.coreml_children import as_a_mac


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


@pytest.mark.usefixtures("mac", "free_units")
def test_this_mac_is_measured(package: Path) -> None:
    calls: list[str] = []
    (measured,), failed = measure_this_mac(Subject(package), lambda phase, *_: calls.append(phase))
    assert not failed
    assert {name: len(phase.samples_s) for name, phase in measured.phases.items()} == {
        "compile": 1,
        "first load": 1,
        "load": 1,
        "predict": len(measured.predict.samples_s) if measured.predict else 0,
    }
    assert dict.fromkeys(calls).keys() == {"compile", "first load", "load", "warm-up", "predict"}
    assert "measured by Core ML under all." in say_measured((measured,), failed)


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML itself has no faults to order")
@pytest.mark.usefixtures("free_units")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("load aborts", ("no prediction was measured", "under all failed", "SIGABRT", "(phase: first load)")),
        ("predict fails", ("no prediction was measured", "Failed to execute", "(phase: warm-up).")),
        ("third prediction fails", ("no prediction was measured", "(phase: warm-up) after 2 warm-ups of")),
        ("nan", ("a prediction took", "outputs are infinite or NaN")),
    ],
)
def test_failures_are_in_the_first_sentence(
    fault: str, said: tuple[str, ...], package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_a_mac(monkeypatch, fault)
    sentence = say_measured(*measure_this_mac(Subject(package)))
    assert all(part in sentence for part in said)


@pytest.mark.usefixtures("mac")
def test_a_held_setting_is_said(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNITS_VARIABLE, "cpu_only")
    sentence = say_measured(*measure_this_mac(Subject(package)))
    assert "under cpu_only; Core ML is held to this setting here." in sentence


@pytest.mark.usefixtures("mac", "free_units")
def test_a_prediction_by_core_ml(package: Path, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    np.save(tmp_path / "x.npy", x)
    given = ([("x", str(tmp_path / "x.npy"))], {}, "center-crop", None, "fp32", "coreml", Effort())
    outputs, _ = predict_files(package, *given)
    np.testing.assert_allclose(outputs["y"], mlp_result(x), atol=2e-2)
    with pytest.raises(InputError, match="x"):
        predict_files(package, [], *given[1:])


@pytest.mark.usefixtures("mac", "free_units")
def test_the_first_answer_measures_this_mac_and_estimates_others(package: Path) -> None:
    answered = api.answer(package)
    assert [one.runtime.id for one in answered.measurements] == ["coreml"]
    assert len({one.device for one in answered.answers}) == len(DEFAULT_DEVICES)
    assert this_mac_values(answered)["this_mac"].startswith("On this Mac")
    for without in (api.answer(package, measures=False), api.answer(package, "m1")):
        assert not without.measurements
        assert not this_mac_values(without)
