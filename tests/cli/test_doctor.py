"""`coremlscope doctor`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coremlscope.cli import main
from coremlscope.studies.doctor import machine
from coremlscope.studies.doctor.machine import Check
from tests.doctor.test_crash import report_bytes
from tests.support import golden

_CHECKS = [
    Check(name="Python", status="ok", text="Python 3.12.4 (arm64)"),
    Check(name="ONNX Runtime", status="ok", text="1.23.0, ran a model"),
    Check(
        name="coremltools",
        status="warning",
        text="9.0 does not work with numpy 2.4.1",
        fix='pip install "numpy<2.4"',
    ),
    Check(
        name="pandas", status="missing", text="optional, for results as data frames", fix="pip install pandas"
    ),
]
_LOG = """\
start
2026-05-09 12:00:00.123 E  python[1656:43980] [com.apple.coreml:plan] E5RT encountered an STL exception. \
msg = MILCompilerForANE error: failed to compile ANE model using ANEF. \
Error=_ANECompiler : ANECCompile() FAILED.
Unsupported op 12 (logical_or): no engine path
[coreml] error of a new kind \x1b[2J
Failed to build the model execution plan using a model architecture file '/a/model.mil' with error code: -14.
Unsupported op 19 (sin): no engine path
"""


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """The checks that the verb gets."""
    found = list(_CHECKS)
    monkeypatch.setattr(machine, "check_machine", lambda: found)
    return found


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("app.log").write_text(_LOG, encoding="utf-8")
    Path("python3.ips").write_bytes(report_bytes())
    return "app.log"


def _json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["doctor", *arguments, "--json", "-"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "coremlscope.doctor/1"
    return found


@pytest.mark.parametrize("width", [60, 140])
def test_a_machine(
    width: int, checks: list[Check], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    golden.check(f"doctor_machine_{width}.txt", text)


@pytest.mark.parametrize("width", [60, 140])
def test_a_log_and_a_crash(
    width: int, log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["doctor", log, "python3.ips"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    golden.check(f"doctor_log_{width}.txt", text)


def test_a_machine_as_json(checks: list[Check], capsys: pytest.CaptureFixture[str]) -> None:
    found = _json(capsys)["checks"]
    assert found[0] == {"name": "Python", "status": "ok", "text": "Python 3.12.4 (arm64)", "fix": ""}
    assert [check["status"] for check in found] == ["ok", "ok", "warning", "missing"]


def test_something_required_is_broken(checks: list[Check], capsys: pytest.CaptureFixture[str]) -> None:
    checks.append(Check(name="onnx", status="broken", text="not installed: no", fix="install it again"))
    assert main(["doctor"]) == 1
    assert "✗ onnx: broken; not installed: no" in capsys.readouterr().out
    assert main(["doctor", "--json", "-"]) == 1


def test_tables_without_rich(
    checks: list[Check], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["doctor"]) == 0
    assert (
        'warning: coremltools: 9.0 does not work with numpy 2.4.1 pip install "numpy<2.4"'
        in capsys.readouterr().out
    )


def test_files_as_json(log: str, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _json(capsys, log, "python3.ips", str(sample), "--os", "iOS 13,macOS 26", code=1)["files"]
    assert [file["type"] for file in files] == ["log", "crash report", "model"]
    assert [(one["id"], one["line"], one["lines"]) for one in files[0]["failures"]] == [
        ("unsupported-op", 3, 2),
        ("plan-error-14", 5, 1),
        ("neural-engine-compiler-compile", 2, 1),
        ("swift-client-predict", 4, 1),
    ]
    assert files[0]["failures"][0]["ops"] == ["logical_or", "sin"]
    assert files[0]["failures"][0]["confidence"] == "measured"
    assert (files[0]["failures"][1]["component"], files[0]["failures"][1]["phase"]) == ("E5RT", "load")
    assert files[0]["unexplained"]["lines"] == 0
    assert files[1]["crash"]["exception"] == "EXC_CRASH (SIGABRT)"
    assert [problem["id"] for problem in files[2]["problems"]] == ["newer-than-system"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_LOG.encode())))
    (file,) = _json(capsys, "-")["files"]
    assert (file["path"], file["lines"]) == ("-", 6)


def test_a_model(hollow: Path, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(hollow)]) == 1
    text = capsys.readouterr().out
    assert "missing-weights" in text
    assert main(["doctor", str(sample)]) == 0
    assert "Nothing was found" in capsys.readouterr().out


def test_a_log_without_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    assert main(["doctor", str(path)]) == 0
    assert "No known failure" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such.log"], "no-such.log cannot be read"),
        (["--os", "iOS 17"], "--os needs a model"),
        (["-", "-"], "standard input is named twice"),
        (["app.log", "--os", "17"], "'17' does not name a system"),
        (["--os"], "--os: expected one argument"),
    ],
)
def test_mistakes(arguments: list[str], message: str, log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_reader_of_the_output_may_go_away(log: str) -> None:
    command = f"{sys.executable} -m coremlscope doctor {log} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
