"""Requests and responses of the local page, without sockets; the queue of jobs."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec.structs
import numpy as np
import pytest
from PIL import Image

import coremlscope
from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Figure
from coremlscope.base.processes.child import ChildLimits as JobLimits
from coremlscope.base.processes.child import python_child
from coremlscope.cli.main import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile, Provenance, write_profiles
from coremlscope.server import worker
from coremlscope.server.app import App
from coremlscope.server.jobs import Job, JobQueue
from coremlscope.server.kept_models import KeptModels, save_result
from coremlscope.server.limits import ServerLimits
from coremlscope.server.store import Entry, ProfileStore, safe_name
from coremlscope.server.uploads import Uploads
from tests.support import foreign_files, recorded_files
from tests.support.asgi import Answer, ask
from tests.support.profiles import small_profile

_TOKEN = "t0k3n"
#: A profiler that reports progress, does what the model's content says, and copies its input.
_PROFILER = """
import json, os, sys, tempfile, time
model, target, request = sys.argv[1:]
content = open(model).read()
print(json.dumps({"phase": "predict", "done": 1, "total": 2}), flush=True)
if content == "slow":
    time.sleep(60)
if content == "asks":
    place = os.path.relpath(tempfile.gettempdir())
    print(json.dumps({"error": f"temporary files are in {place}", "hint": ""}), flush=True)
    sys.exit(3)
if content == "dies":
    sys.exit(-9)
if content == "aborts":
    os.abort()
if content == "bad":
    print(json.dumps({"error": "it is damaged", "hint": "export it again"}), flush=True)
    sys.exit(3)
