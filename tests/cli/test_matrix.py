from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.results.profile import profiles_from_json, read_profiles


def test_models_and_settings(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "m.md"
    page, data = tmp_path / "m.html", tmp_path / "m.json"
    arguments = ["matrix", str(sample), "--iterations", "2", "--device", "m1", "-o", str(report)]
    assert main([*arguments, "-o", str(page), "-o", str(data)]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {report}\nwrote {page}\nwrote {data}\n"
    assert "coremlscope.profiles/2" in page.read_text()
    (profile,) = read_profiles(data)
    assert (len(profile.measurements), len(profile.estimates)) == (1, 4)
    assert "whatever the setting; not Core ML" in " ".join(printed.out.split())
    assert "| sample.mlpackage | estimated |" in report.read_text()


def test_a_model_that_fails(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("no model")
    arguments = ["matrix", str(tmp_path / "x.txt"), str(sample), "--iterations", "1", "--json", "-"]
    assert main(arguments) == 3
    profiles = profiles_from_json(json.loads(capsys.readouterr().out))
    assert [(len(p.measurements), len(p.findings)) for p in profiles] == [(0, 1), (1, 0)]


def test_ctrl_c(sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("coremlscope.measure.embedded.isolated.IsolatedMeasurer.measure", interrupt)
    assert main(["matrix", str(sample), "--device", "m1", "--compute-units", "all"]) == 130
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
    monkeypatch.setattr("coremlscope.cli.matrix._REDRAW_S", -1.0)
    assert main(["matrix", str(sample), "--iterations", "2"]) == 0
    live = stream.getvalue()
    assert ("predicting 2/2" in live) == (term != "dumb")
    assert "sample.mlpackage" in capsys.readouterr().out
