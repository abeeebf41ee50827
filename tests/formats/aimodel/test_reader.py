"""Bundles that our reader does not know: coreai-core reads them, or the report says why nothing does."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import CorruptModelError, NotAModelError, UnsupportedModelError
from coremlscope.formats.aimodel import dialect, encoding, reader
from coremlscope.formats.aimodel.reader import OWN_READER, open_content, read_aimodel
from tests.support.core_ai_contents import assert_same
from tests.support.rewritten_bundle import RECORDED, recorded_rewriting


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    target = tmp_path / "net.aimodel"
    shutil.copytree(RECORDED / "net.aimodel", target)
    return target


def change_version(bundle: Path, version: int) -> None:
    """Changes the version of the bytecode, and the hash with it."""
    program = bytearray((bundle / "main.mlirb").read_bytes())
    program[4] = version << 1 | 1
    (bundle / "main.mlirb").write_bytes(program)
    (bundle / "main.hash").write_bytes(hashlib.sha256(program).digest())


@pytest.fixture
def without_coreai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader.importlib.util, "find_spec", lambda _: None)


@pytest.fixture
def with_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the recorded files for whatever coreai-core is asked to rewrite."""
    monkeypatch.setattr(reader.importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(reader, "REWRITING", recorded_rewriting())


def test_a_known_bundle_is_read_by_us(bundle: Path) -> None:
    assert open_content(bundle).reader == OWN_READER
    assert ("read by", "coremlscope's reader") in api.inspect(bundle).facts


def test_both_readers_find_the_same_program(bundle: Path, with_recording: None) -> None:
    own = open_content(bundle)
    change_version(bundle, 9)
    theirs = open_content(bundle)
    assert theirs.reader == "coreai-core 1.0.0b3, because version 9 of MLIR bytecode is not known"
    assert_same(own.content, theirs.content)


def test_predictions_are_those_of_the_file(bundle: Path, with_recording: None) -> None:
    x = {"x": np.random.default_rng(4).standard_normal((1, 2, 4, 16), np.float32)}
    expected = api.predict(bundle, x)
    change_version(bundle, 9)
    found = api.predict(bundle, x)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
    profile = api.plan(bundle, devices="m2")
    assert any(what == "read by" and "coreai-core 1.0.0b3" in how for what, how in profile.model.facts)


def test_an_unknencoding_goes_to_coreai_core(
    bundle: Path, with_recording: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_content(bundle)
    readers = {number: read for number, read in dialect._READERS.items() if number != 7}
    monkeypatch.setattr(dialect, "_READERS", readers)
    theirs = open_content(bundle)
    assert theirs.reader == "coreai-core 1.0.0b3, because encodings are not known: attribute 7"
    monkeypatch.undo()
    assert_same(own.content, theirs.content)


def test_an_unknown_element_type_goes_to_coreai_core(
    bundle: Path, with_recording: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    elements = {number: dtype for number, dtype in dialect._ELEMENTS.items() if number != 24}
    monkeypatch.setattr(dialect, "_ELEMENTS", elements)
    assert "encodings are not known: type 24" in open_content(bundle).reader


def test_a_newer_dialect_is_read_as_far_as_it_is_known(
    bundle: Path, without_coreai: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "KNOWN_VERSION", encoding.KNOWN_VERSION - 1)
    opened = open_content(bundle)
    assert opened.reader == OWN_READER
    assert opened.remarks == (
        "version 2 of the dialect aicode is not known; what it means is not known,"
        " and coreai-core is not installed",
    )
    assert ("assumed", opened.remarks[0]) in api.inspect(bundle).facts


def test_a_version_that_nobody_reads_is_an_error(bundle: Path, without_coreai: None) -> None:
    change_version(bundle, 9)
    with pytest.raises(UnsupportedModelError, match="version 9 of MLIR bytecode is not known") as caught:
        read_aimodel(bundle)
    assert "coreai-core is not installed" in caught.value.message
    assert "[coreai]'" in caught.value.hint


@pytest.mark.parametrize("code", ["import os; os.abort()", "pass"])
def test_a_failure_of_coreai_core_is_an_error(
    code: str, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_version(bundle, 9)
    with pytest.raises(UnsupportedModelError, match="and coreai-core could not read it"):
        open_content(bundle, [sys.executable, "-c", code])


def test_coreai_core_is_stopped_when_it_hangs(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_version(bundle, 9)
    monkeypatch.setattr(reader, "_TIME_S", 0.3)
    with pytest.raises(UnsupportedModelError, match=r"coreai-core took longer than 0\.3"):
        open_content(bundle, [sys.executable, "-c", "import time; time.sleep(60)"])


def test_what_does_not_belong_together_is_an_error(bundle: Path, tmp_path: Path) -> None:
    change_version(bundle, 9)
    other = tmp_path / "other"
    shutil.copytree(RECORDED / "rewritten", other)
    text = (other / "operations.json").read_text()
    (other / "operations.json").write_text(text.replace('"coreai.gelu"', '"coreai.relu"'))
    command = [*recorded_rewriting()[:-1], str(other)]
    with pytest.raises(UnsupportedModelError, match="could not read it"):
        open_content(bundle, command)


def _language_model(folder: Path, bundle: Path, main: str = "net.aimodel") -> Path:
    language = {"tokenizer": "tokenizer", "function_map": {"decode": "main"}, "max_context_length": 16}
    folder.mkdir()
    content = {"kind": "llm", "assets": {"main": main}, "language": language}
    (folder / "metadata.json").write_text(json.dumps(content))
    (folder / "tokenizer").mkdir()
    shutil.copytree(bundle, folder / "net.aimodel")
    return folder


def test_a_folder_with_a_tokenizer_is_its_bundle(bundle: Path, tmp_path: Path) -> None:
    folder = _language_model(tmp_path / "llm", bundle)
    summary = api.inspect(folder)
    assert summary.container == "aimodel"
    assert summary.path.endswith("net.aimodel")
    assert summary.user_defined["language.max_context_length"] == "16"
    assert summary.user_defined["language.function_map"] == '{"decode": "main"}'
    assert api.plan(folder, devices="m2").plans


@pytest.mark.parametrize("main", ["absent.aimodel", "../net.aimodel"])
def test_a_folder_without_its_bundle_is_an_error(main: str, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptModelError, match="has no bundle"):
        api.inspect(_language_model(tmp_path / "llm", bundle, main))


def test_other_folders_with_metadata_are_not_models(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text("[")
    with pytest.raises(NotAModelError):
        api.inspect(tmp_path)
