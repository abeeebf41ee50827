"""A chip: what it has, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coremlscope.devices.release import OSRelease, Platform
from coremlscope.devices.unit import ComputeUnit

__all__ = ["Chip", "Device", "Fact"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number and where it was published.

    Attributes:
        value: In the unit that its name ends with: SI, so `bandwidth_Bps` is bytes a second.
        source: Who published it.
        url: Where; may be empty.
        note: What to know about it.
        kind: `marketed` by Apple, `measured` by the source, `theoretical` (from clocks and widths),
            `derived` from another number, or `press`.
    """

    value: float
    source: str
    url: str = ""
    note: str = ""
    kind: str = "marketed"


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip.

    Attributes:
        id: `m1`, `m1-max`, `a17-pro`.
        name: As Apple writes it: `M1 Max`.
        family: The chip that variants are made from: `m1` for M1, M1 Pro, M1 Max and M1 Ultra; `a18`.
        platform: `iOS` for the A series, `macOS` for the M series.
        neural_engine_generation: Generations count as the architecture names of the Neural Engine do: 11 for
            A12, 13 for A14 and M1, 16 for A17 Pro and M4 (H11 … H18).
        neural_engine_source: Where the generation is taken from.
        units: Facts of CPU, GPU and Neural Engine by name. What is not known is absent, never guessed.
        memory: Facts of the memory that all units share.
        releases: The first and, where support has ended, the last major version it runs, by platform.
        devices: Marketing names of devices: `iPhone 15 Pro`.
    """

    id: str
    name: str
    family: str
    platform: Platform
    neural_engine_generation: int
    neural_engine_source: str
    units: Mapping[ComputeUnit, Mapping[str, Fact]]
    memory: Mapping[str, Fact]
    releases: Mapping[Platform, tuple[int, int | None]]
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """What a plan is made for: a chip and the operating system on it.

    Attributes:
        chip: The chip.
        os: The version of the system.
        name: How it was asked for, in full: `iPhone 15 Pro`; the chip's name where a chip was asked for.
    """

    chip: Chip
    os: OSRelease
    name: str
