"""The folder of uploads: its reservations, and what a killed server leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coremlscope.errors import OutputError
from coremlscope.server.uploads import Uploads

_SPARE = 256 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which 1000 bytes can be used."""
    usage = shutil.disk_usage("/")._replace(free=_SPARE + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


@pytest.mark.usefixtures("free")
def test_uploads_share_the_free_space(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    with uploads.receive("a.mlmodel", 600) as first:
        with pytest.raises(OutputError, match="too full"), uploads.receive("b.mlmodel", 600):
            pass
        first.write(b"x" * 500)  # the disk reports what is written
        with uploads.receive("b.mlmodel", 900):
            pass
    with uploads.receive("a.mlmodel", 1000):
        pass
    uploads.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("free")
def test_concurrent_uploads_do_not_reserve_the_same_space(tmp_path: Path) -> None:
    uploads, begin, end = Uploads(tmp_path), threading.Barrier(8), threading.Barrier(8)
    accepted: list[int] = []

    def receive() -> None:
        begin.wait()
        try:
            with uploads.receive("a.mlmodel", 400) as upload:
                accepted.append(upload.missing)
                end.wait()
        except OutputError:
            end.wait()

    threads = [threading.Thread(target=receive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accepted == [400, 400]
    uploads.close()


def test_only_kept_uploads_remain(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    with uploads.receive("a.mlmodel", 3) as kept:
        kept.write(b"abc")
        kept.keep()
    with uploads.receive("a.mlmodel", 3) as dropped:
        dropped.write(b"ab")
    assert kept.path.read_bytes() == b"abc"
    assert not dropped.path.parent.exists()
    uploads.close()


_KILLED = """
import os, pathlib, sys
from coremlscope.server.uploads import Uploads
uploads = Uploads(pathlib.Path(sys.argv[1]))
with uploads.receive("a.mlmodel", 100) as upload:
    upload.write(b"half")
    os.kill(os.getpid(), 9)
"""


def test_the_next_server_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    alive = Uploads(tmp_path)
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    (left,) = set(tmp_path.iterdir()) - {alive.folder}
    assert len(list(left.iterdir())) == 2
    (tmp_path / "coremlscope-serve-unlocked").mkdir()  # not by a server of this version, or not yet
    (target := tmp_path / "elsewhere").mkdir()
    shutil.copytree(left, target / "kept")
    (tmp_path / "coremlscope-serve-link").symlink_to(target / "kept")
    following = Uploads(tmp_path)
    assert not left.exists()
    assert alive.folder.exists()
    assert (target / "kept" / ".lock").exists()
    assert (tmp_path / "coremlscope-serve-unlocked").exists()
    for uploads in (alive, following):
        uploads.close()
        assert not uploads.folder.exists()
