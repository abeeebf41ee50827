"""Commands that run modules of this package as programs."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["python_child"]

_PACKAGE = Path(__file__).resolve().parents[1]


def python_child(module: str) -> tuple[str, ...]:
    """Returns the command that runs a module of this package as a program.

    Modules are never taken from the current folder, which may be that of a model from a stranger.
    """
    code = (
        f"import runpy, sys; sys.path.append({str(_PACKAGE)!r}); "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return (sys.executable, "-P", "-c", code)
