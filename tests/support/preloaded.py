"""Runs children in processes that are forked from one that has imported coremltools: a second less for each.

A command starts a client, which passes its arguments, environment and standard streams to that process, waits
for the child, and ends as it ended. Where the client is killed, the child is.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["preloaded_child", "preloading"]

_IMPORTED = ("coremlscope.dropin", "coremltools", "coremltools.models.compute_plan")
_SERVER = "import sys; from tests.support import preloaded; preloaded.serve(sys.argv[1])"
#: Runs without `site`, so that it starts within a few milliseconds.
_CLIENT = """
import json, os, signal, socket, sys
address, before, *argv = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(address)
    request = {"before": before, "argv": argv, "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps(request).encode())
    server.shutdown(socket.SHUT_WR)
    status = int(server.recv(16) or b"9")
code = os.waitstatus_to_exitcode(status)
os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)
"""
_folder = tempfile.TemporaryDirectory(prefix="coremlscope-tests-")
_ADDRESS = Path(_folder.name, "children")


def preloaded_child(before: str, module: str) -> tuple[str, ...]:
    """A command that executes some statements, then a module as a program; it works within `preloading`."""
    return (sys.executable, "-I", "-S", "-c", _CLIENT, str(_ADDRESS), before, module)


@contextmanager
def preloading() -> Iterator[None]:
    """Starts the process that children are forked from, and ends it at the end."""
    command = (sys.executable, "-c", _SERVER, str(_ADDRESS))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield


def serve(address: str) -> None:
    """Accepts clients, until the standard input ends."""
    for module in _IMPORTED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes that attend to clients are not waited for
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, b"ready\n")
        while listener in select.select([listener, 0], [], [])[0]:
            with listener.accept()[0] as client:
                if os.fork() == 0:
                    listener.close()
                    _attend(client)
                    os._exit(0)
    Path(address).unlink()


def _attend(client: socket.socket) -> None:
    """Forks the child of a client, and sends how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as request:
        asked = json.load(request)
    child = os.fork()
    if child == 0:
        client.close()
        _run(streams, **asked)
    for stream in streams:
        os.close(stream)
    ending = select.poll()
    ending.register(client, 0)  # reports the end of the client alone
    ended = os.pidfd_open(child)
    ending.register(ended, select.POLLIN)
    if ended not in dict(ending.poll()):
        os.kill(child, signal.SIGKILL)
    client.sendall(str(os.waitpid(child, 0)[1]).encode())


def _run(streams: list[int], before: str, argv: list[str], environment: dict[str, str], folder: str) -> None:
    """Runs a module as a program, and ends this process as Python would."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = argv
    code = 0
    try:
        exec(before, {})
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