print("noise that is not JSON", flush=True)
open(target, "w").write(content)
"""


@pytest.fixture(scope="module")
def profile_json() -> str:
    return json.dumps(small_profile().to_json())


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    yield from _app(tmp_path, (sys.executable, "-I", "-S", "-c", _PROFILER))


def _app(folder: Path, command: tuple[str, ...] | None = None) -> Iterator[App]:
    (folder / "temporary").mkdir()
    store, uploads = ProfileStore(folder / "profiles"), Uploads(folder / "temporary")
    models = KeptModels(1 << 22)
    keep = partial(save_result, store, models)
    queue = JobQueue(keep, command) if command else JobQueue(keep)
    yield App(store, queue, uploads, ServerLimits(upload_bytes=1 << 20), models)
    queue.close()
    left = {path.name for path in uploads.folder.iterdir() if not path.name.startswith("kept-")}
    assert left == {".lock"}
    uploads.close()
    assert not list((folder / "temporary").iterdir())


def _get(app: App, path: str, method: str = "GET", host: str = "localhost:1") -> Answer:
    return ask(app.guarded(_TOKEN, frozenset({"localhost"})), method, path, {"host": host})


def _upload(app: App, content: bytes, query: str = "name=m.mlmodel", length: int | None = None) -> Answer:
    size = len(content) if length is None else length
    headers = {"host": "localhost", "content-length": str(size)}
    guarded = app.guarded(_TOKEN, frozenset({"localhost"}))
    return ask(guarded, "POST", f"/{_TOKEN}/jobs?{query}", headers, content)


def _state(app: App) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = _get(app, f"/{_TOKEN}/state").json()
    return found


def _wait(app: App, status: str) -> Job:
    for _ in range(400):
        if (job := app.queue.jobs()[0]).status == status:
            return job
        time.sleep(0.025)
    raise AssertionError(app.queue.jobs())


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/state", f"/{_TOKEN}x/", "//", "/%2e%2e/state"])
def test_nothing_is_shown_without_the_token(app: App, path: str) -> None:
    response = _get(app, path)
    assert response.status == HTTPStatus.NOT_FOUND
    assert _TOKEN.encode() not in response.content


def test_a_foreign_name_of_this_machine_is_refused(app: App) -> None:
    assert _get(app, f"/{_TOKEN}/", host="evil.example:80").status == HTTPStatus.FORBIDDEN


def test_the_page_holds_the_state(app: App) -> None:
    response = _get(app, f"/{_TOKEN}/")
    assert response.status == HTTPStatus.OK
    assert b"coremlscope.server/2" in response.content
    assert b"connect-src 'self'" in response.content
    assert _get(app, f"/{_TOKEN}").headers["location"] == f"/{_TOKEN}/"


def test_a_profile_is_shown(app: App, profile_json: str) -> None:
    (app.store.folder / "one.json").write_text(profile_json, encoding="utf-8")
    page = _get(app, f"/{_TOKEN}/profiles/one")
    assert page.status == HTTPStatus.OK
    assert b"coremlscope.profile/2" in page.content
    assert json.loads(_get(app, f"/{_TOKEN}/profiles/one.json").content) == json.loads(profile_json)
    (entry,) = _state(app)["profiles"]
    measured = json.loads(profile_json)["measurements"][0]
    assert (entry["id"], entry["label"], entry["iterations"]) == ("one", measured["label"], 4)
    figure = entry["predict_s"]
    assert (figure["value"], figure["origin"]) == (measured["predict"]["statistics"]["median"], "measured")


@pytest.mark.parametrize(
    "name", ["..%2fsecret", "%2e%2e%2fsecret", "..", "secret%00", "/secret", "~", "a/../../secret"]
)
def test_names_do_not_lead_out_of_the_folder(app: App, name: str, profile_json: str) -> None:
    (app.store.folder.parent / "secret.json").write_text(profile_json, encoding="utf-8")
    for suffix in ("", ".json"):
        response = _get(app, f"/{_TOKEN}/profiles/{name}{suffix}")
        assert response.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


def test_files_without_profiles_are_listed_with_their_problem(app: App) -> None:
    (app.store.folder / "other.json").write_text("{", encoding="utf-8")
    (entry,) = _state(app)["profiles"]
    assert "is not valid JSON" in str(entry["problem"])
    assert _get(app, f"/{_TOKEN}/profiles/other").status == HTTPStatus.BAD_REQUEST


def test_an_upload_becomes_a_profile(app: App, profile_json: str) -> None:
    response = _upload(app, profile_json.encode(), "name=..%2f..%2fevil%20model.mlmodel&iterations=7")
    assert response.status == HTTPStatus.ACCEPTED
    job = _wait(app, "done")
    assert (job.model, job.phase, job.done, job.total) == ("evil-model.mlmodel", "predict", 1, 2)
    assert job.request["iterations"] == 7
    (entry,) = _state(app)["profiles"]
    assert entry["id"] == job.profile
    made = str(entry["made_at"]).translate(str.maketrans("T", "-", "-:Z"))
    assert job.profile == f"evil-model-{made}"
    assert not entry["problem"]


@pytest.fixture
def importing(tmp_path: Path) -> Iterator[App]:
    """An app whose jobs run as those of the server do."""
    yield from _app(tmp_path)


def _zipped(name: str, content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(f"__MACOSX/{name}", b"extra")
        opened.writestr(name, content)
    return archive.getvalue()


def _foreign(folder: Path, name: str) -> tuple[str, bytes]:
    """Name and content of a file of another tool as a browser sends it: folders as zip archives."""
    maker = foreign_files if name in foreign_files.FILES else recorded_files
    path = maker.write(folder, name)
    if path.is_dir():
        inside = f"{path.name}/report.json"
        return f"{path.name}.zip", _zipped(inside, (path / "report.json").read_bytes())
    return path.name, path.read_bytes()


def test_imported_files_can_be_uploaded(importing: App, tmp_path: Path) -> None:
    name, content = _foreign(tmp_path, "small.mlperf/report.json")
    response = _upload(importing, content, f"name={name}&devices=m1&os=14.5")
    assert response.status == HTTPStatus.ACCEPTED, response.content
    job = _wait(importing, "done")
    (entry,) = _state(importing)["profiles"]
    assert (entry["id"], entry["problem"]) == (job.profile, "")


@pytest.mark.parametrize("name", [*foreign_files.FILES, *recorded_files.FILES])
def test_every_imported_file_becomes_a_profile_of_the_page(
    app: App, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the work of a job's process in this process."""
    (folder := tmp_path / "job").mkdir()
    sent, content = _foreign(tmp_path, name)
    (folder / safe_name(sent)).write_bytes(content)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(worker, "send", lambda **_: None)
    assert worker.main([safe_name(sent), "profile.json", '{"devices": ["m1"], "os": "14.5"}']) == 0
    id_ = app.store.add(folder / "profile.json", sent)
    (entry,) = _state(app)["profiles"]
    assert (entry["id"], entry["problem"]) == (id_, "")
    assert _get(app, f"/{_TOKEN}/profiles/{id_}").status == HTTPStatus.OK


