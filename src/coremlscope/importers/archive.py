"""A performance report of Xcode inside a zip archive, as browsers and mail programs send folders."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from coremlscope.errors import CorruptModelError
from coremlscope.writing import write_draft

__all__ = ["unpack_report"]

_REPORT, _SUFFIX = "report.json", ".mlperf"
#: Reports with a sample for each of a million predictions have some 20 MB.
_MOST_BYTES = 256 << 20
#: What macOS adds to archives.
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
        with zipfile.ZipFile(archive) as opened:
            names = [PurePosixPath(info.filename) for info in opened.infolist()[:_MOST_ENTRIES]]
            found = [
                name
                for name in names
                if name.name == _REPORT and name.parent.suffix == _SUFFIX and _EXTRAS not in name.parts
            ]
            if not found:
                return None
            if len(found) > 1:
                raise CorruptModelError(f"{archive.name} contains {len(found)} reports", "zip one report")
            with opened.open(str(found[0])) as stream:
                content = stream.read(_MOST_BYTES + 1)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise CorruptModelError(
            f"{archive.name} cannot be unpacked: {error}", "zip the folder again"
        ) from None
    if len(content) > _MOST_BYTES:
        raise CorruptModelError(f"the report in {archive.name} is too large", "export it from Xcode again")
    # The name in the archive is not a path to write to.
    target = folder / "unpacked" / f"{archive.stem.removesuffix(_SUFFIX)}{_SUFFIX}"
    target.mkdir(parents=True)
    write_draft(target / _REPORT, content)
    return target
