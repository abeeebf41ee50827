"""What the local page answers, without sockets; and what becomes of jobs."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

import coremlscope
from coremlscope.errors import UsageError
from coremlscope.formats.sample import sample_model
from coremlscope.render import render_json
from coremlscope.server.app import App, Request, Response
from coremlscope.server.jobs import Job, JobQueue
from coremlscope.server.store import ProfileStore, safe_name

_TOKEN = "t0k3n"
#: A profiler that tells its progress, obeys the model's content, and writes what it was given.
_PROFILER = """
import json, sys, time
model, target, request = sys.argv[1:]
content = open(model).read()
print(json.dumps({"phase": "predict", "done": 1, "total": 2}), flush=True)
if content == "slow":
    time.sleep(60)
if content == "dies":
    sys.exit(-9)
if content == "bad":
    print(json.dumps({"error": "it is damaged", "hint": "export it again"}), flush=True)
    sys.exit(3)
print("noise that is no JSON", flush=True)
open(target, "w").write(content)
"""


@pytest.fixture(scope="module")
def profile_json() -> str:
    profile = coremlscope.profile(
        sample_model(), iterations=3, compile_iterations=1, load_iterations=1, warmups=0
    )
    return render_json(profile)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    store = ProfileStore(tmp_path / "profiles")
    queue = JobQueue(store.add, (sys.executable, "-c", _PROFILER))
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    yield App(store, queue, _TOKEN, hosts=frozenset({"localhost"}), max_upload_bytes=1 << 20, uploads=uploads)
    queue.close()
    assert not list(uploads.iterdir())


def _get(app: App, path: str, method: str = "GET", host: str = "localhost:1") -> Response:
    return app.answer(Request(method, path, {"host": host}))


def _upload(app: App, content: bytes, query: str = "name=m.mlmodel", length: int | None = None) -> Response:
    size = len(content) if length is None else length
    headers = {"host": "localhost"}
    return app.answer(Request("POST", f"/{_TOKEN}/jobs?{query}", headers, io.BytesIO(content), size))


def _state(app: App) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(_get(app, f"/{_TOKEN}/state").content)
    return found


def _wait(app: App, status: str) -> Job:
    for _ in range(400):
        if (job := app.queue.jobs()[0]).status == status:
            return job
        time.sleep(0.025)
    raise AssertionError(app.queue.jobs())


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/state", f"/{_TOKEN}x/", "//", "/%2e%2e/state"])
def test_nothing_is_told_without_the_token(app: App, path: str) -> None:
    response = _get(app, path)
    assert response.status == HTTPStatus.NOT_FOUND
    assert _TOKEN.encode() not in response.content


def test_a_foreign_name_of_this_machine_is_refused(app: App) -> None:
    assert _get(app, f"/{_TOKEN}/", host="evil.example:80").status == HTTPStatus.FORBIDDEN


def test_the_page_holds_the_state(app: App) -> None:
    response = _get(app, f"/{_TOKEN}/")
    assert response.status == HTTPStatus.OK
    assert b"coremlscope.server/1" in response.content
    assert b"connect-src 'self'" in response.content
    assert _get(app, f"/{_TOKEN}").location == f"/{_TOKEN}/"


def test_a_profile_is_shown(app: App, profile_json: str) -> None:
    (app.store.folder / "one.json").write_text(profile_json, encoding="utf-8")
    page = _get(app, f"/{_TOKEN}/profiles/one")
    assert page.status == HTTPStatus.OK
    assert b"coremlscope.profile/1" in page.content
    assert json.loads(_get(app, f"/{_TOKEN}/profiles/one.json").content) == json.loads(profile_json)
    (entry,) = _state(app)["profiles"]
    median = json.loads(profile_json)["predict"]["statistics"]["median"]
    assert (entry["id"], entry["median_s"], entry["iterations"]) == ("one", median, 3)


@pytest.mark.parametrize(
    "name", ["..%2fsecret", "%2e%2e%2fsecret", "..", "secret%00", "/secret", "~", "a/../../secret"]
)
def test_names_do_not_lead_out_of_the_folder(app: App, name: str, profile_json: str) -> None:
    (app.store.folder.parent / "secret.json").write_text(profile_json, encoding="utf-8")
    for suffix in ("", ".json"):
        response = _get(app, f"/{_TOKEN}/profiles/{name}{suffix}")
        assert response.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


def test_files_that_are_no_profiles_are_named(app: App) -> None:
    (app.store.folder / "other.json").write_text("{", encoding="utf-8")
    (entry,) = _state(app)["profiles"]
    assert "is no JSON" in str(entry["problem"])
    assert _get(app, f"/{_TOKEN}/profiles/other").status == HTTPStatus.BAD_REQUEST


def test_an_upload_becomes_a_profile(app: App, profile_json: str) -> None:
    response = _upload(app, profile_json.encode(), "name=..%2f..%2fevil%20model.mlmodel&iterations=7")
    assert response.status == HTTPStatus.ACCEPTED
    job = _wait(app, "done")
    assert (job.model, job.phase, job.done, job.total) == ("evil-model.mlmodel", "predict", 1, 2)
    assert job.request["iterations"] == 7
    (entry,) = _state(app)["profiles"]
    assert entry["id"] == job.profile
    assert not entry["problem"]


@pytest.mark.parametrize(
    ("content", "error"), [(b"bad", "it is damaged"), (b"dies", "the profiler ended unexpectedly")]
)
def test_a_job_that_fails_says_why(app: App, content: bytes, error: str) -> None:
    _upload(app, content)
    assert error in _wait(app, "failed").error


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
    assert _get(app, f"/{_TOKEN}/jobs/99", "DELETE").status == HTTPStatus.BAD_REQUEST


def test_uploads_have_limits(app: App) -> None:
    assert _upload(app, b"", length=1 << 31).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert _upload(app, b"half", length=100).status == HTTPStatus.BAD_REQUEST
    assert app.answer(Request("POST", f"/{_TOKEN}/jobs?name=m.mlmodel", {"host": "localhost"})).status == 411
    for query in (
        "name=m.exe",
        "name=",
        "name=m.zip&iterations=0",
        "name=m.zip&iterations=x",
        "name=m.zip&devices=nokia",
    ):
        assert _upload(app, b"x", query).status == HTTPStatus.BAD_REQUEST, query
    assert app.queue.jobs() == []


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
    folder = app.uploads / f"job-{len(list(app.uploads.iterdir()))}-{time.monotonic_ns()}"
    folder.mkdir()
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


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(app: App, method: str) -> None:
    assert _get(app, f"/{_TOKEN}/", method).status == HTTPStatus.METHOD_NOT_ALLOWED
