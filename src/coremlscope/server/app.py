"""Answers the requests of the local page."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coremlscope import api
from coremlscope.api.imported import SUFFIXES
from coremlscope.base.errors import CoremlscopeError, OutputError, UsageError, known_error
from coremlscope.base.escaping import path_text
from coremlscope.base.processes.child import ChildLimits as JobLimits
from coremlscope.base.writing import open_draft, write_draft
from coremlscope.reports.json import displayed
from coremlscope.reports.page import build_page, render_html
from coremlscope.results.encoding import plain
from coremlscope.server.guard import Guard
from coremlscope.server.jobs import NO_LIMITS, JobQueue
from coremlscope.server.kept_models import KeptModels
from coremlscope.server.limits import ServerLimits
from coremlscope.server.previews import Previews, parse_request
from coremlscope.server.responses import EventStream, Places, RefusedError, json_response, refusal
from coremlscope.server.state import SCHEMA, PageState, device_names
from coremlscope.server.store import ProfileStore, safe_name
from coremlscope.server.sweeps import SweepFolders
from coremlscope.server.uploads import Uploads
from coremlscope.server.worker import MODEL_SUFFIXES

#: Names of files that can be uploaded: models, and what is imported. Folders are sent as zip archives.
_SUFFIXES = tuple(sorted({*MODEL_SUFFIXES, *SUFFIXES, ".txt"}))
#: Seconds between looks at the jobs, and their number between looks at the folder and between signs of life.
_TICK_S, _TICKS_BETWEEN_SCANS, _TICKS_BETWEEN_SIGNS = 0.2, 10, 75
_MOST_COMPARED = 8
#: Seconds between looks at the results of a sweep, and how much longer than the last answer took it waits.
_RESULTS_S, _REST = 2.0, 4.0
#: The name of a saved profile in the folder of a job.
_SAVED = "saved-profile.json"
#: Maximum size of a change of an entry.
_CHANGE_BYTES = 16 << 10


class _Change(msgspec.Struct, forbid_unknown_fields=True):
    """A change of an entry; what is None stays."""

    name: str | None = None
    tags: list[str] | None = None


class App:
    """Answers requests. Work that takes time runs in a limited number of threads.

    Args:
        store: The profiles.
        queue: The models to profile, and the files to import.
        uploads: Uploaded files that are not yet profiled or imported.
        limits: Limits of requests.
        models: Models to whose profiles devices can be added.
        job_limits: When to give up a preview.
        sweeps: The folders of results of sweeps; by default those in the folder of the profiles.
    """

    def __init__(
        self,
        store: ProfileStore,
        queue: JobQueue,
        uploads: Uploads,
        limits: ServerLimits,
        models: KeptModels,
        job_limits: JobLimits = NO_LIMITS,
        sweeps: SweepFolders | None = None,
    ) -> None:
        self.store, self.queue, self.uploads, self.limits = store, queue, uploads, limits
        self.models, self.previews = models, Previews(models, uploads, job_limits)
        self._previewing = Places(1, "another preview is being made", "try again in a moment")
        self.sweeps = sweeps or SweepFolders(store.folder)
        #: Whether the server stops, so that streams of events end.
        self.is_stopping: Callable[[], bool] = lambda: False
        self._files = 0
        self._watchers = Places(limits.watchers, "too many pages are open", "close some of them")
        self._receiving = Places(
            limits.uploads, "too many files are being uploaded", "wait until one is complete"
        )

    def guarded(self, token: str, hosts: frozenset[str] | None) -> ASGIApp:
        """Returns the application for a server; see `Guard`."""
        app = Starlette(
            routes=[
                Route("/", self._home),
                Route("/state", self._state),
                Route("/events", self._events),
                Route("/compare", self._compare),
                Route("/profiles/{name}", self._profile),
                Route("/profiles/{name}", self._delete, methods=["DELETE"]),
                Route("/profiles/{name}", self._change, methods=["PATCH"]),
                Route("/profiles/{name}/devices", self._add_devices, methods=["POST"]),
                Route("/profiles/{name}/preview", self._preview, methods=["POST"]),
                Route("/sweeps/{name}", self._sweep),
                Route("/sweeps/{name}/events", self._sweep_events),
                Route("/jobs", self._upload, methods=["POST"]),
                Route("/jobs/{number}", self._cancel, methods=["DELETE"]),
            ],
            exception_handlers={
                ClientDisconnect: _refuse_incomplete,
                CoremlscopeError: _refuse_error,
                RefusedError: _refuse_request,
                HTTPException: _refuse_address,
                Exception: _refuse_failure,
            },
        )
        app.router.redirect_slashes = False
        return Guard(app, token, hosts)

    def state(self) -> dict[str, Any]:
        """Returns the content of the page as plain JSON values, with the schema's name."""
        state = PageState(
            folder=path_text(self.store.folder),
            max_upload_bytes=self.limits.upload_bytes,
            suffixes=_SUFFIXES,
            profiles=tuple(self.store.entries()),
            jobs=tuple(self.queue.jobs()),
            extensible=tuple(sorted(self.models.ids())),
            devices=device_names(),
            sweeps=tuple(self.sweeps.entries()),
        )
        return {"schema": SCHEMA, **plain(state)}

    def _state(self, _: Request) -> Response:
        return json_response(self.state())

    def _home(self, _: Request) -> Response:
        return HTMLResponse(build_page(self.state(), "Profiles", connects=True))

    def _profile(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if name.endswith(".json"):
            return Response(self.store.content(name.removesuffix(".json")), media_type="application/json")
        profiles = self.store.read(name)
        subject = profiles[0] if len(profiles) == 1 else profiles
        return HTMLResponse(render_html(subject, is_extensible=name in self.models.ids()))

    def _compare(self, request: Request) -> Response:
        """Shows what differs between entries; the first one is the base."""
        ids = request.query_params.getlist("id")
        if not 2 <= len(ids) <= _MOST_COMPARED:
            raise UsageError("choose the profiles to compare", f"from 2 to {_MOST_COMPARED}")
        comparison = api.compare(*(profile for id_ in ids for profile in self.store.read(id_)))
        return HTMLResponse(render_html(comparison))

    def _delete(self, request: Request) -> Response:
        self.store.remove(request.path_params["name"])
        self.models.remove(request.path_params["name"])
        self.queue.follow(request.path_params["name"], "")
        return json_response(self.state())

    async def _change(self, request: Request) -> Response:
        """Renames an entry, or replaces its tags."""
        if _stated_size(request) > _CHANGE_BYTES:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the change is too large")
        try:
            change = msgspec.json.decode(await request.body(), type=_Change)
        except (RecursionError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise UsageError(f"the change is not valid: {error}") from None
        name = request.path_params["name"]
        if change.tags is not None:
            await run_in_threadpool(self.store.tag, name, change.tags)
        if change.name is not None:
            renamed = await run_in_threadpool(self.store.rename, name, change.name)
            self.models.rename(name, renamed)
            self.queue.follow(name, renamed)
        return json_response(await run_in_threadpool(self.state))

    def _add_devices(self, request: Request) -> Response:
        """Queues plans and estimates for devices that a profile does not have."""
        name = request.path_params["name"]
        devices = list(dict.fromkeys(_device_names(request.query_params.get("devices", ""))))
        if not devices:
            raise UsageError("no device is named", "name chips or devices: m1, iPhone 15 Pro")
        self.queue.check_place()
        content = self.store.content(name)
        with self.uploads.new_job() as folder:
            model = self.models.link(name, folder)
            if model is None:
                raise UsageError(
                    "the model of this profile is not on the server",
                    "upload the model again, or use `coremlscope profile MODEL --device NAME`",
                )
            write_draft(folder / _SAVED, content)
            self.queue.add(model, {"profile": _SAVED, "of": name, "devices": devices})
        return json_response(self.state(), HTTPStatus.ACCEPTED)

    async def _preview(self, request: Request) -> Response:
        """Makes a prediction from the files of the request; see `Previews`."""
        query, size = request.query_params, _stated_size(request)
        asked = parse_request(query.get("parts", ""), query.get("resize", ""), query.get("rate", ""), size)
        with self._previewing.take():
            body = await request.body()
            found = await run_in_threadpool(self.previews.make, request.path_params["name"], asked, body)
        return json_response(plain(found))

    def _sweep(self, request: Request) -> Response:
        """Shows the results of a sweep; the page then listens to changes."""
        name: str = request.path_params["name"]
        return HTMLResponse(build_page(self._sweep_values(name), f"Results of {name}", connects=True))

    def _sweep_values(self, name: str) -> dict[str, Any]:
        reports = {entry.model: f"../profiles/{quote(entry.id)}" for entry in reversed(self.store.entries())}
        return {**self.sweeps.table(name, reports), "live": f"{quote(name)}/events"}

    def _sweep_events(self, request: Request) -> Response:
        return EventStream(self._sweep_changes(request.path_params["name"]), self._watchers)

    async def _sweep_changes(self, name: str) -> AsyncGenerator[str, None]:
        """Yields the results of a sweep whenever they change, and signs of life."""
        before, pause_s = -1, _RESULTS_S
        while not self.is_stopping():
            revision = await run_in_threadpool(self.sweeps.revision, name)
            if revision != before:
                before, began = revision, time.monotonic()
                with contextlib.suppress(CoremlscopeError):  # as when the last file was removed
                    values = await run_in_threadpool(self._sweep_values, name)
                    yield _event("results", await run_in_threadpool(displayed, values))
                # Large tables take long here and in the page.
                pause_s = max(_RESULTS_S, _REST * (time.monotonic() - began))
            else:
                yield ":\n\n"
            await self._sleep(pause_s)

    async def _sleep(self, seconds: float) -> None:
        """Waits, or until the server stops."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_stopping():
            await asyncio.sleep(_TICK_S)

    def _events(self, _: Request) -> Response:
        return EventStream(self._changes(), self._watchers)

    async def _changes(self) -> AsyncGenerator[str, None]:
        """Yields server-sent events: the jobs whenever one changes, the state whenever a file does."""
        jobs, files, ticks = -1, self._files, 0
        while not self.is_stopping():
            if ticks % _TICKS_BETWEEN_SCANS == 0 or jobs != self.queue.revision:
                self._files = await run_in_threadpool(self._revision)
            if files != self._files or jobs < 0:
                jobs, files = self.queue.revision, self._files
                yield _event("state", await run_in_threadpool(self.state))
            elif jobs != self.queue.revision:
                jobs = self.queue.revision
                yield _event("jobs", plain(self.queue.jobs()))
            elif ticks % _TICKS_BETWEEN_SIGNS == 0:
                yield ":\n\n"
            ticks += 1
            await asyncio.sleep(_TICK_S)

    def _revision(self) -> int:
        return hash((self.store.revision(), self.sweeps.revision()))

    def _cancel(self, request: Request) -> Response:
        number: str = request.path_params["number"]
        if not number.isdecimal() or len(number) > 9:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        self.queue.cancel(int(number))
        return json_response(self.state())

    async def _upload(self, request: Request) -> Response:
        """Receives a file, and queues it."""
        size = _stated_size(request)
        if size > self.limits.upload_bytes:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the file has {size >> 20} MB, but the limit is {self.limits.upload_bytes >> 20} MB",
                "start the server with a larger --max-upload, or use `coremlscope profile` or `import`",
            )
        options = await run_in_threadpool(_options, request.query_params)
        name = safe_name(request.query_params.get("name", ""))
        if not name.lower().endswith(_SUFFIXES):
            raise UsageError(
                f"{name!r} is not the name of a model or of a file that can be imported",
                f"upload a .mlmodel, a .mlpackage or .mlperf as a zip, or one of {', '.join(SUFFIXES)}, .txt",
            )
        self.queue.check_place()
        with self._receiving.take(), self.uploads.new_job(size) as folder:
            with open_draft(folder / name) as file:
                async for chunk in request.stream():
                    await run_in_threadpool(file.write, chunk)
            self.queue.add(folder / name, options)
        return json_response(await run_in_threadpool(self.state), HTTPStatus.ACCEPTED)


def _stated_size(request: Request) -> int:
    """Returns the size of the body of a request, which is all that is received.

    Raises:
        RefusedError: It is not stated.
    """
    stated = request.headers.get("content-length", "")
    if not stated.isdecimal():
        raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the length of the file is missing")
    return int(stated[:20])


def _options(query: Mapping[str, str]) -> dict[str, object]:
    from coremlscope.devices import SETTINGS

    iterations = query.get("iterations", "50")
    if not iterations.isdecimal() or not 1 <= int(iterations[:9]) <= 100_000:
        raise UsageError(f"invalid number of predictions {iterations[:20]!r}", "give one from 1 to 100000")
    devices = list(dict.fromkeys(_device_names(query.get("devices", ""))))
    setting = query.get("compute_units", "all")
    if setting not in SETTINGS:
        raise UsageError(f"invalid compute units {setting[:20]!r}", f"use one of {', '.join(SETTINGS)}")
    return {
        "iterations": int(iterations),
        "devices": devices,
        "compute_units": setting,
        "random_weights": query.get("random_weights") == "1",
        "os": query.get("os", "")[:80],
    }


def _device_names(text: str) -> Iterator[str]:
    """Returns the devices of a list with commas, or of words that each are one.

    Raises:
        UsageError: One is unknown.
    """
    from coremlscope.devices import find_device

    for part in filter(None, map(str.strip, text.split(","))):
        words = [part]
        try:
            find_device(part)
        except UsageError:
            words = part.split()
        for word in words:
            find_device(word)
            yield word


def _event(name: str, values: Any) -> str:
    """Returns a server-sent event."""
    return f"event: {name}\ndata: {msgspec.json.encode(values).decode()}\n\n"


def _refuse_error(_: Request, error: Exception) -> Response:
    """Answers a request that failed with an error of coremlscope."""
    assert isinstance(error, CoremlscopeError)
    is_full = isinstance(error, OutputError)
    status = HTTPStatus.INSUFFICIENT_STORAGE if is_full else HTTPStatus.BAD_REQUEST
    return refusal(status, error.message, error.hint)


def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return refusal(error.status, error.error, error.hint)


def _refuse_incomplete(_: Request, __: Exception) -> Response:
    return refusal(HTTPStatus.BAD_REQUEST, "the upload is incomplete", "upload it again")


def _refuse_address(request: Request, error: Exception) -> Response:
    """Answers a request with an unknown address, or with another method than the address has."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        what = f"the method {request.method[:20]} is not supported here"
    else:
        what = "this address does not exist"
    return refusal(error.status_code, what, headers=error.headers)


def _refuse_failure(_: Request, error: Exception) -> Response:
    """Answers a request that failed with an unexpected error, which the server logs."""
    known = known_error(error)
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, known.message, known.hint)
