"""Answers to the page that runs Python in the browser, by a CPython that lacks what is not there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coremlscope import api
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.reports.page import page_payload, to_page_values
from coremlscope.results.profile import write_profiles
from tests.support.classical_specs import DOUBLE, model_spec, tree_regressor

#: Not in Pyodide (https://pyodide.org/en/stable/usage/wasm-constraints.html), or not needed.
_ABSENT = [
    *("_multiprocessing", "curses", "dbm", "ensurepip", "fcntl", "grp", "lzma", "msvcrt", "pwd", "readline"),
    *("resource", "sqlite3", "ssl", "syslog", "termios", "tkinter"),
    *("PIL", "coremltools", "ml_dtypes", "onnx", "onnxruntime", "openvino", "rich", "shtab", "starlette"),
    *("torch", "uvicorn"),
]

_LIKE_A_BROWSER = f"""
import importlib.abc, os, sys, threading

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {_ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def refused(*_, **__):
    raise OSError("there are no processes and threads")

import subprocess, numpy
for name in {_ABSENT!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
sys.platform = "emscripten"
os.fork = subprocess.Popen.__init__ = threading.Thread.start = refused

from coremlscope.server.browser import Answers
said = []
answers = Answers(said.append)
print(__import__("json").dumps([[*map(answers.answer, sys.argv[1:])], said]))
"""


def _ask(folder: Path, *paths: str, chips: str = "first") -> dict[str, Any]:
    (answer,) = _ask_all(folder, [(paths, chips)])
    return answer


def _ask_all(folder: Path, asked: Sequence[tuple[Sequence[str], str]]) -> list[dict[str, Any]]:
    """Asks in one process that is like a browser's."""
    questions = [
        json.dumps({"folder": str(folder), "paths": paths, "chips": chips}) for paths, chips in asked
    ]
    done = subprocess.run(
        [sys.executable, "-c", _LIKE_A_BROWSER, *questions],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers, said = json.loads(done.stdout)
    assert said
    return [json.loads(answer) for answer in answers]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier as a package, and as an archive of it."""
    folder = tmp_path_factory.mktemp("dropped")
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), folder / "Small.mlpackage")
    shutil.make_archive(str(folder / "Small.mlpackage"), "zip", folder, "Small.mlpackage")
    return folder


def _forecast(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns a profile without where and when it was made."""
    return {key: value for key, value in answer["payload"]["result"].items() if key != "made"}


def test_a_package_and_an_archive_of_it_are_planned_and_estimated(folder: Path) -> None:
    package, archive = _ask_all(folder, [(["Small.mlpackage"], "first"), (["Small.mlpackage.zip"], "first")])
    profile = api.estimate(
        folder / "Small.mlpackage", ["a18-pro", "a17-pro", "m4", "m1"], compute_units="every"
    )
    native = page_payload(to_page_values(profile))
    assert _forecast(package) == json.loads(json.dumps(_forecast({"payload": native})))
    assert package["more"] is True
    assert package["title"] == "Small.mlpackage"
    assert _forecast(archive)["estimates"] == _forecast(package)["estimates"]
    assert not any(one["id"].startswith("weights-") for one in _forecast(archive)["findings"])


def test_every_chip_follows_the_first_ones(folder: Path) -> None:
    first, every = _ask_all(folder, [(["Small.mlpackage"], "first"), (["Small.mlpackage"], "every")])
    devices = [plan["device"] for plan in every["payload"]["result"]["plans"]]
    assert devices[:4] == [plan["device"] for plan in first["payload"]["result"]["plans"]]
    assert len(devices) > 20
    assert every["more"] is False


def test_two_models_are_compared(folder: Path) -> None:
    answer = _ask(folder, "Small.mlpackage", "Small.mlpackage.zip")
    assert answer["payload"]["result"]["schema"] == "coremlscope.comparison/2"
    assert answer["more"] is False


def test_a_saved_profile_is_shown_as_it_is(folder: Path) -> None:
    write_profiles(folder / "saved.json", [api.estimate(folder / "Small.mlpackage", "m1")])
    answer = _ask(folder, "saved.json")
    assert [plan["chip"] for plan in answer["payload"]["result"]["plans"]] == ["m1"]
    assert answer["more"] is False


def test_an_app_offers_its_models(folder: Path) -> None:
    with zipfile.ZipFile(folder / "Two.zip", "w") as app:
        for name in ("One", "Other"):
            for file in sorted((folder / "Small.mlpackage").rglob("*")):
                app.write(file, f"{name}.mlpackage/{file.relative_to(folder / 'Small.mlpackage')}")
    listing = _ask(folder, "Two.zip")
    sources = [model["source"] for model in listing["models"]]
    assert len(sources) == 2
    chosen = _ask(folder, sources[0])
    assert chosen["payload"]["result"]["plans"]


def test_what_is_no_model_is_refused_by_name(folder: Path) -> None:
    (folder / "notes.txt").write_text("no model")
    answer = _ask(folder, "notes.txt")
    assert set(answer) == {"error", "hint"}
    assert str(folder) not in answer["error"]


def test_a_classical_model_is_estimated(folder: Path) -> None:
    (folder / "Trees.mlmodel").write_bytes(tree_regressor([(0, 1, 2.5, 1.0, 2.0)]).SerializeToString())
    result = _ask(folder, "Trees.mlmodel")["payload"]["result"]
    assert result["model"]["kind"] == "treeEnsembleRegressor"
    assert {"M4", "M1"} < {one["device"] for one in result["estimates"]}


def test_a_model_of_an_apps_own_class_is_described_with_the_reason(folder: Path) -> None:
    spec = model_spec("customModel", {"className": "Own"}, {"x": DOUBLE}, {"y": DOUBLE})
    (folder / "Own.mlmodel").write_bytes(spec.SerializeToString())
    result = _ask(folder, "Own.mlmodel")["payload"]["result"]
    assert not result["estimates"]
    assert "not-estimated" in [one["id"] for one in result["findings"]]
