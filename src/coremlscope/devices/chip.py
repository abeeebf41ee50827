"""Chips: their compute units and memory, and the source of each number."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coremlscope.devices.release import OSRelease, Platform
from coremlscope.devices.unit import ComputeUnit


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A published number and its source.

    Attributes:
        value: In the SI unit at the end of its name: `bandwidth_Bps` in bytes per second, `clock_Hz` in Hz.
        source: The publisher.
        url: The address of the publication; may be empty.
        note: Remarks, such as the conditions of a measurement.
        kind: `marketed` by Apple, `measured` by the source, `theoretical` (from clocks and widths), `derived`
            from another number, `published` without a stated method, `press`, or `static analysis`.
    """

    value: float
    source: str
    kind: str
    url: str = ""
    note: str = ""


class Product(msgspec.Struct, frozen=True):
    """A device model that Apple sells or sold.

    Attributes:
        name: Apple's name: `iPhone 15 Pro`.
        platform: Its operating system.
        last_release: The last major version that it supports, if support has ended.
        identifiers: Apple's identifiers of the model, which a device reports itself: `iPhone16,1`.
    """

    name: str
    platform: Platform
    last_release: int | None = None
    identifiers: tuple[str, ...] = ()


#: Published numbers of a part of a chip, by name. Unpublished numbers are missing. If there are several
#: numbers of one name, the first one is used.
Facts = Mapping[str, tuple[Fact, ...]]


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """A chip.

    Attributes:
        id: `m1`, `m1-max`, `a17-pro`.
        name: Apple's name: `M1 Max`.
        family: The base chip of its variants: `m1` for M1, M1 Pro, M1 Max and M1 Ultra; `a18`.
        platform: The default platform of plans: `iOS` for A chips, `macOS` for M chips.
        units: Numbers of each compute unit.
        memory: Numbers of the memory that the units share.
        releases: The first supported major version, by platform.
        products: The devices that contain it.
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
        """Returns a number of a compute unit, or None if it is not published."""
        facts = self.units[unit].get(name)
        return facts[0].value if facts else None

    @property
    def neural_engine_generation(self) -> int:
        """The number in the architecture's name: 11 for A12 (H11), 13 for A14 and M1, 16 for A17 Pro, M4."""
        return int(self.units["neural_engine"]["generation"][0].value)


class Device(msgspec.Struct, frozen=True):
    """The target of a plan: a chip and an operating system version.

    Attributes:
        chip: The chip.
        os: The operating system version.
        name: The full name of the requested device, such as `iPhone 15 Pro`, or of the requested chip.
    """

    chip: Chip
    os: OSRelease
    name: str
