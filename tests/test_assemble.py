"""Where the arms meet."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec.structs
import pytest

from coremlscope.api.assemble import assemble, made_here
from coremlscope.base.findings import Finding
from coremlscope.base.version import __version__
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.measure.contract import MeasuredModel, now, resolve_settings
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.planning.forecast.planner import Forecast, forecast
from coremlscope.results.measurement import Settings
from coremlscope.results.operations import OpTable
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.host import this_machine
from tests.support.ir_models import perceptron
from tests.support.planned_profiles import KERNELS, device_estimates, device_plan
from tests.support.planned_rows import rows
from tests.support.profiles import MADE, small_measurement, small_ops, small_summary, timed_by

SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_only")


def test_three_measurements_beside_two_plans() -> None:
    measurements = [
        small_measurement(),
        timed_by("Core ML on M2", 0.002),
        timed_by("Core ML on M2", 0.008, compute_units="cpu_only"),
    ]
    known = Forecast(
        plans=(device_plan("M1"), device_plan("M2", slow=3)),
        kernels=KERNELS,
        estimates=(*device_estimates("M1"), *device_estimates("M2", slow=3)),
    )
    remark = Finding(id="own", severity="info", text="Of the profile.")
    profile = assemble(
        small_summary(),
        small_ops(),
        measurements=measurements,
        forecast=known,
        findings=[remark],
        made=MADE,
    )
    assert profile.measurements == tuple(measurements)
    assert (profile.plans, profile.kernels) == (known.plans, known.kernels)
    assert profile.estimates == known.estimates
    assert (profile.findings, profile.made) == ((remark,), MADE)
    assert profile.ops == small_ops()
    # Each arm refers to the rows of the one table.
    assert [rows(plan)[3].id for plan in profile.plans] == ["main/13", "main/13"]
    assert [profile.ops.id[row] for row in profile.measurement.groups[1].ops] == ["main/13", "main/16"]
    assert [profile.ops.id[row] for row in profile.kernels[1].ops] == ["main/13", "main/16"]
    assert profile.all_findings[0] == remark


def test_what_was_measured_and_forecast_here_fits_together() -> None:
    model = perceptron()
    settings = resolve_settings(
        model, Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=0)
    )
    subject = MeasuredModel.of(model, settings)
    devices = [find_device("m1"), find_device("a14")]
    known = forecast(model, subject.ops, devices, SETTINGS)
    measured = [EngineMeasurer(threads=threads).measure(subject, settings) for threads in (1, 2, None)]
    profile = assemble(subject.summary, subject.ops, measurements=measured, forecast=known)
    assert [m.threads for m in profile.measurements[:2]] == [1, 2]
    assert [plan.device for plan in profile.plans] == ["M1", "A14"]
    assert [(e.device, e.compute_units) for e in profile.estimates] == [
        ("M1", "all"),
        ("M1", "cpu_only"),
        ("A14", "all"),
        ("A14", "cpu_only"),
    ]
    for m in profile.measurements:
        assert len(m.status) == len(m.group) == len(profile.ops)
    assert Profile.from_json(profile.to_json()) == profile


def test_the_operations_of_the_description_become_those_of_the_profile() -> None:
    summary = small_summary(list_ops=True)
    profile = assemble(summary)
    assert profile.ops == summary.ops
    assert len(profile.ops) > 0
    assert profile.model.ops == OpTable()
    assert profile.model == msgspec.structs.replace(summary, ops=OpTable())
    # A table that is given takes its place.
    other = assemble(summary, small_ops())
    assert (other.ops, other.model.ops) == (small_ops(), OpTable())


def test_every_arm_may_be_absent() -> None:
    profile = assemble(small_summary())
    arms = (profile.measurements, profile.plans, profile.kernels, profile.estimates, profile.findings)
    assert set(arms) == {()}
    assert len(profile.ops) == 0


def test_arms_of_another_table_are_refused() -> None:
    with pytest.raises(ValueError, match="column status of a measurement does not have 0 rows"):
        assemble(small_summary(), measurements=[small_measurement()])
    with pytest.raises(ValueError, match="which is not in the op table"):
        assemble(small_summary(), forecast=Forecast(plans=(device_plan(),)))


def test_made_now_and_here() -> None:
    made = made_here()
    assert (made.version, made.machine) == (__version__, this_machine())
    assert assemble(small_summary()).made.version == __version__
    assert abs(datetime.fromisoformat(made.at) - datetime.now(UTC)) < timedelta(minutes=1)


def test_now_is_utc_to_the_second() -> None:
    text = now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert datetime.fromisoformat(text).utcoffset() == timedelta(0)
