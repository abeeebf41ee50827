"""An empty home and an empty folder of temporary files, to see what a program leaves in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Home", "private_home"]

#: Where coremlscope may write on Linux and on a Mac.
_CACHES = (Path(".cache", "coremlscope"), Path("Library", "Caches", "coremlscope"))


@dataclass(frozen=True)
class Home:
    """Folders of one user.

    Attributes:
        folder: The home.
        temporary: The folder of temporary files.
        work: A working folder.
        variables: The environment of a program that uses them.
    """

    folder: Path
    temporary: Path
    work: Path
    variables: Mapping[str, str]

    def strangers(self) -> list[Path]:
        """Returns the files that are neither in the working folder nor in coremlscope's cache."""
        files = [path for root in (self.folder, self.temporary) for path in root.rglob("*") if path.is_file()]
        caches = [self.folder / cache for cache in _CACHES]
        return sorted(path for path in files if not any(cache in path.parents for cache in caches))


def private_home(root: Path) -> Home:
    """Creates the folders below an empty one. No variable that controls telemetry is passed on."""
    home, temporary, work = root / "home", root / "tmp", root / "work"
    for folder in (home, temporary, work):
        folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "SYSTEMROOT")}
    places = {"HOME": str(home), "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    return Home(home, temporary, work, {**kept, **places})
