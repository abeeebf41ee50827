"""`coremlscope check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coremlscope.cli import main


def test_a_limit_that_is_not_kept(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / name for name in ("r.sarif", "r.xml", "r.md")]
    outputs = [part for path in reports for part in ("-o", str(path))]
    arguments = ["check", str(sample), "--max-size", "1kB", "--max-latency", "iphone-13=1s"]
    assert main([*arguments, *outputs, "--json", str(tmp_path / "r.json")]) == 9
    out = capsys.readouterr().out
    assert "✗ fail: size is" in out
    assert "✓ pass: latency on iPhone 13" in out
    assert all(path.stat().st_size for path in reports)
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "coremlscope.check/1"
    arguments = ["check", str(sample), "--baseline", str(tmp_path / "r.json"), "--device", "iphone-13"]
    assert main([*arguments, "--quiet"]) == 0


def test_the_summary_of_a_step(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["check", str(sample), "--max-size", "1GB", "--step-summary", "--quiet"]) == 0
    text = summary.read_text()
    assert text.startswith(f"before\n## ✓ {sample.name}: 1 limit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-latency", "33ms"], "does not name a device"),
        (["--max-size", "big"], "'big' is not a size"),
        (["--max-size", "1MB", "-o", "x.pdf"], "no report format"),
        (["--max-size", "1MB", "--baseline", "absent.json"], "absent.json"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(sample), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_limits_and_a_project(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(sample)]) == 2
    assert "no pyproject.toml with [tool.coremlscope]" in capsys.readouterr().err


def test_limits_without_models_are_those_of_all_models_of_a_project(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = f"[[tool.coremlscope.models]]\npath = {json.dumps(str(sample))}\nmax-size = '1GB'\n"
    Path("pyproject.toml").write_text(config)
    assert main(["check"]) == 0
    assert main(["check", "--max-size", "1kB"]) == 9
    assert main(["check", str(sample), "--max-memory", "1GB", "--config", "pyproject.toml"]) == 0
    assert "2 limits, all kept" in capsys.readouterr().out
