"""The first page shows what its commands print, without times and what depends on the machine."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from coremlscope.cli import main
from coremlscope.formats.sample import write_sample

_ROOT = Path(__file__).resolve().parents[2]
_TEXT = (_ROOT / "docs" / "start.md").read_text(encoding="utf-8")
_NETWORK = _ROOT / "examples" / "text_encoder" / "network.py"
_SHOWN = dict(re.findall(r"^```console\n\$ coremlscope ([^\n]*)\n(.*?)^```$", _TEXT, re.M | re.S))
#: Fewer repetitions than on the page; and where rows begin in tables, whose order and number depend on times.
_ONCE = ["--iterations", "2", "--compile-iterations", "2", "--load-iterations", "2", "--warmups", "2"]
_TITLES = {"Where": "share"}
#: What runs the model: figures depend on the processor.
_RUN = ("profile", "predict", "verify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start")
    write_sample(path / "MobileNetV2.mlpackage")
    Image.effect_noise((300, 200), 90).convert("RGB").save(path / "photo.jpg")
    spec = importlib.util.spec_from_file_location("network", _NETWORK)
    assert spec is not None
    assert spec.loader is not None
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    network.encoder(network.running_sums).save(str(path / "TextEncoder.mlpackage"))
    network.encoder(network.products).save(str(path / "Mended.mlpackage"))
    return path


@pytest.fixture
def at_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "88")


def test_the_change_is_that_of_the_example() -> None:
    (change,) = re.findall(r"^```diff\n(.*?)^```$", _TEXT, re.M | re.S)
    removed, added = (
        "".join(f"{one[1:]}\n" for one in change.splitlines() if one[0] == sign) for sign in "-+"
    )
    source = _NETWORK.read_text(encoding="utf-8")
    assert removed in source
    assert added in source


def _sections(text: str) -> dict[str, str]:
    """The paragraphs by their first word, each as one line, without numbers, bars and the machine."""
    machine = re.search(r"^machine +(.+?), \d+ cores?,.*?(?=^runtime)", text, re.M | re.S)
    if machine is not None:
        processor = r"\s+".join(map(re.escape, machine[1].split()))
        text = re.sub(processor, "CPU", text.replace(machine[0], ""))
    lines = [" ".join(part.split()) for part in text.split("\n\n")]
    bare = [re.sub(r" *[█-▏]+", "", line) for line in lines]
    masked = [re.sub(r"-?\b\d[\d.,]*(e-\d+)?( (ns|µs|ms|s)\b)?", "#", line) for line in bare]
    return {line.split()[0]: line for line in masked if line}


def test_the_commands_with_output_are_known() -> None:
    assert [command.split()[0] for command in _SHOWN] == [
        "TextEncoder.mlpackage",
        "plan",
        "TextEncoder.mlpackage",
        "verify",
        "check",
        "inspect",
        "profile",
        "predict",
    ]


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("command", [c for c in _SHOWN if not c.startswith(_RUN)])
def test_output_from_the_file_alone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 0
    parts = map(re.escape, re.split(r"^…\n", _SHOWN[command], flags=re.M))
    assert re.fullmatch("(?s:.*)".join(parts), capsys.readouterr().out)


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("command", [c for c in _SHOWN if c.startswith(_RUN)])
def test_output_with_times_or_of_a_photo(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = _ONCE if command.startswith("profile") else []
    assert main([*shlex.split(command), *more]) == 0
    printed = _sections(capsys.readouterr().out)
    shown = _sections(re.sub(r"^…$", "\n", _SHOWN[command], flags=re.M))
    assert shown.keys() <= printed.keys()
    if "…\n" not in _SHOWN[command]:
        assert shown.keys() == printed.keys()
    for title, text in shown.items():
        if title in _TITLES:
            assert printed[title].partition(_TITLES[title])[0] == text.partition(_TITLES[title])[0]
        else:
            assert printed[title] == text
