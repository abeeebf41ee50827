from __future__ import annotations

import subprocess
import sys

import pytest

from coremlscope.cli import VERBS, main
from tests.support import golden


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    golden.check("help.txt", text)
    assert main([]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_verbs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    golden.check(f"help_{verb}.txt", capsys.readouterr().out)


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal_except_for_examples(
    verb: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out.partition("\nexamples:\n")[0]
    assert [line for line in text.splitlines() if len(line) > columns] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "coremlscope 0.1.0\n"


_HEAVY = "{'onnx', 'onnxruntime', 'PIL', 'rich', 'google.protobuf', 'coremltools'}"


def output(code: str) -> list[str]:
    """The output of Python running `code`; fails on warnings and other output."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from coremlscope.cli import main; main(['profile', '--help'])"
    assert output(f"{code}; print(sorted({_HEAVY} & set(sys.modules)))")[-1] == "[]"


def test_the_package_is_light_and_silent() -> None:
    assert output("import sys, coremlscope; print('numpy' in sys.modules, dir(coremlscope)[0])") == [
        "False Comparison"
    ]
    assert output("import coremlscope; print(coremlscope.inspect.__name__)") == ["inspect"]
