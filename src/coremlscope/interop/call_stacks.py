"""Imports pasted call stacks: of reports of crashes, lldb and Xcode, and call graphs of `sample`."""

from __future__ import annotations

from coremlscope.base.errors import UsageError
from coremlscope.formats.recordings.activity import unit_samples
from coremlscope.formats.recordings.stacks import is_frame, read_stacks
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.phases import measurement_of
from coremlscope.interop.source import SourceFile
from coremlscope.results.recording import Recording


def matches(source: SourceFile) -> bool:
    """By a line that is a frame."""
    if b"\0" in source.head or source.head.lstrip()[:1] in (b"{", b"[", b"<"):
        return False
    return any(map(is_frame, source.head.decode("utf-8", "replace").splitlines()))


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file.

    Raises:
        UsageError: It has no stack.
    """
    stacks = read_stacks(source.content.decode("utf-8", "replace").splitlines())
    if not stacks.total:
        raise UsageError(f"{source.name} has no call stack", "paste the lines with the frames, unchanged")
    recording = Recording(
        tool="call stacks",
        samples=unit_samples(stacks.units, stacks.frames),
        total_samples=stacks.total,
    )
    measured = measurement_of(origin, {}, recording=recording)
    assert measured is not None
    return Imported(origin=origin, measurements=(measured,))
