"""Handles the requests of the local page, without sockets."""

from __future__ import annotations

import hmac
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from coremlscope.errors import CoremlscopeError, UsageError
from coremlscope.importers.profiles import SUFFIXES
from coremlscope.render.page import build_page, render_html
from coremlscope.results.encoding import plain
from coremlscope.server.jobs import Job, JobQueue
from coremlscope.server.store import Entry, ProfileStore, safe_name
from coremlscope.server.worker import MODEL_SUFFIXES
from coremlscope.writing import open_draft

__all__ = ["SCHEMA", "App", "Request", "Response", "State"]

#: Name and version of the schema of `State`.
SCHEMA = "coremlscope.server/2"
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_CHUNK = 1 << 20
#: Disk space that uploads must leave free, in bytes.
_SPARE_BYTES = 256 << 20
#: Names of files that can be uploaded: models, and what is imported. Folders are sent as zip archives.
_SUFFIXES = tuple(sorted({*MODEL_SUFFIXES, *SUFFIXES, ".txt"}))


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Reads up to `size` bytes; returns no bytes at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the page.

    Attributes:
        folder: The folder of the profiles.
        max_upload_bytes: The largest file that can be uploaded.
        suffixes: What the names of files that can be uploaded end with.
        profiles: The saved profiles, newest first.
        jobs: The waiting, running and completed jobs, newest first.
    """

    folder: str
    max_upload_bytes: int
    suffixes: tuple[str, ...]
    profiles: tuple[Entry, ...]
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request.

    Attributes:
        method: `GET`, `POST`, …
        target: The path with its query, as sent.
        headers: By name in lower case.
        body: The content; it has `length` bytes.
        length: The length of the content; None if the request does not state it.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Readable | None = None
    length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response.

    Attributes:
        status: The status code.
        content: The body.
        type: The body's media type.
        location: The address to redirect to; empty for none.
        has_read: False if the request's body was not read, so that the connection must be closed.
    """

    status: HTTPStatus
    content: bytes = b""
    type: str = _JSON
    location: str = ""
    has_read: bool = True


