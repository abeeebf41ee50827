"""The user's own measurements: reading, checking, keeping them, and what estimates make of them."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.latency.own import play
from coremlscope import api
from coremlscope.api.answers import forecast_subject
from coremlscope.api.own_measurements.report import add_measurements
from coremlscope.api.own_measurements.store import default_store
from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.cli import main
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.planning.cost.latency import own
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.own import device_of
from coremlscope.planning.cost.latency.recorded import (
    estimate_recorded,
    is_current,
    on_unit,
    record,
    structure_digest,
)
from coremlscope.planning.cost.latency.work import place_kernels
from coremlscope.planning.forecast.planner import record_prediction
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.calibration import Calibrations, KernelColumns, OwnMeasurement
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Machine, Measurement, Phase, Runtime, Settings
from coremlscope.results.profile import Profile
from tests.support import classical_specs
from tests.support.foreign_files import write

_SIZES = ((224, 0.5), (160, 1.0), (192, 0.75), (96, 1.5), (224, 1.25), (256, 1.5))
_CHIP = "m2"
_SETTINGS: tuple[ComputeUnits, ...] = ("cpu_and_ne", "cpu_only")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six networks of different sizes; the last one is for estimates of what was not measured."""
    folder = tmp_path_factory.mktemp("models")
    paths = []
    for place, (size, width) in enumerate(_SIZES):
        path = folder / f"net{place}.mlpackage"
        write_mlpackage(sample_model(size=size, width=width, classes=10), path)
        paths.append(path)
    return paths


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test's own."""
    folder = tmp_path / "data"
    monkeypatch.setenv("COREMLSCOPE_DATA", str(folder))
    return folder


@pytest.fixture(scope="module")
def plain(models: list[Path]) -> dict[tuple[int, str], Estimate]:
    """Our estimates of all models under two settings, by place and setting."""
    found = [api.estimate(path, _CHIP, compute_units=_SETTINGS, calibrated=False) for path in models]
    return {(place, e.compute_units): e for place, profile in enumerate(found) for e in profile.estimates}