def test_a_saved_profile_can_be_uploaded(
    app: App, tmp_path: Path, profile_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saved.json").write_text(profile_json, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "send", lambda **_: None)
    assert worker.main(["saved.json", "profile.json", "{}"]) == 0
    id_ = app.store.add(tmp_path / "profile.json", "saved.json")
    assert app.store.read(id_) == (Profile.from_json(json.loads(profile_json)),)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("analytics.mil", b"program(1.0) {", "analytics.mil"),
        ("a.json", b"{", "is not valid JSON"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'{"some": "thing"}', "not a profile"),
        ("a.mlperf.zip", b"PK\x03\x04 but not a zip archive", "a.mlperf.zip"),
        ("a.mlperf.zip", _zipped("a.mlperf/report.json", b"{"), "is not valid JSON"),
        ("a.zip", _zipped("../../a.mlperf/report.json", b"[]"), "not a performance report"),
        ("a.zip", _zipped("readme.txt", b"text"), "a.zip"),
    ],
)
def test_damaged_uploads_are_reported_in_one_sentence(
    tmp_path: Path,
    name: str,
    content: bytes,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    sent: dict[str, str] = {}
    monkeypatch.setattr(worker, "send", lambda **message: sent.update(message))
    assert worker.main([name, "profile.json", "{}"]) > 0
    assert error in sent["error"]
    assert str(tmp_path) not in sent["error"] + sent["hint"]
    assert not (tmp_path / "profile.json").exists()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"bad", "it is damaged"),
        (b"dies", "the job failed: exit code 247"),
        (b"aborts", "the job failed: it aborted the process (SIGABRT)"),
        (b"asks", "temporary files are in ."),  # which are removed with the folder of the job
    ],
)
def test_a_job_that_fails_says_why(app: App, content: bytes, error: str) -> None:
    _upload(app, content)
    assert error in _wait(app, "failed").error


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    model = tmp_path / "job" / "m.mlmodel"
    model.parent.mkdir()
    model.write_bytes(b"slow")
    command = (sys.executable, "-I", "-S", "-c", _PROFILER)
    queue = JobQueue(lambda *_: "", command, JobLimits(time_s=0.5))
    queue.add(model, {})
    while (job := queue.jobs()[0]).status in ("waiting", "running"):
        time.sleep(0.01)
    queue.close()
    assert (job.status, job.error) == ("failed", "the job took longer than 0.5 s")
    assert not model.parent.exists()


def test_jobs_run_one_at_a_time_and_can_be_cancelled(app: App, profile_json: str) -> None:
    _upload(app, b"slow")
    _upload(app, b"slow")
    _upload(app, profile_json.encode())
    while app.queue.jobs()[-1].phase != "predict":
        time.sleep(0.01)
    assert [job.status for job in app.queue.jobs()] == ["waiting", "waiting", "running"]
    assert _get(app, f"/{_TOKEN}/jobs/2", "DELETE").status == HTTPStatus.OK
    assert _get(app, f"/{_TOKEN}/jobs/1", "DELETE").status == HTTPStatus.OK
    assert _wait(app, "done").id == 3
    assert [job.status for job in app.queue.jobs()] == ["done", "cancelled", "cancelled"]
    unknown = _get(app, f"/{_TOKEN}/jobs/99", "DELETE")
    assert (unknown.status, unknown.json()["error"]) == (400, "unknown job 99")


