"""Files and folders get their names when they are complete; a failure leaves what was there before."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coremlscope.base import writing
from coremlscope.base.errors import OutputError
from coremlscope.base.writing import (
    check_file,
    check_folder,
    create_file,
    lock_file,
    new_content,
    new_folder,
    place_folder,
    write_draft,
    write_file,
)

_POSIX = pytest.mark.skipif(os.name != "posix", reason="needs permissions, links and pipes")
#: Several processes write the same target, each its own number.
_WRITER = """
import sys
from pathlib import Path
from coremlscope.base.writing import write_file
for _ in range(40):
    write_file(Path(sys.argv[1]), sys.argv[2] * 20_000)
"""


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write_file(path: Path) -> None:
    write_file(path / "r.txt", "after")


def _write_content(path: Path) -> None:
    with new_content(path, last="r.txt") as draft:
        write_draft(draft / "r.txt", "after")
        write_draft(draft / "new.txt", "after")


def _write_folder(path: Path) -> None:
    with new_folder(path, overwrite=True) as draft:
        write_draft(draft / "r.txt", "after")


@pytest.mark.parametrize("write", [_write_file, _write_content, _write_folder])
def test_a_failure_leaves_the_earlier_file(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "r.txt").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "fsync", _full)
        with pytest.raises(OutputError, match="cannot be written: No space left on device"):
            write(target)
    assert (target / "r.txt").read_text() == "before"
    assert sorted(tmp_path.rglob("*")) == [target, target / "r.txt"]
    write(target)
    assert (target / "r.txt").read_text() == "after"
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def _interrupt(draft: Path) -> None:
    write_draft(draft / "x", "1")
    raise KeyboardInterrupt


def test_an_interruption_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a") as draft:
        _interrupt(draft)
    with pytest.raises(KeyboardInterrupt), new_content(tmp_path / "b", create=True) as draft:
        _interrupt(draft)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a folder has no lock there")
def test_drafts_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from coremlscope.base.writing import new_folder\n"
        "with new_folder(Path(sys.argv[1])) as draft: print(draft.name, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    writers = [
        subprocess.Popen(
            [*command, str(tmp_path / name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("killed", "writing")
    ]
    abandoned, kept = (writer.stdout.readline().strip() for writer in writers if writer.stdout)
    writers[0].kill()
    writers[0].communicate()
    old = tmp_path / f"{abandoned}.old"
    old.mkdir()
    write_file(tmp_path / "x.txt", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kept, old.name, "x.txt"])
    writers[1].communicate("")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([old.name, "writing", "x.txt"])


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "x").write_text("before")
    rename = Path.rename

    def fail_for_drafts(self: Path, other: Path) -> Path:
        if other == target and self.suffix != ".old":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fail_for_drafts)
    with pytest.raises(OutputError), new_folder(target, overwrite=True) as draft:
        write_draft(draft / "x", "after")
    assert (target / "x").read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_of_several_writers_one_is_left_whole(tmp_path: Path) -> None:
    target = tmp_path / "r.txt"
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, target, str(number)]) for number in range(3)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if target.is_file():
            text = target.read_text()
            seen.add((len(text), len(set(text))))
    assert [writer.returncode for writer in writers] == [0] * 3
    assert seen == {(20_000, 1)}
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    assert create_file(path, b"1")
    assert not create_file(path, b"2")
    monkeypatch.setattr(writing.os, "fsync", _full)
    with pytest.raises(OutputError):
        create_file(tmp_path / "q.json", b"3")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"p.json": b"1"}


def test_a_folder_that_exists_is_replaced_only_on_request(tmp_path: Path) -> None:
    target, draft = tmp_path / "target", tmp_path / "draft"
    for folder in (target, draft):
        folder.mkdir()
        (folder / "x").write_text(folder.name)
    assert not place_folder(draft, target)
    with pytest.raises(OutputError, match="already exists"), new_folder(target) as other:
        write_draft(other / "x", "")
    assert (target / "x").read_text() == "target"
    assert place_folder(draft, tmp_path / "third")


@_POSIX
def test_what_a_file_is_stays(tmp_path: Path) -> None:
    path, link, pipe = tmp_path / "r.txt", tmp_path / "link.txt", tmp_path / "pipe"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"after")
    assert (link.is_symlink(), path.read_bytes(), path.stat().st_mode & 0o777) == (True, b"after", 0o640)
    dangling = tmp_path / "dangling.txt"
    dangling.symlink_to(tmp_path / "new.txt")
    write_file(dangling, "new")
    assert (dangling.is_symlink(), (tmp_path / "new.txt").read_text()) == (True, "new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, b"through")
        assert os.read(reader, 10) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    write_file("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()


@_POSIX
def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "r.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r.txt").stat().st_mode) == 0o640


def test_a_mount_point_is_written_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.txt"
    path.write_text("before, which was longer")

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(writing.os, "replace", busy)
    write_file(path, "after")
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def _message(check: Callable[[Path], None], path: Path) -> str:
    with pytest.raises(OutputError) as caught:
        check(path)
    return str(caught.value).replace(str(path), "PATH")


def test_checks_leave_nothing_and_tell_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "r.txt"
    check_file(file)
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    file.write_text("x")
    state = file.stat()
    check_file(file)
    assert (file.read_text(), file.stat().st_mtime_ns) == ("x", state.st_mtime_ns)
    assert _message(check_file, tmp_path) == "PATH cannot be written: it is a folder"
    assert "does not exist" in _message(check_file, tmp_path / "a" / "r.txt")
    assert "is a file" in _message(check_folder, file / "a")
    assert _message(check_file, tmp_path / ("x" * 300)) == "PATH cannot be written: File name too long"


@_POSIX
def test_checks_of_places_that_cannot_be_written(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "symbolic links" in _message(check_file, loop)
    if Path("/proc").is_dir():
        assert "PATH cannot be written" in _message(check_file, Path("/proc/r.txt"))
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert "Permission denied" in _message(check_file, tmp_path / "r.txt")
        tmp_path.chmod(0o700)


@pytest.mark.skipif(os.name == "nt", reason="Windows locks in another way")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_not_one_whose_locks_are_held(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with (tmp_path / "lock").open("wb") as first, (tmp_path / "lock").open("wb") as second:
        assert lock_file(first) is True
        assert lock_file(second) is False
        monkeypatch.setattr("fcntl.flock", refuse)
        assert lock_file(second) is None
