"""What a model is planned, estimated or measured for: devices, their systems, and compute units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from coremlscope.devices.catalog import find_devices
from coremlscope.devices.chip import Device
from coremlscope.devices.unit import ComputeUnits, choose_settings


class Targets(msgspec.Struct, frozen=True):
    """Devices, the version of their systems, and settings of compute units.

    Functions take a target by its name alone as well: `devices="m1"`.

    Attributes:
        devices: Chips or devices: `m1`, `iphone-15-pro`; or groups of them.
        os: The version of their systems; None for the newest known one of each.
        compute_units: One setting, several, or `every`.
    """

    devices: str | Sequence[str] = ()
    os: str | None = None
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all"

    @classmethod
    def of(
        cls,
        devices: str | Sequence[str] | Targets,
        compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] | None = None,
    ) -> Targets:
        """Returns targets, or those of names, with other settings unless they are None."""
        targets = devices if isinstance(devices, Targets) else cls(devices)
        units = targets.compute_units if compute_units is None else compute_units
        return cls(targets.devices, targets.os, units)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the devices as given."""
        return (self.devices,) if isinstance(self.devices, str) else tuple(self.devices)

    @property
    def settings(self) -> tuple[ComputeUnits, ...]:
        """The settings of compute units, each once.

        Raises:
            UsageError: A setting is unknown.
        """
        return choose_settings(self.compute_units)

    def find_devices(self) -> list[Device]:
        """Returns the devices, with groups expanded.

        Raises:
            UsageError: A device or the version of a system is unknown.
        """
        return find_devices(self.names, self.os)
