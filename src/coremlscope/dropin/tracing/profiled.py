"""Operations of recorded runs: has ONNX Runtime profile its sessions, and notes what the collector needs.

ONNX Runtime writes a profile when it ends, so that a killed program has no operations, and keeps it in memory
until then. So only the first runs of each session are profiled.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.writing import write_draft

if TYPE_CHECKING:
    from coremlscope.dropin.tracing.ring import Ring

#: Runs of a session that are profiled; ONNX Runtime takes about 1 kB of memory for each node of a run.
MOST_RUNS = 100
#: Facts kept of a compiled function: its graph without weights, and which operation each value belongs to.
_GRAPH_FILES = ("graph.onnx", "compiled.json")
_SOURCE = "session.model_external_initializers_file_folder_path"
_PROFILE = "_coremlscope_profile"


class _Profile:
    """The profile of a session.

    Attributes:
        folder: The folder for the profile and for what the engine made of the graph.
        source: The folder of the compiled function until its graph is kept; None for a session that the
            program made itself.
        runs: The runs so far.
    """

    __slots__ = ("folder", "runs", "source")

    def __init__(self, folder: Path, source: Path | None) -> None:
        self.folder, self.source, self.runs = folder, source, 0


class SessionProfiles:
    """Profiles the sessions that are made while a process is recorded.

    Args:
        folder: The folder of the recording.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._due: list[tuple[Any, _Profile]] = []

    def profiled(self, original: Any, ring: Ring) -> Any:
        """Returns a replacement of `InferenceSession.__init__` that enables the profiler."""

        @functools.wraps(original)
        def init(session: Any, model: Any, sess_options: Any = None, *args: Any, **kwargs: Any) -> None:
            options = sys.modules["onnxruntime"].SessionOptions() if sess_options is None else sess_options
            if options.enable_profiling:  # The program profiles the session itself.
                original(session, model, sess_options, *args, **kwargs)
                return
            folder = self._folder / f"{os.getpid()}-{next(self._numbers)}"
            folder.mkdir()
            profile = _Profile(folder, _source(options))
            _enable(options, profile)
            try:
                original(session, model, options, *args, **kwargs)
            finally:
                options.enable_profiling = False
            setattr(session, _PROFILE, profile)
            self._sessions.add(session)
            ring.log({"profile": folder.name, "from": _start_ns(session)})

        return init

    def counted(self, original: Any) -> Any:
        """Returns a replacement of a function that runs a session, which counts its runs."""

        @functools.wraps(original)
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(session, *args, **kwargs)
            finally:
                profile = getattr(session, _PROFILE, None)
                if profile is not None:
                    profile.runs += 1
                    if profile.runs in (1, MOST_RUNS):
                        self._due.append((session, profile))

        return run

    def settle(self) -> None:
        """Keeps the graphs of sessions that ran for the first time, and ends profiles that are long enough.

        This takes milliseconds, so it is done between predictions.
        """
        while self._due:
            session, profile = self._due.pop()
            if profile.runs >= MOST_RUNS:
                self._end(session)
            if profile.source is None:
                continue
            with contextlib.suppress(OSError):
                for name in _GRAPH_FILES:
                    write_draft(profile.folder / name, (profile.source / name).read_bytes())
            profile.source = None

    def stop(self) -> None:
        """Ends all profiles."""
        self.settle()
        for session in list(self._sessions):
            self._end(session)

    def _end(self, session: Any) -> None:
        self._sessions.discard(session)
        with contextlib.suppress(Exception):  # The program has ended it.
            session.end_profiling()


def _source(options: Any) -> Path | None:
    """The folder of the compiled function that a session is made from."""
    try:
        folder = Path(options.get_session_config_entry(_SOURCE))
    except RuntimeError:
        return None
    return folder if (folder / _GRAPH_FILES[0]).is_file() else None


def _enable(options: Any, profile: _Profile) -> None:
    if profile.source is not None:
        from coremlscope.runtime.engines.onnxruntime import save_structure

        save_structure(options, profile.folder)
    options.enable_profiling = True
    options.profile_file_prefix = str(profile.folder / "profile")


def _start_ns(session: Any) -> int:
    """When the profile began, on the clock `time.perf_counter_ns`.

    ONNX Runtime's own clock depends on the system.
    """
    began: int = session.get_profiling_start_time_ns()
    clocks = (time.time_ns(), time.monotonic_ns(), time.perf_counter_ns())
    return time.perf_counter_ns() - min(abs(clock - began) for clock in clocks)