def test_uploads_have_limits(app: App) -> None:
    assert _upload(app, b"", length=1 << 31).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert _upload(app, b"half", length=100).status == HTTPStatus.BAD_REQUEST
    assert _get(app, f"/{_TOKEN}/jobs?name=m.mlmodel", "POST").status == 411
    for query in (
        "name=m.exe",
        "name=",
        "name=m.zip&iterations=0",
        "name=m.zip&iterations=x",
        "name=m.zip&devices=nokia",
    ):
        assert _upload(app, b"x", query).status == HTTPStatus.BAD_REQUEST, query
    assert app.queue.jobs() == []


def test_modules_beside_an_upload_are_not_run(tmp_path: Path) -> None:
    """The worker runs in the folder of the upload, into which a stranger's archive may be unpacked."""
    for name in ("json", "numpy", "onnx", "onnxruntime"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w')", encoding="utf-8")
    command = [*python_child("coremlscope.server.worker"), "absent.mlmodel", "profile.json", "{}"]
    read, write = os.pipe()  # The worker ends at the end of its standard input.
    with os.fdopen(read), os.fdopen(write, "w"):
        done = subprocess.run(command, cwd=tmp_path, stdin=read, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "does not exist" in done.stdout or "not a file" in done.stdout
    assert not (tmp_path / "was-run").exists()


def test_the_queue_is_finite(app: App) -> None:
    app.queue.add(_model(app, "slow"), {})
    while app.queue.jobs()[0].status != "running":
        time.sleep(0.01)
    for _ in range(20):
        app.queue.add(_model(app, "slow"), {})
    assert _upload(app, b"slow").status == HTTPStatus.BAD_REQUEST
    with pytest.raises(UsageError, match="20 models are waiting"):
        app.queue.add(Path("m.mlmodel"), {})


def _model(app: App, content: str) -> Path:
    folder = Path(tempfile.mkdtemp(dir=app.uploads.folder))
    (folder / "m.mlmodel").write_text(content)
    return folder / "m.mlmodel"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.mlmodel", "model.mlmodel"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\a b.zip", "a-b.zip"),
        ("", "model"),
        ("...", "model"),
        ("x" * 500 + ".mlmodel", "x" * 72 + ".mlmodel"),
    ],
)
def test_names_are_made_safe(name: str, expected: str) -> None:
    assert safe_name(name) == expected


def _change(app: App, id_: str, change: object, method: str = "PATCH") -> Answer:
    guarded = app.guarded(_TOKEN, frozenset({"localhost"}))
    body = json.dumps(change).encode()
    headers = {"host": "localhost", "content-length": str(len(body))}
    return ask(guarded, method, f"/{_TOKEN}/profiles/{id_}", headers, body)


def test_profiles_are_renamed_tagged_and_deleted(app: App, profile_json: str) -> None:
    (app.store.folder / "one.json").write_text(profile_json, encoding="utf-8")
    answer = _change(app, "one", {"name": "two", "tags": ["slow"]})
    (entry,) = answer.json()["profiles"]
    assert (entry["id"], entry["tags"]) == ("two", ["slow"])
    assert _get(app, f"/{_TOKEN}/profiles/one").status == HTTPStatus.BAD_REQUEST
    assert _get(app, f"/{_TOKEN}/profiles/two").status == HTTPStatus.OK
    assert _get(app, f"/{_TOKEN}/profiles/two", "DELETE").json()["profiles"] == []
    assert _get(app, f"/{_TOKEN}/profiles/two", "DELETE").status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("change", [3, [], {"tags": "a"}, {"name": 3}, {"path": "a"}, {"tags": ["x" * 99]}])
