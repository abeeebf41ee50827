"""Runs a child process that works with Core ML: its messages, its limits, and why it ended.

Core ML can abort the process, hang in its compiler, or be killed for its memory. None of that reaches the
parent, and a hang cannot be interrupted from inside: coremltools holds the GIL while Core ML works.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from coremlscope.errors import EngineError
from coremlscope.measure.coreml.channel import VARIABLE
from coremlscope.measure.coreml.failures import explain

__all__ = ["Limits", "run_child"]

_POLL_S = 0.2
_MEMORY_POLL_S = 1.0
_LAST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """When to give up.

    Attributes:
        time_s: Seconds to wait for the next message. Core ML compiles for a device on the first load, which
            can take minutes.
        memory_bytes: Bytes of resident memory of the child. Memory of the system's compiler does not count.
    """

    time_s: float = 900.0
    memory_bytes: int = 12 * 10**9


@contextmanager
def run_child(
    command: Sequence[str],
    limits: Limits,
    *,
    doing: str,
    hint: str,
    environment: Mapping[str, str] | None = None,
    inherited: Collection[str] | None = None,
) -> Iterator[Iterator[dict[str, Any]]]:
    """Runs a process and gives its messages. Leaving the context ends the process.

    Args:
        command: What is run.
        limits: When to give up.
        doing: What the process does, as the subject of a sentence: `Core ML`, `loading the compute plan`.
        hint: What to do where it fails for a reason that is not known.
        environment: Variables that are added to those of this process.
        inherited: The variables of this process that the child gets; None for all.

    Raises:
        EngineError: The process failed, or went past a limit.
    """
    reader, writer = os.pipe()
    passed = {name: value for name, value in os.environ.items() if inherited is None or name in inherited}
    variables = {**passed, **(environment or {}), VARIABLE: str(writer)}
    with tempfile.TemporaryFile() as errors, os.fdopen(reader, "rb", buffering=0) as messages:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=variables,
                pass_fds=(writer,),
            )
        finally:
            os.close(writer)
        watch = _Watch(process, limits, doing, hint)
        try:
            yield watch.messages(messages)
            watch.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            message, advice = explain(process.returncode, _end_of(errors))
            raise EngineError(f"{doing} failed: {message}", advice or hint)


def _end_of(errors: IO[bytes]) -> str:
    """The last part of what a process wrote to its standard error."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _LAST_BYTES))
    return errors.read().decode("utf-8", "replace")


class _Watch:
    """Waits for a process and holds it to its limits."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits, doing: str, hint: str) -> None:
        self._process, self._limits, self._doing, self._hint = process, limits, doing, hint
        self._heard = self._looked = time.monotonic()

    def messages(self, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
        """The messages, until the process closes the channel."""
        pending = b""
        while True:
            ready, _, _ = select.select([stream], [], [], _POLL_S)
            if ready:
                chunk = os.read(stream.fileno(), 65536)
                if not chunk:
                    return
                self._heard = time.monotonic()
                *lines, pending = (pending + chunk).split(b"\n")
                yield from filter(None, map(_parse, lines))
            self._check()

    def wait(self) -> None:
        """Waits for the end of the process."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
                return
            self._check()

    def _check(self) -> None:
        moment, limits = time.monotonic(), self._limits
        if moment - self._heard > limits.time_s:
            raise EngineError(f"{self._doing} gave no sign of life for {limits.time_s:.0f} s", self._hint)
        if moment - self._looked > _MEMORY_POLL_S:
            self._looked = moment
            if _resident_bytes(self._process.pid) > limits.memory_bytes:
                size = f"{limits.memory_bytes / 1e9:.3g} GB"
                raise EngineError(f"{self._doing} took more than {size} of memory", self._hint)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _resident_bytes(pid: int) -> int:
    """Memory of a process; 0 where the system does not say. macOS ignores RLIMIT_AS, so it is looked up."""
    try:
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(told.stdout.strip() or 0) * 1024
    except (OSError, ValueError):
        return 0
