"""Reads what powermetrics writes: property lists separated by NUL (`-f plist`), or its text.

Keys of property lists as in published outputs: `elapsed_ns`, `hw_model`, `kern_osversion`,
`thermal_pressure`, `processor` with `cpu_power`, `gpu_power`, `ane_power` in mW and `cpu_energy`, … in mJ
over the interval, `gpu` with `gpu_energy`. Older outputs have energies only, and any key may be absent.
"""

from __future__ import annotations

import plistlib
import re
import xml.parsers.expat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.formats.recordings.power import Reading, Readings
from coremlscope.results.recording import SystemPart

#: Lines near the beginning of reports of powermetrics as text.
BEGINNINGS = (b"*** Sampled system activity", b"Machine model:")
_HINT = "write it with `sudo powermetrics --samplers cpu_power,gpu_power,ane_power,thermal -f plist`"
#: A property list with every sampler has some 200 kB.
_LONGEST_PIECE = 16 << 20
_LONGEST_LINE = 1 << 16
_LONGEST_NAME = 80
_ANE = "ane"
_KEYS: Mapping[str, SystemPart] = {"cpu": "cpu", "gpu": "gpu", _ANE: "neural_engine"}

_SAMPLE = re.compile(r"^\*\*\* Sampled system activity .*\((\d{1,12}(?:\.\d{1,6})?)ms elapsed\)")
_POWER = re.compile(r"^(CPU|GPU|ANE) Power: (\d{1,9}(?:\.\d{1,6})?) mW")
_PRESSURE = re.compile(r"^Current pressure level: (\w{1,40})")
_MACHINE = re.compile(r"^(Machine model|OS version): (\S{1,80})")


def read_plists(chunks: Iterable[bytes]) -> Readings:
    """Reads property lists.

    Args:
        chunks: The file, in pieces.

    Raises:
        UsageError: None of them can be read, or they are binary.
    """
    readings = Readings(tool="powermetrics")
    for piece in _pieces(chunks):
        if piece.startswith(b"bplist"):
            raise UsageError("the property list is binary, which powermetrics does not write", _HINT)
        try:
            reported = plistlib.loads(piece, fmt=plistlib.FMT_XML)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            xml.parsers.expat.ExpatError,
        ):
            readings.damaged += 1
            continue
        reading = _reading(reported) if isinstance(reported, Mapping) else None
        if reading is None:
            readings.damaged += 1
            continue
        readings.add(reading)
        readings.device = readings.device or _name(reported, "hw_model")
        build = _name(reported, "kern_osversion")
        readings.system = readings.system or (f"build {build}" if build else "")
    if not readings.listed:
        raise UsageError("no sample of powermetrics can be read: the file is truncated or damaged", _HINT)
    return readings


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The parts between NULs that are not empty."""
    pending = b""
    for chunk in chunks:
        *pieces, pending = (pending + chunk).split(b"\0")
        yield from filter(None, map(bytes.strip, pieces))
        if len(pending) > _LONGEST_PIECE:
            raise UsageError("a sample is too long for one of powermetrics", _HINT)
    if pending.strip():
        yield pending.strip()


def _reading(reported: Mapping[str, Any]) -> Reading | None:
    """One sample; None if it has no energy."""
    elapsed = _number(reported, "elapsed_ns")
    processor, gpu = reported.get("processor"), reported.get("gpu")
    tables = [table for table in (processor, gpu) if isinstance(table, Mapping)]
    watts: dict[SystemPart, float] = {}
    for key, part in _KEYS.items():
        for table in tables:
            millijoules, milliwatts = _number(table, f"{key}_energy"), _number(table, f"{key}_power")
            if millijoules is not None and elapsed:
                watts.setdefault(part, millijoules / 1e3 / (elapsed / 1e9))
            elif milliwatts is not None:
                watts.setdefault(part, milliwatts / 1e3)
    if not watts:
        return None
    return Reading(watts, elapsed / 1e9 if elapsed else None, _name(reported, "thermal_pressure"))


def read_text(chunks: Iterable[bytes]) -> Readings:
    """Reads the text that powermetrics prints without `-f plist`.

    Args:
        chunks: The file, in pieces.

    Raises:
        UsageError: It has no sample with a power.
    """
    readings = Readings(tool="powermetrics")
    seconds, thermal = None, ""
    watts: dict[SystemPart, float] = {}

    def close() -> None:
        if watts:
            readings.add(Reading(dict(watts), seconds, thermal))
            watts.clear()

    for line in _lines(chunks):
        if match := _SAMPLE.match(line):
            close()
            seconds, thermal = float(match[1]) / 1e3, ""
        elif match := _POWER.match(line):
            watts[_KEYS[match[1].lower()]] = float(match[2]) / 1e3
        elif match := _PRESSURE.match(line):
            thermal = match[1]
        elif match := _MACHINE.match(line):
            if match[1] == "OS version":
                readings.system = f"build {match[2]}"
            else:
                readings.device = match[2]
    close()
    if not readings.listed:
        raise UsageError("the output of powermetrics has no sample with a power", _HINT)
    return readings


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    pending = b""
    for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        yield from (line[:_LONGEST_LINE].decode("utf-8", "replace") for line in lines)
        pending = pending[:_LONGEST_LINE]
    yield pending.decode("utf-8", "replace")


def _number(table: Mapping[str, Any], key: str) -> float | None:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < 1e18 else None


def _name(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""