def test_changes_that_are_not_valid_are_refused(app: App, profile_json: str, change: object) -> None:
    (app.store.folder / "one.json").write_text(profile_json, encoding="utf-8")
    assert _change(app, "one", change).status == HTTPStatus.BAD_REQUEST
    assert [entry.id for entry in app.store.entries()] == ["one"]


def test_a_change_that_is_too_large_is_refused(app: App) -> None:
    assert _change(app, "one", {"name": "x" * 20_000}).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def _post(app: App, path: str) -> Answer:
    return ask(
        app.guarded(_TOKEN, frozenset({"localhost"})), "POST", f"/{_TOKEN}/{path}", {"host": "localhost"}
    )


def test_devices_are_added_to_profiles_whose_models_are_here(app: App, profile_json: str) -> None:
    (app.store.folder / "saved.json").write_text(profile_json, encoding="utf-8")
    _upload(app, profile_json.encode(), "name=m.mlmodel")
    id_ = _wait(app, "done").profile
    state = _get(app, f"/{_TOKEN}/state").json()
    assert state["extensible"] == [id_]
    assert _post(app, f"profiles/{id_}/devices?devices=m1,m1").status == HTTPStatus.ACCEPTED
    job = app.queue.jobs()[0]
    assert (job.model, job.request["of"], job.request["devices"]) == ("m.mlmodel", id_, ["m1"])
    for _ in range(200):
        if app.queue.jobs()[0].status == "done":
            break
        time.sleep(0.025)
    assert app.queue.jobs()[0].profile == id_
    assert len(app.store.entries()) == 2
    for path in (
        "saved/devices?devices=m1",
        f"{id_}/devices",
        f"{id_}/devices?devices=nokia",
        "x/devices?devices=m1",
    ):
        assert _post(app, f"profiles/{path}").status == HTTPStatus.BAD_REQUEST, path


def test_jobs_follow_profiles_that_are_renamed_and_deleted(app: App, profile_json: str) -> None:
    _upload(app, profile_json.encode(), "name=m.mlmodel")
    made = _wait(app, "done")
    _upload(app, b"slow", "name=slow.mlmodel")
    _wait(app, "running")
    assert _post(app, f"profiles/{made.profile}/devices?devices=m1").status == HTTPStatus.ACCEPTED
    assert _change(app, made.profile, {"name": "renamed"}).status == HTTPStatus.OK
    adding, slow, _ = app.queue.jobs()
    assert (made.profile, adding.request["of"]) == ("renamed", "renamed")
    app.queue.cancel(slow.id)
    assert _wait(app, "done").profile == "renamed"

    _upload(app, b"slow", "name=slow.mlmodel")
    _wait(app, "running")
    assert _post(app, "profiles/renamed/devices?devices=m1").status == HTTPStatus.ACCEPTED
    assert _get(app, f"/{_TOKEN}/profiles/renamed", "DELETE").status == HTTPStatus.OK
    adding, slow, *_ = app.queue.jobs()
    assert (made.profile, adding.status, slow.status) == ("", "cancelled", "running")
    assert app.store.entries() == []


def _preview(app: App, name: str, parts: str, body: bytes, more: str = "") -> Answer:
    headers = {"host": "localhost", "content-length": str(len(body))}
    target = f"/{_TOKEN}/profiles/{name}/preview?parts={quote(parts)}{more}"
    return ask(app.guarded(_TOKEN, frozenset({"localhost"})), "POST", target, headers, body)


