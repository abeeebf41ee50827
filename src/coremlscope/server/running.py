"""Work of requests: one child process at a time, which ends with its request."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec

from coremlscope.base.errors import known_error
from coremlscope.base.processes.child import ChildLimits
from coremlscope.measure.embedded.process import EngineProcess, call_isolated

#: Seconds between signs of life, and between looks at whether it is this work's turn.
_SIGN_S, _LOOK_S = 1.0, 0.2


class Turns:
    """Does one work after the other, so that none disturbs what another one measures.

    Args:
        limits: When to give up a work.
    """

    def __init__(self, limits: ChildLimits) -> None:
        self._limits, self._turn = limits, threading.Lock()

    async def follow(
        self,
        function: Callable[..., dict[str, Any]],
        arguments: Mapping[str, Any],
        folder: str,
        is_stopping: Callable[[], bool],
    ) -> AsyncGenerator[bytes]:
        """Does a work in a child process, which is ended if nobody follows it any more.

        Args:
            function: A function of a module; it takes the argument `progress`.
            arguments: Its other arguments.
            folder: The place of its files, which messages do not show.
            is_stopping: Tells whether the server stops.

        Yields:
            Lines of JSON: `progress` with `done` and `total`, and at the end `answer`, or `error` and `hint`.
            Empty lines are signs of life.
        """
        loop, messages = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()

        def send(message: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(messages.put_nowait, message)

        work = _Work(self._turn, self._limits, folder, send)
        threading.Thread(target=work.run, args=(function, arguments), name="work", daemon=True).start()
        try:
            while not is_stopping():
                try:
                    async with asyncio.timeout(_SIGN_S):
                        message = await messages.get()
                except TimeoutError:
                    yield b"\n"
                    continue
                yield msgspec.json.encode(message) + b"\n"
                if "progress" not in message:
                    return
        finally:
            work.stop()


class _Work:
    def __init__(
        self, turn: threading.Lock, limits: ChildLimits, folder: str, send: Callable[[dict[str, Any]], object]
    ) -> None:
        self._turn, self._limits, self._folder, self._send = turn, limits, folder, send
        self._is_stopped, self._changing = False, threading.Lock()
        self._process: EngineProcess | None = None

    def run(self, function: Callable[..., dict[str, Any]], arguments: Mapping[str, Any]) -> None:
        """Waits for its turn, and does the work."""
        has_turn = self._turn.acquire(blocking=False)
        if not has_turn:
            self._send({"progress": "Waiting for another model", "done": 0, "total": 0})
        while not has_turn and not self._is_stopped:
            has_turn = self._turn.acquire(timeout=_LOOK_S)
        if not has_turn:
            return
        try:
            found = call_isolated(
                function, arguments, limits=self._limits, progress=self._report, started=self._started
            )
            self._send({"answer": found})
        except Exception as error:
            known = known_error(error)
            shown = (text.replace(f"{self._folder}/", "") for text in (known.message, known.hint))
            self._send(dict(zip(("error", "hint"), shown, strict=True)))
        finally:
            self._turn.release()

    def stop(self) -> None:
        """Ends the work."""
        with self._changing:
            self._is_stopped = True
            if self._process is not None:
                self._process.stop()

    def _started(self, process: EngineProcess) -> None:
        with self._changing:
            self._process = process
            if self._is_stopped:
                process.stop()

    def _report(self, phase: str, done: int, total: int) -> None:
        self._send({"progress": phase, "done": done, "total": total})
