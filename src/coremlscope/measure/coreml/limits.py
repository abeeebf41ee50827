"""Limits of child processes that work with Core ML."""

from __future__ import annotations

import msgspec.structs

from coremlscope.base.processes.child import ChildLimits
from coremlscope.measure.effort import Effort

CORE_ML_LIMITS = ChildLimits(memory_bytes=12 * 10**9)


def core_ml_limits(effort: Effort) -> ChildLimits:
    """Returns the limits of each process: those of the user in place of the usual ones."""
    memory = effort.memory_bytes or CORE_ML_LIMITS.memory_bytes
    return msgspec.structs.replace(CORE_ML_LIMITS, time_s=effort.timeout_s, memory_bytes=memory)
