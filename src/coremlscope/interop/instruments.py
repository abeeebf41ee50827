"""Imports the XML of `xctrace export`: tables of a recording by Instruments, and its table of contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.site import page
from coremlscope.formats.recordings.activity import Summary, summarize_exports
from coremlscope.formats.recordings.export import Export, read_export
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.origin import named_origin
from coremlscope.interop.phases import measurement_of
from coremlscope.interop.source import SourceFile

_ROOTS = (b"<trace-query-result", b"<trace-toc")


def matches(source: SourceFile) -> bool:
    """By the root element."""
    return any(root in source.head for root in _ROOTS)


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads one file.

    Raises:
        UsageError: It is damaged, or holds nothing about compute units.
    """
    return _imported([(source, _export(source))], origin)


def read_together(sources: Sequence[SourceFile], origins: Sequence[ListingOrigin]) -> list[Imported]:
    """Reads files of the same recording as one; files that have a table twice are of several recordings.

    Raises:
        UsageError: A file is damaged, or they hold nothing about compute units.
    """
    exports = [(source, _export(source)) for source in sources]
    counts = Counter(name for _, export in exports for name in export.tables)
    counts["contents"] = sum(export.contents is not None for _, export in exports)
    if max(counts.values(), default=0) > 1:
        return [_imported([pair], origin) for pair, origin in zip(exports, origins, strict=True)]
    return [_imported(exports, origins[0])]


def _export(source: SourceFile) -> Export:
    try:
        return read_export(source.chunks())
    except UsageError as error:
        raise UsageError(f"{source.path}: {error.message}", error.hint) from error


def _imported(exports: Sequence[tuple[SourceFile, Export]], origin: ListingOrigin) -> Imported:
    summary = summarize_exports([export for _, export in exports])
    files = ", ".join(source.name for source, _ in exports)
    recording = summary.recording
    has_contents = any(export.contents is not None for _, export in exports)
    if not recording.tables and not has_contents:
        raise UsageError(
            f"{files} holds no table of a recording",
            f"export the tables that {page('guides/mac-files')} lists; an export of a table that is not in "
            "the recording is empty",
        )
    if origin.device == ListingOrigin(file="").device:
        origin = named_origin(origin, summary.device, summary.system)
    if len(exports) > 1:
        origin = msgspec.structs.replace(origin, file=f"{origin.file} and {len(exports) - 1} more")
    measured = measurement_of(
        origin,
        {"predict": summary.predictions_s},
        "",
        [_recorded(summary), *summary.findings],
        recording=recording,
    )
    assert measured is not None
    return Imported(origin=origin, model=summary.model, measurements=(measured,))


def _recorded(summary: Summary) -> Finding:
    """The remark that recording costs time."""
    return Finding(
        id="recorded",
        severity="info",
        text=f"{summary.recording.tool} recorded this run. Recording slows a program down, so its times are"
        " not those of a run without it.",
    )
