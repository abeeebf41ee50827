"""The cache of compiled functions."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.runtime.execution.cache import ArtefactCache, default_cache, digest_of_code, key_of_content


def test_the_digest_of_code_is_that_of_its_files(tmp_path: Path) -> None:
    before, after, moved = (tmp_path / name for name in ("before", "after", "moved"))
    for root in (before, after, moved):
        (root / "part").mkdir(parents=True)
        (root / "part" / "a.py").write_text("x = 1\n")
        (root / "rates.json").write_text("[1]")
    (moved / "part" / "__pycache__").mkdir()
    (moved / "part" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"\0")
    (after / "rates.json").write_text("[2]")
    assert digest_of_code(before) == digest_of_code(moved)
    assert digest_of_code(before) != digest_of_code(after)
    (moved / "part" / "a.py").rename(moved / "part" / "b.py")
    digest_of_code.cache_clear()
    assert digest_of_code(before) != digest_of_code(moved)


def _write(content: bytes) -> object:
    return lambda folder: (folder / "file").write_bytes(content)


def test_an_added_folder_is_found(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path / "cache")
    assert cache.find("k") is None
    folder = cache.add("k", _write(b"1"))  # type: ignore[arg-type]
    assert cache.find("k") == folder
    assert (folder / "file").read_bytes() == b"1"


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "file").write_bytes(b"half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.add("k", fail)
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)

    def slow(folder: Path) -> None:
        ArtefactCache(tmp_path).add("k", _write(b"first"))  # type: ignore[arg-type]
        (folder / "file").write_bytes(b"second")

    assert (cache.add("k", slow) / "file").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_concurrent_writers(tmp_path: Path) -> None:
    def make(number: int) -> bytes:
        key = str(number % 3)
        return (ArtefactCache(tmp_path).add(key, _write(key.encode() * 1000)) / "file").read_bytes()  # type: ignore[arg-type]

    with ThreadPoolExecutor(8) as pool:
        for number, content in enumerate(pool.map(make, range(60))):
            assert content == str(number % 3).encode() * 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2"]


def test_the_least_recently_used_folder_is_removed_first(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path, limit_bytes=700)  # Each folder has some 290 bytes, with its seal.
    for age, key in ((300, "a"), (200, "b")):
        folder = cache.add(key, _write(bytes(100)))  # type: ignore[arg-type]
        os.utime(folder, (time.time() - age,) * 2)
    assert cache.find("a") is not None  # a use
    cache.add("c", _write(bytes(100)))  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_a_single_folder_above_the_limit_is_kept(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path, limit_bytes=10)
    cache.add("a", _write(bytes(100)))  # type: ignore[arg-type]
    cache.add("b", _write(bytes(100)))  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_leftovers_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".making-old", tmp_path / ".making-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (1.0, 1.0))
    ArtefactCache(tmp_path).add("k", _write(b""))  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".making-new", "k"]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written") as caught:
        ArtefactCache(tmp_path / "file" / "cache").add("k", _write(b""))  # type: ignore[arg-type]
    assert "writable" in caught.value.hint


def test_keys_depend_on_content_and_parts(tmp_path: Path) -> None:
    file = tmp_path / "first" / "sub" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("a")
    key = key_of_content(tmp_path / "first", ["p"])
    assert key != key_of_content(tmp_path / "first", ["q"])
    os.utime(file, (1.0, 1.0))
    (tmp_path / "first").rename(tmp_path / "second")
    assert key == key_of_content(tmp_path / "second", ["p"])
    file = tmp_path / "second" / "sub" / "file"
    file.write_text("b")
    assert key != key_of_content(tmp_path / "second", ["p"])
    file.write_text("a")
    file.rename(file.with_name("other"))
    assert key != key_of_content(tmp_path / "second", ["p"])
    assert key_of_content(tmp_path / "second" / "sub" / "other", [])


class TestDigests:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        path = tmp_path / "m" / "weight.bin"
        path.parent.mkdir()
        path.write_bytes(bytes(2 << 20))
        os.utime(path, (1e9, 1e9))
        return path.parent

    def test_large_files_are_read_once(
        self, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = ArtefactCache(tmp_path / "cache")
        key = cache.key(model, ["p"])
        assert key == key_of_content(model, ["p"])
        monkeypatch.setattr(hashlib, "file_digest", None)
        assert ArtefactCache(tmp_path / "cache").key(model, ["p"]) == key
        assert cache.entries() == []

    def test_a_changed_file_is_read_again(self, model: Path, tmp_path: Path) -> None:
        cache = ArtefactCache(tmp_path / "cache")
        key = cache.key(model, [])
        (model / "weight.bin").write_bytes(bytes(2 << 20)[:-1] + b"1")
        changed = cache.key(model, [])
        assert changed != key
        (model / "weight.bin").write_bytes(bytes(2 << 20))  # Within the resolution of its time.
        assert cache.key(model, []) == key

    def test_damaged_digests_are_ignored(self, model: Path, tmp_path: Path) -> None:
        cache = ArtefactCache(tmp_path / "cache")
        key = cache.key(model, [])
        (digest,) = (tmp_path / "cache" / ".digests").iterdir()
        digest.write_text("0")
        assert cache.key(model, []) == key

    def test_clear_removes_them(self, model: Path, tmp_path: Path) -> None:
        cache = ArtefactCache(tmp_path / "cache")
        cache.key(model, [])
        cache.clear()
        assert list((tmp_path / "cache").iterdir()) == []

    def test_without_a_writable_folder(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert ArtefactCache(tmp_path / "file" / "cache").key(model, []) == key_of_content(model, [])


def test_entries_and_clear(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)
    for age, key in ((300, "old"), (100, "new")):
        folder = cache.add(key, _write(bytes(100)), f"{key}.mlmodelc")  # type: ignore[arg-type]
        os.utime(folder, (time.time() - age,) * 2)
    making = tmp_path / ".making-now"
    making.mkdir()
    (tmp_path / ".removing-dead").mkdir()
    entries = cache.entries()
    assert [(e.key, e.name) for e in entries] == [("new", "new.mlmodelc"), ("old", "old.mlmodelc")]
    assert [e.size_bytes for e in entries] == [293, 293]  # 100, the name, and the seal
    assert cache.clear() == 2
    assert (cache.entries(), list(tmp_path.iterdir())) == ([], [making])
    assert ArtefactCache(tmp_path / "absent").clear() == 0


def test_a_removed_folder_loses_its_key_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ArtefactCache(tmp_path)
    cache.add("k", _write(b"1"))  # type: ignore[arg-type]
    monkeypatch.setattr(shutil, "rmtree", lambda folder, ignore_errors: None)  # a process that dies here
    cache.remove("k")
    assert cache.find("k") is None
    monkeypatch.undo()
    cache.add("other", _write(b"1"))  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize(("text", "limit"), [("500MB", 5 * 10**8), ("7", 7), ("2 gb", 2 * 10**9), ("0", 0)])
def test_limit_of_the_environment(
    text: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREMLSCOPE_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("COREMLSCOPE_CACHE_LIMIT", text)
    cache = default_cache()
    assert (cache.root, cache.limit_bytes) == (tmp_path / "c", limit)


def test_invalid_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_CACHE_LIMIT", "much")
    with pytest.raises(UsageError, match="'much', which is not a size"):
        default_cache()


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREMLSCOPE_CACHE")
    root = default_cache().root
    assert root.is_absolute()
    assert "coremlscope" in root.parts


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "file").write_bytes(b"2"),
        lambda folder: (folder / "file").unlink(),
        lambda folder: (folder / "more").write_bytes(b""),
        lambda folder: (folder / "seal.json").unlink(),
        lambda folder: (folder / "seal.json").write_text("["),
        lambda folder: (folder / "seal.json").write_text('{"key": "k", "files": {"../../x": ""}}'),
    ],
    ids=["content", "removed", "added", "no seal", "damaged seal", "other files"],
)
def test_a_changed_folder_is_not_used(change: Callable[[Path], object], tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)
    folder = cache.add("k", _write(b"1"))  # type: ignore[arg-type]
    assert cache.find("k") == folder
    change(folder)
    assert cache.find("k") is None
    assert not folder.exists()


def test_a_large_file_that_was_changed(tmp_path: Path) -> None:
    """The digests of large files are remembered only for as long as these do not change."""
    cache = ArtefactCache(tmp_path)
    folder = cache.add("k", _write(bytes(2**20)))  # type: ignore[arg-type]
    os.utime(folder / "file", (time.time() - 100,) * 2)
    assert cache.find("k") == folder
    assert len(list((tmp_path / ".digests").iterdir())) == 1
    assert cache.find("k") == folder
    (folder / "file").write_bytes(bytes(2**20 - 1) + b"x")
    assert cache.find("k") is None


def test_a_folder_under_the_key_of_another_is_not_used(tmp_path: Path) -> None:
    cache = ArtefactCache(tmp_path)
    cache.add("a", _write(b"1")).rename(tmp_path / "b")  # type: ignore[arg-type]
    assert cache.find("b") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_others_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ArtefactCache(tmp_path / "cache")
    cache.add("k", _write(b"1"))  # type: ignore[arg-type]
    cache.root.chmod(0o777)
    assert cache.find("k") is not None
    assert cache.root.stat().st_mode & 0o777 == 0o755
    monkeypatch.setattr("os.geteuid", lambda: cache.root.stat().st_uid + 1)
    assert cache.find("k") is None
    with pytest.raises(OutputError, match="it belongs to another user"):
        cache.add("k", _write(b"1"))  # type: ignore[arg-type]

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert cache.find("k") is None


def test_a_cache_on_a_full_disk_is_an_output_error(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        (folder / "begun").write_bytes(b"x")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cache = ArtefactCache(tmp_path / "cache")
    with pytest.raises(OutputError):
        cache.add("0" * 64, full, "model")
    assert cache.find("0" * 64) is None
    assert list(cache.root.iterdir()) == []
