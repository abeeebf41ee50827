"""coremlscope: profile, inspect and run Core ML models on any machine.

Everything here is loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coremlscope.results.presentation import present_with
from coremlscope.version import __version__

if TYPE_CHECKING:
    from coremlscope.api import (
        compare,
        compile,
        estimate,
        export,
        import_files,
        inspect,
        list_models,
        open,
        plan,
        predict,
        profile,
        profile_power_modes,
        read,
    )
    from coremlscope.api.connected_devices import measure_on_device
    from coremlscope.comparison.evidence import gather_evidence
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.dropin import install, uninstall
    from coremlscope.errors import CoremlscopeError
    from coremlscope.forecast.explain import explain
    from coremlscope.gate.run import check
    from coremlscope.isolation.isolate import isolate
    from coremlscope.own_measurements.report import (
        add_measurements,
        list_measurements,
        remove_measurements,
    )
    from coremlscope.probing.probe import probe
    from coremlscope.results.model import ModelSummary
    from coremlscope.results.profile import Profile
    from coremlscope.results.trace import Trace
    from coremlscope.sweep.run import run_sweep
    from coremlscope.tracing.session import record
    from coremlscope.variants.study import apply_variant, what_if
    from coremlscope.verification.verify import verify

__all__ = [
    "Comparison",
    "CoremlscopeError",
    "ModelSummary",
    "Profile",
    "Trace",
    "__version__",
    "add_measurements",
    "apply_variant",
    "check",
    "compare",
    "compile",
    "estimate",
    "explain",
    "export",
    "gather_evidence",
    "import_files",
    "inspect",
    "install",
    "isolate",
    "list_measurements",
    "list_models",
    "measure_on_device",
    "open",
    "plan",
    "predict",
    "probe",
    "profile",
    "profile_power_modes",
    "read",
    "record",
    "remove_measurements",
    "run_sweep",
    "uninstall",
    "verify",
    "what_if",
]

_MODULES = {
    "Comparison": "comparison.profiles",
    "CoremlscopeError": "errors",
    "ModelSummary": "results.model",
    "Profile": "results.profile",
    "Trace": "results.trace",
    "add_measurements": "own_measurements.report",
    "apply_variant": "variants.study",
    "check": "gate.run",
    "compare": "api",
    "compile": "api",
    "estimate": "api",
    "explain": "forecast.explain",
    "export": "api",
    "gather_evidence": "comparison.evidence",
    "import_files": "api",
    "inspect": "api",
    "install": "dropin",
    "isolate": "isolation.isolate",
    "list_measurements": "own_measurements.report",
    "list_models": "api",
    "measure_on_device": "api.connected_devices",
    "open": "api",
    "plan": "api",
    "predict": "api",
    "probe": "probing.probe",
    "profile": "api",
    "profile_power_modes": "api",
    "read": "api",
    "remove_measurements": "own_measurements.report",
    "record": "tracing.session",
    "run_sweep": "sweep.run",
    "uninstall": "dropin",
    "what_if": "variants.study",
    "verify": "verification.verify",
}

# Results do not import renderers, which stand above them.
present_with(lambda: importlib.import_module(f"{__name__}.render.renderers"))


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
