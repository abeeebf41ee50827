"""The folder of uploads: what an error leaves, and what a killed server leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coremlscope.base.errors import OutputError
from coremlscope.server.uploads import Uploads

_SPARE = 256 << 20


def test_an_upload_leaves_some_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk on which 1000 bytes can be used."""
    usage = shutil.disk_usage("/")._replace(free=_SPARE + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    uploads = Uploads(1 << 20, tmp_path)
    with pytest.raises(OutputError, match="too full"), uploads.new_model(1001):
        pass
    with uploads.new_model(1000):
        pass
    uploads.close()
    assert not list(tmp_path.iterdir())


def test_only_complete_uploads_remain(tmp_path: Path) -> None:
    uploads = Uploads(1 << 20, tmp_path)
    with uploads.new_model(3) as kept:
        (kept / "a.mlmodel").write_bytes(b"abc")
    with pytest.raises(OutputError), uploads.new_model(3) as dropped:
        (dropped / "absent" / "a.mlmodel").write_bytes(b"ab")
    assert not dropped.exists()
    assert (kept / "a.mlmodel").read_bytes() == b"abc"
    uploads.close()


_KILLED = """
import os, pathlib, sys
from coremlscope.server.uploads import Uploads
uploads = Uploads(1 << 20, pathlib.Path(sys.argv[1]))
with uploads.new_model(100) as folder:
    (folder / "a.mlmodel").write_bytes(b"half")
    os.kill(os.getpid(), 9)
"""


def test_the_next_server_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    alive = Uploads(1 << 20, tmp_path)
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    (left,) = set(tmp_path.iterdir()) - {alive.folder}
    assert len(list(left.iterdir())) == 2
    (tmp_path / "coremlscope-serve-unlocked").mkdir()  # not by a server of this version, or not yet
    (target := tmp_path / "elsewhere").mkdir()
    shutil.copytree(left, target / "kept")
    (tmp_path / "coremlscope-serve-link").symlink_to(target / "kept")
    following = Uploads(1 << 20, tmp_path)
    assert not left.exists()
    assert alive.folder.exists()
    assert (target / "kept" / ".lock").exists()
    assert (tmp_path / "coremlscope-serve-unlocked").exists()
    for uploads in (alive, following):
        uploads.close()
        assert not uploads.folder.exists()
