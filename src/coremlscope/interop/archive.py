"""A performance report of Xcode inside a zip archive, as browsers and mail programs send folders."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.writing import write_draft
from coremlscope.formats.archives import open_zip, read_member

_REPORT, _SUFFIX = "report.json", ".mlperf"
#: Reports with a sample for each of a million predictions have some 20 MB.
_MOST_BYTES = 256 << 20
#: Entries that macOS adds to archives.
_EXTRAS = "__MACOSX"
#: The most entries that are looked at.
_MOST_ENTRIES = 10_000


def unpack_report(archive: Path, folder: Path) -> Path | None:
    """Unpacks the only report of an archive.

    Args:
        archive: The zip archive.
        folder: An existing folder for the report, which is the only file that is unpacked.

    Returns:
        The report, `folder/unpacked/NAME.mlperf`; None if the archive contains none, as that of a package.

    Raises:
        CorruptModelError: The archive is damaged, or contains several reports or one that is too large.
    """
    try:
        with open_zip(archive) as opened:
            members = {PurePosixPath(info.filename): info for info in opened.infolist()[:_MOST_ENTRIES]}
            found = [
                info
                for name, info in members.items()
                if name.name == _REPORT and name.parent.suffix == _SUFFIX and _EXTRAS not in name.parts
            ]
            if not found:
                return None
            if len(found) > 1:
                raise CorruptModelError(f"{archive.name} contains {len(found)} reports", "zip one report")
            content = read_member(opened, found[0], _MOST_BYTES)
    except OSError as error:
        raise CorruptModelError(
            f"{archive.name} cannot be unpacked: {error.strerror or error}", "zip the folder again"
        ) from None
    # The name in the archive is not a path to write to.
    target = folder / "unpacked" / f"{archive.stem.removesuffix(_SUFFIX)}{_SUFFIX}"
    target.mkdir(parents=True)
    write_draft(target / _REPORT, content)
    return target
