"""Whichever command, setting and format shows an answer, it is the same, and holds what its parts say."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coremlscope.cli import main
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.reports.figures import milliseconds
from tests.support.advised_models import ANSWERED_MODELS

_DEVICES = "iphone-15-pro,m4,m1"
_CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "models"
_SUFFIXES = (".mlpackage", ".mlmodel", ".mlmodelc", ".aimodel")
_OF_UNITS = ("crash", "endless load", "wrong values")


def _corpus() -> Iterator[Path]:
    for path in sorted(_CORPUS.rglob("*")) if _CORPUS.is_dir() else ():
        if path.suffix in _SUFFIXES and not any(one.suffix in _SUFFIXES for one in path.parents):
            yield path


pytestmark = pytest.mark.usefixtures("_read_once")
_SAMPLE = list(itertools.islice(_corpus(), 0, None, 12))


@pytest.fixture(
    scope="module", params=[*ANSWERED_MODELS, *_SAMPLE], ids=lambda one: getattr(one, "name", one)
)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built model in a folder whose name has a space, or one of the corpus."""
    if isinstance(request.param, Path):
        return request.param
    folder = tmp_path_factory.mktemp("answered") / "a folder"
    folder.mkdir()
    write_mlpackage(ANSWERED_MODELS[request.param](), folder / f"{request.param}.mlpackage")
    return folder / f"{request.param}.mlpackage"


def _json(*arguments: object) -> dict[str, Any]:
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        code = main([*map(str, arguments), "--device", _DEVICES, "--json", "-", "--quiet"])
    if code in (3, 5):
        pytest.skip(errors.getvalue())
    assert code == 0, errors.getvalue()
    return json.loads(printed.getvalue())


@pytest.fixture(scope="module")
def answers(path: Path) -> list[dict[str, Any]]:
    """The answers that the bare form gives of a model."""
    return _json(path)["answers"]


def _gist(answer: dict[str, Any]) -> tuple[object, ...]:
    first = next(iter(answer["changes"]), None)
    change = None if first is None else (first["text"], first["certainty"], first["after"])
    figures = answer["latency"], answer["units"], change, answer["headline"]
    return answer["device"], answer["compute_units"], *figures


def test_all_verbs_and_formats_give_the_same_answers(
    path: Path, answers: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(answers) == 3 * len(SETTING_WORDS)
    planned = _json("plan", path)["answers"]
    assert list(map(_gist, planned)) == list(map(_gist, answers))
    if any(one["latency"] for one in answers):
        assert list(map(_gist, _json("estimate", path)["answers"])) == list(map(_gist, answers))
    assert main([str(path), "--device", _DEVICES]) == 0
    text = capsys.readouterr().out
    for one in answers:
        if one["latency"] is not None:
            assert milliseconds(one["latency"]["value"]) in text


def test_parts_and_changes_follow_from_the_figures(path: Path) -> None:
    answers = _json(path, "--compute-units", "every")["answers"]
    for one in answers:
        if one["latency"] is None:
            continue
        assert sum(part["share"] for part in one["time"]) == pytest.approx(1, abs=0.01)
        assert one["changes"]
        held = [reason["share"] for reason in one["why"]]
        assert held == sorted(held, reverse=True)
        if one["is_at_least"]:
            assert one["best"] is None
            assert not any(change["id"] == "setting" for change in one["changes"])
            continue
        named = " ".join(change["text"] for change in one["changes"][:2])
        for other in answers:
            is_hazardous = any(hazard["units"] and hazard["kind"] in _OF_UNITS for hazard in other["hazards"])
            is_faster = (
                other["latency"] is not None
                and other["latency"]["value"] < 0.8 * one["latency"]["value"]
                and other["device"] == one["device"]
            )
            if is_faster and not is_hazardous:
                assert SETTING_WORDS[other["compute_units"]] in named


def test_commands_that_are_printed_run(
    answers: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    commands = dict.fromkeys(change["command"] for one in answers for change in one["changes"])
    # One of each kind: `what-if` runs models for seconds.
    kinds = {tuple(word for word in command.split() if word.startswith("-")): command for command in commands}
    for command in filter(None, kinds.values()):
        program, *arguments = shlex.split(command)
        assert program == "coremlscope"
        assert main([*arguments, "--quiet"]) == 0, (command, capsys.readouterr().err)
        capsys.readouterr()
