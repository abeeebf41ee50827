"""The folders that an agent may name files in."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.formats.expressions.parsing import is_expression


class Roots:
    """Folders. A link counts by where it lies: models of a cache are links to files elsewhere.

    Args:
        folders: The folders; the root of the file system is none of them.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        named = [Path(os.path.abspath(folder)) for folder in folders]  # noqa: PTH100 - follows no links
        self._folders = [folder for folder in named if folder != Path(folder.anchor)]

    def check(self, path: str) -> str:
        """Returns a path without `..`, if it may be read or written.

        Raises:
            UsageError: It is outside, or is a pipe or a device.
        """
        if is_expression(Path(path)) and not Path(path).exists():
            return path
        whole = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - follows no links
        if not any(whole.is_relative_to(folder) for folder in self._folders):
            raise UsageError(
                f"{path[:200]} is outside of the folders that this server may use",
                f"start it with --root FOLDER; now they are: {', '.join(map(str, self._folders)) or 'none'}",
            )
        try:
            kind = stat.S_IFMT(whole.stat().st_mode)
        except OSError:  # what reads it says why, or it is yet to be written
            return str(whole)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):
            raise UsageError(f"{path[:200]} is a pipe or a device", "name a file or a folder")
        return str(whole)
