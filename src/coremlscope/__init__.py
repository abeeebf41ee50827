"""coremlscope: profile, inspect and run Core ML models on any machine.

Everything here is loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coremlscope.base.version import __version__
from coremlscope.results.presentation import present_with

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
    from coremlscope.api.evidence import gather_evidence
    from coremlscope.api.own_measurements.report import (
        add_measurements,
        list_measurements,
        remove_measurements,
    )
    from coremlscope.base.errors import CoremlscopeError
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.devices.targets import Targets
    from coremlscope.dropin import install, uninstall
    from coremlscope.dropin.tracing.session import record
    from coremlscope.measure.effort import Effort
    from coremlscope.model.subject import Subject
    from coremlscope.planning.forecast.explain import explain
    from coremlscope.results.model import ModelSummary
    from coremlscope.results.profile import Profile
    from coremlscope.results.trace import Trace
    from coremlscope.studies.gate.run import check
    from coremlscope.studies.isolation.isolate import isolate
    from coremlscope.studies.sweep.ray_cluster import RayRunner
    from coremlscope.studies.sweep.run import run_sweep
    from coremlscope.studies.variants.study import apply_variant, what_if
    from coremlscope.verification.verify import verify

__all__ = [
    "Comparison",
    "CoremlscopeError",
    "Effort",
    "ModelSummary",
    "Profile",
    "RayRunner",
    "Subject",
    "Targets",
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
    "Comparison": "describe.comparison.profiles",
    "CoremlscopeError": "base.errors",
    "Effort": "measure.effort",
    "ModelSummary": "results.model",
    "Profile": "results.profile",
    "RayRunner": "studies.sweep.ray_cluster",
    "Subject": "model.subject",
    "Targets": "devices.targets",
    "Trace": "results.trace",
    "add_measurements": "api.own_measurements.report",
    "apply_variant": "studies.variants.study",
    "check": "studies.gate.run",
    "compare": "api",
    "compile": "api",
    "estimate": "api",
    "explain": "planning.forecast.explain",
    "export": "api",
    "gather_evidence": "api.evidence",
    "import_files": "api",
    "inspect": "api",
    "install": "dropin",
    "isolate": "studies.isolation.isolate",
    "list_measurements": "api.own_measurements.report",
    "list_models": "api",
    "measure_on_device": "api.connected_devices",
    "open": "api",
    "plan": "api",
    "predict": "api",
    "profile": "api",
    "profile_power_modes": "api",
    "read": "api",
    "remove_measurements": "api.own_measurements.report",
    "record": "dropin.tracing.session",
    "run_sweep": "studies.sweep.run",
    "uninstall": "dropin",
    "what_if": "studies.variants.study",
    "verify": "verification.verify",
}

# Results do not import renderers, which stand above them.
present_with(lambda: importlib.import_module(f"{__name__}.reports.renderers"))


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
