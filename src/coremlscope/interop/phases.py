"""Phases of measurements that were made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coremlscope.base.findings import Finding
from coremlscope.formats.recordings.power import Readings, energy_findings, summarize_readings
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.origin import named_origin
from coremlscope.results.measurement import Machine, Measurement, Phase, Runtime, Settings
from coremlscope.results.recording import Energy, Recording


def measurement_of(
    origin: ListingOrigin,
    samples_s: Mapping[str, Sequence[float]],
    compute_units: str = "",
    findings: Sequence[Finding] = (),
    *,
    recording: Recording | None = None,
    energy: Energy | None = None,
    tool: str = "",
) -> Measurement | None:
    """Returns the measurement in a file; None if it has no sample, recording or energy.

    Args:
        origin: Where the file is from.
        samples_s: Samples of `compile`, `load` and `predict`, in seconds.
        compute_units: The setting; empty where the file does not say.
        findings: Remarks.
        recording: Busy times of compute units, if it has any.
        energy: Energy, if it has any.
        tool: What wrote the file, where it is not about Core ML alone.
    """
    phases = {name: Phase.of(samples) for name, samples in samples_s.items() if samples}
    if not phases and recording is None and energy is None:
        return None
    return Measurement(
        label=f"{tool}{origin.label.removeprefix('Core ML')}" if tool else origin.label,
        runtime=Runtime(tool, tool) if tool else Runtime("coreml", "Core ML"),
        machine=Machine(processor=origin.device, os=origin.os),
        settings=Settings(
            compute_units=compute_units or "all",
            iterations=len(samples_s.get("predict", ())),
            compile_iterations=len(samples_s.get("compile", ())),
            load_iterations=len(samples_s.get("load", ())),
        ),
        compute_units=compute_units,
        compile=phases.get("compile"),
        load=phases.get("load"),
        predict=phases.get("predict"),
        recording=recording,
        energy=energy,
        findings=(imported_finding(origin), *findings),
    )


def imported_finding(origin: ListingOrigin) -> Finding:
    """The remark that figures are those of a file."""
    return Finding(
        id="imported",
        severity="info",
        text=f"these figures are from {origin.file}; nothing of them was measured here",
    )


def imported_energy(origin: ListingOrigin, readings: Readings) -> Imported:
    """Returns the content of a file with readings of power.

    Args:
        origin: Where the file is from; device and system are those of the readings where it has none.
        readings: At least one.
    """
    if origin.device == ListingOrigin(file="").device:
        origin = named_origin(origin, readings.device, readings.system)
    energy = summarize_readings(readings)
    measured = measurement_of(
        origin, {}, "", energy_findings(readings, energy), energy=energy, tool=readings.tool
    )
    return Imported(origin=origin, measurements=() if measured is None else (measured,))


def median_only(origin: ListingOrigin, phase: str, how: str = "") -> Finding:
    """The remark that a file has the median of a phase and not its samples.

    Args:
        origin: Where the file is from.
        phase: `compile`, `load` or `predict`.
        how: Where the median is from, as a sentence; empty where the file has it.
    """
    return Finding(
        id="median-only",
        severity="warning",
        text=f"{origin.file} has only the median of {phase}, which is shown as a single sample{how}",
        hint="nothing is known of its spread: do not read differences into it",
    )
