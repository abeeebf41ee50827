"""Runs a child process that works with an engine or Core ML: its messages, its limits, and why it ended.

An engine can abort the process, hang in its compiler, or be killed for its memory. None of that reaches the
parent. A hang cannot be interrupted from inside: engines and coremltools hold the process while they work.
"""

from __future__ import annotations

import os
import queue
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import EngineError, LimitError
from coremlscope.base.processes.channel import VARIABLE
from coremlscope.base.processes.command import end_group, python_child, start_group
from coremlscope.base.processes.endings import Failures, explain
from coremlscope.base.processes.mac_memory import footprint_bytes
from coremlscope.base.writing import temporary_error

__all__ = ["Child", "ChildLimits", "Task", "python_child", "run_child"]

#: Longest wait for a message before limits are checked, and seconds between looks at the memory.
_POLL_S, _MEMORY_POLL_S = 0.1, 0.1
#: Time of a process to send what it has, after it is asked to end; then of its output to arrive.
_GRACE_S = 1.0
#: Longest wait for the end of a process that was killed.
_KILL_S = 10.0
#: Where Linux tells the memory of a process.
_STATM = Path("/proc/self/statm")
_LAST_BYTES = 64 * 1024
#: Bytes of all messages. A measurement of a million operations takes some 200 MB.
_MOST_BYTES = 1 << 30


class ChildLimits(msgspec.Struct, frozen=True):
    """When to give up.

    Attributes:
        silence_s: Seconds to wait for the next message. Core ML compiles for a device on the first load,
            which can take minutes.
        memory_bytes: Bytes of resident memory of the child; None for no limit. Memory of the system's
            compiler does not count.
        time_s: Seconds in all; None for no limit.
    """

    silence_s: float = 900.0
    memory_bytes: int | None = None
    time_s: float | None = None


class Task(msgspec.Struct, frozen=True):
    """The work of a process, for messages about its failures.

    Attributes:
        name: The subject of a sentence: `Core ML`, `loading the compute plan`.
        hint: What to do where it fails for a reason that is not known.
        failures: What is known of the failures of the runtime that it runs.
    """

    name: str
    hint: str
    failures: Failures


class Child:
    """A process that sends messages.

    Args:
        command: What is run.
        environment: Variables that are added to those of this process.
        inherited: The variables of this process that the child gets; None for all.
        is_attached: True for a process that reads its standard input, and ends when that ends.
        folder: The folder in which it runs; None for that of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        inherited: Collection[str] | None = None,
        is_attached: bool = False,
        folder: Path | None = None,
    ) -> None:
        passed = {n: value for n, value in os.environ.items() if inherited is None or n in inherited}
        self._closing = threading.Lock()
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise temporary_error(error) from error
        # Windows has no such groups: children notice there that their standard input ends.
        self._group: tuple[int, int] | None = None
        try:
            self._group = start_group() if os.name == "posix" else None
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE if is_attached else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=folder,
                env={**passed, **(environment or {}), VARIABLE: "1"},
                process_group=self._group and self._group[0],
            )
        except BaseException:
            self._errors.close()
            self._end_group()
            raise
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waits = threading.Event()
        self._reader = threading.Thread(target=self._read, name="messages", daemon=True)
        self._reader.start()

    def send(self, line: str) -> None:
        """Sends a line to its standard input. A process that has ended already is noticed later."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")

    def messages(self, limits: ChildLimits, task: Task) -> Iterator[dict[str, Any]]:
        """Yields the messages, until the process closes the channel.

        Raises:
            LimitError: The process reached a limit.
        """
        watch = _Watch(self._process, limits, task)
        while True:
            try:
                line = self._lines.get(timeout=_POLL_S)
            except queue.Empty:
                if watch.has_ended(_GRACE_S) and self._is_drained():
                    break
            else:
                if line is None:
                    break
                watch.note_message()
                yield from filter(None, [_parse(line)])
            watch.check()
        while self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
            watch.check()

    def rest(self) -> Iterator[dict[str, Any]]:
        """Ends the process, and yields the messages that were not read yet."""
        self._end(_GRACE_S)
        while True:
            with suppress(queue.Empty):
                line = self._lines.get_nowait()
                yield from filter(None, [_parse(line or b"")])
                continue
            return

    def check_end(self, task: Task) -> None:
        """Explains a process that failed.

        Raises:
            EngineError: It failed.
        """
        code = self._process.returncode
        if code:
            message, advice = explain(code, self.last_words(), task.failures)
            raise EngineError(f"{task.name} failed: {message}", advice or task.hint)

    def stop(self) -> None:
        """Ends the process from another thread; its messages end then."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Ends the process. Several threads may do it; each returns when it has ended."""
        with self._closing:
            self._end(0.0)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._errors.close()
            self._end_group()

    def _end_group(self) -> None:
        if self._group is not None:
            end_group(*self._group)
            self._group = None

    def _end(self, grace_s: float) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        if self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # the system may not let it go, as while it compiles
                self._process.wait(_KILL_S)
        # A process that it started may hold the pipe open.
        self._reader.join(_GRACE_S)

    def _is_drained(self) -> bool:
        """True if the thread that collects lines waits for more, and there is none in the pipe."""
        if not self._waits.is_set() or os.name != "posix":
            return self._waits.is_set()
        pipe = select.poll()
        pipe.register(self._process.stdout, select.POLLIN)  # type: ignore[arg-type]
        return not pipe.poll(0)

    def _read(self) -> None:
        """Collects lines, so that no limit waits for the process."""
        assert self._process.stdout is not None
        pending, total = [b""], 0
        with suppress(OSError, ValueError):  # the pipe was closed
            while total < _MOST_BYTES:
                self._waits.set()
                chunk = self._process.stdout.read(1 << 16)
                self._waits.clear()
                if not chunk:
                    break
                total += len(chunk)
                first, *others = chunk.split(b"\n")
                pending.append(first)
                if others:
                    self._lines.put(b"".join(pending))
                    for line in others[:-1]:
                        self._lines.put(line)
                    pending = [others[-1]]
        self._lines.put(None)

    def last_words(self) -> str:
        """Returns the last part of what the process wrote to its standard error."""
        with self._closing:
            if self._errors.closed:
                return ""
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - _LAST_BYTES))
            return self._errors.read().decode("utf-8", "replace")


