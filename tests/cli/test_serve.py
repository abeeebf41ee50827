from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.server import server


def test_a_folder_that_is_created_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = contextlib.nullcontext(("http://127.0.0.1:1/token/", lambda: None))
    monkeypatch.setattr(server, "run_app", lambda *_: address)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "history" / "profiles"
    assert main(["serve", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == f"created the folder {folder}, which did not exist"
    assert said.out == "http://127.0.0.1:1/token/\n"
    assert folder.is_dir()
    assert main(["serve", str(folder)]) == 0
    assert "created" not in capsys.readouterr().err