@pytest.fixture(scope="module")
def recorded(
    models: list[Path], plain: dict[tuple[int, str], Estimate], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, str], OwnMeasurement]:
    """Measurements of all models but the last that are what we estimate, by place and setting."""
    folder = tmp_path_factory.mktemp("measured")
    rows = [
        (models[place], _CHIP, setting, f"{e.latency.value * 1e3:.6f}")
        for (place, setting), e in plain.items()
        if place < len(models) - 1
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COREMLSCOPE_DATA", str(folder))
        report = add_measurements(sheet(folder / "measured.csv", rows))
    assert not report.skipped
    return {(int(one.model[3]), one.compute_units): one for one in report.added}


def sheet(path: Path, rows: list[tuple[object, ...]], head: str = "model,chip,unit,milliseconds") -> Path:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def measure(
    recorded: dict[tuple[int, str], OwnMeasurement], factor: float, count: int, settings: Sequence[str]
) -> None:
    """Adds measurements of a chip that is slower than ours by a factor."""
    chosen = [one for (place, setting), one in recorded.items() if place < count and setting in settings]
    default_store().add(replace(one, measured_s=one.measured_s * factor) for one in chosen)


@pytest.mark.parametrize("factor", [1.4, 0.75])
def test_a_chip_that_is_slower_is_estimated_as_it_is(
    models: list[Path],
    plain: dict[tuple[int, str], Estimate],
    recorded: dict[tuple[int, str], OwnMeasurement],
    factor: float,
) -> None:
    measure(recorded, factor, 5, _SETTINGS)
    for found in api.estimate(models[5], _CHIP, compute_units=_SETTINGS).estimates:
        before = plain[5, found.compute_units].latency
        truth = factor * before.value
        assert found.latency.value == pytest.approx(truth, rel=0.1)
        assert found.latency.low < truth < found.latency.high
        assert found.latency.high / found.latency.low < before.high / before.low
        assert found.own is not None
        assert (found.own.measurements, found.own.models) == (5, 5)


def test_other_chips_and_units_do_not_change(
    models: list[Path], recorded: dict[tuple[int, str], OwnMeasurement]
) -> None:
    measure(recorded, 2.0, 3, ["cpu_and_ne"])
    settings = ["cpu_only", "cpu_and_gpu"]
    for chips, units in ((_CHIP, settings), (["m1", "a15"], ["cpu_and_ne"])):
        own_ones = api.estimate(models[5], chips, compute_units=units).estimates
        others = api.estimate(models[5], chips, compute_units=units, calibrated=False).estimates
        assert own_ones == others


def test_one_measurement_moves_an_estimate_part_of_the_way(
    models: list[Path],
    plain: dict[tuple[int, str], Estimate],
    recorded: dict[tuple[int, str], OwnMeasurement],
) -> None:
    measure(recorded, 1.4, 1, ["cpu_and_ne"])
    (found,) = api.estimate(models[5], _CHIP, compute_units="cpu_and_ne").estimates
    assert 1.1 < found.latency.value / plain[5, "cpu_and_ne"].latency.value < 1.39


def test_a_measurement_of_another_unit_is_set_apart(recorded: dict[tuple[int, str], OwnMeasurement]) -> None:
    rows = [recorded[place, "cpu_and_ne"] for place in range(4)]
    device = find_device(_CHIP)
    gpu = estimate_recorded(on_unit(rows[3].kernels, "gpu"), device, "cpu_and_gpu").latency.value
    found = own.calibrate([*rows[:3], replace(rows[3], measured_s=gpu)])
    (correction,) = found.corrections
    assert (correction.measurements, correction.models) == (3, 3)
    (far,) = [one for one in correction.checked if one.apart is not None]
    assert far.measurement.model == "net3.mlpackage"
    assert far.apart is not None
    assert far.apart > 3
    assert far.like == "gpu"


def test_a_record_gives_the_same_estimate(models: list[Path]) -> None:
    model, device = container.read(models[0]), find_device(_CHIP)
    for e in api.estimate(models[0], _CHIP, compute_units=["all", "cpu_and_gpu"]).estimates:
        recorded = record_prediction(model, device, e.compute_units)
        assert len(recorded.columns["macs"]) < len(recorded.order)
        assert estimate_recorded(recorded, device, e.compute_units).latency == e.latency


def test_records_of_one_model_have_one_digest(models: list[Path]) -> None:
    device = find_device(_CHIP)
    records = [record_prediction(container.read(models[0]), device, unit) for unit in ("all", "cpu_only")]
    assert len({structure_digest(one) for one in records}) == 1
    assert structure_digest(record_prediction(container.read(models[1]), device, "all")) not in {
        structure_digest(one) for one in records
    }
    assert not is_current(record(place_kernels([], [])))


def test_a_model_that_cannot_be_estimated_is_named_by_its_kind() -> None:
    model = classical_specs.read_spec(classical_specs.regressor([[1, 2]], [3]))
    with pytest.raises(UnsupportedModelError, match=r"(?m)as a whole: generalized linear regressor$"):
        record_prediction(model, find_device(_CHIP), "all")


def test_adding_twice_changes_nothing(models: list[Path], tmp_path: Path) -> None:
    path = sheet(tmp_path / "m.csv", [(models[0], _CHIP, "cpu", 3.0)])
    assert len(add_measurements(path).added) == 1
    again = add_measurements(path)
    assert (again.added, again.known) == ((), 1)
    assert len(default_store().read()) == 1


def profile_of(path: Path, **changes: object) -> Profile:
    """A saved profile of Core ML on a Mac."""
    measured = Measurement(
        label="Core ML on Apple M2, macOS 15.1",
        runtime=Runtime("coreml", "Core ML"),
        machine=Machine(processor="Apple M2", os="macOS 15.1 (24B83)"),
        settings=Settings(compute_units="cpu_and_ne"),
        compute_units="cpu_and_ne",
        predict=Phase.of([0.0009, 0.0010, 0.0008], (), [0.0012, 0.001, 0.0011]),
    )
    measured = replace(measured, **changes)
    return replace(_estimated(path), estimates=(), plans=(), kernels=(), measurements=(measured,))


@functools.cache
def _estimated(path: Path) -> Profile:
    return api.estimate(path, _CHIP, calibrated=False)


def test_a_profile_from_a_mac(models: list[Path], tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    profile_of(models[3]).save(saved)
    (added,) = add_measurements(saved).added
    assert (added.chip, added.unit, added.compute_units) == ("m2", "neural_engine", "cpu_and_ne")
    assert added.measured_s == 0.0009  # by Core ML's own clock
    assert (added.samples, added.os, added.model) == (3, "macOS 15.1 (24B83)", "net3.mlpackage")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"runtime": Runtime("onnxruntime", "ONNX Runtime")}, "not of Core ML"),
        ({"machine": Machine(processor="Apple M1 (Virtual)")}, "virtual machine"),
        ({"machine": Machine(processor="Apple M2", power_mode="low power")}, "low power mode"),
        ({"compute_units": ""}, "compute units"),
        ({"predict": None}, "no times of predictions"),
        ({"machine": Machine(processor="AMD EPYC")}, "no chip or device that is known"),
    ],
)
def test_measurements_that_say_nothing_about_a_chip(
    models: list[Path], tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    saved = tmp_path / "profile.json"
    profile_of(models[0], **changes).save(saved)
    with pytest.raises(UsageError, match=reason):
        add_measurements(saved)
    assert default_store().read() == ()


def test_a_profile_of_another_model_is_not_used(models: list[Path], tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    found = profile_of(models[0])
    ops = replace(found.ops, id=tuple(f"other/{n}" for n in range(len(found.ops.id))))
    replace(found, ops=ops).save(saved)
    with pytest.raises(UsageError, match="another model"):
        add_measurements(saved, model=models[0])


def test_chips_are_not_mixed_up(models: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is of M2, not of M1"):
        add_measurements(sheet(tmp_path / "m.csv", [(models[0], _CHIP, "cpu", 3.0)]), device="m1")


def test_a_report_of_xcode(tmp_path: Path) -> None:
    # So wide that the Neural Engine takes nearly all of the time.
    wide = tmp_path / "wide.mlpackage"
    write_mlpackage(sample_model(size=256, width=4.0, classes=10), wide)
    report = write(tmp_path, "small.mlperf/report.json")
    with pytest.raises(UsageError, match="none of the 2 operations"):
        add_measurements(report, model=wide)
    written = json.loads((report / "report.json").read_text())
    del written["deviceResults"]["modelStructure"]
    (report / "report.json").write_text(json.dumps(written))
    (correction,) = add_measurements(report, model=wide).corrections
    assert (correction.chip, correction.unit) == ("a17-pro", "neural_engine")
    assert correction.checked[0].measurement.measured_s == 0.002


def test_mixed_units_are_not_used(tmp_path: Path) -> None:
    # So small a network is planned on the CPU, whatever the setting allows.
    tiny = tmp_path / "tiny.mlpackage"
    write_mlpackage(sample_model(size=16, width=0.25, classes=10), tiny)
    with pytest.raises(UsageError, match=r"our plan runs .* on the CPU"):
        add_measurements(sheet(tmp_path / "m.csv", [(tiny, _CHIP, "neural_engine", 1.0)]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "has no column unit and no column milliseconds"),
        (b"model,unit\nx,cpu\n", "has no column milliseconds"),
        (b"model,chip,unit,ms\n", "has no line below"),
        (b"model,chip,unit,ms\nx,m2,npu,3\n", "line 2: 'npu' is no compute unit"),
        (b"model,chip,unit,ms\nx,m2,cpu,fast\n", "line 2: 'fast' is no number of milliseconds"),
        (b"model,chip,unit,ms\nx,m2,cpu,nan\n", "cannot take nan milliseconds"),
        (b"model,chip,unit,ms\nx,m2,cpu,-3\n", "cannot take -3 milliseconds"),
        (b"model,chip,unit,ms\nx,m2,cpu,1e300\n", "cannot take 1e300 milliseconds"),
        (b'model,chip,unit,ms\n"x,m2,cpu,3\n', "is not a valid table"),
        (b"model,chip,unit,ms\nx,m77,cpu,3\n", "no chip or device that is known"),
        (b"model,chip,unit,ms\nx,,cpu,3\n", "does not say which device"),
        (b"model,chip,unit,ms\nx,m2,cpu,3\n", "does not exist"),
        (b"\xff\xfe\x00m", "is not text in UTF-8"),
        (b"model\0,unit,ms\n", "zero bytes"),
    ],
)
def test_damaged_tables_get_one_sentence(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(content)
    assert main(["measurements", "add", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("error:") == 1
    assert "hint:" in error


def test_separators_and_names_of_columns(models: list[Path], tmp_path: Path) -> None:
    text = f"Latency ms;Device;Compute Units;Network\n3.5;MacBook Air (M2);CPU_AND_NE;{models[0]}\n# note\n"
    path = tmp_path / "m.tsv"
    path.write_text("\ufeff" + text.replace(";", "\t").replace("MacBook Air (M2)", "M2"))
    (added,) = add_measurements(path).added
    assert (added.chip, added.measured_s) == ("m2", pytest.approx(3.5e-3))


def test_export_names_nothing_and_can_be_added(
    recorded: dict[tuple[int, str], OwnMeasurement],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure(recorded, 1.3, 2, ["cpu_and_ne"])
    exported = tmp_path / "exported.json"
    assert main(["measurements", "list", "--share", str(exported)]) == 0
    assert "2 measurements" in capsys.readouterr().err
    assert "net0" not in exported.read_text()
    assert "measured.csv" not in exported.read_text()
    monkeypatch.setenv("COREMLSCOPE_DATA", str(tmp_path / "elsewhere"))
    report = add_measurements(exported)
    assert (len(report.added), report.corrections[0].models) == (2, 2)


def test_list_and_remove(
    recorded: dict[tuple[int, str], OwnMeasurement], capsys: pytest.CaptureFixture[str]
) -> None:
    measure(recorded, 1.3, 3, ["cpu_and_ne"])
    assert main(["measurements", "remove", default_store().read()[0].id, "--json", "-"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["removed"], written["corrections"][0]["models"]) == (1, 2)
    assert main(["measurements", "remove", "m2"]) == 0
    assert "removed 2 measurements" in capsys.readouterr().out
    assert main(["measurements", "remove", "m2"]) == 2
    assert "there is no measurement 'm2'" in capsys.readouterr().err


def test_a_damaged_store_does_not_stop_estimates(
    models: list[Path], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.mkdir()
    (data / "calibration.json").write_text('{"schema": "coremlscope.calibration/1", "measurements": [1]}')
    found = api.estimate(models[0], _CHIP)
    assert found.estimates[0].own is None
    assert [finding.id for finding in found.findings] == ["own-measurements-not-used"]
    assert main(["measurements", "list"]) == 2
    assert "is damaged" in capsys.readouterr().err
    assert main(["measurements", "remove", "all"]) == 0
    assert not (data / "calibration.json").exists()


def test_records_of_another_version_are_told(recorded: dict[tuple[int, str], OwnMeasurement]) -> None:
    kept = recorded[0, "cpu_only"]
    older = replace(kept, kernels=replace(kept.kernels, columns={"macs": (1.0,)}))
    found = own.calibrate([older])
    assert found.stale == (older,)
    assert not found.corrections
    assert found.calibration == load_calibration()


@pytest.mark.parametrize(
    "changes",
    [
        {"chip": "m99"},
        {"measured_s": -1.0},
        {"measured_s": math.inf},
        {"kernels": KernelColumns(columns={}, order=(0,))},
        {"order": (10**6,)},
        {"order": ()},
        {"macs": -1.0},
    ],
)
def test_damaged_exports_are_not_used(
    recorded: dict[tuple[int, str], OwnMeasurement], tmp_path: Path, changes: dict[str, Any]
) -> None:
    one = recorded[0, "cpu_only"]
    kernels = one.kernels
    if "order" in changes:
        one = replace(one, kernels=replace(kernels, order=changes["order"]))
    elif "macs" in changes:
        count = len(kernels.columns["macs"])
        columns = {**kernels.columns, "macs": (changes["macs"],) * count}
        one = replace(one, kernels=replace(kernels, columns=columns))
    else:
        one = replace(one, **changes)
    assert own.calibrate([one]).stale == (one,)
    path = tmp_path / "exported.json"
    path.write_text(json.dumps(Calibrations(measurements=(one,)).to_json()))
    with pytest.raises(UsageError, match=r"recorded by another version|is damaged"):
        add_measurements(path)
    assert default_store().read() == ()


def test_an_export_without_measurements(tmp_path: Path) -> None:
    path = tmp_path / "exported.json"
    path.write_text(json.dumps(Calibrations().to_json()))
    with pytest.raises(UsageError, match="no measurements"):
        add_measurements(path)


@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_tables(
    models: list[Path],
    recorded: dict[tuple[int, str], OwnMeasurement],
    tmp_path: Path,
    width: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    measure(recorded, 1.3, 4, ["cpu_and_ne"])
    rows = [(models[4], _CHIP, "ane", 900), (f"{tmp_path}/absent.mlpackage", _CHIP, "cpu", 3)]
    assert main(["measurements", "add", str(sheet(tmp_path / "measured.csv", rows))]) == 0
    out = capsys.readouterr().out
    words = " ".join(out.split())
    assert "M2, Neural Engine takes 1." in words
    assert "set apart" in words
    assert "not used: measured.csv, line 3" in words
    assert re.search(r"measured +estimated +ratio", out)
    assert max(map(len, out.splitlines())) <= int(width)
    assert main(["estimate", str(models[5]), "--device", "m2,m1", "--compute-units", "cpu_and_ne"]) == 0
    out = capsys.readouterr().out
    assert "† calibrated on your 4 measurements of M2: Neural Engine" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= int(width)
    assert "more: --explain" in out
    assert main(["estimate", str(models[5]), "--device", "m1", "--explain"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"published +(by +)?chip +.*measured +ours +ratio", out)
    assert "more: --explain" not in out
    assert max(map(len, out.splitlines())) <= int(width)


def test_explanations_add_up(
    models: list[Path], recorded: dict[tuple[int, str], OwnMeasurement], capsys: pytest.CaptureFixture[str]
) -> None:
    measure(recorded, 1.3, 3, ["cpu_and_ne"])
    found = api.estimate(models[5], _CHIP, compute_units=["all", "cpu_only"], explain=True)
    for e in found.estimates:
        assert e.near
        assert e.near[0].unit == max(e.placement, key=lambda unit: e.placement[unit])
        assert sum(e.parts.values()) == pytest.approx(e.latency.value)
    arguments = ["estimate", str(models[5]), "--device", _CHIP, "--compute-units", "cpu_and_ne", "--explain"]
    assert main(arguments) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "What the estimate is made of: M2, cpu_and_ne with your measurements: Neural Engine ×" in out
    assert "Published latencies that are nearest" in out
    assert "Neural Engine: launch" in out
    assert main([*arguments, "--no-calibration"]) == 0
    assert "†" not in capsys.readouterr().out


def test_equal_explanations_are_printed_once(models: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    settings = "all,cpu_and_ne,cpu_only"
    assert (
        main(["estimate", str(models[5]), "--device", _CHIP, "--compute-units", settings, "--explain"]) == 0
    )
    out = capsys.readouterr().out
    assert "What the estimate is made of: M2, all, cpu_and_ne  " in out
    assert "What the estimate is made of: M2, cpu_only  " in out
    assert out.count("What the estimate is made of") == 2


def test_publications_that_play_the_user_are_estimated_better_and_intervals_hold() -> None:
    outcomes = play(2, publications=["iFormer", "RepViT", "StarNet"])
    assert len(outcomes) > 50
    before, after = (
        np.median(np.abs(column)) for column in zip(*((o.before, o.after) for o in outcomes), strict=True)
    )
    assert after < before + 0.02
    assert 0.65 < np.mean([one.still_holds for one in outcomes]) < 0.98


def test_comparisons_use_own_measurements_and_say_so(
    models: list[Path], recorded: dict[tuple[int, str], OwnMeasurement]
) -> None:
    measure(recorded, 2.0, 5, ["cpu_only"])
    compared = api.compare(models[5], devices=["m1", _CHIP], compute_units="cpu_only")
    (plan,) = compared.differences[0].plans
    found = api.estimate(models[5], ["m1", _CHIP], compute_units="cpu_only").estimates
    estimates = [e.latency.value for e in found]
    assert plan.latency is not None
    assert [plan.latency.before, plan.latency.after] == estimates
    assert [None if own is None else own.measurements for own in plan.own] == [None, 5]
    text = " ".join(write_terminal(comparison_document(compared)).split())
    said = "M1, cpu_only from published latencies alone; then M2, cpu_only calibrated on your 5"
    assert said in text
    assert said in " ".join(write_markdown(comparison_document(compared)).split())


def test_a_phone_that_is_measured_is_estimated_with_own_measurements(
    models: list[Path], recorded: dict[tuple[int, str], OwnMeasurement], data: Path
) -> None:
    measure(recorded, 2.0, 5, ["cpu_only"])
    model = api.read(models[5])
    subject = MeasuredModel.of(model, resolve_settings(model, Settings(), {}))
    read = forecast_subject(subject, [find_device(_CHIP)], ["cpu_only"])
    assert read.estimates[0].own is not None
    default_store().path.write_text("{")
    unread = forecast_subject(subject, [find_device(_CHIP)], ["cpu_only"])
    assert unread.estimates[0].own is None
    assert {one.id for one in unread.findings} - {one.id for one in read.findings} == {
        "own-measurements-not-used"
    }


def test_a_measurement_is_compared_with_our_estimate_for_its_system(
    recorded: dict[tuple[int, str], OwnMeasurement],
) -> None:
    row = recorded[0, "cpu_and_ne"]
    assert [str(device_of(replace(row, os=os)).os) for os in ("macOS 13.2", "", "macOS 9", "Ventura")] == [
        "macOS 13.2",
        *[str(find_device(_CHIP).os)] * 3,
    ]
