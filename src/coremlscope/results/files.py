"""Reads JSON files; writes files atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.errors import OutputError, UsageError

__all__ = ["is_saved_profile", "read_json", "write_atomically", "write_json"]


def is_saved_profile(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is treated as saved profiles instead of a model: whether it ends in `.json`."""
    return Path(path).suffix.lower() == ".json"


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a JSON file.

    Raises:
        UsageError: The file cannot be read or is not valid JSON.
    """
    try:
        return msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        hint = "give a profile that `coremlscope profile -o profile.json` wrote"
        raise UsageError(f"{path} is not valid JSON: {error}", hint) from error


def write_json(path: str | os.PathLike[str], values: Any) -> None:
    """Writes plain values as indented JSON.

    Raises:
        OutputError: The file cannot be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")


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
