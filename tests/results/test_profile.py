"""The one result: what fits together, and how its parts are found."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices import ComputeUnits
from coremlscope.results.measurement import Fp16Ranges, Measurement
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, SettingPlan
from coremlscope.results.plan_encoding import encode_ops
from coremlscope.results.profile import Profile
from tests.support.partial_profiles import PROFILES as MAKERS
from tests.support.partial_profiles import three_measurements_beside_two_plans
from tests.support.planned_profiles import planned_profile
from tests.support.planned_rows import with_columns
from tests.support.profiles import small_profile

BASE = planned_profile()
PROFILES = {name: make() for name, make in MAKERS.items()}


def measurement(**changes: Any) -> Profile:
    return msgspec.structs.replace(
        BASE, measurements=(msgspec.structs.replace(BASE.measurements[0], **changes),)
    )


def plan(**changes: Any) -> Profile:
    return msgspec.structs.replace(BASE, plans=(msgspec.structs.replace(BASE.plans[0], **changes),))


def setting(**changes: Any) -> Profile:
    first, *others = BASE.plans[0].settings
    return plan(settings=(msgspec.structs.replace(first, **changes), *others))


def estimate(**changes: Any) -> Profile:
    return msgspec.structs.replace(BASE, estimates=(msgspec.structs.replace(BASE.estimates[0], **changes),))


def group(**changes: Any) -> Profile:
    first, *others = BASE.measurements[0].groups
    return measurement(groups=(msgspec.structs.replace(first, **changes), *others))


def kernel(*ops: int) -> Profile:
    first, *others = BASE.kernels
    return msgspec.structs.replace(BASE, kernels=(msgspec.structs.replace(first, ops=ops), *others))


def columns(**changes: Any) -> Profile:
    return msgspec.structs.replace(BASE, plans=(with_columns(BASE.plans[0], BASE.ops, **changes),))


def choices(**changes: Any) -> Profile:
    known = encode_ops(BASE.plans[0].ops).choices
    return columns(choices={**known, "all": msgspec.structs.replace(known["all"], **changes)})


def what_if(**changes: object) -> Profile:
    first = BASE.plans[0].settings[0].what_ifs[0]
    return setting(what_ifs=(msgspec.structs.replace(first, **changes),))


def inputs(*rows: int) -> Profile:
    table = BASE.ops
    return msgspec.structs.replace(BASE, ops=msgspec.structs.replace(table, inputs=(rows, *table.inputs[1:])))


SEVEN, TEN = (0,) * 7, (None,) * 10
RANGES = Fp16Ranges(largest=(None,) * 5, overflows=(None,) * 6, infinities=(None,) * 6, nans=(None,) * 6)
#: What does not fit together, by the words that say so.
WRONG: list[tuple[str, Callable[[], Profile]]] = [
    ("column status of a measurement does not have 6 rows", lambda: measurement(status=("timed",))),
    ("column group of a measurement does not have 6 rows", lambda: measurement(group=SEVEN)),
    ("column largest of a measurement does not have 6 rows", lambda: measurement(fp16=RANGES)),
    ("group contain an index", lambda: measurement(group=(0, -1, 1, 1, 4, -1))),
    ("group contain an index", lambda: measurement(group=(0, -2, 1, 1, 3, -1))),
    ("groups contain an index", lambda: group(ops=(6,))),
    ("groups contain an index", lambda: group(ops=(-1,))),
    ("a column of a plan", lambda: columns(supported={"cpu": (1,) * 6})),
    ("a column of a plan", lambda: columns(cost_ms={"ane": TEN})),
    ("main/input, which is not in the op table", lambda: columns(inserted=())),
    ("a column of a plan", lambda: columns(why=((),) * 6)),
    ("a column of a plan", lambda: columns(advice=((),) * 8)),
    ("a column of a plan", lambda: columns(cost_basis={"ane": (None,) * 6})),
    ("a column of a plan", lambda: choices(backend=(0,) * 6)),
    ("a column of a plan", lambda: choices(weight=(0.1,) * 6)),
    ("a column of a plan", lambda: choices(detour_ms={"cpu": (None,) * 6})),
    ("costs of a backend that it does not name", lambda: plan(backends={})),
    ("lacks settings, or the choices of one", lambda: plan(settings=())),
    ("lacks settings, or the choices of one", lambda: columns(choices={})),
    ("invalid support values", lambda: columns(supported={"cpu": (2,) * 7})),
    ("index that is out of range", lambda: choices(backend=(3,) * 7)),
    ("index that is out of range", lambda: choices(backend=(-2,) * 7)),
    ("index that is out of range", lambda: columns(cost_basis={"ane": SEVEN})),
    ("index that is out of range", lambda: columns(why=((1,), *((),) * 6))),
    ("index that is out of range", lambda: columns(advice=((-1,), *((),) * 6))),
    ("a column of a plan", lambda: columns(doubts=((),) * 8)),
    ("index that is out of range", lambda: columns(doubts=((1,), *((),) * 6))),
    ("what-ifs of the plan for M1 contain an index", lambda: what_if(ops=(7,))),
    ("kernels contain an index", lambda: kernel(6)),
    ("estimate for M1 does not match the kernels", lambda: estimate(kernel_s=(1.0,))),
    ("estimate for M1 does not match the kernels", lambda: estimate(kernel_unit=())),
    ("estimate for M1 does not match the kernels", lambda: msgspec.structs.replace(BASE, kernels=())),
    ("units of the estimate for M1 contain an index", lambda: estimate(kernel_unit=(0, 3, 0))),
    ("inputs contain an index", lambda: inputs(6)),
    (
        "does not match|does not have|contain an index|not in the op table",
        lambda: msgspec.structs.replace(BASE, ops=OpTable()),
    ),
]


@pytest.mark.parametrize(("message", "make"), WRONG)
def test_what_does_not_fit_together_is_refused(message: str, make: Callable[[], Profile]) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", PROFILES)
def test_every_arm_may_be_empty(name: str, tmp_path: Path) -> None:
    profile = PROFILES[name]
    profile.save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == profile
    assert isinstance(profile.all_findings, tuple)
    headlines = list(profile.headline_estimates())
    assert len({(e.device, e.os) for e in profile.estimates}) == len(headlines)


def test_the_first_measurement() -> None:
    profile = three_measurements_beside_two_plans()
    assert profile.measurement is profile.measurements[0]
    with pytest.raises(LookupError, match="does not contain a measurement"):
        _ = PROFILES["plan"].measurement


def test_findings_of_the_profile_precede_those_of_measurements() -> None:
    own = Finding(id="own", severity="info", text="Of the profile.")
    measured = small_profile().measurement
    profile = msgspec.structs.replace(small_profile(), findings=(own,), measurements=(measured, measured))
    # A remark that several measurements share is one remark.
    assert profile.all_findings == (own, *measured.findings)


def test_estimates_by_device_and_setting() -> None:
    profile = three_measurements_beside_two_plans()
    found = profile.estimate("M2", "cpu_only")
    assert found is not None
    assert (found.device, found.compute_units) == ("M2", "cpu_only")
    assert profile.estimate("m2") is profile.estimates[2]
    assert profile.estimate("M2", "cpu_and_gpu") is None
    assert profile.estimate("M3") is None
    assert [e.device for e in profile.headline_estimates()] == ["M1", "M2"]


def test_settings_of_a_plan() -> None:
    found: Plan = BASE.plans[0]
    cpu = found.setting("cpu_only")
    assert isinstance(cpu, SettingPlan)
    assert (cpu.total_ms, cpu.switches) == (7.5, 0)
    assert found.setting("cpu_and_gpu") is None
    units: ComputeUnits = "all"
    assert found.view().compute_units == units
    assert found.view(cpu).compute_units == "cpu_only"


def test_phases_of_a_measurement() -> None:
    measured: Measurement = small_profile().measurement
    assert list(measured.phases) == ["compile", "load", "predict"]
    bare = msgspec.structs.replace(measured, compile=None, predict=None)
    assert list(bare.phases) == ["load"]


def test_files_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        small_profile().save(tmp_path / "absent" / "p.json")
    with pytest.raises(UsageError, match="No such file"):
        Profile.load(tmp_path / "absent.json")


@pytest.mark.parametrize("suffix", [".html", ".md", ".csv", ".txt", ".json", ".trace.json"])
def test_profiles_write_every_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"report{suffix}"
    three_measurements_beside_two_plans().write(path)
    assert path.stat().st_size > 0
    if suffix == ".json":
        assert Profile.load(path) == three_measurements_beside_two_plans()


@pytest.mark.parametrize("name", PROFILES)
def test_every_kind_has_a_card(name: str) -> None:
    assert "<" in PROFILES[name]._repr_html_()


@pytest.mark.parametrize("name", PROFILES)
def test_every_kind_becomes_a_data_frame(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # pandas takes columns of equal length.
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
    columns = PROFILES[name].to_dataframe()
    (length,) = {len(column) for column in columns.values()}
    assert length >= len(PROFILES[name].ops)


def test_descriptions_are_written(tmp_path: Path) -> None:
    ModelSummary(path="m.mlmodel").write(tmp_path / "m.json")
    assert '"coremlscope.model/2"' in (tmp_path / "m.json").read_text()
    with pytest.raises(UsageError, match="no report format"):
        small_profile().write(tmp_path / "m.docx")


def test_a_profile_is_one_line_at_a_prompt() -> None:
    found = repr(small_profile())
    assert "\n" not in found
    assert len(found) < 200
    assert "measurements: 1" in found
