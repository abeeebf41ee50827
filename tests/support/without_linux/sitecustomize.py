"""Takes away what only Linux has, as on a Mac, from each process whose path for modules has this folder.

`PYTHONPATH=tests/support/without_linux python -m pytest …`.
"""

import builtins
import ctypes
import io
import os
from typing import Any

for _name in ("pidfd_open", "sched_getaffinity", "sched_setaffinity"):
    if hasattr(os, _name):
        delattr(os, _name)

_stat, _listdir, _open, _os_open = os.stat, os.listdir, builtins.open, os.open


def _check(path: Any) -> Any:
    """Returns a path, unless it is of the folder of processes, which is absent then."""
    if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
    return path


class _Library(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if name == "prctl":
            raise AttributeError(name)
        return super().__getattr__(name)


os.stat = lambda path, *args, **options: _stat(_check(path), *args, **options)
os.listdir = lambda path=".": _listdir(_check(path))
os.open = lambda path, *args, **options: _os_open(_check(path), *args, **options)
io.open = builtins.open = lambda path, *args, **options: _open(_check(path), *args, **options)
ctypes.CDLL = _Library  # type: ignore[misc]
