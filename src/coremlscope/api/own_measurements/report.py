"""Adding, listing, sharing and removing the user's own measurements."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from coremlscope.api.own_measurements.adding import Gathered, gather
from coremlscope.api.own_measurements.measured import read_measured
from coremlscope.api.own_measurements.store import CalibrationStore, default_store, read_calibrations
from coremlscope.base.errors import UsageError
from coremlscope.base.folders import check_regular
from coremlscope.base.version import __version__
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import calibrate, is_usable
from coremlscope.results.calibration import CALIBRATION, CalibrationReport, Calibrations, Skipped

_ALL = "all"
_OTHER_VERSION = "was recorded by another version, or is damaged"


def add_measurements(
    *files: str | os.PathLike[str],
    model: str | os.PathLike[str] | bytes | Model | None = None,
    device: str | None = None,
    os: str | None = None,
) -> CalibrationReport:
    """Adds your own measurements of devices, which refine all later estimates for their chips.

    They are kept in the user's data folder.

    Args:
        *files: Saved profiles with measurements of Core ML, files that are imported, tables (.csv) with the
            columns model, chip, unit and milliseconds, and measurements that others shared.
        model: The model of the files that do not name theirs.
        device: The device or chip of files that do not say.
        os: Its system: `macOS 14.5`.

    Returns:
        All measurements, the factor of each unit of a chip, and what was skipped.

    Raises:
        UsageError: A file cannot be read or is damaged, or nothing in the files can be used.
        ModelError: The model cannot be read, or a file is damaged.
        OutputError: The measurements cannot be kept.
    """
    known = model if model is None or isinstance(model, Model) else container.read(model)
    found = [_gather(Path(file), known, device, os) for file in files]
    measurements = [one for gathered in found for one in gathered.measurements]
    skipped = tuple(one for gathered in found for one in gathered.skipped)
    if not measurements:
        if not skipped:
            raise UsageError("the files hold no measurements", "see `coremlscope measurements --help`")
        first = skipped[0]
        more = f"; {len(skipped) - 1} more cannot be used either" if len(skipped) > 1 else ""
        raise UsageError(f"{first.where} {first.reason}{more}", "see `coremlscope measurements --help`")
    store = default_store()
    added = store.add(measurements)
    return replace(
        _report(store), added=added, known=len({one.id for one in measurements}) - len(added), skipped=skipped
    )


def _gather(path: Path, model: Model | None, device: str | None, system: str | None) -> Gathered:
    if _is_exported(path):
        reported = read_calibrations(path).measurements
        skipped = [
            Skipped(f"{path.name}, {one.id}", _OTHER_VERSION) for one in reported if not is_usable(one)
        ]
        return Gathered(tuple(filter(is_usable, reported)), tuple(skipped))
    return gather(read_measured(path, model, device, system), model)


def _is_exported(path: Path) -> bool:
    """Returns True if a file was written by `share_measurements`, by its first bytes."""
    if path.suffix.lower() != ".json":
        return False
    try:
        check_regular(path)
        with path.open("rb") as file:
            return CALIBRATION.encode() in file.read(200)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from None


def list_measurements() -> CalibrationReport:
    """Returns all measurements and what they say.

    Raises:
        UsageError: The file that holds them is damaged.
    """
    return _report(default_store())


def remove_measurements(*names: str) -> CalibrationReport:
    """Removes measurements.

    Args:
        *names: Their ids, or ids of chips, or `all`, which also removes a damaged file.

    Raises:
        UsageError: There is no such measurement.
        OutputError: The file that holds them cannot be written.
    """
    store = default_store()
    if _ALL in names:
        try:
            count = len(store.read())
        except UsageError:
            count = 0
        store.clear()
        return replace(_report(store), removed=count)
    kept = store.read()
    for name in names:
        if not any(name in (one.id, one.chip) for one in kept):
            raise UsageError(
                f"there is no measurement {name!r}", "`coremlscope measurements list` shows them"
            )
    count = store.remove(one.id for one in kept if {one.id, one.chip} & set(names))
    return replace(_report(store), removed=count)


def share_measurements() -> Calibrations:
    """Returns all measurements in the form in which others can add them, without names of models and files.

    Raises:
        UsageError: There are none, or the file that holds them is damaged.
    """
    measurements = default_store().read()
    if not measurements:
        raise UsageError(
            "there are no measurements to share", "add some: `coremlscope measurements add FILE`"
        )
    shared = tuple(replace(one, model="", source="", tool="") for one in measurements)
    return Calibrations(version=__version__, measurements=shared)


def _report(store: CalibrationStore) -> CalibrationReport:
    own = calibrate(store.read())
    return CalibrationReport(path=str(store.path), corrections=own.corrections, stale=own.stale)
