"""Writing of folders that get their final name only when they are complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from coremlscope.errors import OutputError

__all__ = ["check_folder", "new_folder"]


def check_folder(
    target: Path, suffix: str, *, overwrite: bool, what: str, is_replaceable: Callable[[Path], bool]
) -> None:
    """Checks in advance that a folder can be created, or replaced if that is allowed.

    Args:
        target: The path of the folder.
        suffix: The suffix that it must have.
        overwrite: Allows replacing an existing folder of the same kind.
        what: What the folder is: `a package`.
        is_replaceable: Checks whether an existing folder is of the same kind.

    Raises:
        OutputError: The path exists, has another suffix, or its folder does not exist.
    """
    if target.suffix != suffix:
        raise OutputError(
            f"{target} does not end in {suffix}", "add this suffix, by which Core ML identifies such folders"
        )
    if not target.parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", "create the folder first")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise OutputError(
            f"{target} already exists",
            "choose another name, or overwrite it: --overwrite, or overwrite=True in Python",
        )
    if target.is_symlink() or not is_replaceable(target):
        raise OutputError(
            f"{target} already exists and is not {what}", "choose another name, or remove it yourself"
        )


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder next to `target`, which is renamed to `target` at the end.

    After an error nothing is left, and an existing folder remains unchanged.

    Raises:
        OutputError: The folder cannot be written.
    """
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        draft.mkdir()
        yield draft
        _replace(target, draft)
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written: {error.strerror or error}",
            "check the folder, its permissions and the free space",
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace(target: Path, draft: Path) -> None:
    """Renames the finished draft. Restores the previous folder if that fails."""
    if not target.exists():
        draft.rename(target)
        return
    old = draft.with_suffix(".old")
    target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
