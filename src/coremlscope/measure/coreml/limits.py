"""Limits of child processes that work with Core ML."""

from __future__ import annotations

from coremlscope.measure.child import ChildLimits

__all__ = ["CORE_ML_LIMITS"]

CORE_ML_LIMITS = ChildLimits(memory_bytes=12 * 10**9)
