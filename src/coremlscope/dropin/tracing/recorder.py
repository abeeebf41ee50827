"""Records the calls of this process and of its children into a folder.

A recorder wraps the functions of `points`, now or when their modules are imported. Each call of a wrapped
function becomes one event in the ring of its process. A forked child gets a ring of its own; a child that
starts a new interpreter finds the folder in the environment (`startup/sitecustomize.py`).
"""

from __future__ import annotations

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

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.module_hooks import after_import
from coremlscope.dropin.tracing.call import Call
from coremlscope.dropin.tracing.points import CONVERSIONS, POINTS, Point
from coremlscope.dropin.tracing.profiled import SessionProfiles
from coremlscope.dropin.tracing.ring import CAPACITY, Ring
from coremlscope.dropin.tracing.threads import Threads, ThreadState
from coremlscope.results.events import FAILED, KIND_CODES, NESTED

#: The environment variables by which children find the recording.
FOLDER_VARIABLE, CAPACITY_VARIABLE = "COREMLSCOPE_TRACE", "COREMLSCOPE_TRACE_EVENTS"
OPERATIONS_VARIABLE = "COREMLSCOPE_TRACE_OPERATIONS"
_STARTUP_FOLDER = str(Path(__file__).parent / "startup")
#: Packages whose frames are not the program's own.
_INNER = frozenset(
    {"coremlscope", "coremltools", "onnxruntime", "PIL", *sys.stdlib_module_names} - {"__main__"}
)
_FURTHEST = 64
#: Lines that are found by an address; others are found again in each call.
_MOST_SITES = 1 << 14
_UNLOAD = KIND_CODES["unload"]

_active: Recorder | None = None
_starting = threading.Lock()
_registered = False


def is_recording() -> bool:
    """True while this process records."""
    return _active is not None


