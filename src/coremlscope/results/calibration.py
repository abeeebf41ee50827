"""A user's own measurements of devices, which refine our estimates for their chips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.encoding import plain

#: Name and version of the schema.
CALIBRATION = "coremlscope.calibration/1"


class KernelColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of a prediction as numbers, without names: all that an estimate is computed from.

    Attributes:
        columns: A number for each distinct kernel, by name: those of the latency model's table of kernels,
            `steps` (how often it runs each time) and `unit` (index into the compute units).
        order: The kernels in order of execution, as indices of the distinct ones.
        converted_bytes: Bytes of inputs and outputs that are converted to or from half precision.
        switches: How often the plan changes the unit.
        returns: How often a prediction comes back to an accelerator.
        moved: Elements that cross from one unit to another.
    """

    columns: Mapping[str, tuple[float, ...]]
    order: tuple[int, ...]
    converted_bytes: int = 0
    switches: int = 0
    returns: int = 0
    moved: tuple[tuple[ComputeUnit, ComputeUnit, float], ...] = ()


class OwnMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """A measured prediction on a device, added by the user.

    Attributes:
        id: What removes it: the start of a digest of its content.
        added_at: When it was added, UTC, ISO 8601.
        source: The name of the file that it is from.
        tool: Where the figure is from: `Core ML on M2, macOS 15.1`, `CSV`.
        model: The name of the model's file; empty where it was left out.
        structure: Digest of the kernels; models with equal ones count as one.
        chip: The chip's id.
        device: The name of the device or of its chip.
        os: The system; empty if it is unknown.
        compute_units: The setting under which it was measured.
        unit: The compute unit that does nearly all of the work, by our plan.
        measured_s: The median of a prediction, in seconds.
        samples: Number of timed predictions; 0 if it is unknown.
        kernels: What our estimate of it is computed from.
    """

    id: str
    added_at: str = ""
    source: str = ""
    tool: str = ""
    model: str = ""
    structure: str
    chip: str
    device: str = ""
    os: str = ""
    compute_units: ComputeUnits
    unit: ComputeUnit
    measured_s: float
    samples: int = 0
    kernels: KernelColumns


class Calibrations(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements that a user added.

    Attributes:
        version: The version of coremlscope that wrote them.
        measurements: The measurements.
    """

    version: str = ""
    measurements: tuple[OwnMeasurement, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Converts them to plain JSON values, with the schema's name."""
        return {"schema": CALIBRATION, **plain(self)}


class OwnCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """How a user's own measurements changed an estimate.

    Attributes:
        measurements: Number of measurements in use, of the chip and the units of the estimate.
        models: Number of different models among them.
        factors: By unit: measured relative to estimated times, shrunk towards 1.
    """

    measurements: int
    models: int
    factors: Mapping[ComputeUnit, float] = msgspec.field(default_factory=dict)


class CheckedMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement beside our estimate of it.

    Attributes:
        measurement: The measurement.
        estimated_s: Our estimate without any measurements of the user's, in seconds; None if the measurement
            was recorded by another version, which has to add it again.
        refined_s: Our estimate with all measurements in use.
        apart: Standard deviations from what the others predict, if it was set apart and changes nothing; else
            None.
        like: The unit whose estimate is nearest, where it was set apart and another unit is nearer.
    """

    measurement: OwnMeasurement
    estimated_s: float | None = None
    refined_s: float | None = None
    apart: float | None = None
    like: ComputeUnit | None = None


class UnitCorrection(msgspec.Struct, frozen=True, kw_only=True):
    """Correction of estimates for a unit of a chip, from the user's measurements.

    Attributes:
        chip: The chip's id.
        unit: The unit.
        factor: Measured relative to estimated times, shrunk towards 1, with its 80 % interval.
        network_spread: Standard deviation of the logarithm of one network's time around its estimate.
        measurements: Number of measurements in use.
        models: Number of different models among them.
        checked: All measurements of the unit, those that were set apart included.
    """

    chip: str
    unit: ComputeUnit
    factor: Figure
    network_spread: float
    measurements: int
    models: int
    checked: tuple[CheckedMeasurement, ...] = ()


class Skipped(msgspec.Struct, frozen=True):
    """A measurement in a file that is not used.

    Attributes:
        where: The file, with the line or the number of the measurement.
        reason: Why it is not used, as the end of a sentence.
    """

    where: str
    reason: str


class CalibrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements that a user added, and what they say.

    Attributes:
        path: The file that holds them.
        added: Those that were added now.
        known: Number of measurements in the files that had been added before.
        removed: Number of measurements that were removed now.
        skipped: Measurements in the files that are not used.
        corrections: What the measurements of each unit of a chip say.
        stale: Measurements that were recorded by another version: their files have to be added again.
    """

    path: str
    added: tuple[OwnMeasurement, ...] = ()
    known: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()
    corrections: tuple[UnitCorrection, ...] = ()
    stale: tuple[OwnMeasurement, ...] = ()