def test_an_input_is_previewed_on_a_model_that_is_here(app: App, tmp_path: Path) -> None:
    folder = app.uploads.new_folder()
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), tmp_path / "m.mlpackage")
    shutil.make_archive(str(folder / "m.mlpackage"), "zip", tmp_path, "m.mlpackage")
    app.models.keep("p", folder / "m.mlpackage.zip")
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    size = len(picture.getvalue())
    parts = json.dumps([{"input": "image", "name": "../../photo.png", "size": size}])
    answer = _preview(app, "p", parts, picture.getvalue(), "&resize=center-crop")
    assert answer.status == HTTPStatus.OK
    found = answer.json()
    assert found["inputs"][0]["source"] == "../../photo.png"
    assert found["inputs"][0]["note"] == "cropped to 32×32"
    assert len(found["outputs"][0]["classes"]) == 10
    damaged = _preview(app, "p", parts.replace(str(size), "3"), b"abc")
    assert damaged.status == HTTPStatus.BAD_REQUEST
    assert "cannot be read as an image" in damaged.json()["error"]
    for name in ("photo.py", "photo.p\0g", f"photo.{'x' * 300}", "photo./x", "photo"):
        foreign = [{"input": "image", "name": name, "size": 3}]
        refused = _preview(app, "p", json.dumps(foreign), b"abc")
        assert (refused.status, name in refused.json()["error"]) == (HTTPStatus.BAD_REQUEST, True)


def test_a_photo_gives_the_prediction_of_predict(
    app: App, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = app.uploads.new_folder()
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), tmp_path / "m.mlpackage")
    shutil.make_archive(str(folder / "m.mlpackage"), "zip", tmp_path, "m.mlpackage")
    app.models.keep("p", folder / "m.mlpackage.zip")
    photo = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 3), np.uint8)
    Image.fromarray(pixels).resize((240, 60), Image.Resampling.NEAREST).save(photo)
    parts = json.dumps([{"input": "image", "name": "photo.png", "size": photo.stat().st_size}])
    found = _preview(app, "p", parts, photo.read_bytes()).json()
    stretched = _preview(app, "p", parts, photo.read_bytes(), "&resize=scale-fill").json()
    assert main(["predict", str(tmp_path / "m.mlpackage"), "--input", f"image={photo}", "--json", "-"]) == 0
    (wanted,) = (v for v in json.loads(capsys.readouterr().out).values() if isinstance(v, dict))
    assert found["inputs"][0]["note"] == "cropped to 32×32"
    assert _scores(found) == wanted
    assert _scores(stretched) != wanted


def _scores(preview: dict[str, Any]) -> dict[str, float]:
    """The scores of the classes of the first output."""
    return {one["label"]: one["score"] for one in preview["outputs"][0]["classes"]}


@pytest.mark.parametrize(
    ("parts", "body", "more", "status"),
    [
        ("[]", b"", "", HTTPStatus.BAD_REQUEST),  # there is no model
        ("", b"", "", HTTPStatus.BAD_REQUEST),
        ("[" * 5000, b"", "", HTTPStatus.BAD_REQUEST),
        ("[]", b"x", "", HTTPStatus.BAD_REQUEST),
        ('[{"input": "a", "name": "a.py", "size": 1}]', b"x", "", HTTPStatus.BAD_REQUEST),
        ('[{"input": "a", "name": "a.png", "size": -1}]', b"", "", HTTPStatus.BAD_REQUEST),
        ("[]", b"", "&rate=0", HTTPStatus.BAD_REQUEST),
        ("[]", b"", "&rate=1e5", HTTPStatus.BAD_REQUEST),
        ("[]", b"", "&resize=tile", HTTPStatus.BAD_REQUEST),
    ],
)
def test_previews_that_are_refused(app: App, parts: str, body: bytes, more: str, status: HTTPStatus) -> None:
    answer = _preview(app, "p", parts, body, more)
    assert answer.status == status
    assert answer.json()["error"]


