"""A hundred answers: ten questions of ten models, the command that `--help` names, and the line that answers.

Numbers of the lines are masked: estimates and times change. Lines have at most 80 columns, answers 40 lines.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coremlscope.cli import main

_ROOT = Path(__file__).parents[1]
_CORPUS = _ROOT.parent / "shared" / "corpus" / "models"
_ANSWERS = tomllib.loads((_ROOT / "tests" / "answers.toml").read_text(encoding="utf-8"))
#: Verbs that run models for seconds.
_LONG = ("what-if", "verify", "trace")
_ROWS = [
    pytest.param(
        question,
        row,
        id=f"{question}-{row['model']}",
        marks=[pytest.mark.long] if row["command"].split()[1] in _LONG else [],
    )
    for question, rows in _ANSWERS["answers"].items()
    for row in rows
]
_MOST_LINES, _MOST_COLUMNS = 40, 80
#: What commands printed, with their logs and programs: several questions have the same answer.
_PRINTED: dict[tuple[str, str, str], tuple[int, str]] = {}


def masked(text: str) -> str:
    """Returns a line without its numbers, times and bars."""
    text = re.sub(r"\d[\d.,]*( (ns|µs|ms|s|kB|MB|GB)\b)?", "#", text)
    return re.sub(r"(≥ |[█-▏*?])", "", " ".join(text.split()))


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    if arguments[0] != "trace":
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out + printed.err
    done = subprocess.run(
        [sys.executable, "-m", "coremlscope", *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_there_are_a_hundred() -> None:
    assert len(_ROWS) == 100
    assert len({row.values[1]["model"] for row in _ROWS}) == 10


@pytest.mark.usefixtures("_read_once")
@pytest.mark.skipif(not _CORPUS.is_dir(), reason="the corpus is absent")
@pytest.mark.parametrize(("question", "row"), _ROWS)
def test_the_answer_is_a_line_of_a_screen(
    question: str,
    row: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = shlex.split(row["command"])[1:]
    if arguments[0] in ("what-if", "trace"):
        pytest.importorskip("coremltools")
    monkeypatch.setenv("COLUMNS", str(_MOST_COLUMNS))
    monkeypatch.setattr("sys.platform", "linux")
    for name, path in _ANSWERS["models"].items():
        (tmp_path / Path(path).name).symlink_to(_CORPUS / path)
        arguments = [Path(path).name if one == name else one for one in arguments]
    (tmp_path / "app.log").write_text(row.get("log", ""), encoding="utf-8")
    program = _ANSWERS["program"].replace("MODEL", Path(_ANSWERS["models"][row["model"]]).name)
    program = program if arguments[0] == "trace" else ""
    (tmp_path / "app.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    asked = (row["command"], row.get("log", ""), program)
    if asked not in _PRINTED:
        _PRINTED[asked] = run(arguments, capsys)
    code, text = _PRINTED[asked]
    assert code == row.get("code", 0)
    lines = [line for line in text.splitlines() if ", after " not in line]
    assert any(masked(line).startswith(masked(row["line"])) for line in lines)
    assert len(lines) <= _MOST_LINES
    shown = [line for line in lines if not line.startswith(("error:", "hint:"))]
    assert max(map(len, shown), default=0) <= _MOST_COLUMNS
