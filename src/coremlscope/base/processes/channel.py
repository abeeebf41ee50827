"""The channel from a child process to its parent: lines of JSON over the pipe that is its standard output.

The child keeps the pipe for itself and sends its own standard output nowhere: engines, Core ML's compiler,
coremltools and frameworks print there.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from coremlscope.base import errors
from coremlscope.base.errors import CoremlscopeError, EngineError, UnsupportedOpError, known_error

#: Set in the environment of a child whose standard output is the channel.
VARIABLE = "COREMLSCOPE_CHANNEL"


def send(**values: Any) -> None:
    """Sends one message to the parent; without a parent it is printed."""
    stream = open_channel()
    stream.write(msgspec.json.encode(values) + b"\n")
    stream.flush()


@functools.cache
def open_channel() -> IO[bytes]:
    """Takes the channel; later calls return the same one. Begins with an end of a line, in case of a text.

    What is printed before it is taken becomes lines that the parent ignores.
    """
    own = os.dup(1)
    if os.environ.pop(VARIABLE, ""):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        os.write(own, b"\n")
    return os.fdopen(own, "wb")


def send_error(error: BaseException, subject: str = "") -> None:
    """Sends why the work failed; `rebuild_error` makes an error of it.

    Args:
        error: What was raised.
        subject: What was worked on.
    """
    if isinstance(error, UnsupportedOpError):
        send(error=type(error).__name__, ops=error.ops)
        return
    known = known_error(error, subject)
    send(error=type(known).__name__, message=known.message, hint=known.hint)


def rebuild_error(message: Mapping[str, Any]) -> CoremlscopeError:
    """Returns the error that a message of a child process describes."""
    if message["error"] == UnsupportedOpError.__name__:
        return UnsupportedOpError([tuple(op) for op in message["ops"]])
    name = message["error"]
    kind = getattr(errors, name) if name in errors.__all__ else EngineError
    rebuilt: CoremlscopeError = kind(str(message["message"]), str(message["hint"]))
    return rebuilt


def jobs() -> Iterator[Any]:
    """Takes the channel, and gives the jobs that the parent pickles into a private folder, until it ends.

    Each line of the standard input names the file of one.
    """
    open_channel()
    # The parent gets the signal, too, and decides what becomes of the result.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Without a buffer, the next line is left to `limits.end_with_parent`.
    lines = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    return (pickle.loads(Path(line.strip().decode()).read_bytes()) for line in iter(lines.readline, b""))
