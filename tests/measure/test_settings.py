"""One model under several settings of compute units."""

from __future__ import annotations

import pytest

from coremlscope.base.errors import EngineError
from coremlscope.measure.contract import MeasuredModel
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.measure.settings import measure_settings
from coremlscope.results.measurement import Settings
from tests.support.ir_models import perceptron

SETTINGS = [Settings(compute_units=units, iterations=1) for units in ("all", "cpu_and_gpu", "cpu_only")]


def subject() -> MeasuredModel:
    return MeasuredModel.of(perceptron(), SETTINGS[0])


def test_a_failure_costs_one_setting() -> None:
    measurer = ScriptedMeasurer(failures={"cpu_and_gpu": EngineError("Core ML aborted", "use the CPU")})
    measured, findings = measure_settings(measurer, subject(), SETTINGS)
    assert [measurement.compute_units for measurement in measured] == ["all", "cpu_only"]
    (finding,) = findings
    assert (finding.severity, finding.exit_code, finding.hint) == ("error", 6, "use the CPU")
    assert finding.text == "cpu_and_gpu was not measured: Core ML aborted."


def test_nothing_measured_is_an_error() -> None:
    measurer = ScriptedMeasurer(failures=dict.fromkeys(("all", "cpu_and_gpu", "cpu_only"), EngineError("x")))
    with pytest.raises(EngineError, match="x"):
        measure_settings(measurer, subject(), SETTINGS)
