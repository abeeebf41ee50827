"""The channel from a child process to its parent: lines of JSON over the pipe that is its standard output.

The child keeps the pipe for itself and sends its own standard output nowhere: engines, Core ML's compiler,
coremltools and frameworks print there.
"""

from __future__ import annotations

import functools
import os
from typing import IO, Any

import msgspec

__all__ = ["VARIABLE", "open_channel", "send"]

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
