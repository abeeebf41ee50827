"""Reads and writes JSON files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.errors import UsageError
from coremlscope.escaping import json_text
from coremlscope.writing import write_file

__all__ = ["is_saved_profile", "read_json", "write_json"]


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
    text = msgspec.json.format(msgspec.json.encode(values), indent=1).decode()
    write_file(path, json_text(text) + "\n")
