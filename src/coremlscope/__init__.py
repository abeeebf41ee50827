"""coremlscope: profile, inspect and run Core ML models on any machine.

Everything here is loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coremlscope.version import __version__

if TYPE_CHECKING:
    from coremlscope.api import compare, estimate, export, inspect, matrix, plan, predict, profile, read
    from coremlscope.errors import CoremlscopeError
    from coremlscope.placement.plan import Plan
    from coremlscope.profiling.compare import Comparison
    from coremlscope.profiling.matrix import Matrix
    from coremlscope.profiling.profile import Profile, Request
    from coremlscope.profiling.summary import ModelSummary
    from coremlscope.runtime import install, uninstall

__all__ = [
    "Comparison",
    "CoremlscopeError",
    "Matrix",
    "ModelSummary",
    "Plan",
    "Profile",
    "Request",
    "__version__",
    "compare",
    "estimate",
    "export",
    "inspect",
    "install",
    "matrix",
    "plan",
    "predict",
    "profile",
    "read",
    "uninstall",
]

_MODULES = {
    "Comparison": "profiling.compare",
    "CoremlscopeError": "errors",
    "ModelSummary": "profiling.summary",
    "Matrix": "profiling.matrix",
    "Plan": "placement.plan",
    "Profile": "profiling.profile",
    "Request": "profiling.profile",
    "compare": "api",
    "estimate": "api",
    "export": "api",
    "inspect": "api",
    "matrix": "api",
    "install": "runtime",
    "plan": "api",
    "predict": "api",
    "profile": "api",
    "read": "api",
    "uninstall": "runtime",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
