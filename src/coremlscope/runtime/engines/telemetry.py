"""Keeps ONNX Runtime from collecting telemetry.

From version 1.31 on, importing ONNX Runtime writes `deviceid` and a database below
`~/.cache/Microsoft/DeveloperTools/.onnxruntime` and `.ses` into the folder of temporary files, under a
predictable name, from which it sends events to `mobile.events.data.microsoft.com`. With the variable nothing
is written or sent.
"""

from __future__ import annotations

import os

_VARIABLE = "ORT_DISABLE_TELEMETRY"


def forbid_telemetry() -> None:
    """Forbids telemetry in this process, if ONNX Runtime is not imported yet, and in all that it starts."""
    os.environ[_VARIABLE] = "1"
