"""Estimated times of predictions on devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.base.units import short_repr
from coremlscope.devices.app_limits import AppLimit
from coremlscope.devices.unit import UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.calibration import OwnCalibration

#: The bottleneck of a kernel or a prediction.
Bound = Literal["compute", "weights", "activations", "dispatch", "switches"]

#: `calibrated`: the model was fitted to latencies measured on this chip and unit; `extrapolated`: it was not.
EstimateBasis = Literal["calibrated", "extrapolated"]


class Kernel(msgspec.Struct, frozen=True):
    """Operations that a device is assumed to run as one.

    Attributes:
        name: The author's name of the operation that does most of the work.
        kind: Its kind: `conv`, `linear`, `elementwise`, …; empty in older profiles.
        ops: The operations, as rows of the op table.
    """

    name: str
    kind: str
    ops: tuple[int, ...]


class UnitTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a compute unit in the estimated time of a prediction, in seconds.

    Where arithmetic, activations and weights of a kernel are handled at the same time, only the slowest
    counts.

    Attributes:
        unit: The unit.
        compute_s: Arithmetic.
        weights_s: Streaming of weights.
        activations_s: Reading and writing of activations.
        operations_s: Overheads of kernels: starting each, and functions at the end of some.
        launch_s: The fixed overhead of using the unit in a prediction.
    """

    unit: ComputeUnit
    compute_s: float
    weights_s: float
    activations_s: float
    operations_s: float
    launch_s: float

    @property
    def total_s(self) -> float:
        """The sum of the terms."""
        return self.compute_s + self.weights_s + self.activations_s + self.operations_s + self.launch_s


class LoadEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated times of loading on a Neural Engine, from published ones and the number of parameters.

    Attributes:
        first_s: Seconds of the first load, in which Core ML compiles for the Neural Engine, with an 80 %
            interval.
        cached_s: Seconds of a later load, which finds the result in Core ML's cache.
        publications: Number of publications.
    """

    first_s: Figure
    cached_s: Figure
    publications: int


class NearRow(msgspec.Struct, frozen=True, kw_only=True):
    """A published latency of a similar network on a similar chip, beside our estimate of it.

    Attributes:
        network: The network and the size of its input.
        family: Its family of architectures.
        publication: Who measured it.
        url: Where it was published; may be empty.
        chip: The chip's id.
        unit: The compute unit that ran it.
        precision: `fp16`, `w8`, `pal4`, `sparse75`, `w8a8`, `fp32`.
        measured_s: The published latency, in seconds.
        estimated_s: Our estimate, in seconds; the row may be among those that the model was fitted to.
        distance: How far its structure is from that of the estimate: 0 for equal ones, 1 for ones that have
            little in common.
    """

    network: str
    family: str
    publication: str
    url: str = ""
    chip: str
    unit: ComputeUnit
    precision: str
    measured_s: float
    estimated_s: float
    distance: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time of a prediction on a device under one setting. Nothing was measured.

    The columns of kernels have one entry for each kernel of the estimate, in order of execution. A kernel's
    time belongs to all its operations together and is never split.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        compute_units: The assumed setting.
        latency: Seconds, with an 80 % interval.
        basis: Whether the model was fitted to latencies of this chip and unit.
        bound: The bottleneck: the part that takes most of the time.
        parts: Seconds of each part.
        terms: The terms of each unit in use; with the conversion of inputs and outputs, which `dispatch`
            includes, and with the changes of the unit they add up to the latency. Empty in older profiles.
        placement: The share of each unit in the time of the kernels, as the plan places them.
        switches: How often the plan changes the unit.
        notes: Remarks that explain the estimate.
        left_out: What the estimate does not include, because nothing is known about it: stages of a
            pipeline, and the number of operations that cannot be estimated. The latency is then a bound.
        left_out_share: The share of the parameters that these operations read, as far as it is known. Where
            it is above 0.2, nothing is estimated.
        own: Which of the user's own measurements it uses; None if it uses published ones alone.
        load: Times of loading, where the Neural Engine does most of the work; None where they are not known.
        memory: The memory of a prediction, from the file; None in older profiles.
        near: Published latencies of similar networks on similar chips, nearest first; empty unless asked for.
        kernels: The kernels, where the plan divides some of the profile's or orders them otherwise; empty
            where they are the profile's.
        kernel_of: The profile's kernel that each is, or is a part of; -1 for operations that leave no work.
            Empty where each is its own.
        kernel_s: Seconds of each kernel in a prediction, in all iterations of a loop.
        kernel_unit: The unit of each kernel, an index into `units`.
        kernel_bound: The bottleneck of each kernel.
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
    left_out_share: float = 0.0
    notes: tuple[str, ...] = ()
    terms: tuple[UnitTerms, ...] = ()
    own: OwnCalibration | None = None
    load: LoadEstimate | None = None
    memory: MemoryEstimate | None = None
    near: tuple[NearRow, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    kernel_of: tuple[int, ...] = ()
    kernel_s: tuple[float, ...] = ()
    kernel_unit: tuple[int, ...] = ()
    kernel_bound: tuple[Bound, ...] = ()
    units: tuple[ComputeUnit, ...] = msgspec.field(default=UNITS)

    __repr__ = short_repr

    @property
    def is_at_least(self) -> bool:
        """Whether the latency is a lower bound, because it leaves something out."""
        return bool(self.left_out)

    @property
    def per_second(self) -> float:
        """Sequential predictions per second."""
        return 1 / self.latency.value


class MemoryEstimate(msgspec.Struct, frozen=True, kw_only=True):
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
    weights_by_unit: Mapping[ComputeUnit, int] = msgspec.field(default_factory=dict)
    activations_by_unit: Mapping[ComputeUnit, int] = msgspec.field(default_factory=dict)
    peak: Figure | None
    basis: str
    limit: AppLimit | None = None
