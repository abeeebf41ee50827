"""Files of profiles: complete or untouched, of this version and of earlier ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coremlscope.errors import OutputError, UsageError
from coremlscope.results import files
from coremlscope.results.files import write_atomically
from coremlscope.results.profile import Profile, read_profiles, write_profiles
from tests.support.profiles import small_profile

V1 = Path(__file__).parents[1] / "data" / "profile-v1.json"


def test_profiles_come_back(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    profile = small_profile()
    write_profiles(one, [profile])
    write_profiles(two, [profile, profile])
    assert Profile.load(one) == profile
    assert read_profiles(two) == (profile, profile)
    with pytest.raises(UsageError, match="contains 2 profiles"):
        Profile.load(two)


def test_a_profile_that_an_earlier_version_saved(tmp_path: Path) -> None:
    profile = Profile.load(V1)
    assert profile.made.at == ""
    measured = profile.measurement
    assert (measured.runtime.name, measured.settings.precision) == ("ONNX Runtime", "fp16")
    assert [phase.statistics.count for phase in measured.phases.values()] == [1, 2, 5]
    assert [tuple(profile.ops.id[row] for row in group.ops) for group in measured.groups] == [
        ("main/0",),
        ("main/1",),
    ]
    assert measured.fp16 is not None
    assert len(measured.fp16.largest) == len(profile.ops) == 2
    (plan,) = profile.plans
    assert [setting.compute_units for setting in plan.settings] == [
        e.compute_units for e in profile.estimates
    ]
    assert [op.id for op in plan.view(profile.ops).ops if not op.inserted] == ["main/0", "main/1"]
    assert all(len(e.kernel_s) == len(profile.kernels) for e in profile.estimates)
    profile.save(tmp_path / "new.json")
    assert Profile.load(tmp_path / "new.json") == profile


def test_a_failure_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.txt"
    write_atomically(path, b"before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.Path, "replace", fail)
        with pytest.raises(OutputError, match="cannot be written: No space left on device"):
            write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot be written"):
        write_atomically(tmp_path / "absent" / "r.txt", b"")


@pytest.mark.skipif(os.name != "posix", reason="needs permissions, links and pipes")
def test_what_a_file_is_stays(tmp_path: Path) -> None:
    path, link, pipe = tmp_path / "r.txt", tmp_path / "link.txt", tmp_path / "pipe"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, b"after")
    assert (link.is_symlink(), path.read_bytes(), path.stat().st_mode & 0o777) == (True, b"after", 0o640)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"through")
        assert os.read(reader, 10) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    write_atomically("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()
