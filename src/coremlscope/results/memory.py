"""Estimated memory of a prediction, with its basis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coremlscope.devices.app_limits import AppLimit
from coremlscope.devices.unit import ComputeUnit
from coremlscope.figures import Figure

__all__ = ["MemoryEstimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """The memory of one prediction on a device, derived from the file. Nothing was measured.

    Attributes:
        weights_bytes: Bytes of the weights as the file stores them, which the system maps.
        expanded_bytes: Bytes of the weights in the type in which operations read them: more where the file
            stores them compressed.
        activations_bytes: The most bytes of inputs and results that are alive at the same time, by their
            declared types; None if a size is not known.
        peak_op: The id of the operation at which that is; empty if it is not known.
        state_bytes: Bytes of states.
        weights_by_unit: Bytes of the weights that the operations on each unit read, expanded.
        activations_by_unit: The most bytes that are alive while an operation runs on each unit.
        peak: Stored weights, states and live results. The ends are bounds, not an 80 % interval: without the
            weights, which the system maps and may drop; and with weights in the type that operations read
            beside the stored ones, and each result twice.
        basis: How the figures are derived.
        limit: What an app may use on the device; None where no published measurement is known.
    """

    weights_bytes: int
    expanded_bytes: int
    activations_bytes: int | None
    peak_op: str = ""
    state_bytes: int = 0
    weights_by_unit: Mapping[ComputeUnit, int] = field(default_factory=dict)
    activations_by_unit: Mapping[ComputeUnit, int] = field(default_factory=dict)
    peak: Figure | None
    basis: str
    limit: AppLimit | None = None
