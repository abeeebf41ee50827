"""State of the page of saved profiles."""

from __future__ import annotations

from functools import cache

import msgspec

from coremlscope.devices import all_chips
from coremlscope.server.jobs import Job
from coremlscope.server.store import Entry
from coremlscope.server.sweeps import SweepFolder

#: Name and version of the schema of `PageState`.
SCHEMA = "coremlscope.server/2"


class DeviceName(msgspec.Struct, frozen=True):
    """A name by which a device can be requested.

    Attributes:
        name: The id of a chip or the name of a product: `m1`, `iPhone 15 Pro`.
        chip: Apple's name of the chip.
    """

    name: str
    chip: str


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page.

    Attributes:
        folder: The folder of the profiles.
        max_upload_bytes: The largest file that can be uploaded.
        suffixes: What the names of files that can be uploaded end with.
        profiles: The saved profiles, newest first.
        jobs: The waiting, running and completed jobs, newest first.
        extensible: The ids of profiles whose models are here, so that devices can be added.
        sweeps: The folders with results of sweeps, those that changed last first.
        devices: Names of chips and devices that can be planned and estimated for, with what they are.
    """

    folder: str
    max_upload_bytes: int
    suffixes: tuple[str, ...]
    profiles: tuple[Entry, ...]
    jobs: tuple[Job, ...]
    extensible: tuple[str, ...]
    devices: tuple[DeviceName, ...]
    sweeps: tuple[SweepFolder, ...]


@cache
def device_names() -> tuple[DeviceName, ...]:
    """Returns the known chips and devices, the newest chips first."""
    return tuple(
        DeviceName(name, chip.name)
        for chip in reversed(list(all_chips().values()))
        for name in (chip.id, *(product.name for product in chip.products))
    )
