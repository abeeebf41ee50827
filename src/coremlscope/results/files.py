"""Profiles in files."""

from __future__ import annotations

import json
from pathlib import Path

from coremlscope.errors import UsageError
from coremlscope.results.profile import Profile

__all__ = ["is_saved_profile", "read_profile"]


def is_saved_profile(path: Path) -> bool:
    """True where the name is one of a profile that was saved as JSON, and not one of a model."""
    return path.suffix.lower() == ".json"


def read_profile(path: Path) -> Profile:
    """Reads what `coremlscope profile MODEL -o profile.json` wrote.

    Raises:
        UsageError: There is no such file, or it holds no profile that this version reads.
    """
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "check the path") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", "`coremlscope profile MODEL -o p.json`") from None
    try:
        return Profile.from_json(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None