def test_the_size_of_previews_is_limited(app: App) -> None:
    app.limits = msgspec.structs.replace(app.limits, upload_bytes=1 << 30)
    headers = {"host": "localhost", "content-length": str(100 << 20)}
    target = f"/{_TOKEN}/profiles/p/preview?parts=[]"
    answer = ask(app.guarded(_TOKEN, frozenset({"localhost"})), "POST", target, headers, b"")
    assert answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_models_follow_their_profiles(app: App, profile_json: str) -> None:
    _upload(app, profile_json.encode(), "name=m.mlmodel")
    id_ = _wait(app, "done").profile
    assert _change(app, id_, {"name": "renamed"}).json()["extensible"] == ["renamed"]
    assert _get(app, f"/{_TOKEN}/profiles/renamed", "DELETE").json()["extensible"] == []
    assert not list(app.uploads.folder.glob("kept-*"))


def test_the_oldest_models_are_removed(app: App, profile_json: str) -> None:
    big = profile_json.encode() + b" " * 1_000_000
    for number in range(5):
        _upload(app, big, f"name=m{number}.mlmodel")
        assert _wait(app, "done").id == number + 1
    kept = sorted(model.name for model in app.uploads.folder.glob("kept-*/*.mlmodel"))
    assert kept == ["m1.mlmodel", "m2.mlmodel", "m3.mlmodel", "m4.mlmodel"]


def test_profiles_are_compared(app: App) -> None:
    for number in (1, 2):
        write_profiles(app.store.folder / f"p{number}.json", [small_profile()])
    page = _get(app, f"/{_TOKEN}/compare?id=p1&id=p2")
    assert page.status == HTTPStatus.OK
    assert b"coremlscope.comparison/2" in page.content
    for query in ("", "?id=p1", "?id=p1&id=p3", "?id=p1&id=..%2fp2", "?" + "&".join(["id=p1"] * 9)):
        assert _get(app, f"/{_TOKEN}/compare{query}").status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("m1,iphone-15-pro", ["m1", "iphone-15-pro"]),
        ("m1 iphone-15-pro", ["m1", "iphone-15-pro"]),
        ("iPhone 15 Pro, M1 Max", ["iPhone 15 Pro", "M1 Max"]),
        (" , ", []),
    ],
)
def test_devices_are_named_as_people_write_them(app: App, text: str, names: list[str]) -> None:
    assert _upload(app, b"slow", f"name=m.mlmodel&devices={quote(text)}").status == HTTPStatus.ACCEPTED
    assert app.queue.jobs()[0].request["devices"] == names


def test_the_page_knows_every_device(app: App) -> None:
    names = {device["name"] for device in _state(app)["devices"]}
    assert {"m1", "a17-pro", "iPhone 15 Pro"} <= names


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(app: App, method: str) -> None:
    assert _get(app, f"/{_TOKEN}/", method).status == HTTPStatus.METHOD_NOT_ALLOWED


_V1 = Path(__file__).parents[1] / "data" / "profile-v1.json"


def _entry(folder: Path, *profiles: Profile) -> Entry:
    write_profiles(folder / "p.json", profiles)
    (entry,) = ProfileStore(folder).entries()
    assert not entry.problem
    return entry


def test_profiles_of_any_kind_are_listed(tmp_path: Path) -> None:
    model = sample_model()
    plan = coremlscope.plan(model, ["m1", "a14"])
    estimate = coremlscope.estimate(model, "m1", compute_units=["cpu_only"])
    entry = _entry(tmp_path, plan)
    assert entry.label == "M1, macOS 27, all"
    assert entry.predict_s is not None
    assert (entry.predict_s, entry.load_s, entry.iterations) == (plan.estimates[0].latency, None, 0)
    entry = _entry(tmp_path, msgspec.structs.replace(plan, estimates=()))
    # What a plan charges is no time.
    assert (entry.label, entry.predict_s) == ("M1, macOS 27, all", None)
    entry = _entry(tmp_path, estimate)
    assert (entry.label, entry.predict_s) == ("M1, macOS 27, cpu_only", estimate.estimates[0].latency)
    bare = msgspec.structs.replace(plan, plans=(), estimates=())
    entry = _entry(tmp_path, bare)
    assert (entry.label, entry.predict_s, entry.operations) == ("", None, len(plan.ops))


