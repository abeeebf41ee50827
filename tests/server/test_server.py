"""The server over real sockets: models that are opened, work on them, and what is refused."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
import pytest
from PIL import Image

from coremlscope.base.errors import UsageError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.cli.main import main
from coremlscope.devices import find_device
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.results.profile import write_profiles
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.attacks import HOSTILE_FILES
from tests.support.processes import wait_for
from tests.support.profiles import small_profile

_LIMITS = ServerLimits(upload_bytes=1 << 22, uploads=2, works=3, connections=40)
_PATIENCE_S = 60.0


def _served(limits: ServerLimits = _LIMITS, work: ChildLimits | None = None) -> Iterator[str]:
    with serve(Address(), limits, work or ChildLimits()) as (address, answer):
        threading.Thread(target=answer, daemon=True).start()
        yield address


@pytest.fixture
def url() -> Iterator[str]:
    yield from _served()


@pytest.fixture
def hasty() -> Iterator[str]:
    """A server that gives a body one second."""
    yield from _served(msgspec.structs.replace(_LIMITS, body_s=1.0))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), folder)
    return folder


@contextlib.contextmanager
def _asking(
    url: str, method: str, path: str = "", body: bytes = b"", headers: dict[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    with contextlib.closing(connection):
        connection.request(method, parts.path + path, body or None, headers or {})
        yield connection.getresponse()


def _ask(url: str, path: str, head: object, content: bytes = b"", **headers: str) -> tuple[int, Any]:
    """Returns the status and the last line of an answer."""
    with _asking(url, "POST", path, json.dumps(head).encode() + b"\n" + content, headers) as response:
        lines = [json.loads(line) for line in response.read().splitlines() if line]
        return response.status, lines[-1]


def _open(url: str, *paths: Path) -> str:
    files = [
        (file, path.parent) for path in paths for file in ([path] if path.is_file() else path.rglob("*"))
    ]
    sent = [
        (file.relative_to(place).as_posix(), file.read_bytes()) for file, place in files if file.is_file()
    ]
    head = [{"path": path, "size": len(content)} for path, content in sent]
    status, answer = _ask(url, "models", head, b"".join(content for _, content in sent))
    assert status == 201
    return str(answer["id"])


def _devices() -> list[str]:
    return [find_device(name).name for name in DEFAULT_DEVICES]


def test_a_model_is_planned_for_the_default_devices_and_run_here(url: str, package: Path) -> None:
    id_ = _open(url, package)
    for what, measured in (("answer", 0), ("profile", 1)):
        status, line = _ask(url, f"models/{id_}/{what}", {"paths": [package.name]})
        assert status == 200
        assert line["answer"]["title"] == package.name
        result = line["answer"]["payload"]["result"]
        assert list(dict.fromkeys(plan["device"] for plan in result["plans"])) == _devices()
        assert {one["device"] for one in result["estimates"]} == {*_devices()}
        assert len(result["measurements"]) == measured


def test_two_models_are_compared_and_saved_profiles_are_shown(
    url: str, package: Path, tmp_path: Path
) -> None:
    shutil.make_archive(str(tmp_path / "small.mlpackage"), "zip", package.parent, package.name)
    write_profiles(tmp_path / "saved.json", [small_profile()])
    id_ = _open(url, package, tmp_path / "small.mlpackage.zip", tmp_path / "saved.json")
    _, line = _ask(url, f"models/{id_}/answer", {"paths": [package.name, "small.mlpackage.zip"]})
    assert line["answer"]["payload"]["result"]["schema"] == "coremlscope.comparison/2"
    _, line = _ask(url, f"models/{id_}/answer", {"paths": ["saved.json"]})
    assert line["answer"]["payload"]["result"]["schema"] == "coremlscope.profile/2"


def test_what_is_known_of_a_model_that_cannot_be_run_is_shown(
    url: str, package: Path, tmp_path: Path
) -> None:
    without = shutil.copytree(package, tmp_path / package.name)
    for weights in without.rglob("*.bin"):
        weights.unlink()
    _, line = _ask(url, f"models/{_open(url, without)}/profile", {"paths": [package.name]})
    result = line["answer"]["payload"]["result"]
    assert result["measurements"] == []
    assert result["plans"]
    assert [finding["id"] for finding in result["findings"]][:1] == ["not-measured"]


def test_a_photo_gives_the_prediction_of_predict(
    url: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 3), np.uint8)
    Image.fromarray(pixels).resize((240, 60), Image.Resampling.NEAREST).save(photo)
    assert main(["predict", str(package), "--input", f"image={photo}", "--json", "-"]) == 0
    (wanted,) = (v for v in json.loads(capsys.readouterr().out).values() if isinstance(v, dict))
    place = f"models/{_open(url, package)}/prediction"
    found = _predict(url, place, package.name, "../../photo.png", photo.read_bytes())["answer"]
    assert found["inputs"][0]["source"] == "../../photo.png"
    assert found["inputs"][0]["note"] == "cropped to 32×32"
    assert {one["label"]: one["score"] for one in found["outputs"][0]["classes"]} == wanted
    for name in ("photo.png", "photo.py", "photo.p\0g", f"photo.{'x' * 300}", "photo./x", "photo"):
        refused = _predict(url, place, package.name, name, b"abc")
        assert refused["error"]
        assert "/tmp" not in refused["error"]


def _predict(url: str, place: str, model: str, name: str, content: bytes) -> Any:
    inputs = [{"input": "image", "name": name, "size": len(content)}]
    head = {"path": model, "inputs": inputs, "resize": "center-crop", "rate_Hz": 16000}
    return _ask(url, place, head, content)[1]


def test_damaged_models_are_reported_in_one_sentence(url: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlmodel").write_bytes(b"\x08\x07junk")
    _, line = _ask(url, f"models/{_open(url, tmp_path / 'm.mlmodel')}/answer", {"paths": ["m.mlmodel"]})
    assert line["error"].startswith("m.mlmodel ")


@pytest.mark.long
@pytest.mark.parametrize("what", HOSTILE_FILES)
def test_hostile_files_are_refused_in_one_sentence(what: str, url: str, tmp_path: Path) -> None:
    name, build = HOSTILE_FILES[what]
    (tmp_path / name).write_bytes(build())
    _, line = _ask(url, f"models/{_open(url, tmp_path / name)}/answer", {"paths": [name]})
    assert line["error"]
    assert not [text for text in ("Traceback", "root:x:", "/tmp") if text in line["error"] + line["hint"]]


def test_work_ends_with_its_request_and_one_is_done_at_a_time(url: str, package: Path) -> None:
    id_ = _open(url, package)
    question = json.dumps({"paths": [package.name]}).encode() + b"\n"
    with _asking(url, "POST", f"models/{id_}/profile", question) as first:
        assert _message(first)["progress"]
        with _asking(url, "POST", f"models/{id_}/answer", question) as second:
            assert _message(second)["progress"].startswith("Waiting")
            first.close()
            lines = [json.loads(line) for line in second.read().splitlines() if line]
    assert "answer" in lines[-1]


def _message(response: http.client.HTTPResponse) -> Any:
    """Returns the next message; empty lines are signs of life."""
    return json.loads(next(line for line in iter(response.readline, b"") if line.strip()))


def test_work_that_takes_too_long_is_ended(package: Path) -> None:
    for url in _served(work=ChildLimits(time_s=0.05)):
        _, line = _ask(url, f"models/{_open(url, package)}/profile", {"paths": [package.name]})
        assert "longer than" in line["error"]


def test_a_model_of_one_byte_more_than_the_limit_is_refused(url: str) -> None:
    for size, status in ((_LIMITS.upload_bytes, 201), (_LIMITS.upload_bytes + 1, 413)):
        head = json.dumps([{"path": "m.mlmodel", "size": size}]).encode() + b"\n"
        with _asking(url, "POST", "models", head + bytes(size)) as answer:
            assert answer.status == status


def test_bodies_have_a_time_limit(hasty: str) -> None:
    parts = urlsplit(hasty)
    for path in ("models", "models/x/answer", "models/x/prediction"):
        head = f"POST {parts.path}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        with contextlib.closing(socket.create_connection((parts.hostname, parts.port), timeout=20)) as raw:
            raw.sendall(head.encode())
            answer = b""
            raw.settimeout(0.2)
            for _ in range(300):
                with contextlib.suppress(TimeoutError, ConnectionError):
                    raw.sendall(b"[")
                    answer = raw.recv(100)
                if answer:
                    break
            assert answer.split()[1] in (b"400", b"408")
            raw.settimeout(_PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                while raw.recv(1 << 16):
                    pass  # the connection ends
    with _asking(hasty, "GET") as home:
        assert home.status == 200


def test_places_are_limited_and_given_back(url: str) -> None:
    parts = urlsplit(url)
    head = f"POST {parts.path}models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"
    with contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(20):
            raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
            waiting.append(stack.enter_context(contextlib.closing(raw)))
            raw.sendall(head.encode())
        while len(waiting) > _LIMITS.uploads:
            answered, _, _ = select.select(waiting, [], [], _PATIENCE_S)
            assert {raw.recv(100).split()[1] for raw in answered} == {b"503"}
            waiting = [raw for raw in waiting if raw not in answered]
    assert wait_for(lambda: _ask(url, "models", [{"path": "m", "size": 1}], b"x")[0] == 201)


def test_requests_on_more_connections_than_allowed_are_refused(url: str) -> None:
    parts = urlsplit(url)
    with contextlib.ExitStack() as stack:
        for _ in range(_LIMITS.connections):
            raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
            stack.enter_context(contextlib.closing(raw))
        with _asking(url, "GET") as answer:
            assert answer.status == 503


def test_two_hundred_requests_at_once() -> None:
    for url in _served(ServerLimits()):
        with ThreadPoolExecutor(200) as pool:
            answers = list(pool.map(_status, [url] * 200))
        assert {*answers} == {200}


def _status(url: str) -> int:
    with _asking(url, "GET") as answer:
        answer.read()
        return answer.status


def test_the_oldest_models_are_removed(url: str, tmp_path: Path) -> None:
    large = tmp_path / "m.mlmodel"
    large.write_bytes(bytes(_LIMITS.upload_bytes - 1000))
    ids = [_open(url, large) for _ in range(5)]
    assert _ask(url, f"models/{ids[0]}/answer", {"paths": ["m.mlmodel"]})[0] == 400
    assert _ask(url, f"models/{ids[-1]}/answer", {"paths": ["m.mlmodel"]})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://"])
def test_other_pages_open_nothing(origin: str, url: str) -> None:
    assert _ask(url, "models", [], Origin=origin)[0] == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_other_machines_are_kept_out(host: str) -> None:
    with (
        pytest.raises(UsageError, match="can be reached from other machines"),
        serve(Address(host), ServerLimits()),
    ):
        pass


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address(port=taken.getsockname()[1])
        with pytest.raises(UsageError, match="cannot listen on"), serve(address, ServerLimits()):
            pass
