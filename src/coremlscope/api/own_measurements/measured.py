"""Measured predictions in files: saved profiles, what `coremlscope import` reads, and tables (CSV)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from coremlscope.api.imported import import_files, is_saved, read_any
from coremlscope.api.own_measurements.sheet import read_sheet
from coremlscope.base.errors import UsageError
from coremlscope.devices import (
    CPU,
    GPU,
    NEURAL_ENGINE,
    SETTINGS,
    ComputeUnit,
    ComputeUnits,
    Device,
    find_device,
)
from coremlscope.model.ir import Model
from coremlscope.results.calibration import Skipped
from coremlscope.results.measurement import Measurement
from coremlscope.results.profile import Profile

_SHEETS = (".csv", ".tsv")
#: The setting under which Core ML uses a unit.
_SETTING_OF: Mapping[ComputeUnit, ComputeUnits] = {
    CPU: "cpu_only",
    GPU: "cpu_and_gpu",
    NEURAL_ENGINE: "cpu_and_ne",
}
_LOW_POWER = "low power"


class MeasuredPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """A measured prediction, before its model was read.

    Attributes:
        source: The name of the file that contains it.
        where: The same with the line, for messages.
        tool: Where the figure is from: `Core ML on M2, macOS 15.1`, `CSV`.
        model: The path of the model; None for the one that the user names.
        device: The device.
        system: Its system, as the file has it; may be empty.
        compute_units: The setting under which it was measured.
        unit: The unit that ran it, where the file names it; else None.
        seconds: The median.
        samples: Number of timed predictions; 0 if it is unknown.
        function: The function; empty for the default one.
        shapes: Shapes of inputs that differ from the defaults.
        ops: Ids of operations that the model has to have; empty if they are unknown.
    """

    source: str
    where: str
    tool: str
    model: Path | None
    device: Device
    system: str = ""
    compute_units: ComputeUnits
    unit: ComputeUnit | None = None
    seconds: float
    samples: int = 0
    function: str = ""
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    ops: tuple[str, ...] = ()


def read_measured(
    path: Path, model: Model | None, device: str | None, system: str | None
) -> list[MeasuredPrediction | Skipped]:
    """Reads the measured predictions of a file.

    Args:
        path: A saved profile, a file that is imported, or a table.
        model: The model of the measurements, where the user names it.
        device: The device, where the file does not say.
        system: Its system, likewise.

    Raises:
        UsageError: The file cannot be read, is damaged, or is of another device than the user names.
        CorruptModelError: An imported file is damaged.
    """
    if path.suffix.lower() in _SHEETS:
        return list(_of_sheet(path, device, system))
    if is_saved(path):
        profiles: Sequence[Profile] = read_any(path)
    elif model is not None:
        profiles = [import_files([path], model, device=device, system=system)]
    else:
        profiles = read_any(path, device=device, system=system)
    found = [one for profile in profiles for one in _of_profile(profile, path, device, system)]
    return found or [Skipped(path.name, "holds no measurement of a prediction")]


def _of_sheet(path: Path, device: str | None, system: str | None) -> Iterator[MeasuredPrediction]:
    for row in read_sheet(path):
        where = f"{path.name}, line {row.line}"
        yield MeasuredPrediction(
            source=path.name,
            where=where,
            tool="CSV",
            model=path.parent / row.model if row.model else None,
            device=_device(where, row.device, device, row.os or system),
            system=row.os or system or "",
            compute_units=row.setting or _SETTING_OF[row.unit or CPU],
            unit=row.unit,
            seconds=row.seconds,
            samples=row.samples,
            function=row.function,
        )


def _of_profile(
    profile: Profile, path: Path, device: str | None, system: str | None
) -> Iterator[MeasuredPrediction | Skipped]:
    for place, measured in enumerate(profile.measurements):
        where = path.name if len(profile.measurements) == 1 else f"{path.name}, measurement {place + 1}"
        reason = _unusable(measured)
        if reason:
            yield Skipped(where, reason)
            continue
        assert measured.predict is not None
        times = measured.predict
        yield MeasuredPrediction(
            source=path.name,
            where=where,
            tool=measured.label,
            model=_model_path(profile, path),
            device=_device(where, _known(measured.machine.processor), device, _release(measured, system)),
            system=measured.machine.os,
            compute_units=_setting(measured),
            seconds=times.statistics.median,
            samples=times.statistics.count,
            function=measured.settings.function,
            shapes=measured.settings.shapes,
            ops=profile.ops.id if is_saved(path) else (),
        )


def _unusable(measured: Measurement) -> str:
    """Why a measurement does not apply to Core ML on a device; empty if it does."""
    if measured.runtime.id != "coreml":
        return f"is of {measured.label}, not of Core ML"
    if measured.predict is None:
        return "has no times of predictions"
    if measured.machine.is_virtual:
        return "was measured in a virtual machine, whose times are not those of its chip"
    if measured.machine.is_translated:
        return "was measured under Rosetta, whose times are not those of the chip"
    if measured.machine.power_mode == _LOW_POWER:
        return "was measured in low power mode"
    if measured.compute_units not in SETTINGS:
        return "does not say under which compute units the model ran"
    return ""


def _setting(measured: Measurement) -> ComputeUnits:
    return next(setting for setting in SETTINGS if setting == measured.compute_units)


def _model_path(profile: Profile, path: Path) -> Path | None:
    """Returns where the model of a profile is, if it still is there."""
    if not profile.model.path:
        return None
    named = Path(profile.model.path)
    return next((found for found in (named, path.parent / named.name) if found.exists()), None)


def _known(processor: str) -> str:
    return "" if processor.startswith("unknown") else processor


def _release(measured: Measurement, system: str | None) -> str | None:
    """The version of the system without its build, `macOS 15.1` of `macOS 15.1 (24B83)`."""
    named = re.match(r"(macOS|iOS|iPadOS) \d+(\.\d+)*", measured.machine.os)
    return named.group() if named else system


def _device(where: str, said: str, asked: str | None, system: str | None) -> Device:
    """Returns the device of a measurement.

    Raises:
        UsageError: It is not known, or the user names another chip than the file.
    """
    name = said or asked
    if not name:
        raise UsageError(f"{where} does not say which device it is from", "name it with --device")
    try:
        found = find_device(name)
    except UsageError:
        raise UsageError(
            f"{where} is of {name!r}, which is no chip or device that is known",
            "`coremlscope devices` lists them",
        ) from None
    if asked and said and find_device(asked).chip.id != found.chip.id:
        raise UsageError(
            f"{where} is of {found.chip.name}, not of {find_device(asked).chip.name}", "leave out --device"
        )
    try:
        return find_device(name, system) if system else found
    except UsageError:
        return found  # a version that plans do not know
