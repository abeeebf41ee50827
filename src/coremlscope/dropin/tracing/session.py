"""Recordings from their start to a trace: of this process, or of a program that is started for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from coremlscope.base.errors import UsageError
from coremlscope.base.scratch import new_scratch, scratch_folder
from coremlscope.base.writing import write_file
from coremlscope.dropin.tracing.child import DROPIN_VARIABLE
from coremlscope.dropin.tracing.collect import read_origin_ns, read_recording
from coremlscope.dropin.tracing.mistakes import find_mistakes
from coremlscope.dropin.tracing.notebook import describe_cells
from coremlscope.dropin.tracing.recorder import Recorder, child_environment
from coremlscope.dropin.tracing.ring import CAPACITY
from coremlscope.results.trace import Trace

#: Signals that a recorded program gets, and seconds after SIGTERM before it is killed: Docker waits for 10.
_PASSED_ON, _GRACE_S = (signal.SIGINT, signal.SIGTERM), 8.0
#: A process that was attached to runs what it was given between two of its own instructions.
_SETTLING_S = 0.5


class ProcessRecording:
    """Records this process, and the children that it starts meanwhile; use it in a `with` statement.

    Args:
        fps: Frames per second that the program should reach.
        capacity: The number of events that each process keeps; older ones are replaced.
        children: Whether children are recorded.
        operations: Whether the operations of runs are recorded; see `record`.
    """

    def __init__(
        self,
        *,
        fps: float | None = None,
        capacity: int = CAPACITY,
        children: bool = True,
        operations: bool = False,
    ) -> None:
        self._fps = fps
        self._folder = _temporary_folder()
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._recorder = Recorder(self._folder, capacity, children=children, operations=operations)

    def start(self) -> Self:
        """Begins to record.

        Raises:
            UsageError: This process is being recorded already.
            OutputError: There is no space for the recording.
        """
        from coremlscope.dropin import is_installed

        if is_installed():
            os.environ[DROPIN_VARIABLE] = "1"
        self._recorder.start()
        return self

    def stop(self) -> None:
        """Stops recording; stopping again has no effect."""
        os.environ.pop(DROPIN_VARIABLE, None)
        self._recorder.stop()

    @property
    def trace(self) -> Trace:
        """Returns the events recorded so far, with their mistakes."""
        recorded = read_recording(self._folder, command=sys.argv, fps=self._fps)
        return find_mistakes(describe_cells(recorded))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the trace as JSON; `Trace.load` reads it.

        Raises:
            OutputError: The file cannot be written.
        """
        self.trace.save(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Writes a report; the suffix selects the format, see `Trace.write`."""
        self.trace.write(path)

    def _repr_html_(self) -> str:
        """Shows what was recorded so far in a notebook."""
        return self.trace._repr_html_()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def record(
    *,
    fps: float | None = None,
    capacity: int = CAPACITY,
    children: bool = True,
    operations: bool = False,
) -> ProcessRecording:
    """Records what this process does with Core ML, coremltools, coremlscope and ONNX Runtime.

    ```python
    with coremlscope.record() as recording:
        model = ct.models.MLModel("net.mlpackage")
        model.predict({"x": x})
    recording.trace.write("run.html")
    ```

    Args:
        fps: Frames per second that the program should reach; later ones are counted.
        capacity: The number of events that each process keeps; older ones are replaced.
        children: Whether processes that this one starts are recorded too.
        operations: Whether the operations inside runs are recorded, by the profiler of ONNX Runtime: of the
            first 100 runs of each model that is loaded while recording. They are in the trace after `stop`.
    """
    return ProcessRecording(fps=fps, capacity=capacity, children=children, operations=operations)


class RecordedProgram:
    """A program that runs and is recorded.

    SIGINT and SIGTERM, sent to this process, are passed on to the program, which decides what to do. In a
    `with` statement neither interrupts the work on the recording then.

    Args:
        command: Its command line: a Python script with its arguments, or another program.
        fps: Frames per second that it should reach.
        capacity: The number of events that each process keeps.
        output: The file that gets what the program prints; None for the terminal.
        operations: Whether the operations of runs are recorded; see `record`.

    Raises:
        UsageError: The program cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        fps: float | None = None,
        capacity: int = CAPACITY,
        output: IO[str] | None = None,
        operations: bool = False,
    ) -> None:
        self._command = tuple(command)
        self._fps = fps
        self._folder = _temporary_folder()
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        program = list(command)
        if Path(program[0]).suffix == ".py":
            if not Path(program[0]).is_file():
                raise UsageError(f"the script {program[0]} does not exist", "check the path")
            program.insert(0, sys.executable)
        variables = child_environment(self._folder, capacity, operations=operations)
        environment = {**os.environ, **variables, DROPIN_VARIABLE: "1"}
        self._signals: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, Any] = {}
        self._killing: threading.Timer | None = None
        self._is_entered = False
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                # A shell's background job ignores the keys of its terminal.
                if signal.getsignal(number) is not signal.SIG_IGN or not _is_in_foreground():
                    self._before[number] = signal.signal(number, self._pass_on)
        try:
            self._process = subprocess.Popen(program, env=environment, stdout=output, stderr=output)
        except OSError as error:
            self.close()
            raise UsageError(
                f"{program[0]} cannot be started: {error.strerror or error}",
                "name a Python script, or a program on the PATH",
            ) from error
        for arrived in self._signals:  # those that arrived before there was a program
            self._send(arrived)

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops passing signals on to the program."""
        while self._before:
            passed_on, handler = self._before.popitem()
            signal.signal(passed_on, handler or signal.SIG_DFL)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal to this process."""
        process = self._process
        if process is not None and process.poll() is not None and not self._signals:
            # The program ended by itself: the signal is meant for this process.
            self.close()
            signal.raise_signal(number)
            return
        self._signals.append(number)
        if process is None:
            return
        # Ctrl-C on a terminal reaches the program, too.
        if number == signal.SIGTERM or self._signals.count(number) > 1 or not _is_in_foreground():
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._process is not None
        # The program inherits that a signal is ignored.
        is_ignored = self._before.get(number) is signal.SIG_IGN
        with contextlib.suppress(ValueError):  # Windows sends no SIGINT.
            self._process.send_signal(signal.SIGTERM if is_ignored else number)
        if number == signal.SIGTERM and self._killing is None:
            # Supervisors kill this process soon after, and the recording with it.
            self._killing = threading.Timer(_GRACE_S, self._process.kill)
            self._killing.daemon = True
            self._killing.start()

    @property
    def is_running(self) -> bool:
        """True if the program still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def elapsed_s(self) -> float:
        """The time since recording began, in seconds.

        Raises:
            UsageError: Nothing was recorded so far.
        """
        return (time.perf_counter_ns() - read_origin_ns(self._folder)) / 1e9

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits until the program ends.

        Returns:
            Its exit code, 128 plus the signal that ended it, or None if it still runs after `timeout_s`.
        """
        assert self._process is not None
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        if not self._is_entered:
            self.close()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """Ends the program as Ctrl-C would."""
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGINT)

    @property
    def trace(self) -> Trace:
        """Returns the events recorded so far, with their mistakes.

        Raises:
            UsageError: Nothing was recorded.
        """
        return find_mistakes(read_recording(self._folder, command=self._command, fps=self._fps))


