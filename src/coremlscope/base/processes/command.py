"""Commands that run modules of this package as programs, and process groups that end with their parent."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[3]
#: Ends its process group when its standard input does: at once, then by force.
_WATCH = 'trap "" TERM; read -r line; kill 0; sleep 2; kill -9 0'


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
    code = f"import importlib, runpy, sys; sys.path.append({str(_PACKAGE)!r}); {run}"
    return (sys.executable, "-P", "-c", code)


def start_group() -> tuple[int, int]:
    """Starts a process group whose processes end when this process does, however that ends.

    A process of its own waits for that: native code that never gives back the interpreter, as coremltools
    while Core ML loads a model, would keep a thread or a handler of the child from ending it.

    Returns:
        The group, and the end of a pipe, for `end_group`.
    """
    read, held = os.pipe()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, read, 0)]
        shell = os.posix_spawn("/bin/sh", ["sh", "-c", _WATCH], os.environ, setpgroup=0, file_actions=actions)
    finally:
        os.close(read)
    return shell, held


def end_group(group: int, held: int) -> None:
    """Ends the processes of a group by force, those too that its processes started and left behind."""
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(group, 0)
    os.close(held)
