"""Remarks on conditions of the machine that affect measured times: power and heat."""

from __future__ import annotations

from coremlscope.findings import Finding
from coremlscope.results.measurement import Conditions

__all__ = ["condition_findings"]

_NOMINAL = ("", "nominal")


def condition_findings(before: Conditions | None, after: Conditions | None) -> tuple[Finding, ...]:
    """Returns warnings about conditions that changed during a measurement, or that slow the machine down.

    Args:
        before: The conditions as the measurement began; None if they are unknown.
        after: The conditions as it ended.
    """
    first, last = before or Conditions(), after or Conditions()
    found = []
    for name, start, end, hint in (
        ("power mode", first.power_mode, last.power_mode, "keep the power mode unchanged"),
        ("power source", first.power_source, last.power_source, "leave the power adapter alone"),
    ):
        if start != end:
            text = f"The {name} changed from {start or 'unknown'} to {end or 'unknown'} while this was timed."
            found.append(_warning(f"{name.replace(' ', '-')}-changed", text, hint))
    if first.thermal_state != last.thermal_state:
        states = " to ".join(state or "unknown" for state in (first.thermal_state, last.thermal_state))
        text = f"The thermal state changed from {states} while this was timed."
        found.append(_warning("thermal-state-changed", text, "let the machine cool down"))
    elif first.thermal_state not in _NOMINAL:
        text = f"The thermal state was {first.thermal_state}, in which the system slows processors down."
        found.append(_warning("thermal-state", text, "let the machine cool down"))
    return tuple(found)


def _warning(id_: str, text: str, hint: str) -> Finding:
    return Finding(id=id_, severity="warning", text=text, hint=f"{hint}, and run it again")
