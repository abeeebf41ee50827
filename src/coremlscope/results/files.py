"""Saved profiles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coremlscope.errors import OutputError, UsageError
from coremlscope.results.profile import Profile
from coremlscope.results.schema import profiles_from_json, to_json

__all__ = ["is_saved_profile", "read_profile", "read_profiles", "write_profiles"]


def is_saved_profile(path: str | os.PathLike[str]) -> bool:
    """Whether a path is taken for saved profiles and not for a model: by its suffix, `.json`."""
    return Path(path).suffix.lower() == ".json"


def read_profiles(path: str | os.PathLike[str]) -> tuple[Profile, ...]:
    """The profiles of a file: one, or the list that `matrix` writes.

    Raises:
        UsageError: The file cannot be read, is not valid JSON, or does not hold profiles.
    """
    try:
        data = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        hint = "give a profile that `coremlscope profile -o profile.json` wrote"
        raise UsageError(f"{path} is not valid JSON: {error}", hint) from error
    try:
        return profiles_from_json(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from error


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """The profile of a file that holds one.

    Raises:
        UsageError: The file cannot be read, is not a profile, is damaged, or holds several profiles.
    """
    profiles = read_profiles(path)
    if len(profiles) != 1:
        raise UsageError(
            f"{path} holds {len(profiles)} profiles, and one is needed",
            "`coremlscope.results.files.read_profiles` reads them all",
        )
    return profiles[0]


def write_profiles(path: str | os.PathLike[str], profiles: Sequence[Profile]) -> None:
    """Writes one profile, or a list of several, as JSON.

    Raises:
        OutputError: The file cannot be written.
    """
    result = profiles[0] if len(profiles) == 1 else tuple(profiles)
    content = msgspec.json.format(msgspec.json.encode(to_json(result)), indent=1)
    try:
        Path(path).write_bytes(content + b"\n")
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}", "choose another path"
        ) from error
