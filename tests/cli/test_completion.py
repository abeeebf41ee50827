"""Scripts of completions, and what bash completes with its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from coremlscope.cli import all_commands, main

_TRY = """\
source "$1"; shift
function=$(complete -p coremlscope | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"$function" coremlscope "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "completion.bash"
    assert main(["completion", "bash", "--quiet", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_every_verb_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert [command.name for command in all_commands() if command.name not in text] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("es", ["estimate"]),
        ("plan --comp", ["--compute-units"]),
        ("profile --compute-units cpu_o", ["cpu_only"]),
        ("estimate --device m4-p", ["m4-pro"]),
        ("inspect net.mlp", ["net.mlpackage"]),
        ("completion f", ["fish"]),
    ],
)
def test_bash_completes(line: str, completed: list[str], script: Path, tmp_path: Path) -> None:
    (tmp_path / "net.mlpackage").mkdir()
    words = ["bash", "-c", _TRY, "bash", str(script), "coremlscope", *line.split(" ")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stderr, done.stdout.split()) == ("", completed)
