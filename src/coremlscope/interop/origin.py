"""Which device and system a file is from."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.devices import find_device
from coremlscope.interop.listing import ListingOrigin

#: The folders around analytics.mil are the cache com.apple.e5rt.e5bundlecache: build of the system, hashes,
#: name of the Neural Engine. Published paths show H13G for M1, H16G for M4, H18G for M6.
_CACHE = re.compile(r"com\.apple\.e5rt\.e5bundlecache/([0-9A-Za-z]+)/.*?([Hh]\d\d[A-Za-z])\.bundle/")
_FAMILIES = {"H13G": "M1 family", "H16G": "M4 family", "H18G": "M6 family"}


def find_origin(path: Path) -> ListingOrigin:
    """Returns the origin in a file's path: Core ML's cache names the system's build and the Neural Engine."""
    found = _CACHE.search(path.absolute().as_posix())
    if found is None:
        return ListingOrigin(file=path.name)
    build, target = found.group(1), found.group(2).upper()
    return ListingOrigin(
        file=path.name,
        device=_FAMILIES.get(target, f"device with {target}"),
        os=f"build {build}",
        notes=(f"the device is read off the file's folders: {target}, build {build}",),
    )


def named_origin(
    origin: ListingOrigin, device: str | None, os: str | None = None, *, by: str = ""
) -> ListingOrigin:
    """An origin with a device and a system that a file or the user names.

    Args:
        origin: What is known besides.
        device: The name of the device or its chip; a name that is not known is kept as it is.
        os: The system, likewise: `macOS 14.5`.
        by: Who names them, for the notes; empty where it is the file itself.
    """
    if not device and not os:
        return origin
    chip, shown = origin.chip, device or origin.device
    if device:
        try:
            known = find_device(device)
            chip, shown = known.chip.id, known.name
        except UsageError:
            chip = ""
    notes = (f"device and system are named by {by}",) if by else ()
    return msgspec.structs.replace(
        origin, device=shown, chip=chip, os=_release(os) or origin.os, notes=notes or origin.notes
    )


def _release(os: str | None) -> str:
    """`macOS 14.5` for `14.5` would be a guess, so the text is kept."""
    return " ".join((os or "").split())[:80]
