"""Engines: what runs lowered programs and times them.

Importing this package is cheap; an engine's own library is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coremlscope.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.engines.base import Engine

__all__ = ["ENGINES", "engine"]

#: Every engine that a person can ask for: its name, its module in this package and its class. The first is
#: the default.
ENGINES: tuple[tuple[str, str, str], ...] = (("onnxruntime", "onnxruntime", "OnnxRuntimeEngine"),)


def engine(name: str = ENGINES[0][0]) -> Engine:
    """The engine of that name.

    Raises:
        UsageError: There is none.
    """
    for known, module, class_name in ENGINES:
        if known == name:
            made: Engine = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)()
            return made
    names = ", ".join(known for known, *_ in ENGINES)
    raise UsageError(f"unknown engine {name!r}", f"engines: {names}")
