"""Profiles: what a model is and what it takes on this host, as plain data.

Importing this package is cheap; what measures is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coremlscope.profiling.assemble import Progress, describe_host, measure
    from coremlscope.profiling.profile import (
        Group,
        Host,
        NodeTiming,
        OpRow,
        OpTable,
        Phase,
        Profile,
        Request,
    )
    from coremlscope.profiling.summary import ModelSummary, summarise

__all__ = [
    "Group",
    "Host",
    "ModelSummary",
    "NodeTiming",
    "OpRow",
    "OpTable",
    "Phase",
    "Profile",
    "Progress",
    "Request",
    "describe_host",
    "measure",
    "summarise",
]

_MODULES = {
    "Group": "profile",
    "Host": "profile",
    "ModelSummary": "summary",
    "NodeTiming": "profile",
    "OpRow": "profile",
    "OpTable": "profile",
    "Phase": "profile",
    "Profile": "profile",
    "Progress": "assemble",
    "Request": "profile",
    "describe_host": "assemble",
    "measure": "assemble",
    "summarise": "summary",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