def test_the_first_measurement_of_several_is_shown(tmp_path: Path) -> None:
    profile = small_profile()
    again = msgspec.structs.replace(profile.measurement, label="another", predict=None)
    entry = _entry(tmp_path, msgspec.structs.replace(profile, measurements=(profile.measurement, again)))
    assert (entry.label, entry.iterations) == (profile.measurement.label, 4)
    assert profile.measurement.predict is not None
    median = profile.measurement.predict.statistics.median
    assert entry.predict_s == Figure(median, 0.0011, 0.0014, "measured")
    entry = _entry(tmp_path, msgspec.structs.replace(profile, measurements=(again, profile.measurement)))
    assert (entry.label, entry.predict_s, entry.iterations) == ("another", None, 0)


def test_lists_of_profiles_are_one_entry(app: App) -> None:
    later = msgspec.structs.replace(small_profile(), made=Provenance("2026-03-01T00:00:00Z"))
    failed = Profile(model=ModelSummary(path="no-model.txt"))
    write_profiles(app.store.folder / "list.json", [failed, small_profile(), later])
    (entry,) = app.store.entries()
    assert (entry.profiles, entry.model, entry.problem) == (3, "sample.mlpackage", "")
    assert entry.made_at == "2026-03-01T00:00:00Z"
    page = _get(app, f"/{_TOKEN}/profiles/list")
    assert page.status == HTTPStatus.OK
    assert b"coremlscope.profiles/2" in page.content


def test_entries_are_ordered_by_when_profiles_were_made(tmp_path: Path) -> None:
    """Not by dates of files, which are the opposite here; unknown times are the oldest."""
    times = ["", "not a date", "2026-01-31T12:00:00Z", "2026-01-31T12:30:00+02:00", "2026-02-01T00:00:00"]
    for number, at in enumerate(times):
        path = tmp_path / f"{number}.json"
        write_profiles(path, [msgspec.structs.replace(small_profile(), made=Provenance(at))])
        os.utime(path, (1e9 - number, 1e9 - number))
    entries = ProfileStore(tmp_path).entries()
    assert [entry.id for entry in entries] == ["4", "2", "3", "0", "1"]
    assert [entry.made_at for entry in entries][:3] == [
        "2026-02-01T00:00:00Z",
        "2026-01-31T12:00:00Z",
        "2026-01-31T10:30:00Z",
    ]


def test_a_profile_that_an_earlier_version_saved(app: App) -> None:
    shutil.copy(_V1, app.store.folder / "old.json")
    (entry,) = app.store.entries()
    assert (entry.made_at, entry.model, entry.operations, entry.problem) == ("", "residual.mlpackage", 2, "")
    assert entry.predict_s is not None
    assert entry.predict_s.origin == "measured"
    assert _get(app, f"/{_TOKEN}/profiles/old").status == HTTPStatus.OK
    assert _get(app, f"/{_TOKEN}/profiles/old.json").content == _V1.read_bytes()


def test_added_profiles_get_names_of_their_own(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    source = tmp_path / "made.json"
    write_profiles(source, [small_profile()])
    ids = [store.add(source, "a b.mlmodel") for _ in range(3)]
    assert ids == ["a-b-20260131-120000", "a-b-20260131-120000-1", "a-b-20260131-120000-2"]
    assert store.add(_V1, "../old.mlpackage") == "old"
    with pytest.raises(UsageError, match="not valid JSON"):
        store.add(Path(__file__), "m.mlmodel")
    assert len(store.entries()) == 4
    assert len(list(store.folder.iterdir())) == 4


def test_unknown_profiles(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown profile 'x'"):
        ProfileStore(tmp_path).read("x")


def test_a_list_without_profiles_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"schema": "coremlscope.profiles/2", "profiles": []}')
    (entry,) = ProfileStore(tmp_path).entries()
    assert "does not contain a profile" in entry.problem
