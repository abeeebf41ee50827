"""A chip: what it has, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coremlscope.devices.release import OSRelease, Platform
from coremlscope.devices.unit import ComputeUnit

__all__ = ["Chip", "Device", "Fact", "Facts", "Product"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A number and where it was published.

    Attributes:
        value: In the SI unit that its name ends with: `bandwidth_Bps` is bytes a second, `clock_Hz` hertz.
        source: Who published it.
        url: Where; may be empty.
        note: What to know about it.
        kind: `marketed` by Apple, `measured` by the source, `theoretical` (from clocks and widths), `derived`
            from another number, `published` without saying how it is known, `press`, or `static analysis`.
    """

    value: float
    source: str
    kind: str
    url: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Product:
    """A device that people buy.

    Attributes:
        name: Apple's name: `iPhone 15 Pro`.
        platform: What it runs.
        last_release: The last major version that it runs, where support has ended.
    """

    name: str
    platform: Platform
    last_release: int | None = None


#: Published numbers of a part of a chip by name. What is not published is absent; the first counts.
Facts = Mapping[str, tuple[Fact, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip.

    Attributes:
        id: `m1`, `m1-max`, `a17-pro`.
        name: As Apple writes it: `M1 Max`.
        family: The chip that variants are made from: `m1` for M1, M1 Pro, M1 Max and M1 Ultra; `a18`.
        platform: What a plan is made for unless a device says otherwise: `iOS` for A chips, else `macOS`.
        units: Numbers of each compute unit.
        memory: Numbers of the memory that the units share.
        releases: The first major version that runs on it, by platform.
        products: The devices that have it.
    """

    id: str
    name: str
    family: str
    platform: Platform
    units: Mapping[ComputeUnit, Facts]
    memory: Facts
    releases: Mapping[Platform, int]
    products: tuple[Product, ...]

    def value(self, unit: ComputeUnit, name: str) -> float | None:
        """A number of a compute unit; None where it is not published."""
        facts = self.units[unit].get(name)
        return facts[0].value if facts else None

    @property
    def neural_engine_generation(self) -> int:
        """As the architecture's names count: H11 in A12, H13 in A14 and M1, H16 in A17 Pro and M4."""
        return int(self.units["neural_engine"]["generation"][0].value)


@dataclass(frozen=True, slots=True)
class Device:
    """What a plan is made for: a chip and the operating system on it.

    Attributes:
        chip: The chip.
        os: The version of the system.
        name: What was asked for, in full: `iPhone 15 Pro`; the chip's name where a chip was asked for.
    """

    chip: Chip
    os: OSRelease
    name: str
