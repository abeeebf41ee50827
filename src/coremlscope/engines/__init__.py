"""Engines: what runs lowered programs and times them.

Importing this package is cheap; an engine's own library is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coremlscope.engines.base import Engine, EngineNode, EngineOptions, NodeProfile, Session
    from coremlscope.engines.onnxruntime import OnnxRuntimeEngine
    from coremlscope.engines.sampling import Samples, Statistics, describe, sample

__all__ = [
    "ENGINES",
    "Engine",
    "EngineNode",
    "EngineOptions",
    "NodeProfile",
    "OnnxRuntimeEngine",
    "Samples",
    "Session",
    "Statistics",
    "describe",
    "engine",
    "sample",
]

_MODULES = {
    "Engine": "base",
    "EngineNode": "base",
    "EngineOptions": "base",
    "NodeProfile": "base",
    "Session": "base",
    "OnnxRuntimeEngine": "onnxruntime",
    "Samples": "sampling",
    "Statistics": "sampling",
    "describe": "sampling",
    "sample": "sampling",
}

#: Every engine that a person can ask for: its name and the class in this package. The first is the default.
ENGINES: tuple[tuple[str, str], ...] = (("onnxruntime", "OnnxRuntimeEngine"),)


def engine(name: str = ENGINES[0][0]) -> Engine:
    """The engine of that name.

    Raises:
        UsageError: There is none.
    """
    from coremlscope.errors import UsageError

    for known, class_name in ENGINES:
        if known == name:
            made: Engine = __getattr__(class_name)()  # type: ignore[operator]
            return made
    names = ", ".join(known for known, _ in ENGINES)
    raise UsageError(f"there is no engine called {name!r}", f"engines: {names}")


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
