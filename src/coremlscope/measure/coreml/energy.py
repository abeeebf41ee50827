"""Reads the energy of the system while a model predicts, with a tool that needs no administrator.

`zeus-apple-silicon` (Python, Apache 2.0) and the program `macmon` read the counters of IOReport. Whichever is
installed is used; without one there is no energy. Not yet confirmed on a device.
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coremlscope.formats.recordings.monitors import read_samples
from coremlscope.formats.recordings.power import Reading, Readings
from coremlscope.results.recording import SystemPart

#: Predictions made before: counters that were at rest release energy when they begin to move.
_SETTLE_S = 1.0
#: The counters change every 1.7 s or so; see `recordings.power`.
_WINDOW_S = 4.0
_INTERVAL_MS = 500
_STOP_S = 5.0
#: Names of zeus-apple-silicon 1.1; all are millijoules, and None where the chip has no such counter.
_FIELDS: Mapping[str, SystemPart] = {
    "cpu_total_mj": "cpu",
    "gpu_mj": "gpu",
    "ane_mj": "neural_engine",
    "dram_mj": "memory",
}
#: Errors that meters raise: energy that cannot be read is absent, and stops nothing.
_FAILURES = (AttributeError, OSError, RuntimeError, TypeError, ValueError)


class EnergyMeter(Protocol):
    """Reads energy over a window."""

    def begin(self) -> None:
        """Begins a window."""
        ...

    def end(self, seconds: float) -> Readings:
        """Ends it.

        Args:
            seconds: How long it was.
        """
        ...


class _Zeus:
    def __init__(self) -> None:
        self._monitor: Any = importlib.import_module("zeus_apple_silicon").AppleEnergyMonitor()

    def begin(self) -> None:
        self._monitor.begin_window("coremlscope")

    def end(self, seconds: float) -> Readings:
        reported = self._monitor.end_window("coremlscope")
        readings = Readings(tool="zeus-apple-silicon")
        values = {part: getattr(reported, name, None) for name, part in _FIELDS.items()}
        watts = {part: value / 1e3 / seconds for part, value in values.items() if value is not None}
        readings.add(Reading(watts, seconds))
        return readings


class _Macmon:
    def __init__(self) -> None:
        tool = shutil.which("macmon")
        if tool is None:
            raise FileNotFoundError("macmon")
        self._tool = tool
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        self._process = subprocess.Popen(
            [self._tool, "pipe", "-i", str(_INTERVAL_MS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self, seconds: float) -> Readings:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            written, _ = process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            written, _ = process.communicate()
        readings = read_samples(map(_decoded, written.splitlines()))
        # Samples follow each other without gaps; older versions have no times.
        each = seconds / max(len(readings.listed), 1)
        readings.listed = [Reading(one.watts, each, one.thermal) for one in readings.listed]
        return readings


#: In order of preference: the library reads counters at the ends of a window, which costs nothing within it.
_METERS: tuple[Callable[[], EnergyMeter], ...] = (_Zeus, _Macmon)


def find_meter() -> EnergyMeter | None:
    """Returns the first energy meter that works here; None if none is installed or knows the chip."""
    for make in _METERS:
        try:
            return make()
        except (ImportError, *_FAILURES):
            continue
    return None


def measure_energy(
    meter: EnergyMeter, predict: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any] | None:
    """Predicts for some seconds and reads the energy of the system meanwhile.

    Args:
        meter: Reads the energy.
        predict: Makes one prediction.
        clock: Seconds.

    Returns:
        A message for `readings_of`; None if the meter failed.
    """
    _predict_for(_SETTLE_S, predict, clock)
    try:
        meter.begin()
    except _FAILURES:
        return None
    count, seconds = _predict_for(_WINDOW_S, predict, clock)
    try:
        readings = meter.end(seconds)
    except _FAILURES:
        return None
    listed = [{"watts": dict(one.watts), "seconds": one.seconds} for one in readings.listed]
    return {"tool": readings.tool, "predictions": count, "readings": listed} if listed else None


def _predict_for(
    seconds: float, predict: Callable[[], object], clock: Callable[[], float]
) -> tuple[int, float]:
    """Predicts at least once and until the time is over; returns how often, and how long it took."""
    began, count = clock(), 0
    while True:
        predict()
        count += 1
        passed = clock() - began
        if passed >= seconds:
            return count, passed


def readings_of(message: Mapping[str, Any]) -> tuple[Readings, int]:
    """The readings of a message, and how many predictions were made meanwhile."""
    readings = Readings(tool=str(message["tool"]))
    for one in message["readings"]:
        readings.add(Reading(one["watts"], one["seconds"]))
    return readings, int(message["predictions"])


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
