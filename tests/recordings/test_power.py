"""Readings of power."""

from __future__ import annotations

import json
import plistlib
from collections.abc import Callable, Iterator

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.formats.recordings.monitors import are_readings, read_samples
from coremlscope.formats.recordings.power import Reading, Readings, energy_findings, summarize_readings
from coremlscope.formats.recordings.powermetrics import read_plists, read_text
from coremlscope.results.recording import Energy
from tests.support import recorded_files as files


def pieces(content: bytes, size: int = 100) -> Iterator[bytes]:
    return (content[start : start + size] for start in range(0, len(content), size))


def joules(energy: Energy) -> dict[str, float | None]:
    return {one.unit: one.energy_j for one in energy.units}


def ids(readings: Readings) -> set[str]:
    return {one.id for one in energy_findings(readings, summarize_readings(readings))}


def test_property_lists_add_up_over_their_window() -> None:
    readings = read_plists(pieces(files.FILES["power.plist"]()))
    energy = summarize_readings(readings, predictions=100)
    assert joules(energy) == {"cpu": 8.0, "gpu": 1.0, "neural_engine": 6.0}
    assert (energy.window_s, energy.samples, energy.thermal) == (4.0, 2, ("Nominal", "Moderate"))
    assert (readings.device, readings.system) == ("Mac16,10", "build 25F71")
    assert energy.origin == "estimated"


def test_power_is_taken_where_energy_is_absent() -> None:
    sample = files.plist(processor={"ane_power": 500}, gpu={})
    assert joules(summarize_readings(read_plists([sample]))) == {"neural_engine": 1.0}


def test_intervals_of_different_length_are_weighted() -> None:
    short = files.plist(elapsed_ns=1_000_000_000, processor={"cpu_power": 4000})
    long = files.plist(elapsed_ns=3_000_000_000, processor={"cpu_power": 1000})
    energy = summarize_readings(read_plists([short, b"\0", long]))
    cpu = next(one for one in energy.units if one.unit == "cpu")
    assert (cpu.energy_j, cpu.power_w) == (7.0, 1.75)


@pytest.mark.parametrize("reader", [read_text])
def test_text(reader: Callable[[Iterator[bytes]], Readings]) -> None:
    readings = reader(pieces(files.FILES["power.txt"]()))
    energy = summarize_readings(readings)
    assert joules(energy) == {"cpu": 4.0, "gpu": 0.5, "neural_engine": 3.0}
    assert (readings.device, readings.system, energy.thermal) == ("Mac16,10", "build 25F71", ("Nominal",))


def test_a_counter_at_zero_is_unknown_and_not_zero() -> None:
    readings = read_plists([files.plist(processor={"cpu_energy": 1000, "ane_energy": 0})])
    energy = summarize_readings(readings)
    assert "neural_engine" not in joules(energy)
    (finding,) = [one for one in energy_findings(readings, energy) if one.id == "counter-at-zero"]
    assert "Neural Engine" in finding.text
    moved = read_plists(
        [files.plist(processor={"ane_energy": 0}), b"\0", files.plist(processor={"ane_energy": 4000})]
    )
    assert joules(summarize_readings(moved))["neural_engine"] == 4.0
    assert "counter-at-zero" not in ids(moved)


def test_a_short_window_is_named() -> None:
    assert "energy-window-short" in ids(read_plists([files.plist(elapsed_ns=500_000_000)]))
    assert "energy-window-short" not in ids(read_plists([files.plist()]))


def test_a_sample_that_was_cut_off_is_left_out() -> None:
    readings = read_plists([files.plist(), b"\0", files.plist()[:200]])
    assert (len(readings.listed), readings.damaged) == (1, 1)
    assert "damaged-readings" in ids(readings)


_ENTITIES = (
    b'<?xml version="1.0"?><!DOCTYPE plist [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    b'<plist version="1.0"><dict><key>elapsed_ns</key><string>&b;</string></dict></plist>'
)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no sample"),
        (b"\0\0\0", "no sample"),
        (files.plist()[:150], "no sample"),
        (plistlib.dumps({"a": 1}, fmt=plistlib.FMT_BINARY), "binary"),
        (plistlib.dumps([1, 2]), "no sample"),
        (plistlib.dumps({"processor": 3, "gpu": [], "elapsed_ns": "x"}), "no sample"),
        (plistlib.dumps({"processor": {"cpu_power": True, "ane_power": -5}}), "no sample"),
        (_ENTITIES, "no sample"),
        (b"<plist><integer>x</integer></plist>", "no sample"),
        (b"<plist>" + b"<array>" * 50_000, "no sample"),
        (b"<plist>" + b"a" * (20 << 20), "too long"),
    ],
)
def test_damaged_property_lists(content: bytes, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        read_plists(pieces(content, 1 << 20))
    assert "powermetrics" in caught.value.hint


@pytest.mark.parametrize(
    "content", [b"", b"Machine model: x\n" * 3, b"CPU Power: lots mW\n", b"\xff" * 100_000]
)
def test_text_without_power(content: bytes) -> None:
    with pytest.raises(UsageError, match="no sample with a power"):
        read_text(pieces(content))


def test_macmon() -> None:
    samples = [json.loads(line) for line in files.FILES["macmon.jsonl"]().splitlines()]
    energy = summarize_readings(read_samples(samples))
    assert (energy.tool, energy.window_s, energy.samples) == ("macmon", 6.0, 3)
    assert joules(energy) == {"cpu": 12.0, "gpu": 1.5, "neural_engine": 9.0, "memory": 0.75, "system": 57.0}


def test_mactop() -> None:
    energy = summarize_readings(read_samples(json.loads(files.FILES["mactop.json"]())))
    assert (energy.tool, energy.window_s, energy.thermal) == ("mactop", 4.0, ("Normal",))
    assert joules(energy)["system"] == 38.0


def test_without_times_there_is_power_and_no_energy() -> None:
    energy = summarize_readings(
        read_samples([{"cpu_power": 1.0, "ane_power": 3.0}, {"cpu_power": 2.0, "ane_power": 3.0}])
    )
    assert energy.window_s is None
    assert [(one.unit, one.power_w, one.energy_j) for one in energy.units] == [
        ("cpu", 1.5, None),
        ("neural_engine", 3.0, None),
    ]


def test_values_that_no_device_has_are_dropped() -> None:
    readings = Readings(tool="macmon")
    readings.add(Reading({"cpu": -1.0, "gpu": 1e9, "neural_engine": 1.0}))
    assert readings.listed[0].watts == {"neural_engine": 1.0}
    assert not are_readings({"cpu_power": 1.0})
    assert not are_readings([1])
    odd = {"cpu_power": "x", "ane_power": True, "gpu_power": 10**400, "timestamp": 3}
    assert read_samples([odd, 3]).damaged == 1
