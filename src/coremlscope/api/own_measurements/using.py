"""Plans and estimates that use the user's own measurements."""

from __future__ import annotations

from coremlscope.api.own_measurements.store import default_store
from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.findings import Finding
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own, calibrate


def use_own() -> tuple[Own, tuple[Finding, ...]]:
    """Returns the constants with the user's own measurements, and a finding if they cannot be read."""
    try:
        measurements = default_store().read()
    except CoremlscopeError as error:
        finding = Finding(
            id="own-measurements-not-used",
            severity="warning",
            text=f"Estimates do not use your own measurements: {error.message}.",
            hint=error.hint,
        )
        return NOTHING_OWN, (finding,)
    return (calibrate(measurements), ()) if measurements else (NOTHING_OWN, ())


def choose_own(*, is_used: bool) -> tuple[Own, tuple[Finding, ...]]:
    """Returns what `use_own` does, or the constants without the user's own measurements."""
    return use_own() if is_used else (NOTHING_OWN, ())
