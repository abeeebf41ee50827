"""Answers the requests of the local page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coremlscope.base.errors import CoremlscopeError, OutputError, known_error
from coremlscope.base.processes.child import ChildLimits
from coremlscope.devices import find_device
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.model.features.images import Resize
from coremlscope.reports.page import build_page
from coremlscope.server import work
from coremlscope.server.bodies import Body
from coremlscope.server.guard import Guard
from coremlscope.server.limits import ServerLimits
from coremlscope.server.responses import Places, RefusedError, WorkStream, json_response, refusal
from coremlscope.server.running import Turns
from coremlscope.server.uploads import Uploads, check_inside

#: Name and version of the schema of `PageState`.
SCHEMA = "coremlscope.server/3"
#: Maximum size of the inputs of a prediction, and maximum number of models that are compared.
_INPUT_BYTES = 64 << 20
_MOST_COMPARED = 8


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page before a model is opened.

    Attributes:
        max_upload_bytes: The largest model that can be sent.
        devices: The names of the devices that answers are for.
    """

    max_upload_bytes: int
    devices: tuple[str, ...]


class SentFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a model.

    Attributes:
        path: Its path, which begins with what was opened.
        size: Its size in bytes.
    """

    path: str
    size: int


class ModelQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question on what was opened.

    Attributes:
        paths: Models in it; several are compared.
    """

    paths: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=_MOST_COMPARED)]


class PredictionQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question on what a model makes of files.

    Attributes:
        path: The model.
        inputs: The values of inputs.
        resize: How pictures of another size are resized.
        rate_Hz: The sample rate that the model takes sounds at.
    """

    path: str
    inputs: Annotated[tuple[work.SentInput, ...], msgspec.Meta(max_length=64)]
    resize: Resize
    rate_Hz: Annotated[int, msgspec.Meta(ge=1000, le=192_000)]  # noqa: N815


class App:
    """Answers requests.

    Args:
        uploads: The models that were sent.
        limits: Limits of requests.
        work_limits: When to give up a work.
    """

    def __init__(self, uploads: Uploads, limits: ServerLimits, work_limits: ChildLimits) -> None:
        self._uploads, self._limits, self._turns = uploads, limits, Turns(work_limits)
        #: Whether the server stops, so that work ends; the server sets it.
        self.is_stopping: Callable[[], bool] = lambda: False
        self._works = Places(limits.works, "too many models are being opened", "wait until some are done")
        self._receiving = Places(
            limits.uploads, "too many models are being sent", "wait until one is complete"
        )

    def guarded(self, token: str, hosts: frozenset[str] | None) -> ASGIApp:
        """Returns the application for a server; see `Guard`."""
        app = Starlette(
            routes=[
                Route("/", self._home),
                Route("/models", self._open, methods=["POST"]),
                Route("/models/{id}/answer", self._answer, methods=["POST"]),
                Route("/models/{id}/profile", self._profile, methods=["POST"]),
                Route("/models/{id}/prediction", self._predict, methods=["POST"]),
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
        return Guard(app, token, hosts, self._limits)

    def _home(self, _: Request) -> Response:
        devices = tuple(find_device(name).name for name in DEFAULT_DEVICES)
        state = PageState(max_upload_bytes=self._limits.upload_bytes, devices=devices)
        values = {"schema": SCHEMA, **msgspec.to_builtins(state)}
        return HTMLResponse(build_page(values, "Open a model", connects=True))

    async def _open(self, request: Request) -> Response:
        """Receives the files of what is opened, and gives them an id."""
        body = Body(request, self._limits.upload_bytes, "start the server with a larger --max-upload")
        with self._receiving.take(), self._uploads.new_model(body.size) as folder:
            files = await body.head(list[SentFile])
            await body.write_files(folder, [(file.path, file.size) for file in files])
        return json_response({"id": folder.name}, HTTPStatus.CREATED)

    async def _answer(self, request: Request) -> Response:
        """Plans and estimates a model for the default devices, or compares several."""
        paths = (await _question(request)).paths
        return self._work(request, work.answer, {"paths": paths})

    async def _profile(self, request: Request) -> Response:
        """Runs a model here."""
        return self._work(request, work.profile, {"path": (await _question(request)).paths[0]})

    def _work(
        self, request: Request, function: Callable[..., dict[str, Any]], arguments: Mapping[str, Any]
    ) -> Response:
        folder = str(self._uploads.model(request.path_params["id"]))
        with contextlib.ExitStack() as held:
            held.enter_context(self._works.take())
            return self._stream(function, {"folder": folder, **arguments}, folder, held.pop_all())

    async def _predict(self, request: Request) -> Response:
        """Makes a prediction from the files of the request."""
        folder = str(self._uploads.model(request.path_params["id"]))
        body = Body(request, _INPUT_BYTES, "use smaller files, or `coremlscope predict`")
        with contextlib.ExitStack() as held:
            held.enter_context(self._works.take())
            own = held.enter_context(self._uploads.new_folder())
            asked = await body.head(PredictionQuestion)
            named = [(one.file_name(place), one) for place, one in enumerate(asked.inputs)]
            await body.write_files(own, [(name, one.size) for name, one in named])
            arguments = {
                "folder": folder,
                "path": _inside((asked.path,))[0],
                "inputs": [(one, own / name) for name, one in named],
                "resize": asked.resize,
                "rate_Hz": asked.rate_Hz,
            }
            return self._stream(work.predict, arguments, str(own), held.pop_all())

    def _stream(
        self,
        function: Callable[..., dict[str, Any]],
        arguments: Mapping[str, Any],
        place: str,
        held: contextlib.ExitStack,
    ) -> Response:
        lines = self._turns.follow(function, arguments, place, lambda: self.is_stopping())
        return WorkStream(lines, held)


async def _question(request: Request) -> ModelQuestion:
    """Receives a question on models.

    Raises:
        UsageError: It is not one, or a path leads out of what was opened.
    """
    question = await Body(request, 0, "name fewer models").head(ModelQuestion)
    _inside(question.paths)
    return question


def _inside(paths: Sequence[str]) -> Sequence[str]:
    """Returns paths of models in what was opened; after a number sign follows a model in a file.

    Raises:
        UsageError: One leads out of it.
    """
    for path in paths:
        check_inside(path.partition("#")[0])
    return paths


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
    return refusal(HTTPStatus.BAD_REQUEST, "the model was not sent whole", "open it again")


def _refuse_address(request: Request, error: Exception) -> Response:
    """Answers a request with an unknown address, or with another method than the address has."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return refusal(error.status_code, f"the method {request.method[:20]} is not supported here")
    return refusal(error.status_code, "this address does not exist")


def _refuse_failure(_: Request, error: Exception) -> Response:
    """Answers a request that failed with an unexpected error, which the server logs."""
    known = known_error(error)
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, known.message, known.hint)
