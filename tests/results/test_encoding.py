"""Files of profiles: complete or untouched, and of the known schema alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.results.encoding import write_json
from coremlscope.results.profile import Profile, read_profiles, write_profiles
from tests.support.profiles import small_profile


def test_profiles_come_back(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    profile = small_profile()
    write_profiles(one, [profile])
    write_profiles(two, [profile, profile])
    assert Profile.load(one) == profile
    assert read_profiles(two) == (profile, profile)
    with pytest.raises(UsageError, match="contains 2 profiles"):
        Profile.load(two)


@pytest.mark.parametrize("schema", ["coremlscope.profile/1", "coremlscope.profile/3"])
def test_another_schema_is_refused(tmp_path: Path, schema: str) -> None:
    write_json(tmp_path / "other.json", {**small_profile().to_json(), "schema": schema})
    with pytest.raises(UsageError, match=schema):
        Profile.load(tmp_path / "other.json")