class App:
    """Answers requests; safe to use from several threads.

    Args:
        store: The profiles.
        queue: The models to profile, and the files to import.
        token: The first part of every address; requests without it are rejected.
        hosts: Allowed names in the `Host` header; None for any. This prevents other web pages from reaching
            the server under a name that resolves to this machine.
        max_upload_bytes: The largest file that can be uploaded.
        uploads: The folder of uploaded files that are not yet profiled or imported.
    """

    def __init__(
        self,
        store: ProfileStore,
        queue: JobQueue,
        token: str,
        *,
        hosts: frozenset[str] | None,
        max_upload_bytes: int,
        uploads: Path,
    ) -> None:
        self.store, self.queue, self.token, self.hosts = store, queue, token, hosts
        self.max_upload_bytes, self.uploads = max_upload_bytes, uploads

    def answer(self, request: Request) -> Response:
        """Returns the response to a request; errors are also responses."""
        url = urlsplit(request.target)
        token, _, path = url.path.lstrip("/").partition("/")
        if self.hosts is not None and _host_name(request.headers.get("host", "")) not in self.hosts:
            return _refusal(HTTPStatus.FORBIDDEN, "invalid host name for this server")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return _refusal(HTTPStatus.NOT_FOUND, "open the address that `coremlscope serve` printed")
        if not url.path.startswith(f"/{token}/"):
            return Response(status=HTTPStatus.SEE_OTHER, location=f"/{token}/", has_read=False)
        parts = [unquote(part) for part in path.split("/")]
        try:
            return self._route(request, parts, parse_qs(url.query))
        except CoremlscopeError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, error.message, error.hint)

    def _route(self, request: Request, parts: list[str], query: Mapping[str, list[str]]) -> Response:
        match request.method, *parts:
            case "GET" | "HEAD", "":
                return self._home()
            case "GET" | "HEAD", "state":
                return self._state()
            case "GET" | "HEAD", "profiles", name if name.endswith(".json"):
                return Response(status=HTTPStatus.OK, content=self.store.content(name.removesuffix(".json")))
            case "GET" | "HEAD", "profiles", name:
                profiles = self.store.read(name)
                page = render_html(profiles[0] if len(profiles) == 1 else profiles)
                return Response(status=HTTPStatus.OK, content=page.encode(), type=_HTML)
            case "POST", "jobs":
                return self._upload(request, query)
            case "DELETE", "jobs", number if number.isdecimal() and len(number) < 10:
                self.queue.cancel(int(number))
                return self._state()
            case "GET" | "HEAD" | "POST" | "DELETE", *_:
                return _refusal(HTTPStatus.NOT_FOUND, "this address does not exist")
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"the method {request.method[:20]} is not supported")

    def state(self) -> dict[str, Any]:
        """Returns the content of the page as plain JSON values, with the schema's name."""
        state = State(
            folder=str(self.store.folder),
            max_upload_bytes=self.max_upload_bytes,
            suffixes=_SUFFIXES,
            profiles=tuple(self.store.entries()),
            jobs=tuple(self.queue.jobs()),
        )
        return {"schema": SCHEMA, **plain(state)}

    def _state(self, status: HTTPStatus = HTTPStatus.OK) -> Response:
        return Response(status=status, content=msgspec.json.encode(self.state()))

    def _home(self) -> Response:
        page = build_page(self.state(), "Profiles", connects=True)
        return Response(status=HTTPStatus.OK, content=page.encode(), type=_HTML)

    def _upload(self, request: Request, query: Mapping[str, list[str]]) -> Response:
        if request.length is None or request.body is None:
            return _refusal(HTTPStatus.LENGTH_REQUIRED, "the length of the file is missing")
        if request.length > self.max_upload_bytes:
            most = self.max_upload_bytes >> 20
            return _refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the file has {request.length >> 20} MB, but the limit is {most} MB",
                "start the server with a larger --max-upload, or use `coremlscope profile` or `import`",
            )
        if request.length + _SPARE_BYTES > shutil.disk_usage(self.uploads).free:
            return _refusal(HTTPStatus.INSUFFICIENT_STORAGE, "the disk is too full for this file")
        options = _options(query)
        name = safe_name(query.get("name", [""])[0])
        if not name.lower().endswith(_SUFFIXES):
            raise UsageError(
                f"{name!r} is not the name of a model or of a file that can be imported",
                f"upload a .mlmodel, a .mlpackage or .mlperf as a zip, or one of {', '.join(SUFFIXES)}, .txt",
            )
        folder = Path(tempfile.mkdtemp(dir=self.uploads))
        is_complete = False
        try:
            is_complete = _receive(request.body, request.length, folder / name)
            if not is_complete:
                return _refusal(HTTPStatus.BAD_REQUEST, "the upload is incomplete", "upload the file again")
            self.queue.add(folder / name, options)
        except CoremlscopeError:
            is_complete = False
            raise
        finally:
            if not is_complete:
                shutil.rmtree(folder, ignore_errors=True)
        return self._state(HTTPStatus.ACCEPTED)


def _options(query: Mapping[str, list[str]]) -> dict[str, object]:
    from coremlscope.devices import SETTINGS, find_device

    iterations = query.get("iterations", ["50"])[0]
    if not iterations.isdecimal() or not 1 <= int(iterations[:9]) <= 100_000:
        raise UsageError(f"invalid number of predictions {iterations[:20]!r}", "give one from 1 to 100000")
    devices = [name for name in query.get("devices", [""])[0].replace(",", " ").split() if name]
    for device in devices:
        find_device(device)
    setting = query.get("compute_units", ["all"])[0]
    if setting not in SETTINGS:
        raise UsageError(f"invalid compute units {setting[:20]!r}", f"use one of {', '.join(SETTINGS)}")
    return {
        "iterations": int(iterations),
        "devices": devices,
        "compute_units": setting,
        "random_weights": query.get("random_weights", [""])[0] == "1",
        "os": query.get("os", [""])[0][:80],
    }


def _receive(body: Readable, length: int, path: Path) -> bool:
    """Writes a body to a file while receiving it; returns False if it is incomplete."""
    with open_draft(path) as file:
        while length:
            chunk = body.read(min(_CHUNK, length))
            if not chunk:
                return False
            file.write(chunk)
            length -= len(chunk)
    return True


def _host_name(header: str) -> str:
    """Returns the name in a `Host` header, without the port."""
    name, _, port = header.rpartition(":")
    return (name if name and port.isdecimal() else header).strip("[]").lower()


def _refusal(status: HTTPStatus, error: str, hint: str = "") -> Response:
    return Response(
        status=status, content=msgspec.json.encode({"error": error, "hint": hint}), has_read=False
    )
