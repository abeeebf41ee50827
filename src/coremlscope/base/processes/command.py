"""Commands that run modules of this package as programs, which end with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

#: Names the end of a pipe, in the environment of a child; its other end closes when the parent ends.
LIFELINE = "COREMLSCOPE_LIFELINE"

_PACKAGE = Path(__file__).resolve().parents[3]
#: The option of Linux's `prctl` for a signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def python_child(module: str, function: str = "") -> tuple[str, ...]:
    """Returns the command that runs a module of this package as a program, or one function of it.

    Modules are never taken from the current folder, which may be that of a model from a stranger.

    Args:
        module: The module.
        function: A function of the module, which gets what follows the command as text.
    """
    run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    if function:
        run = f"importlib.import_module({module!r}).{function}(*sys.argv[1:])"
    code = (
        f"import importlib, runpy, sys; sys.path.append({str(_PACKAGE)!r}); "
        f"from coremlscope.base.processes.command import follow_parent; follow_parent(); {run}"
    )
    return (sys.executable, "-P", "-c", code)


def follow_parent() -> None:
    """Ends this process at once when its parent ends, however that ends; without a lifeline it does nothing.

    Windows passes no pipes besides the standard ones: children notice there that their standard input ends.
    """
    named = os.environ.pop(LIFELINE, "")
    if not named:
        return
    lifeline = int(named)

    def follow() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=follow, name="parent", daemon=True).start()
    if sys.platform == "linux":
        # Native code that never gives back the interpreter would keep the thread from ending the process.
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
