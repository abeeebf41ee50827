"""Keeps the user's own measurements in one file of the user's data folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.folders import data_folder
from coremlscope.base.version import __version__
from coremlscope.results.calibration import CALIBRATION, Calibrations, OwnMeasurement
from coremlscope.results.encoding import write_json

_FILE = "calibration.json"
#: A larger file is not read: it holds a few kilobytes for each measurement.
_LARGEST_BYTES = 256 * 1024 * 1024


def default_store() -> CalibrationStore:
    """Returns the user's own store."""
    return CalibrationStore(data_folder() / _FILE)


class CalibrationStore:
    """A file of measurements, written as a whole so that it is never half of one.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[OwnMeasurement, ...]:
        """Returns all measurements, oldest first; none if there is no file.

        Raises:
            UsageError: The file is damaged.
        """
        return read_calibrations(self.path).measurements if self.path.exists() else ()

    def add(self, measurements: Iterable[OwnMeasurement]) -> tuple[OwnMeasurement, ...]:
        """Adds measurements, and returns those that were not there yet.

        Raises:
            UsageError: The file is damaged.
            OutputError: It cannot be written.
        """
        kept = {one.id: one for one in self.read()}
        new = {one.id: one for one in measurements if one.id not in kept}
        if new:
            self._write([*kept.values(), *new.values()])
        return tuple(new.values())

    def remove(self, ids: Iterable[str]) -> int:
        """Removes measurements by their ids, and returns how many.

        Raises:
            UsageError: The file is damaged.
            OutputError: It cannot be written.
        """
        wanted, known = set(ids), self.read()
        kept = [one for one in known if one.id not in wanted]
        if len(kept) < len(known):
            self._write(kept)
        return len(known) - len(kept)

    def clear(self) -> None:
        """Removes the file, even a damaged one.

        Raises:
            OutputError: It cannot be removed.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be removed: {error.strerror or error}", "check its permissions"
            ) from None

    def _write(self, measurements: Iterable[OwnMeasurement]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"the folder {self.path.parent} cannot be created: {error.strerror or error}",
                "name another one with COREMLSCOPE_DATA",
            ) from None
        write_json(self.path, Calibrations(version=__version__, measurements=tuple(measurements)).to_json())


def read_calibrations(path: Path) -> Calibrations:
    """Reads a file of measurements: the user's own, or an exported one.

    Raises:
        UsageError: It cannot be read or is damaged.
    """
    hint = "`coremlscope measurements remove all` removes it"
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{path} is too large for measurements", hint)
        reported: Any = msgspec.json.decode(path.read_bytes())
        if not isinstance(reported, dict) or reported.get("schema") != CALIBRATION:
            raise UsageError(f"{path} does not contain measurements of the form {CALIBRATION}", hint)
        return msgspec.convert(reported, Calibrations)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is damaged: {error}", hint) from None
