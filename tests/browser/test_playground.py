"""The playground that opens dropped models, with Python in the browser."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.server.browser import Answers

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
#: Files of the corpus that every run compares; `make browser ARGS="-m long"` compares all models.
_SMALL_BYTES, _MOST = 200_000, 12


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _make_playground(out: Path) -> Path:
    command = [sys.executable, str(ROOT / "tools" / "make_playground.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot be made here" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return out


def _served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> list[str]:
    """Node and the browser."""
    node = shutil.which("node")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if node is None or chromium is None or not (FRONTEND / "node_modules" / "playwright-core").is_dir():
        pytest.skip("node, chromium or the front end's packages are not installed: make browser")
    return [node, chromium]


@pytest.fixture(scope="module")
def playground(browser: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a playground whose Python is whole."""
    yield from _served(_make_playground(tmp_path_factory.mktemp("playground")))


def _drive(browser: Sequence[str], script: str, *arguments: str, timeout_s: float = 900) -> Any:
    node, chromium = browser
    done = subprocess.run(
        [node, str(FRONTEND / "browser" / f"{script}.mjs"), chromium, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def seen(browser: list[str], playground: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dropped")
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), folder / "Small.mlpackage")
    (folder / "notes.txt").write_text("no model")
    found: dict[str, Any] = _drive(
        browser, "playground", playground, str(folder / "Small.mlpackage"), str(folder / "notes.txt")
    )
    return found


def test_an_example_shows_first_chips_and_then_every_one(seen: dict[str, Any]) -> None:
    assert seen["example"]["title"].startswith("MobileNetV2.mlpackage")
    assert seen["example"]["first"] == seen["every"]["device"]
    assert seen["example"]["devices"] < 10
    assert seen["every"]["devices"] > 20


def test_a_dropped_folder_is_opened_and_its_work_can_be_stopped(seen: dict[str, Any]) -> None:
    assert seen["dropped"] == "Small.mlpackage"
    assert seen["stopped"] < seen["every"]["devices"]


def test_a_file_that_is_no_model_is_refused(seen: dict[str, Any]) -> None:
    assert "notes.txt" in seen["refused"]


def test_going_back_leads_to_the_start_page(seen: dict[str, Any]) -> None:
    assert seen["back"] == seen["again"]


def test_two_models_are_compared(seen: dict[str, Any]) -> None:
    assert "TextEncoder.mlpackage · TextEncoderMended.mlpackage" in seen["compared"]


def test_the_address_holds_device_and_setting_but_nothing_of_the_model(seen: dict[str, Any]) -> None:
    assert seen["shared"] == {"device": "M2, macOS 27", "address": "?device=M2%2C+macOS+27&units=cpu_only"}
    assert seen["mended"] == seen["compared"]


def test_nothing_is_requested_once_it_is_loaded(seen: dict[str, Any]) -> None:
    assert seen["requests"] == []
    assert seen["foreign"] == []
    assert seen["sent"] == ["refused"] * 3
    assert seen["complaints"] == []


def test_it_opens_without_a_network(seen: dict[str, Any]) -> None:
    assert seen["offline"].startswith("TextEncoder.mlpackage")


def test_its_start_page_and_reports_suit_readers_and_phones(seen: dict[str, Any]) -> None:
    assert seen["violations"] == {"light": [], "dark": [], "excess": 0}


def _differences(native: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yields where two answers differ; in the last bits of numbers mathematical functions do."""
    if type(native) is not type(other):
        yield f"{path}: {native!r:.80} and {other!r:.80}"
    elif isinstance(native, dict):
        for key in sorted({*native, *other}):
            yield from _differences(native.get(key), other.get(key), f"{path}/{key}")
    elif isinstance(native, list) and len(native) == len(other):
        for index, pair in enumerate(zip(native, other, strict=True)):
            yield from _differences(*pair, f"{path}/{index}")
    elif native != other and not (isinstance(native, float) and native == pytest.approx(other, rel=1e-12)):
        yield f"{path}: {native!r:.80} and {other!r:.80}"


def _ask(browser: Sequence[str], playground: str, models: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the playground's Python answers about models."""
    answers = _drive(browser, "playground-answers", playground, *map(str, models), timeout_s=5400)
    return dict(zip(models, answers, strict=True))


def _differing(answers: Mapping[Path, dict[str, Any]]) -> list[str]:
    """Where answers about models are not the native ones."""
    different = []
    for model, answer in answers.items():
        question = {"folder": str(model.parent), "paths": [model.name]}
        pair = [json.loads(text) for text in (Answers().answer(json.dumps(question)), answer["answer"])]
        for one in pair:
            one.get("payload", {}).get("result", {}).pop("made", None)
        different += [f"{model.name}{found}" for found in list(_differences(*pair))[:3]]
    return different


def _models(corpus: Path) -> list[Path]:
    found = [path for suffix in ("mlmodel", "mlpackage", "mlmodelc") for path in corpus.rglob(f"*.{suffix}")]
    return sorted(path for path in found if not any(parent.suffix == ".mlpackage" for parent in path.parents))


@pytest.fixture(scope="module")
def answers(
    browser: list[str],
    playground: str,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> dict[Path, dict[str, Any]]:
    """Answers about a package with weights of 2 GiB, and about small files of the corpus if it is here."""
    package = tmp_path_factory.mktemp("large") / "Large.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), package)
    with next(package.rglob("weight.bin")).open("r+b") as file:
        file.truncate(2 * 2**30)
    models = _models(pytestconfig.rootpath.parent / "shared" / "corpus")
    small = [path for path in models if path.is_file() and path.stat().st_size < _SMALL_BYTES]
    return _ask(browser, playground, [package, *small[:_MOST]])


@pytest.mark.corpus
@pytest.mark.usefixtures("corpus")
def test_answers_equal_native_ones(answers: dict[Path, dict[str, Any]]) -> None:
    small = dict(list(answers.items())[1:])
    assert small
    assert _differing(small) == []


@pytest.mark.corpus
@pytest.mark.long
def test_answers_about_the_whole_corpus_equal_native_ones(
    browser: list[str], playground: str, corpus: Path
) -> None:
    assert _differing(_ask(browser, playground, _models(corpus))) == []


def test_weights_are_not_copied_into_memory(answers: dict[Path, dict[str, Any]]) -> None:
    large = next(iter(answers.values()))
    assert '"error"' not in large["answer"][:20]
    assert large["heapBytes"] < 300 * 2**20
