"""Limits of child processes that work with Core ML."""

from __future__ import annotations

import msgspec.structs

from coremlscope.base.processes.child import ChildLimits

__all__ = ["CORE_ML_LIMITS", "core_ml_limits"]

CORE_ML_LIMITS = ChildLimits(memory_bytes=12 * 10**9)


def core_ml_limits(given: tuple[float | None, int | None]) -> ChildLimits:
    """Returns the limits of each process: those of the user in place of the usual ones.

    Args:
        given: Seconds and bytes of memory; None for the usual limit.
    """
    time_s, memory = given
    return msgspec.structs.replace(
        CORE_ML_LIMITS, time_s=time_s, memory_bytes=memory or CORE_ML_LIMITS.memory_bytes
    )
