"""Imports what powermetrics wrote: property lists separated by NUL, or text."""

from __future__ import annotations

from coremlscope.formats.recordings.powermetrics import BEGINNINGS, read_plists, read_text
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.phases import imported_energy
from coremlscope.interop.source import SourceFile


def matches(source: SourceFile) -> bool:
    """By the beginning of a property list, or of the text."""
    return _is_plist(source) or any(beginning in source.head for beginning in BEGINNINGS)


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file.

    Raises:
        UsageError: It is damaged, or has no sample with a power.
    """
    readings = (read_plists if _is_plist(source) else read_text)(source.chunks())
    return imported_energy(origin, readings)


def _is_plist(source: SourceFile) -> bool:
    head = source.head.lstrip(b"\0 \t\r\n")
    return head.startswith(b"bplist") or (head.startswith(b"<") and b"<plist" in head)
