"""The first page shows what its commands print, without times and what depends on the machine."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from coremlscope.cli import main
from coremlscope.formats.sample import write_sample

_START = Path(__file__).resolve().parents[2] / "docs" / "start.md"
_SHOWN = dict(
    re.findall(
        r"^```console\n\$ coremlscope ([^\n]*)\n(.*?)^```$", _START.read_text(encoding="utf-8"), re.M | re.S
    )
)
#: Fewer repetitions than on the page; and where rows begin in tables, whose order and number depend on times.
_ONCE = ["--iterations", "2", "--compile-iterations", "2", "--load-iterations", "2", "--warmups", "2"]
_TITLES = {"Where": "share", "Slowest": "(declared)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readme")
    write_sample(path / "MobileNetV2.mlpackage")
    Image.effect_noise((300, 200), 90).convert("RGB").save(path / "photo.jpg")
    return path


@pytest.fixture
def at_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")


def _sections(text: str) -> dict[str, str]:
    """The paragraphs by their first word, each as one line, without numbers, bars and the machine."""
    machine = re.search(r"^machine +(.+?), \d+ cores?,.*?(?=^runtime)", text, re.M | re.S)
    if machine is not None:
        processor = r"\s+".join(map(re.escape, machine[1].split()))
        text = re.sub(processor, "CPU", text.replace(machine[0], ""))
    lines = [" ".join(part.split()) for part in text.split("\n\n")]
    bare = [re.sub(r" *[█-▏]+", "", line) for line in lines]
    masked = [re.sub(r"-?\b\d[\d.,]*( (ns|µs|ms|s)\b)?", "#", line) for line in bare]
    return {line.split()[0]: line for line in masked}


def test_the_commands_with_output_are_known() -> None:
    assert [command.split()[0] for command in _SHOWN] == [
        "MobileNetV2.mlpackage",
        "inspect",
        "estimate",
        "profile",
        "predict",
    ]


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize(
    "command", [c for c in _SHOWN if c.startswith(("MobileNetV2", "inspect", "estimate"))]
)
def test_output_from_the_file_alone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == _SHOWN[command]


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("command", [c for c in _SHOWN if c.startswith(("profile", "predict"))])
def test_output_with_times_or_of_a_photo(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = _ONCE if command.startswith("profile") else []
    assert main([*shlex.split(command), *more]) == 0
    printed, shown = _sections(capsys.readouterr().out), _sections(_SHOWN[command])
    assert printed.keys() == shown.keys()
    for title, text in shown.items():
        if title in _TITLES:
            assert printed[title].partition(_TITLES[title])[0] == text.partition(_TITLES[title])[0]
        elif title == "Findings":
            assert text.removeprefix("Findings") in printed[title]
        else:
            assert printed[title] == text
