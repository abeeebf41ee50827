"""Engines, which run lowered programs and time them.

Importing this package is cheap. An engine's library is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.runtime.engines.base import Engine

__all__ = ["ENGINES", "engine"]

#: Every engine that a user can select: its name, its module in this package and its class. The first one is
#: the default.
ENGINES: tuple[tuple[str, str, str], ...] = (
    ("onnxruntime", "onnxruntime", "OnnxRuntimeEngine"),
    ("openvino", "openvino", "OpenVinoEngine"),
)


def engine(name: str = ENGINES[0][0]) -> Engine:
    """Creates the engine with this name.

    Raises:
        UsageError: The name is unknown.
    """
    for known, module, class_name in ENGINES:
        if known == name:
            created: Engine = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)()
            return created
    names = ", ".join(known for known, *_ in ENGINES)
    raise UsageError(f"unknown engine {name!r}", f"use one of {names}")
