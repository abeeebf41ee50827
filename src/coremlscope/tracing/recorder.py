"""Records the calls of this process and of its children into a folder.

A recorder wraps the functions of `points`, now or when their modules are imported. Each call of a wrapped
function becomes one event in the ring of its process. A forked child gets a ring of its own; a child that
starts a new interpreter finds the folder in the environment (`startup/sitecustomize.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from coremlscope.errors import CoremlscopeError, UsageError
from coremlscope.module_hooks import after_import
from coremlscope.results.events import FAILED, IN_EVENT_LOOP, KIND_CODES, NESTED, ON_MAIN_THREAD
from coremlscope.tracing.call import Call
from coremlscope.tracing.points import POINTS, Point
from coremlscope.tracing.ring import CAPACITY, Ring

__all__ = ["CAPACITY_VARIABLE", "FOLDER_VARIABLE", "Recorder", "child_environment", "is_recording"]

#: The environment variables by which children find the recording.
FOLDER_VARIABLE, CAPACITY_VARIABLE = "COREMLSCOPE_TRACE", "COREMLSCOPE_TRACE_EVENTS"
_STARTUP_FOLDER = str(Path(__file__).parent / "startup")
#: Packages whose frames are not the program's own.
_INNER = frozenset(
    {"coremlscope", "coremltools", "onnxruntime", "PIL", *sys.stdlib_module_names} - {"__main__"}
)
_FURTHEST = 64
_UNLOAD = KIND_CODES["unload"]
#: Numbers of a thread, a task and a line, and flags.
_Context = tuple[int, int, int, int]

_active: Recorder | None = None
_starting = threading.Lock()
_registered = False


def is_recording() -> bool:
    """True while this process records."""
    return _active is not None


class _Local(threading.local):
    """What a thread is doing.

    Attributes:
        depth: How many recorded calls of the activity lane enclose the current one.
        context: The thread, task, line and flags of the innermost of them.
        owner: The ring that `number` belongs to.
        number: The number of the thread's name in the ring's strings.
        submitted: The line that submitted the call to a pool of threads; 0 if there is none.
    """

    depth = 0
    context: _Context = (0, 0, 0, 0)
    submitted = 0
    owner: Ring | None = None
    number = 0


class Recorder:
    """Records into a folder from `start` to `stop`. A process has one recorder at a time.

    Args:
        folder: An existing folder, which gets a ring and a log for each process.
        capacity: The number of events that each process keeps.
        children: Whether children that start an interpreter are recorded.
    """

    def __init__(self, folder: Path, capacity: int = CAPACITY, *, children: bool = True) -> None:
        self.folder = folder
        self._capacity = capacity
        self._children = children
        self._ring: Ring | None = None
        self._local = _Local()
        self._patched: list[tuple[Any, str, Any]] = []
        self._models = itertools.count(1)
        self._stop_waiting: Callable[[], None] = lambda: None
        self._sites: dict[tuple[Any, int], int] = {}

    @property
    def is_active(self) -> bool:
        """Whether it records."""
        return _active is self

    def start(self) -> None:
        """Begins to record.

        Raises:
            UsageError: The process records already.
            OutputError: The folder cannot be written.
        """
        global _active, _registered
        with _starting:
            if _active is not None:
                raise UsageError("this process is being recorded already", "stop the other recording first")
            self._open_ring()
            _active = self
            if not _registered and hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_continue_in_child)
                _registered = True
        if self._children:
            os.environ.update(child_environment(self.folder, self._capacity))
        for name in {point.module for point in POINTS}:
            module = sys.modules.get(name)
            if module is not None:
                self._patch(module)
        self._stop_waiting = after_import({point.module for point in POINTS}, self._patch)
        self._replace(ThreadPoolExecutor, "submit", self._submitting(ThreadPoolExecutor.submit))

    def stop(self) -> None:
        """Stops recording and restores every function. The files remain."""
        global _active
        if _active is not self:
            return
        _active = None
        self._stop_waiting()
        for holder, name, original in reversed(self._patched):
            setattr(holder, name, original)
        self._patched.clear()
        if self._children:
            _retract()
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.log({"ended": time.perf_counter_ns()})
            ring.store_overhead()

    def new_model(self, facts: dict[str, Any], owner: Any) -> int:
        """Stores the facts of a loaded model and returns its number in this process.

        Args:
            facts: The fields of `TracedModel`, as plain values.
            owner: The object whose end means that the model is released.
        """
        ring = self._ring
        if ring is None:
            return 0
        number = next(self._models)
        ring.log({"model": number, "at": time.perf_counter_ns(), **facts})
        with contextlib.suppress(TypeError):
            weakref.finalize(owner, self._released, ring, number).atexit = False
        return number

    def _released(self, ring: Ring, number: int) -> None:
        if ring is self._ring:
            ring.write(time.perf_counter_ns(), 0, _UNLOAD, 0, number)

    def _open_ring(self) -> None:
        self._ring = Ring(self.folder / f"{os.getpid()}-{time.perf_counter_ns()}.ring", self._capacity)
        self._sites = {}
        self._ring.log(
            {
                "process": os.getpid(),
                "parent": os.getppid(),
                "command": list(getattr(sys, "orig_argv", sys.argv)),
                "at": time.perf_counter_ns(),
                "utc": time.time(),
            }
        )

    def continue_in_child(self) -> None:
        """Gives a forked child its own ring; the parent's is left as it is."""
        self._local = _Local()
        self._ring = None
        with contextlib.suppress(CoremlscopeError):  # It is not recorded then.
            self._open_ring()

    def _patch(self, module: ModuleType) -> None:
        """Wraps the functions of a module that are to be recorded."""
        for point in POINTS:
            if point.module != module.__name__:
                continue
            holder: Any = module
            *owners, name = point.name.split(".")
            for owner in owners:
                holder = getattr(holder, owner, None)
            original = getattr(holder, "__dict__", {}).get(name)
            if original is None or hasattr(original, "__recorded__"):
                continue
            self._replace(holder, name, self._wrapped(original, point))

    def _replace(self, holder: Any, name: str, replacement: Any) -> None:
        self._patched.append((holder, name, vars(holder)[name]))
        setattr(holder, name, replacement)

    def _submitting(self, original: Any) -> Any:
        """Replaces `ThreadPoolExecutor.submit`: calls in the pool belong to the line that submitted them."""

        @functools.wraps(original)
        def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            ring = self._ring
            if ring is None:
                return original(pool, function, *args, **kwargs)
            site = self._site(ring, sys._getframe(1))

            def call(*given: Any, **named: Any) -> Any:
                self._local.submitted = site
                try:
                    return function(*given, **named)
                finally:
                    self._local.submitted = 0

            return original(pool, call, *args, **kwargs)

        return submit

    def _wrapped(self, original: Any, point: Point) -> Any:
        """A function that calls another one and records the call."""
        if isinstance(original, (staticmethod, classmethod)):
            inner = self._wrapped(original.__func__, point)
            return type(original)(inner)

        @functools.wraps(original)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            ring = self._ring
            if ring is None or (point.is_outermost and self._local.depth):
                return original(*args, **kwargs)
            if point.applies is not None and not point.applies(args):
                return original(*args, **kwargs)
            if point.is_plain and self._local.depth:
                return self._record_plain(ring, point.nested_code, original, args, kwargs)
            return self._record(ring, point, original, args, kwargs)

        vars(recorded)["__recorded__"] = True
        return recorded

    def _record_plain(
        self, ring: Ring, kind: int, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records a call inside an activity that is not described, in as little time as possible."""
        entered = time.perf_counter_ns()
        thread, task, site, flags = self._local.context
        flags |= NESTED
        start = time.perf_counter_ns()
        try:
            return original(*args, **kwargs)
        except BaseException:
            flags |= FAILED
            raise
        finally:
            end = time.perf_counter_ns()
            if ring is self._ring:
                ring.write(start, end - start, kind, flags, 0, (thread, task, site, 0))
            ring.overhead += start - entered + time.perf_counter_ns() - end

    def _record(
        self, ring: Ring, point: Point, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        entered = time.perf_counter_ns()
        local = self._local
        is_nested = local.depth > 0
        flags = NESTED if is_nested else 0
        call = Call(args=args, kwargs=kwargs, recorder=self, is_nested=is_nested, flags=flags)
        kind = point.nested_code if call.is_nested else point.code
        # Everything inside an activity was called by the same line.
        context = local.context if call.is_nested else self._context(ring, sys._getframe(2))
        if point.before is not None:
            _quietly(point.before, call)
        if point.is_activity:
            local.depth += 1
            local.context = context
        start = time.perf_counter_ns()
        try:
            call.result = original(*args, **kwargs)
        except BaseException:
            call.flags |= FAILED
            raise
        finally:
            end = time.perf_counter_ns()
            local.depth -= point.is_activity
            if point.after is not None and not call.flags & FAILED:
                _quietly(point.after, call)
            if ring is self._ring and not call.is_dropped:
                thread, task, site, flags = context
                detail = ring.number(f"detail {call.detail}") if call.detail else 0
                places = (thread, task, site, detail)
                ring.write(
                    start, end - start, kind, flags | call.flags, call.model, places, call.bytes, call.address
                )
            ring.overhead += start - entered + time.perf_counter_ns() - end
        return call.result

    def _context(self, ring: Ring, frame: FrameType | None) -> _Context:
        """The thread, the task, the line and the flags of a call."""
        local = self._local
        thread = threading.current_thread()
        if local.owner is not ring:
            local.owner, local.number = ring, ring.number(f"thread {thread.name}")
        flags = ON_MAIN_THREAD if thread is threading.main_thread() else 0
        task = 0
        if asyncio._get_running_loop() is not None:
            flags |= IN_EVENT_LOOP
            current = asyncio.current_task()
            task = ring.number(f"task {current.get_name()}") if current is not None else 0
        return local.number, task, self._site(ring, frame), flags

    def _site(self, ring: Ring, frame: FrameType | None) -> int:
        """The number of the innermost line that belongs to the program itself."""
        for _ in range(_FURTHEST):
            if frame is None:
                break
            key = (frame.f_code, frame.f_lineno)
            known = self._sites.get(key)
            if known is None:
                package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
                code = frame.f_code
                text = f"site {frame.f_lineno} {code.co_qualname} {code.co_filename}"
                known = self._sites[key] = 0 if package in _INNER else ring.number(text)
            if known:
                return known
            frame = frame.f_back
        return self._local.submitted


def _quietly(describe: Callable[[Call], None], call: Call) -> None:
    """Describes a call; a program must not fail because an argument is odd."""
    try:
        describe(call)
    except Exception:
        call.detail = ""


@functools.cache
def _register() -> None:
    pass


def _continue_in_child() -> None:
    if _active is not None:
        _active.continue_in_child()


def child_environment(folder: Path, capacity: int) -> dict[str, str]:
    """Returns the variables by which children that start an interpreter find a recording."""
    parts = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {
        FOLDER_VARIABLE: str(folder),
        CAPACITY_VARIABLE: str(capacity),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([_STARTUP_FOLDER, *parts])),
    }


def _retract() -> None:
    """Removes the variables of `child_environment`."""
    os.environ.pop(FOLDER_VARIABLE, None)
    os.environ.pop(CAPACITY_VARIABLE, None)
    parts = [
        part
        for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if part and part != _STARTUP_FOLDER
    ]
    if parts:
        os.environ["PYTHONPATH"] = os.pathsep.join(parts)
    else:
        os.environ.pop("PYTHONPATH", None)