@contextmanager
def run_child(
    command: Sequence[str],
    limits: ChildLimits,
    task: Task,
    *,
    environment: Mapping[str, str] | None = None,
    inherited: Collection[str] | None = None,
    heard: Callable[[str], object] = lambda _: None,
) -> Iterator[Iterator[dict[str, Any]]]:
    """Runs a process and gives its messages. Leaving the context ends the process.

    Args:
        command: What is run.
        limits: When to give up.
        task: What the process does.
        environment: Variables that are added to those of this process.
        inherited: The variables of this process that the child gets; None for all.
        heard: Called with the last part of what it wrote to its standard error, however it ended.

    Raises:
        EngineError: The process failed, or reached a limit.
    """
    child = Child(command, environment=environment, inherited=inherited)
    try:
        messages = child.messages(limits, task)
        yield messages
        for _ in messages:
            pass
        child.check_end(task)
    finally:
        heard(child.last_words())
        child.close()


class _Watch:
    """Holds a process to its limits."""

    def __init__(self, process: subprocess.Popen[bytes], limits: ChildLimits, task: Task) -> None:
        self._process, self._limits, self._task = process, limits, task
        self._began = self._alive = self._last_message = self._looked = time.monotonic()

    def note_message(self) -> None:
        """Notes that a message arrived."""
        self._last_message = time.monotonic()

    def has_ended(self, grace_s: float) -> bool:
        """True if the process ended some seconds ago: another one may hold its pipe."""
        if self._process.poll() is None:
            self._alive = time.monotonic()
        return time.monotonic() - self._alive > grace_s

    def check(self) -> None:
        """Raises LimitError if the process is past a limit."""
        moment, limits = time.monotonic(), self._limits
        if moment - self._last_message > limits.silence_s:
            self._stop(f"gave no sign of life for {limits.silence_s:g} s", self._task.hint)
        if limits.time_s is not None and moment - self._began > limits.time_s:
            self._stop(f"took longer than {limits.time_s:g} s", "give it more time with --timeout")
        if limits.memory_bytes is not None and moment - self._looked > _MEMORY_POLL_S:
            self._looked = moment
            if _resident_bytes(self._process.pid) > limits.memory_bytes:
                size = f"{limits.memory_bytes / 1e9:.3g} GB"
                self._stop(f"took more than {size} of memory", self._task.hint)

    def _stop(self, what: str, hint: str) -> None:
        raise LimitError(f"{self._task.name} {what}", hint)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _resident_bytes(pid: int) -> int:
    """Returns the memory of a process, on a Mac its footprint; 0 where the system does not say."""
    try:
        if not _STATM.exists():
            return footprint_bytes(pid)
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
