"""Reads the JSON of macmon and mactop, which need no administrator: one object a line, or an array.

Both give power in watts. macmon has `cpu_power`, `gpu_power`, `ane_power`, `ram_power`, `sys_power` and
`timestamp`; mactop has them in `soc_metrics`, with `dram_power` and `total_power`, and spells keys by version
(`CPUPower`). mactop's `system_power` leaves out the chip, so it is not read.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec.structs

from coremlscope.formats.recordings.power import Reading, Readings
from coremlscope.results.recording import SystemPart

_KEYS: Mapping[str, SystemPart] = {
    "cpupower": "cpu",
    "gpupower": "gpu",
    "anepower": "neural_engine",
    "rampower": "memory",
    "drampower": "memory",
    "syspower": "system",
    "totalpower": "system",
}
_LONGEST_NAME = 80
#: Larger numbers are no watts; infinities and values that are not numbers are not smaller.
_LARGEST = 1e9


def are_readings(sample: object) -> bool:
    """True for a sample of macmon or mactop, by its keys."""
    return isinstance(sample, Mapping) and {"cpupower", "anepower"} <= _plain(sample).keys()


def read_samples(samples: Iterable[Any]) -> Readings:
    """Reads samples.

    Args:
        samples: JSON values, in order of time.
    """
    readings = Readings(tool="macmon")
    moments: list[float | None] = []
    for sample in samples:
        if not are_readings(sample):
            readings.damaged += 1
            continue
        plain = _plain(sample)
        if "socmetrics" in plain:
            readings.tool = "mactop"
        watts: dict[SystemPart, float] = {}
        for key, part in _KEYS.items():
            value = plain.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
                watts.setdefault(part, float(value))
        thermal = plain.get("thermalstate")
        readings.add(Reading(watts, None, thermal[:_LONGEST_NAME] if isinstance(thermal, str) else ""))
        moments.append(_moment(plain.get("timestamp")))
    seconds = _interval_s(moments)
    readings.listed = [msgspec.structs.replace(reading, seconds=seconds) for reading in readings.listed]
    return readings


def _plain(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Keys without case and underscores; those of the nested table of power as well."""
    plain = {str(key).replace("_", "").casefold(): value for key, value in sample.items()}
    nested = plain.get("socmetrics")
    return plain | _plain(nested) | {"socmetrics": True} if isinstance(nested, Mapping) else plain


def _moment(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def _interval_s(moments: Sequence[float | None]) -> float | None:
    """The mean interval between samples, in seconds; None where it is unknown."""
    known = [moment for moment in moments if moment is not None]
    if len(known) < 2 or len(known) != len(moments) or known[-1] <= known[0]:
        return None
    return (known[-1] - known[0]) / (len(known) - 1)
