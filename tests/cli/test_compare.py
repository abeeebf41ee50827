from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.results.profile import profiles_from_json, read_profiles, write_profiles
from tests.support.comparisons import changed, timed
from tests.support.profiles import small_profile

QUICK = ["--iterations", "16", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "1"]


@pytest.fixture
def saved(tmp_path: Path) -> list[str]:
    """Two saved profiles."""
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, profile in zip(paths, (timed(small_profile()), changed()), strict=True):
        path.write_text(json.dumps(profile.to_json()))
    return [str(path) for path in paths]


def test_models(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.md"
    assert main(["compare", str(sample), str(sample), *QUICK, "-o", str(report)]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {report}\n"
    assert "interleaved rounds" in " ".join(printed.out.split())
    assert "105 operations correspond" in report.read_text()


def test_saved_profiles(saved: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *saved, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["differences"][0]["removed"] == ["main/546"]
    assert "compute units" in data["differing"]


def test_a_profile_against_a_model(
    saved: list[str], sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", saved[0], str(sample), *QUICK]) == 0
    assert "different hosts" in capsys.readouterr().out


def test_devices_and_settings(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(sample), "--device", "m1,a14", "--compute-units", "cpu_only, all"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Estimated at best: " in out.splitlines()[0]
    assert "M1, all against M1, cpu_only" in out
    assert "A14, all against M1, cpu_only" in out
    assert "Measured" not in out
    assert main(["compare", str(sample), str(sample), *QUICK, "--device", "m1", "--json", "-"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    (change,) = difference["plans"]
    assert change["planned"]["verdict"] == "no change"


def test_a_list_of_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.json"
    write_profiles(path, [timed(small_profile()), changed()])
    assert main(["compare", str(path), "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [subject["label"] for subject in data["subjects"]] == ["sample.mlpackage", "after.mlpackage"]
    assert data["differences"][0]["removed"] == ["main/546"]


def test_plans_without_measurements(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    assert main(["plan", str(sample), "--device", "m1,a14", "-o", str(path), "--quiet"]) == 0
    assert main(["compare", str(path), str(path), "--json", "-"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert difference["phases"] == {}
    assert len(difference["plans"]) == 2


def test_one_model_is_measured(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sample), *QUICK, "--device", "m1", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["differences"] == []
    (profile,) = profiles_from_json(data)
    assert (len(profile.measurements), len(profile.estimates)) == (1, 1)


def test_failing(saved: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = json.loads(Path(saved[0]).read_text())
    for name, factor in (("fast", 1.0), ("slow", 1.2)):
        slow["measurements"][0]["predict"]["samples_s"] = [factor * (1 + 0.001 * (i % 5)) for i in range(40)]
        (tmp_path / f"{name}.json").write_text(json.dumps(slow))
    arguments = ["compare", str(tmp_path / "fast.json"), str(tmp_path / "slow.json"), "--quiet"]
    assert main([*arguments, "--fail-above", "5%"]) == 9
    assert "slow.json is slower than --fail-above allows" in capsys.readouterr().err
    assert main([*arguments, "--fail-above", "30"]) == 0
    del slow["measurements"]
    (tmp_path / "unmeasured.json").write_text(json.dumps(slow | {"estimates": []}))
    unmeasured = str(tmp_path / "unmeasured.json")
    for sources in ([arguments[1], unmeasured], [unmeasured, arguments[1]]):
        assert main(["compare", *sources, "--quiet", "--fail-above", "30"]) == 9
        assert "has no time to compare" in capsys.readouterr().err
    assert main(["compare", unmeasured, "--quiet", "--fail-above", "30"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.mlpackage"], 3, "absent.mlpackage"),
        (["a", "b", "--compute-units", "gpu"], 2, "invalid compute units 'gpu'"),
        (["absent.json", "absent.json"], 2, "absent.json: No such file"),
        (["absent.mlpackage", "absent.mlpackage"], 3, "absent.mlpackage"),
        (["a", "b", "--fail-above", "much"], 2, "is not a percentage"),
        (["a", "b", "-o", "r.trace.json"], 3, "does not exist"),
        (["a", "b", "-o", "r.xml"], 2, "no report format"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == code
    assert message in capsys.readouterr().err


def test_models_and_settings(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "m.md"
    page, data = tmp_path / "m.html", tmp_path / "m.json"
    arguments = ["compare", str(sample), str(sample), *QUICK, "--device", "m1", "--compute-units", "every"]
    arguments += ["-o", str(report)]
    assert main([*arguments, "-o", str(page), "-o", str(data)]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {report}\nwrote {page}\nwrote {data}\n"
    assert "coremlscope.comparison/2" in page.read_text()
    for profile in read_profiles(data):
        assert (len(profile.measurements), len(profile.estimates)) == (1, 4)
    assert "whatever the setting; not Core ML" in " ".join(printed.out.split())
    assert "| sample.mlpackage #1 | **" in report.read_text()


def test_a_model_that_fails(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("no model")
    arguments = ["compare", str(tmp_path / "x.txt"), str(sample), "--iterations", "1", "--json", "-"]
    assert main(arguments) == 3
    profiles = profiles_from_json(json.loads(capsys.readouterr().out))
    assert [(len(p.measurements), len(p.findings)) for p in profiles] == [(0, 1), (1, 0)]


def test_ctrl_c(sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("coremlscope.measure.embedded.isolated.IsolatedMeasurer.measure", interrupt)
    assert main(["compare", str(sample), "--device", "m1"]) == 130
    printed = capsys.readouterr()
    assert "estimated" in printed.out
    assert printed.err == "interrupted\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_terminal_shows_it_while_it_is_filled(
    term: str, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("coremlscope.cli.progress._REDRAW_S", -1.0)
    assert main(["compare", str(sample), "--iterations", "2"]) == 0
    live = stream.getvalue()
    assert ("predicting 2/2" in live) == (term != "dumb")
    assert "sample.mlpackage" in capsys.readouterr().out
