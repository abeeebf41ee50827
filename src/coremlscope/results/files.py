"""Reads and writes files of profiles; writes files atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coremlscope.errors import OutputError, UsageError
from coremlscope.results.profile import Profile
from coremlscope.results.schema import profiles_from_json, to_json

__all__ = ["is_saved_profile", "read_profile", "read_profiles", "write_atomically", "write_profiles"]


def is_saved_profile(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is treated as saved profiles instead of a model: whether it ends in `.json`."""
    return Path(path).suffix.lower() == ".json"


def read_profiles(path: str | os.PathLike[str]) -> tuple[Profile, ...]:
    """Reads the profiles of a file: one, or the list that `matrix` writes.

    Raises:
        UsageError: The file cannot be read, is not valid JSON, or does not contain profiles.
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
    """Reads the profile of a file with a single profile.

    Raises:
        UsageError: The file cannot be read, is not a profile, is damaged, or contains several profiles.
    """
    profiles = read_profiles(path)
    if len(profiles) != 1:
        raise UsageError(
            f"{path} contains {len(profiles)} profiles instead of one",
            "use `coremlscope.results.files.read_profiles` to read all of them",
        )
    return profiles[0]


def write_profiles(path: str | os.PathLike[str], profiles: Sequence[Profile]) -> None:
    """Writes one profile, or a list of several, as JSON.

    Raises:
        OutputError: The file cannot be written.
    """
    result = profiles[0] if len(profiles) == 1 else tuple(profiles)
    content = msgspec.json.format(msgspec.json.encode(to_json(result)), indent=1)
    write_atomically(path, content + b"\n")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically: if writing fails, an existing file remains unchanged.

    A temporary file in the same folder replaces the target once it is complete. Targets other than regular
    files, such as pipes, are written directly, and so are files in a folder in which no file can be created.

    Raises:
        OutputError: The file cannot be written.
    """
    target = Path(path)
    try:
        if _is_replaceable(target):
            _replace(target.resolve(), content)
        else:
            target.write_bytes(content)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}", "check the folder and its permissions"
        ) from error


def _is_replaceable(target: Path) -> bool:
    if not target.exists():
        return True
    places = (target, target.resolve().parent)
    return target.is_file() and all(os.access(place, os.W_OK) for place in places)


def _replace(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".coremlscope-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
