"""State of each thread of a recorded process."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

from coremlscope.results.events import IN_EVENT_LOOP, ON_MAIN_THREAD

if TYPE_CHECKING:
    from types import CodeType

    from coremlscope.dropin.tracing.ring import Ring, Row


class ThreadState:
    """State of a thread.

    Attributes:
        depth: How many recorded activities enclose the current call.
        ring: The ring that the following numbers belong to.
        number: The number of the thread's name.
        task: The number of the name of asyncio's task.
        site: The number of the line that made the outermost call.
        own_flags: The flags that all calls of the thread have.
        loop_flags: The flags of calls while the thread runs an event loop.
        flags: The flags of the outermost call.
        code: The code that made the outermost call, if it is the program's own.
        instruction: The place of the call in it.
        parts: The calls inside it that are not written yet.
        is_slow: Whether the last run was so long that parts are written at once.
        submitted: The line that submitted the call to a pool of threads; 0 if there is none.
    """

    __slots__ = (
        "code",
        "depth",
        "flags",
        "instruction",
        "is_slow",
        "loop_flags",
        "number",
        "own_flags",
        "parts",
        "ring",
        "site",
        "submitted",
        "task",
    )

    def __init__(self) -> None:
        self.depth = 0
        self.ring: Ring | None = None
        self.number = self.task = self.site = self.own_flags = self.flags = self.submitted = 0
        self.loop_flags = IN_EVENT_LOOP
        self.code: CodeType | None = None
        self.instruction = 0
        self.parts: list[Row] = []
        self.is_slow = True

    def enter_ring(self, ring: Ring) -> None:
        """Stores the thread's name in a ring."""
        thread = threading.current_thread()
        self.ring, self.number, self.code = ring, ring.number(f"thread {thread.name}"), None
        is_main = thread is threading.main_thread()
        self.own_flags = ON_MAIN_THREAD if is_main else 0
        self.loop_flags = 0 if is_main and is_kernel() else IN_EVENT_LOOP

    def begin(self, ring: Ring, site: int) -> None:
        """Notes the line and the task of an outermost call."""
        if self.ring is not ring:
            self.enter_ring(ring)
        self.site, self.code, self.task, self.flags = site, None, 0, self.own_flags
        if asyncio._get_running_loop() is not None:
            self.task = current_task(ring)
            self.flags |= self.loop_flags

    def write_parts(self, ring: Ring) -> None:
        """Writes what happened inside the outermost call so far."""
        ring.write(self.parts, self.number, self.task, self.site)
        self.parts.clear()


def current_task(ring: Ring) -> int:
    """Returns the number of the name of asyncio's current task; 0 if there is none."""
    current = asyncio.current_task()
    return ring.number(f"task {current.get_name()}") if current is not None else 0


class Threads(threading.local):
    """The state of the current thread."""

    def __init__(self) -> None:
        self.state = ThreadState()


def is_kernel() -> bool:
    """Whether this process runs the cells of a notebook. It does so inside an event loop of its own."""
    return "ipykernel" in sys.modules
