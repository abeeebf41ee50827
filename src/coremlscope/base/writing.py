"""Writing of files and folders: the only module that creates files.

What a person or another process may read gets its name only when it is complete and on the disk
(`write_file`, `create_file`, `new_content`, `new_folder`): a draft next to it is written, flushed and
renamed. After a failure the earlier content is there and no draft is left. Files in a draft or in a temporary
folder, which no other process reads yet, are written directly (`write_draft`, `open_draft`). A journal
(`open_journal`) is read while it grows: its reader ignores an unfinished last line.

Through a symbolic link the file that it names is written, and a file keeps its permissions. Pipes and devices
are written directly, and so are files that cannot be replaced, such as mount points in containers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from coremlscope.base.errors import EngineError, OutputError, reason_of

_IS_WINDOWS = os.name == "nt"
#: Bytes that a folder must have room for before the work on a result begins: those of a small report.
_PROBED = 1 << 16
_DRAFT = ".coremlscope-"
#: Folders in which this process looked for drafts of others.
_cleared: set[Path] = set()
#: Errors of a lock that another one holds; others mean that there are no locks, as on some network disks.
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Writes a file, which replaces an earlier one when it is complete. Text is written in UTF-8.

    Raises:
        OutputError: The file cannot be written.
    """
    target = Path(path)
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with _failures(target):
        if _is_replaceable(target):
            _write_beside(_final(target), data)
        else:
            write_draft(target, data)


