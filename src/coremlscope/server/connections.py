"""Connections with deadlines: uvicorn's, which by itself waits for slow clients forever."""

from __future__ import annotations

import asyncio
import re
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from coremlscope.server.limits import ServerLimits

__all__ = ["Connection", "limited_connection"]

#: Number of checks of a connection within the shortest deadline.
_CHECKS = 10
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_LENGTHS = re.compile(rb"(?<=\n)content-length[ \t]*:[^\n]*", re.IGNORECASE)


class Connection(H11Protocol):
    """A connection that carries one request, and is closed if its client is too slow.

    uvicorn's default headers must contain `Connection: close`.
    """

    limits: ClassVar[ServerLimits] = ServerLimits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        #: Number of checks since the connection was made.
        self.age = 0
        self._check_s = min(self.limits.head_s, self.limits.window_s) / _CHECKS
        self._head = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._window: tuple[int, int] | None = None

    @property
    def has_request(self) -> bool:
        """True if the request line and the headers are complete."""
        is_waiting: bool = self.conn.their_state is h11.IDLE
        return not is_waiting

    def connection_made(self, transport: Any) -> None:
        """Begins the deadlines, and makes room if there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            waiting = [
                each for each in self.connections if isinstance(each, Connection) and not each.has_request
            ]
            max(waiting, key=lambda each: each.age).abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the deadlines."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads a part of the request; repeated lengths are rejected, which h11 accepts if they are equal."""
        if not self.has_request:
            self._head += data
            if _repeats_length(self._head):
                self.send_400_response("Repeated Content-Length.")
                return
        super().data_received(data)
        if self.has_request:
            self._head.clear()

    def send_400_response(self, msg: str) -> None:
        """Answers a malformed request; if the response has begun, the connection is closed."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.abort()

    def abort(self) -> None:
        """Closes the connection at once; unsent data is lost."""
        self.transport.abort()

    def _watch(self) -> None:
        # Time is counted in checks, so that clients are not charged for a busy server.
        self.age += 1
        if self._is_late():
            self.abort()
        else:
            self._timer = self.loop.call_later(self._check_s, self._watch)

    def _is_late(self) -> bool:
        """Returns True if the head is overdue, or the client reads the response too slowly."""
        if not self.has_request:
            return self.age * self._check_s > self.limits.head_s
        unsent: int = self.transport.get_write_buffer_size()
        if not unsent:
            self._window = None
            return False
        if self._window is None:
            self._window = self.age, unsent
        begun, before = self._window
        if (self.age - begun) * self._check_s < self.limits.window_s:
            return False
        self._window = self.age, unsent
        return unsent > before - self.limits.slowest_Bps * self.limits.window_s


def limited_connection(limits: ServerLimits) -> type[Connection]:
    """Returns the class of connections with certain limits, as uvicorn takes a class."""

    class Limited(Connection):
        pass

    Limited.limits = limits
    return Limited


def _repeats_length(received: bytes | bytearray) -> bool:
    end = _END_OF_HEAD.search(received)
    head = received if end is None else received[: end.start()]
    lengths = _LENGTHS.findall(head)
    return len(lengths) > 1 or any(b"," in length for length in lengths)
