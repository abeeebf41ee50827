"""The public functions: short compositions of the packages below."""

from __future__ import annotations

from coremlscope.api.comparisons import compare
from coremlscope.api.forecasts import answer, estimate, plan
from coremlscope.api.models import Source, compile, export, inspect, list_models, read
from coremlscope.api.predictions import open, predict
from coremlscope.api.profiles import import_files, profile, profile_power_modes

__all__ = [
    "Source",
    "answer",
    "compare",
    "compile",
    "estimate",
    "export",
    "import_files",
    "inspect",
    "list_models",
    "open",
    "plan",
    "predict",
    "profile",
    "profile_power_modes",
    "read",
]
