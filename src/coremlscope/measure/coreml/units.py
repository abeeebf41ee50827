"""The compute units that Core ML is held to on machines where others hang or fail, such as virtual ones."""

from __future__ import annotations

import os

from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.errors import UsageError

__all__ = ["UNITS_VARIABLE", "effective_units"]

#: Names a setting of compute units that replaces every other one whenever Core ML loads a model.
UNITS_VARIABLE = "COREMLSCOPE_CORE_ML_UNITS"


def effective_units(requested: str) -> ComputeUnits:
    """Returns the setting that Core ML is given: the requested one, unless the environment names another.

    Raises:
        UsageError: The environment variable COREMLSCOPE_CORE_ML_UNITS does not name a setting.
    """
    held = os.environ.get(UNITS_VARIABLE, "")
    if held and held not in SETTINGS:
        raise UsageError(
            f"the environment variable {UNITS_VARIABLE} has the invalid compute units {held!r}",
            f"use one of {', '.join(SETTINGS)}, or unset it",
        )
    return next(setting for setting in SETTINGS if setting == (held or requested))
