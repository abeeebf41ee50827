"""The libraries of others that are imported, and what keeps those quiet that send or write something.

ONNX Runtime, from version 1.31 on, writes `deviceid` and a database below
`~/.cache/Microsoft/DeveloperTools/.onnxruntime` and `.ses` into the folder of temporary files when it is
imported, and sends events to `mobile.events.data.microsoft.com`. The converter that `import openvino` imports
writes an identifier to `~/intel` and sends events to Google Analytics by `openvino_telemetry`; without that
module it uses a stub of its own. A cluster of Ray reports its use to `usage-stats.ray.io`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

#: For each library, the variables that are set and the modules that it must not find while it is imported.
LIBRARIES: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "onnxruntime": ({"ORT_DISABLE_TELEMETRY": "1"}, ()),
    "openvino": ({}, ("openvino_telemetry",)),
    # Lines that it keeps to find equal ones come out at its end, past what keeps them from the output.
    "ray": ({"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}, ()),
    **dict.fromkeys(
        (
            *("anyio", "coreai", "coreai_torch", "coremltools", "flatbuffers", "google", "lzfse", "mcp"),
            *("ml_dtypes", "msgspec", "numpy", "objc", "onnx", "pandas", "PIL", "pyarrow", "pytest", "rich"),
            *("shtab", "sklearn", "starlette", "torch", "uvicorn", "zeus_apple_silicon"),
        ),
        ({}, ()),
    ),
}


def silence(name: str) -> None:
    """Sets the variables that keep a library quiet, in this process and in all that it starts."""
    os.environ.update(LIBRARIES[name][0])


def import_quietly(name: str) -> Any:
    """Imports a library so that it sends and writes nothing.

    Raises:
        ImportError: It is not installed.
    """
    silence(name)
    hidden = [module for module in LIBRARIES[name][1] if module not in sys.modules]
    for module in hidden:
        sys.modules[module] = cast("ModuleType", None)  # which makes an import of it fail
    try:
        return importlib.import_module(name)
    finally:
        for module in hidden:
            del sys.modules[module]
