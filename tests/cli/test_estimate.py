"""`coremlscope estimate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.devices import SETTINGS, all_chips
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.results.profile import Profile, read_profiles

pytestmark = pytest.mark.usefixtures("_read_once")


def estimated(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict]:
    assert main(["estimate", *map(str, arguments), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)["estimates"]


@pytest.mark.parametrize("width", ["80", "140"])
def test_table(
    sample: Path, width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["estimate", str(sample), str(sample), "--device", "iphone-12,m1"]) == 0
    out = capsys.readouterr().out
    assert "sample.mlpackage" in out
    assert "extrapolated from the chip" in " ".join(out.split())
    assert "not measured" in out
    assert "The costliest kernels" not in out
    assert max(map(len, out.splitlines())) <= int(width)


def test_a_single_one_shows_its_kernels(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(sample), "--device", "iphone-12"]) == 0
    out = capsys.readouterr().out
    assert "The costliest kernels" in out
    assert "Where the time goes" in out


def test_json(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = estimated(capsys, sample, "--device", "iphone-13,a17-pro", "--compute-units", "every")
    assert len(found) == 8
    first = found[0]
    assert (first["chip"], first["compute_units"], first["origin"]) == ("a15", "all", "estimated")
    latency = first["latency_ms"]
    assert 0 < latency["low"] < latency["value"] < latency["high"]
    assert first["bound"] in first["parts_ms"]
    assert sum(first["placement"].values()) == pytest.approx(1)
    assert sum(first["parts_ms"].values()) == pytest.approx(latency["value"])
    assert first["frames_per_second"] == pytest.approx(1e3 / latency["value"])
    assert len(first["kernels"]) == 5
    costs = [kernel["ms"] for kernel in first["kernels"]]
    assert costs == sorted(costs, reverse=True)


def test_every_device(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = estimated(capsys, sample, "--device", "every")
    assert [e["chip"] for e in found] == list(all_chips())


def test_several_settings(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = estimated(capsys, sample, "--device", "m1", "--compute-units", "all,cpu_only")
    assert [e["compute_units"] for e in found] == ["all", "cpu_only"]


def test_reports(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / f"r.{kind}" for kind in ("json", "html", "md", "csv", "txt")]
    options = [part for report in reports for part in ("-o", str(report))]
    assert main(["estimate", str(sample), "--device", "iphone-13,m1", *options]) == 0
    assert capsys.readouterr().err.splitlines() == [f"wrote {report}" for report in reports]
    profile = Profile.load(reports[0])
    assert [estimate.chip for estimate in profile.estimates] == ["a15", "m1"]
    assert not profile.measurements
    assert "iPhone 13" in reports[2].read_text()


def test_reports_of_several_models(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, trace = (tmp_path / f"r.{kind}" for kind in ("json", "html", "trace.json"))
    arguments = ["estimate", str(sample), str(sample), "--device", "m1"]
    assert main([*arguments, "-o", str(path), "-o", str(page)]) == 0
    assert [len(profile.estimates) for profile in read_profiles(path)] == [1, 1]
    assert "coremlscope.profiles/2" in page.read_text()
    capsys.readouterr()
    assert main([*arguments, "-o", str(trace)]) == 2
    assert "r.trace.json can show only one model" in capsys.readouterr().err
    assert main(["estimate", str(sample), "--device", "m1", "-o", str(trace)]) == 0
    assert json.loads(trace.read_text())["traceEvents"]


def test_json_to_a_file(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "e.json"
    assert main(["estimate", str(sample), "--device", "m2", "--json", str(path), "--quiet"]) == 0
    assert json.loads(path.read_text())["estimates"][0]["chip"] == "m2"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--device", ","], "--device: no device is named"),
        (["--device", "iphone-99"], "unknown device 'iphone-99'"),
        (["--device", "m1", "--compute-units", "npu"], "invalid compute units 'npu'"),
    ],
)
def test_mistakes(
    sample: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", str(sample), *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["estimate", "plan"])
def test_without_devices_the_default_ones_are_used_and_named(
    verb: str, sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert main([verb, str(sample), "--json", "-"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [one["device"] for one in found[f"{verb}s"]] == list(DEFAULT_DEVICES)
    assert [one["device"] for one in found["answers"]] == [one for one in DEFAULT_DEVICES for _ in SETTINGS]
    assert all(name in printed.err for name in DEFAULT_DEVICES)
