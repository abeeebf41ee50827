"""The user's folders: for files that can be made again, and for files that cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder", "data_folder"]

_NAME = "coremlscope"
_DATA_VARIABLE = "COREMLSCOPE_DATA"


def cache_folder() -> Path:
    """Returns the folder for what can be made again, as the system's conventions have it."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / _NAME
    return _base("XDG_CACHE_HOME", ".cache") / _NAME


def data_folder() -> Path:
    """Returns the folder for the user's own data. COREMLSCOPE_DATA names another one."""
    chosen = os.environ.get(_DATA_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _NAME
    return _base("XDG_DATA_HOME", ".local/share") / _NAME


def _base(variable: str, usual: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get(variable) or Path.home() / usual)
