"""The compute units that Core ML is held to on machines where others hang or fail, such as virtual ones."""

from __future__ import annotations

import os
from collections.abc import Iterable

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.runtime.engines.host import is_virtual_machine

#: Names a setting of compute units that replaces every other one whenever Core ML loads a model.
UNITS_VARIABLE = "COREMLSCOPE_CORE_ML_UNITS"
#: What helps where one setting fails; not every verb has the option.
OTHER_UNITS = f"try another setting with --compute-units, or {UNITS_VARIABLE}=cpu_only in the environment"


def effective_units(requested: str) -> ComputeUnits:
    """Returns the setting that Core ML is given.

    It is the requested one, unless the environment names another, or this is a virtual machine: it has no
    Neural Engine, and models hang there on its GPU.

    Raises:
        UsageError: The environment variable COREMLSCOPE_CORE_ML_UNITS does not name a setting.
    """
    held = os.environ.get(UNITS_VARIABLE, "") or ("cpu_only" if is_virtual_machine() else "")
    if held and held not in SETTINGS:
        raise UsageError(
            f"the environment variable {UNITS_VARIABLE} has the invalid compute units {held!r}",
            f"use one of {', '.join(SETTINGS)}, or unset it",
        )
    return next(setting for setting in SETTINGS if setting == (held or requested))


def distinct_units(requested: Iterable[ComputeUnits]) -> tuple[ComputeUnits, ...]:
    """Returns the settings that differ in what Core ML is given."""
    first: dict[str, ComputeUnits] = {}
    for units in requested:
        first.setdefault(effective_units(units), units)
    return tuple(first.values())


def unit_findings(what: str, requested: str) -> list[Finding]:
    """Returns a finding where Core ML is held to another setting than the requested one.

    Args:
        what: What was done under the other setting, as the beginning of a sentence: `Measured`.
        requested: The requested setting.
    """
    effective = effective_units(requested)
    if requested == effective:
        return []
    if os.environ.get(UNITS_VARIABLE):
        why, hint = f"as {UNITS_VARIABLE} demands", f"unset {UNITS_VARIABLE}"
    else:
        why = "since this Mac is a virtual machine, where models hang on other units"
        hint = f"{UNITS_VARIABLE}={requested} asks for it all the same"
    text = f"{what} under {effective} instead of {requested}, {why}."
    return [Finding(id="compute-units-held", severity="warning", text=text, hint=hint)]