def record_process(pid: int, seconds: float, *, fps: float | None = None, capacity: int = CAPACITY) -> Trace:
    """Records a process that runs already, by Python's interface for external debuggers (PEP 768).

    Not yet confirmed on Python 3.14. Models that the process loaded before have no names.

    Args:
        pid: The number of the process. It must run the same version of Python, with coremlscope installed.
        seconds: How long it is recorded.
        fps: Frames per second that it should reach.
        capacity: The number of events that it keeps.

    Raises:
        UsageError: This Python cannot attach, the process does not exist or refuses, or it recorded nothing.
    """
    attach = getattr(sys, "remote_exec", None)
    if attach is None:
        raise UsageError(
            f"Python {sys.version_info.major}.{sys.version_info.minor} cannot attach to a running process",
            "use Python 3.14 or newer on both sides, or start the program with `coremlscope trace`",
        )
    with scratch_folder() as name:
        folder = Path(name)
        for script, call in (("begin.py", f"begin({name!r}, {capacity})"), ("finish.py", "finish()")):
            write_file(folder / script, f"from coremlscope.dropin.tracing import child\nchild.{call}\n")
        try:
            attach(pid, str(folder / "begin.py"))
            with contextlib.suppress(KeyboardInterrupt):  # What was recorded so far is kept.
                time.sleep(seconds)
            attach(pid, str(folder / "finish.py"))
        except (OSError, RuntimeError) as error:
            raise UsageError(
                f"the process {pid} cannot be recorded: {error}", "check its number, and that it is yours"
            ) from error
        time.sleep(_SETTLING_S)
        return find_mistakes(read_recording(folder, command=(f"process {pid}",), fps=fps))


def _temporary_folder() -> Path:
    return new_scratch()


def _is_in_foreground() -> bool:
    """True if this process belongs to the group that gets the keys of its terminal."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
