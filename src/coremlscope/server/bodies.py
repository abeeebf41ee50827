"""Bodies of requests: what is asked as JSON on the first line, and files, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import open_draft
from coremlscope.server.responses import RefusedError
from coremlscope.server.uploads import check_inside

_Head = TypeVar("_Head")
#: Maximum size of the first line, and maximum number of files.
_HEAD_BYTES, _MOST_FILES = 1 << 20, 4096


class Body:
    """The body of a request, which is received once.

    Args:
        request: The request.
        most_bytes: Maximum size of the files.
        hint: What to do where they are larger.

    Raises:
        RefusedError: Its size is not stated, or too large.
    """

    def __init__(self, request: Request, most_bytes: int, hint: str) -> None:
        stated = request.headers.get("content-length", "")
        if not stated.isdecimal():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the length of the request is missing")
        self.size = int(stated[:20])
        self._too_large = RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the files have more than {most_bytes >> 20} MB", hint
        )
        self._most_bytes = most_bytes
        if self.size > most_bytes + _HEAD_BYTES:
            raise self._too_large
        self._stream: AsyncIterator[bytes] = request.stream()
        self._pending = b""
        self._left = self.size

    async def head(self, kind: type[_Head]) -> _Head:
        """Receives the first line.

        Args:
            kind: What it holds.

        Raises:
            UsageError: It does not hold that.
            RefusedError: The files are too large.
        """
        pieces: list[bytes] = []
        while b"\n" not in (pieces[-1] if pieces else b""):
            piece = await anext(self._stream, None)
            if piece is None or sum(map(len, pieces)) > _HEAD_BYTES:
                raise UsageError("the request has no first line that says what it asks", "reload the page")
            pieces.append(piece)
        line, _, self._pending = b"".join(pieces).partition(b"\n")
        self._left = self.size - len(line) - 1
        if self._left > self._most_bytes:
            async for _ in self._stream:
                pass  # A client that still sends does not see the answer.
            raise self._too_large
        try:
            return msgspec.json.decode(line, type=kind)
        except (RecursionError, UnicodeError, msgspec.DecodeError) as error:
            raise UsageError(f"the request is not valid: {error}", "reload the page") from None

    async def write_files(self, folder: Path, files: Sequence[tuple[str, int]]) -> None:
        """Receives the files.

        Args:
            folder: Where they are written.
            files: Their paths inside it and their sizes, in the order in which they come.

        Raises:
            UsageError: A path leads out of the folder, or the sizes are not those of the body.
            OSError: A file cannot be written.
        """
        sizes = [size for _, size in files]
        if len(files) > _MOST_FILES or any(size < 0 for size in sizes) or sum(sizes) != self._left:
            raise UsageError("the list of files does not fit what was sent", "reload the page")
        for path, size in files:
            check_inside(path)
            await run_in_threadpool((folder / path).parent.mkdir, parents=True, exist_ok=True)
            await self._write(folder / path, size)

    async def _write(self, path: Path, size: int) -> None:
        if path.exists():
            raise UsageError(f"{path.name!r} is sent twice", "send it once")
        with open_draft(path) as file:
            while size > 0:
                # A body that ends before its stated size raises ClientDisconnect.
                piece = self._pending or await anext(self._stream)
                await run_in_threadpool(file.write, piece[:size])
                self._pending, size = piece[size:], size - len(piece[:size])
