"""Models in apps, archives and ExecuTorch programs, on the command line."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from tests.support.constant_programs import linear_model

_PROGRAM = Path(__file__).parents[1] / "data" / "executorch" / "two_delegates.pte"


@pytest.fixture
def ipa(tmp_path: Path) -> Path:
    path = tmp_path / "App.ipa"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("Detector", "Café"):
            archive.writestr(f"Payload/A.app/{name}.mlmodel", write_spec(linear_model(), write_immediate))
        archive.writestr("Payload/A.app/Broken.mlmodel", b"\x08\x04\x12")
    return path


@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_inspect_lists_the_models(
    width: str, ipa: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.chdir(ipa.parent)
    assert main(["inspect", ipa.name]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= int(width) for line in text.splitlines())
    assert text.splitlines()[0] == "App.ipa  3 models"
    assert "Detector.mlmodel" in text
    assert "ML Program" in text
    assert "Broken.mlmodel: " in text
    assert "coremlscope inspect" in text


def test_the_current_folder_is_named(
    ipa: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ipa.parent / "models"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.mlmodel").write_bytes(write_spec(linear_model(), write_immediate))
    monkeypatch.chdir(folder)
    assert main(["inspect", "."]) == 0
    assert capsys.readouterr().out.startswith("models  2 models\n")


def test_inspect_as_json(ipa: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(ipa), "--json", "-"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert listing["schema"] == "coremlscope.bundle/1"
    assert [(row["name"], row["kind"], bool(row["problem"])) for row in listing["models"]] == [
        ("Broken.mlmodel", "", True),
        ("Café.mlmodel", "mlProgram", False),
        ("Detector.mlmodel", "mlProgram", False),
    ]
    for row in listing["models"][1:]:
        assert main(["inspect", row["source"], "--quiet"]) == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-o", "r.html"], 2, "-o is for one model"),
        (["--ops"], 2, "--ops is for one model"),
        (["--function", "main"], 2, "--function is for one model"),
    ],
)
def test_options_of_one_model(
    options: list[str], code: int, message: str, ipa: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(ipa), *options]) == code
    error = capsys.readouterr().err
    assert message in error
    assert f"name one: '{ipa}#Payload/A.app/Broken.mlmodel'" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "{}"],
        ["plan", "{}", "--device", "m1"],
        ["estimate", "{}", "--device", "m1"],
        ["profile", "{}", "--iterations", "2"],
        ["compare", "{}", "{}", "--device", "m1"],
        ["doctor", "{}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_takes_a_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([argument.format(f"{_PROGRAM}#forward-2") for argument in arguments]) == 0
    text = capsys.readouterr().out
    assert "model.mlpackage" in text or "forward-2" in text


def test_an_error_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(_PROGRAM), "--device", "m1"]) == 3
    error = capsys.readouterr().err
    assert f"{_PROGRAM} contains 2 models" in error
    assert f"name one of {_PROGRAM}#forward-1/model.mlpackage" in error
