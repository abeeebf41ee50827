"""Runs children in processes that are forked from one that has imported what they need: half a second less.

A command starts a client, which passes its arguments, environment and standard streams to that process, waits
for the child, and ends as it ended. Where the client is killed, the child is. On a Mac each child is a whole
process: Core ML aborts in a forked one.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import coremlscope
from coremlscope import api
from coremlscope.base.processes.child import Child
from coremlscope.base.processes.command import python_child
from coremlscope.formats import mlmodel
from coremlscope.formats.sample import sample_model
from coremlscope.model.schema import message_class
from coremlscope.runtime.engines import base, onnxruntime

__all__ = [
    "CAN_FORK",
    "forked_children",
    "leave_processors",
    "preloaded_child",
    "preloaded_command",
    "preloading",
    "real_children",
    "start_children",
]

#: The processes that children are forked from, and what they import besides the package.
_IMPORTED = {
    "engine": ("google.protobuf.descriptor_pb2", "onnxruntime"),
    "coremltools": (
        "google.protobuf.descriptor_pb2",
        "onnxruntime",
        "coremltools",
        "coremltools.models.compute_plan",
        "coremlscope.dropin.proxies",
    ),
    "agents": ("google.protobuf.descriptor_pb2", "onnxruntime", "mcp.server"),
}
#: Modules of the package that change others as they are imported, or take long.
_UNUSED = ("coremlscope.__main__", "coremlscope.dropin.", "coremlscope.pytest_plugin")
#: The children of the package that `forked_children` forks, and from which process.
_FORKED = {
    python_child(*name.split(":")): (name, server)
    for name, server in {
        "coremlscope.measure.embedded.child": "engine",
        "coremlscope.runtime.basic_pass.child:save_optimised": "engine",
        "coremlscope.studies.sweep.child": "engine",
        "coremlscope.studies.variants.worker": "coremltools",
    }.items()
}
_LENGTH = len(python_child(""))
#: Executed before those: their children are forked, too.
_FORKING = "from tests.support import preloaded; preloaded.start_children()"
_SERVER = "import sys; from tests.support import preloaded; preloaded.serve(*sys.argv[1:])"
#: Runs without `site`, so that it starts within a few milliseconds.
_CLIENT = """
import _socket, array, marshal, posix, sys
address, before, *argv = sys.argv[1:]
server = _socket.socket(_socket.AF_UNIX)
server.connect(address)
request = marshal.dumps((before, argv, posix.environ, posix.getcwd()))
streams = array.array("i", [0, 1, 2])
server.sendmsg([b" "], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(request)
server.shutdown(_socket.SHUT_WR)
status = int(server.recv(16) or b"9")
posix.kill(posix.getpid(), status & 127) if status & 127 else posix._exit(status >> 8)
"""
#: Whether children are forked; only Linux has what the process that forks them waits with.
CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
#: Runs statements and a module as a process of its own, which ends with its parent.
_WHOLE = f"""
import importlib, runpy, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
before, module, *arguments = sys.argv[1:]
sys.argv[:] = [module, *arguments]
exec(before, {{}})
module, _, function = module.partition(":")
if function:
    getattr(importlib.import_module(module), function)(*arguments)
elif module:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
_ROOT, _ENVIRONMENT = Path(__file__).parents[2], dict(os.environ)
_START, _CORES = Child.__init__, base.physical_cores
_folder = tempfile.TemporaryDirectory(prefix="coremlscope-tests-")
_addresses = Path(_folder.name)


def preloaded_child(before: str, module: str = "", server: str = "coremltools") -> tuple[str, ...]:
    """A command that executes some statements, then a module or function; it works within `preloading`.

    Args:
        before: The statements.
        module: The module that is run as a program; after a colon its function that is called with the
            arguments; empty for the statements alone.
        server: What is imported: `engine`, or `coremltools` or what answers `agents` besides.
    """
    if not CAN_FORK:
        return (sys.executable, "-P", "-c", _WHOLE, before, module)
    return (sys.executable, "-I", "-S", "-c", _CLIENT, str(_addresses / server), before, module)


def preloaded_command(server: str = "engine") -> tuple[str, ...]:
    """The command line of the package, whose children are forked, too; it works within `preloading`.

    Args:
        server: See `preloaded_child`.
    """
    return preloaded_child(_FORKING, "coremlscope.__main__", server)


@contextmanager
def preloading(server: str = "coremltools") -> Iterator[None]:
    """Starts the process that children are forked from, unless it runs, and ends it at the end."""
    address = _addresses / server
    if address.exists() or not CAN_FORK:
        yield
        return
    command = (sys.executable, "-c", _SERVER, str(address))
    pipe = subprocess.PIPE
    # A test may have changed the folder and the environment.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=_ROOT, env=_ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield


@contextmanager
def forked_children() -> Iterator[None]:
    """Forks children that the package starts; the first one starts the process they come from."""
    if not CAN_FORK:
        yield
        return
    with ExitStack() as servers:
        _fork_children(servers)
        try:
            yield
        finally:
            Child.__init__ = _START


def start_children() -> None:
    """Forks children of this process, which was forked itself, where the process they come from runs."""
    _fork_children(None)


@contextmanager
def real_children() -> Iterator[None]:
    """Starts children as the package does, within `forked_children`, with as many threads here as there."""
    forking, Child.__init__ = Child.__init__, _START
    cores, base.physical_cores = base.physical_cores, _CORES
    try:
        yield
    finally:
        Child.__init__, base.physical_cores = forking, cores


def _fork_children(servers: ExitStack | None) -> None:
    starting = threading.Lock()

    def fork(self: Child, command: Sequence[str], **options: Any) -> None:
        name, server = _FORKED.get(tuple(command[:_LENGTH]), ("", ""))
        if name and servers is not None:
            with starting:
                servers.enter_context(preloading(server))
        if name and (_addresses / server).exists():
            command = [*preloaded_child(_FORKING, name, server), *command[_LENGTH:]]
        _START(self, command, **options)

    Child.__init__ = fork


def serve(address: str) -> None:
    """Accepts clients, until the standard input ends."""
    global _addresses
    _addresses = Path(address).parent
    package = (name for _, name, _ in pkgutil.walk_packages(coremlscope.__path__, "coremlscope."))
    needed = (name for name in package if not name.startswith(_UNUSED))
    for module in (*_IMPORTED[Path(address).name], *needed):
        importlib.import_module(module)
    _fill_caches()
    leave_processors()
    sys.path.remove("")
    gc.collect()
    gc.freeze()  # a child that collected garbage would copy all modules
    signal.signal(signal.SIGCHLD, _reap)
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


def leave_processors() -> None:
    """Gives engines one thread where no number is named, and keeps freed memory for the next session.

    Threads of an engine wait actively, on a processor that another test needs.
    """
    base.physical_cores = lambda: 1
    for module in (onnxruntime, mlmodel):
        module.return_memory = lambda: None


def _fill_caches() -> None:
    """Reads what is read once: Apple's schema, chips, rules, the latency model."""
    message_class("Model")
    api.answer(sample_model(size=32, width=0.25, classes=4), devices=["m1", "m4"], measures=False)


def _reap(*_: object) -> None:
    """Counts the time of processes that attended to clients as that of this one."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _attend(client: socket.socket) -> None:
    """Forks the child of a client, and sends how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as request:
        asked = marshal.load(request)
    child = os.fork()
    if child == 0:
        client.close()
        _run(streams, *asked)
    for stream in streams:
        os.close(stream)
    ending = select.poll()
    ending.register(client, 0)  # reports the end of the client alone
    ended = os.pidfd_open(child)
    ending.register(ended, select.POLLIN)
    if ended not in dict(ending.poll()):
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with suppress(BrokenPipeError):
        client.sendall(str(status).encode())


def _run(
    streams: list[int], before: str, argv: list[str], environment: dict[bytes, bytes], folder: str
) -> None:
    """Runs a module as a program, and ends this process as Python would."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()})
    tempfile.tempdir = None
    os.chdir(folder)
    sys.argv = argv
    # Nothing else may hold another copy of the module's classes.
    warnings.filterwarnings("ignore", ".* found in sys.modules after import of package", RuntimeWarning)
    code = 0
    try:
        exec(before, {})
        module, _, function = argv[0].partition(":")
        if function:
            getattr(importlib.import_module(module), function)(*argv[1:])
        elif module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
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
