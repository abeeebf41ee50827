"""Files of profiles: complete or untouched, of this version and of earlier ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope.base.errors import UsageError
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
