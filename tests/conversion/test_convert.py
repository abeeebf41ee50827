"""Conversion in a child process: outcomes, failures, and what is left of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from coremlscope.base.errors import EngineError, LimitError, MissingDependencyError, OutputError, UsageError
from coremlscope.cli import main
from coremlscope.studies.conversion.convert import convert

#: A converter that writes a folder for each target, except those in its arguments.
_SCRIPT = """
import json, pathlib, sys
problems, _, folder, *targets = json.loads(sys.argv[1]), *sys.argv[2:]
for name, suffix in (("core_ml", ".mlpackage"), ("core_ai", ".aimodel")):
    if name in targets and name not in problems:
        (pathlib.Path(folder) / f"model{suffix}").mkdir()
        (pathlib.Path(folder) / f"model{suffix}" / "content").write_text(name)
print(json.dumps({"problems": problems}))
"""


def _child(problems: str = "{}", script: str = _SCRIPT) -> tuple[str, ...]:
    return (sys.executable, "-c", script, problems)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"exported")
    return path


def test_modules_of_the_current_folder_are_not_run(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "torch", "coremltools", "warnings"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((EngineError, MissingDependencyError)):
        convert(program, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_both_models_are_named_after_the_program(program: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = convert(program, tmp_path / "out", child=_child())
    assert [one.path for one in found] == [tmp_path / "out" / f"net{s}" for s in (".mlpackage", ".aimodel")]
    assert (tmp_path / "out" / "net.aimodel" / "content").read_text() == "core_ai"


def test_one_failure_does_not_stop_the_other(program: Path, tmp_path: Path) -> None:
    found = convert(program, tmp_path, child=_child('{"core_ai": "ValueError: as_strided"}'))
    assert [(one.target, one.path is None, one.problem) for one in found] == [
        ("core_ml", False, ""),
        ("core_ai", True, "ValueError: as_strided"),
    ]
    assert not (tmp_path / "net.aimodel").exists()


def test_no_model_at_all_is_an_error(program: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="was not converted: Core ML: no; Core AI: neither"):
        convert(program, tmp_path, child=_child('{"core_ml": "no", "core_ai": "neither"}'))


def test_existing_models_stay(program: Path, tmp_path: Path) -> None:
    (tmp_path / "net.aimodel").mkdir()
    with pytest.raises(OutputError):
        convert(program, tmp_path, child=_child())
    assert not (tmp_path / "net.mlpackage").exists()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("import os; os.abort()", "converting failed: a converter aborted"),
        ("raise SystemExit(3)", "converting failed: exit code 3"),
        ("pass", "was not converted: Core ML: the converter wrote no model"),
    ],
)
def test_children_that_end_early(how: str, said: str, program: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=said):
        convert(program, tmp_path, child=_child(script=how))


def test_a_limit_of_time(program: Path, tmp_path: Path) -> None:
    with pytest.raises(LimitError, match=r"longer than 0\.2 s"):
        convert(program, tmp_path, timeout_s=0.2, child=_child(script="import time; time.sleep(9)"))


def test_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        convert(tmp_path / "absent.pt2", tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_missing_converters(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingDependencyError, match="needs torch"):
        convert(program, tmp_path)
    assert main(["convert", str(program), "--core-ai", "-o", str(tmp_path)]) == 7
    assert "[convert]'" in capsys.readouterr().err
