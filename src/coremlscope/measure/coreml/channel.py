"""The channel from a child process to its parent: lines of JSON over a pipe that the child inherits.

Standard output is not used: Core ML's compiler, coremltools and frameworks print there.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import IO, Any

__all__ = ["VARIABLE", "tell"]

#: Names the file descriptor of the pipe.
VARIABLE = "COREMLSCOPE_CHANNEL"


def tell(**values: Any) -> None:
    """Sends one message to the parent; without a parent it is printed."""
    print(json.dumps(values), file=_stream(), flush=True)


@functools.cache
def _stream() -> IO[str]:
    descriptor = os.environ.get(VARIABLE)
    return os.fdopen(int(descriptor), "w", encoding="utf-8") if descriptor else sys.stdout