def create_file(path: Path, content: bytes) -> bool:
    """Writes a new file, unless the path exists.

    Returns:
        False if the path exists.

    Raises:
        OutputError: The file cannot be written.
    """
    with _failures(path):
        try:
            _create_file(path)
        except FileExistsError:
            return False
        try:
            _write_beside(path, content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return True


@contextlib.contextmanager
def new_content(folder: Path, last: str = "", *, create: bool = False) -> Iterator[Path]:
    """Yields a draft folder, whose files and folders replace those of the same names in `folder` at the end.

    They are replaced one after the other; other files remain. After an error in writing them `folder` is
    unchanged.

    Args:
        folder: The folder.
        last: The name of what refers to the others, which is replaced last; empty for any order.
        create: Creates the folder if it does not exist.

    Raises:
        OutputError: A file cannot be written.
    """
    is_new = create and not os.path.lexists(folder)
    with _failures(folder if create else folder / last):
        try:
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            with _draft(folder, Path.mkdir) as draft:
                yield draft
                entries = sorted(draft.iterdir(), key=lambda entry: (entry.name == last, entry.name))
                _flush_files(draft)
                for entry in entries:
                    _publish(entry, folder / entry.name)
                _flush_folder(folder)
        finally:
            if is_new:
                with contextlib.suppress(OSError):  # It holds files unless there was an error.
                    folder.rmdir()


@contextlib.contextmanager
def new_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yields an empty folder next to `target`, which is renamed to `target` at the end.

    After an error nothing is left, and an existing folder remains unchanged. A process that is killed while
    it replaces a folder may leave the earlier one beside it, under a name that begins with a dot.

    Args:
        target: The path of the folder.
        overwrite: Replaces an existing folder.

    Raises:
        OutputError: The folder exists, or cannot be written.
    """
    with _failures(target), _draft(target.parent, Path.mkdir) as draft:
        yield draft
        _flush_files(draft)
        if overwrite:
            _replace_folder(draft, target)
        elif not place_folder(draft, target):
            raise _exists(target)
        _flush_folder(target.parent)


#: Errors of renaming a folder to a name that another one has.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)


def place_folder(draft: Path, target: Path) -> bool:
    """Gives a complete folder its name, unless the name is taken.

    Returns:
        False if the name is taken.

    Raises:
        OSError: The folder cannot be renamed.
    """
    if os.path.lexists(target):
        return False
    try:
        draft.rename(target)
    except OSError as error:
        # Another writer was faster, and a third one may have taken its folder away since.
        if error.errno not in _TAKEN and not os.path.lexists(target):
            raise
        return False
    return True


def write_draft(path: Path, content: bytes | memoryview | str) -> None:
    """Writes a file in a draft or a temporary folder, where no other process reads it. Text is UTF-8.

    Raises:
        OSError: The file cannot be written.
    """
    with open_draft(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_draft(path: Path) -> BinaryIO:
    """Opens a file that no other process reads yet, in a draft or a temporary folder, for writing.

    Raises:
        OSError: The file cannot be created.
    """
    return path.open("wb")


def open_journal(path: Path) -> BinaryIO:
    """Opens a new file that is appended to, unbuffered, so that what was written outlives this process.

    The end of the file may be missing after the machine stopped.

    Raises:
        OutputError: The file exists or cannot be created.
    """
    with _failures(path):
        return path.open("xb", buffering=0)


def append_to_file(path: Path, content: str) -> None:
    """Adds text to the end of a file that other programs add to as well.

    Raises:
        OutputError: The file cannot be written.
    """
    with _failures(path), path.open("ab") as file:
        file.write(content.encode())


def open_standard_streams() -> None:
    """Opens standard streams that were closed, as by some supervisors: files would take their numbers.

    Messages go nowhere then. Verbs refuse to print a result to a standard output that was closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest number that is free.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def lock_file(file: IO[bytes] | int) -> bool | None:
    """Locks an open file, or one of a descriptor, until it is closed.

    Returns:
        False if another process or file object holds it; None where the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file if isinstance(file, int) else file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD else None
    return True


def check_file(path: Path) -> None:
    """Checks in advance that a file can be written, by creating a draft beside it.

    Raises:
        OutputError: The path is a folder, its folder does not exist, or nothing can be written there.
    """
    with _failures(path):
        if path.is_dir():
            raise OutputError(f"{path} cannot be written: it is a folder", "give a file name")
        if not path.parent.is_dir():
            raise OutputError(
                f"{path} cannot be written: the folder {path.parent} does not exist",
                "create the folder first",
            )
        if _is_replaceable(path):
            _probe(_final(path).parent)
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def check_folder(folder: Path) -> None:
    """Checks in advance that files can be written into a folder, which may not exist yet.

    Raises:
        OutputError: The path is a file, or nothing can be written there.
    """
    with _failures(folder):
        existing = folder.absolute()
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise OutputError(f"{folder} cannot be written: {existing} is a file", "give another folder")
        _probe(existing)


def check_new_folder(
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
        OutputError: The path exists, has another suffix, or nothing can be written beside it.
    """
    if target.suffix != suffix:
        raise OutputError(
            f"{target} does not end in {suffix}", "add this suffix, by which Core ML identifies such folders"
        )
    if not target.parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", "create the folder first")
    with _failures(target):
        _probe(target.parent)
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise _exists(target)
    if target.is_symlink() or not is_replaceable(target):
        raise OutputError(
            f"{target} already exists and is not {what}", "choose another name, or remove it yourself"
        )


def check_apart(target: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Checks that writing a file or folder does not replace what is read.

    Args:
        target: The path that is written.
        source: The path that is read; empty for what is in memory.

    Raises:
        OutputError: `target` is `source`, or a folder in which it is.
    """
    if not os.fspath(source):
        return
    written, read = (Path(os.path.realpath(path)) for path in (target, source))
    if written == read or written in read.parents:
        raise OutputError(f"{target} is read, and writing it would replace it", "choose another name")


def temporary_error(error: OSError) -> EngineError:
    """Returns the error for a temporary file or folder of an engine that cannot be written."""
    variable = "TEMP" if _IS_WINDOWS else "TMPDIR"
    return EngineError(
        f"a temporary file cannot be written: {reason_of(error)}",
        f"free space in the folder for temporary files, or name another one in {variable}",
    )


def _exists(target: Path) -> OutputError:
    return OutputError(
        f"{target} already exists",
        "choose another name, or overwrite it: --overwrite, or overwrite=True in Python",
    )


@contextlib.contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Converts exceptions of the system to `OutputError`."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {reason_of(error)}",
            "check the folder, its permissions and the free space",
        ) from error


@contextlib.contextmanager
def _draft(folder: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Yields a draft in a folder. It is removed at the end, after a kill with the next one there.

    Args:
        folder: The folder.
        create: Creates the draft at a path.

    Raises:
        OSError: It cannot be created.
    """
    _remove_abandoned(folder)
    while True:
        draft = folder / f"{_DRAFT}{os.urandom(8).hex()}"
        create(draft)
        with contextlib.suppress(FileNotFoundError):  # another process took it for abandoned
            lock = _hold(draft)
            break
    try:
        yield draft
    finally:
        _remove(draft)
        if lock is not None:
            os.close(lock)


def _hold(draft: Path) -> int | None:
    """Locks a draft until its descriptor is closed; None on Windows, where an open file is not renamed.

    Raises:
        FileNotFoundError: Another process has it.
    """
    if _IS_WINDOWS:
        return None
    descriptor = os.open(draft, os.O_RDONLY)
    if lock_file(descriptor) is False or not draft.exists():
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(draft))
    return descriptor


def _remove_abandoned(folder: Path) -> None:
    """Removes drafts of this user whose processes were killed, once in each folder."""
    if _IS_WINDOWS or folder in _cleared:
        return
    _cleared.add(folder)
    for draft in folder.glob(f"{_DRAFT}*"):
        with contextlib.suppress(OSError):
            # A folder that was replaced, and waits for its removal, has a suffix: it may be the only copy.
            if draft.suffix or draft.is_symlink() or draft.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(draft, os.O_RDONLY)
            if lock_file(descriptor):
                _remove(draft)
            os.close(descriptor)


def _remove(draft: Path) -> None:
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _create_file(path: Path) -> None:
    path.open("xb").close()


def _final(target: Path) -> Path:
    """Returns the path that a symbolic link names, or the path itself."""
    return Path(os.path.realpath(target))


def _status(target: Path) -> os.stat_result | None:
    """Returns the status of what a path names, None if it does not exist.

    Raises:
        OSError: It cannot be reached: a name is too long, links form a circle.
    """
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _is_replaceable(target: Path) -> bool:
    status = _status(target)
    if status is None:
        return True
    places = (target, _final(target).parent)
    return stat.S_ISREG(status.st_mode) and all(os.access(place, os.W_OK) for place in places)


def _probe(folder: Path) -> None:
    """Creates a file in a folder, writes to it and removes it.

    Raises:
        OSError: That is not possible: a full disk still has room for empty files.
    """
    with _draft(folder, _create_file) as draft:
        write_draft(draft, bytes(_PROBED))


def _write_beside(target: Path, content: bytes) -> None:
    """Writes a draft next to a file, flushes it and puts it in its place."""
    with _draft(target.parent, _create_file) as draft:
        with open_draft(draft) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _replace(draft, target)
        _flush_folder(target.parent)


def _publish(draft: Path, target: Path) -> None:
    """Puts a file or folder of a draft folder in its place."""
    if draft.is_dir():
        _replace_folder(draft, target)
    elif _is_replaceable(target):
        _replace(draft, _final(target))
    else:
        shutil.copyfile(draft, target)


def _replace(draft: Path, target: Path) -> None:
    """Renames a draft to the file that it replaces, whose permissions it gets.

    A file that is a mount point of its own, as in containers, or lies on another disk is written directly.
    """
    if target.exists():
        shutil.copymode(target, draft)
    try:
        os.replace(draft, target)  # noqa: PTH105 - the tests let this call fail
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        shutil.copyfile(draft, target)


def _replace_folder(draft: Path, target: Path) -> None:
    """Renames a draft to a folder that may exist, and restores the earlier folder if that fails."""
    old = draft.with_suffix(".old")
    if os.path.lexists(target):
        target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        with contextlib.suppress(OSError):
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _flush_files(folder: Path) -> None:
    """Waits until the content of all files below a folder is on the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            _flush(path)


def _flush(file: Path) -> None:
    """Waits until a file's content is on the disk."""
    descriptor = os.open(file, os.O_RDWR if _IS_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, where the system offers that."""
    with contextlib.suppress(OSError):
        _flush(folder)