class Recorder:
    """Records into a folder from `start` to `stop`. A process has one recorder at a time.

    Args:
        folder: An existing folder, which gets a ring and a log for each process.
        capacity: The number of events that each process keeps.
        children: Whether children that start an interpreter are recorded.
        operations: Whether the operations of runs are recorded.

    Attributes:
        ring: The ring of this process; None while nothing is recorded.
        threads: What each thread is doing.
        profiles: Profiles sessions; None if operations are not recorded.
    """

    def __init__(
        self, folder: Path, capacity: int = CAPACITY, *, children: bool = True, operations: bool = False
    ) -> None:
        self.folder = folder
        self._capacity = capacity
        self._children = children
        self.ring: Ring | None = None
        self.threads = Threads()
        self.profiles = SessionProfiles(folder) if operations else None
        self._undo = contextlib.ExitStack()
        self._models = itertools.count(1)
        self._stop_waiting: Callable[[], None] = lambda: None

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
            os.environ.update(
                child_environment(self.folder, self._capacity, operations=self.profiles is not None)
            )
        names = {CONVERSIONS, *(point.module for point in POINTS)}
        for name in names:
            module = sys.modules.get(name)
            if module is not None:
                self._patch(module)
        self._stop_waiting = after_import(names, self._patch)
        self._replace(ThreadPoolExecutor, "submit", self._submitting(ThreadPoolExecutor.submit))

    def stop(self) -> None:
        """Stops recording and restores every function. The files remain."""
        global _active
        if _active is not self:
            return
        _active = None
        self._stop_waiting()
        if self.profiles is not None:
            self.profiles.stop()
        self._undo.close()
        if self._children:
            _retract()
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.log({"ended": time.perf_counter_ns()})
            ring.store_overhead()

    def new_model(self, facts: dict[str, Any], owner: Any) -> int:
        """Stores the facts of a loaded model and returns its number in this process.

        Args:
            facts: The fields of `TracedModel`, as plain values.
            owner: The object whose end means that the model is released.
        """
        ring = self.ring
        if ring is None:
            return 0
        number = next(self._models)
        ring.log({"model": number, "at": time.perf_counter_ns(), **facts})
        with contextlib.suppress(TypeError):
            weakref.finalize(owner, self._released, ring, number).atexit = False
        return number

    def _released(self, ring: Ring, number: int) -> None:
        if ring is self.ring:
            ring.write([(time.perf_counter_ns(), 0, 0, 0, 0, number, _UNLOAD, 0)])

    def _open_ring(self) -> None:
        self.ring = Ring(self.folder / f"{os.getpid()}-{time.perf_counter_ns()}.ring", self._capacity)
        self.ring.log(
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
        self.threads.state = ThreadState()
        self.ring = None
        with contextlib.suppress(CoremlscopeError):  # It is not recorded then.
            self._open_ring()

    def _patch(self, module: ModuleType) -> None:
        """Wraps the functions of a module that are to be recorded."""
        if module.__name__ == CONVERSIONS:
            from coremlscope.dropin.tracing.predictions import Conversions

            module.observe_conversions(Conversions(self))
            self._undo.callback(module.observe_conversions, None)
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
            if self.profiles is not None and self.ring is not None and point.session:
                profiles = self.profiles
                is_run = point.session == "run"
                original = profiles.counted(original) if is_run else profiles.profiled(original, self.ring)
            self._replace(holder, name, self._wrapped(original, point))

    def _replace(self, holder: Any, name: str, replacement: Any) -> None:
        self._undo.callback(setattr, holder, name, vars(holder)[name])
        setattr(holder, name, replacement)

    def _submitting(self, original: Any) -> Any:
        """Replaces `ThreadPoolExecutor.submit`: calls in the pool belong to the line that submitted them."""

        @functools.wraps(original)
        def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            ring = self.ring
            if ring is None:
                return original(pool, function, *args, **kwargs)
            site = self.find_site(ring, sys._getframe(1))

            def call(*given: Any, **named: Any) -> Any:
                thread = self.threads.state
                thread.submitted = site
                try:
                    return function(*given, **named)
                finally:
                    thread.submitted = 0

            return original(pool, call, *args, **kwargs)

        return submit

    def _wrapped(self, original: Any, point: Point) -> Any:
        """A function that calls another one and records the call."""
        if isinstance(original, (staticmethod, classmethod)):
            inner = self._wrapped(original.__func__, point)
            return type(original)(inner)
        if point.wrapper != "call":
            from coremlscope.dropin.tracing.predictions import WRAPPERS  # It imports NumPy.

            quick = WRAPPERS[point.wrapper](self, original, point)
            vars(quick)["__recorded__"] = True
            return quick

        @functools.wraps(original)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            ring = self.ring
            if ring is None or (point.is_outermost and self.threads.state.depth):
                return original(*args, **kwargs)
            return self._record(ring, point, original, args, kwargs)

        vars(recorded)["__recorded__"] = True
        return recorded

    def _record(
        self, ring: Ring, point: Point, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        entered = time.perf_counter_ns()
        thread = self.threads.state
        is_nested = thread.depth > 0
        call = Call(args=args, kwargs=kwargs, recorder=self, is_nested=is_nested)
        if not is_nested:  # Everything inside an activity was called by the same line.
            thread.begin(ring, self.find_site(ring, sys._getframe(2)))
        if point.before is not None:
            _quietly(point.before, call)
        thread.depth += point.is_activity
        start = time.perf_counter_ns()
        try:
            call.result = original(*args, **kwargs)
        except BaseException:
            call.flags |= FAILED
            raise
        finally:
            end = time.perf_counter_ns()
            thread.depth -= point.is_activity
            if point.after is not None and not call.flags & FAILED:
                _quietly(point.after, call)
            if ring is self.ring:
                if not is_nested:
                    thread.write_parts(ring)
                if not call.is_dropped:
                    self._write(ring, thread, point, call, start, end)
            ring.overhead += start - entered + time.perf_counter_ns() - end
        return call.result

    def _write(self, ring: Ring, thread: ThreadState, point: Point, call: Call, start: int, end: int) -> None:
        kind = point.nested_code if call.is_nested else point.code
        flags = thread.flags | call.flags | (NESTED if call.is_nested else 0)
        detail = ring.number(f"detail {call.detail}") if call.detail else 0
        row = (start, end - start, call.bytes, call.address, detail, call.model, kind, flags)
        ring.write((row,), thread.number, thread.task, thread.site)

    def note_site(self, ring: Ring, thread: ThreadState, frame: FrameType) -> None:
        """Notes the line that made an outermost call, for the next one too if it is the program's own."""
        thread.site = self.find_site(ring, frame)
        code, instruction = frame.f_code, frame.f_lasti
        is_own = ring.sites.get(id(code) + instruction)
        thread.code, thread.instruction = (code, instruction) if is_own else (None, 0)

    def find_site(self, ring: Ring, frame: FrameType | None) -> int:
        """Returns the number of the innermost line that belongs to the program itself.

        Lines are found by the address of the instruction that makes the call, because hashing code objects
        takes as long as they have constants.
        """
        for _ in range(_FURTHEST):
            if frame is None:
                break
            code = frame.f_code
            key = id(code) + frame.f_lasti
            known = ring.sites.get(key)
            if known is None:
                package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
                text = f"site {frame.f_lineno} {code.co_qualname} {code.co_filename}"
                known = 0 if package in _INNER else ring.number(text)
                if len(ring.sites) < _MOST_SITES:
                    ring.sites[key] = known
                    ring.kept.append(code)
            if known:
                return known
            frame = frame.f_back
        return self.threads.state.submitted


def _quietly(describe: Callable[[Call], None], call: Call) -> None:
    """Describes a call; a program must not fail because an argument is odd."""
    try:
        describe(call)
    except Exception:
        call.detail = ""


def _continue_in_child() -> None:
    if _active is not None:
        _active.continue_in_child()


def child_environment(folder: Path, capacity: int, *, operations: bool = False) -> dict[str, str]:
    """Returns the variables by which children that start an interpreter find a recording."""
    parts = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {
        FOLDER_VARIABLE: str(folder),
        CAPACITY_VARIABLE: str(capacity),
        **({OPERATIONS_VARIABLE: "1"} if operations else {}),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([_STARTUP_FOLDER, *parts])),
    }


def _retract() -> None:
    """Removes the variables of `child_environment`."""
    os.environ.pop(FOLDER_VARIABLE, None)
    os.environ.pop(CAPACITY_VARIABLE, None)
    os.environ.pop(OPERATIONS_VARIABLE, None)
    parts = [
        part
        for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if part and part != _STARTUP_FOLDER
    ]
    if parts:
        os.environ["PYTHONPATH"] = os.pathsep.join(parts)
    else:
        os.environ.pop("PYTHONPATH", None)
