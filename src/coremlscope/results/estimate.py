"""How long a prediction takes on a device, estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from coremlscope.devices.unit import UNITS, ComputeUnit, ComputeUnits
from coremlscope.figures import Figure

__all__ = ["Bound", "Estimate", "EstimateBasis", "Kernel"]

#: What a kernel or a prediction waits for most of the time.
Bound = Literal["compute", "weights", "activations", "dispatch", "switches"]

#: `calibrated`: latencies measured on this chip and unit went into the model; `extrapolated`: none did.
EstimateBasis = Literal["calibrated", "extrapolated"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Operations that a device is taken to run as one.

    Attributes:
        name: The author's name of the operation that does most of the work.
        kind: What it does: `conv`, `linear`, `elementwise`, …; empty in older profiles.
        ops: The operations, as rows of the op table.
    """

    name: str
    kind: str
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a prediction is estimated to take on a device under one setting. Nothing was measured.

    The columns of kernels have one entry for each of the profile's kernels, in order of execution. A kernel's
    time belongs to all its operations together and is never split.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        compute_units: The assumed setting.
        latency: Seconds, with an interval that holds 80 % of the cases.
        basis: Whether latencies of this chip and unit went into the model.
        bound: What takes most of the time.
        parts: Seconds by what they are spent on.
        placement: The share of each unit in the time of the kernels, as the plan places them.
        switches: How often the unit changes between kernels.
        left_out: Stages of a pipeline that the estimate does not include: nothing is known of them.
        kernel_s: Seconds of each kernel.
        kernel_unit: Where it runs, an index into `units`.
        kernel_bound: What it waits for.
        units: The compute units that columns refer to.
    """

    device: str
    chip: str
    os: str
    compute_units: ComputeUnits
    latency: Figure
    basis: EstimateBasis
    bound: Bound
    parts: Mapping[Bound, float]
    placement: Mapping[ComputeUnit, float]
    switches: int
    left_out: tuple[str, ...] = ()
    kernel_s: tuple[float, ...] = ()
    kernel_unit: tuple[int, ...] = ()
    kernel_bound: tuple[Bound, ...] = ()
    units: tuple[ComputeUnit, ...] = field(default=UNITS)

    @property
    def per_second(self) -> float:
        """Sequential predictions per second."""
        return 1 / self.latency.value
