"""A process of its own for an embedded engine: its requests and replies."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import CoremlscopeError, EngineError, UsageError
from coremlscope.base.processes.channel import rebuild_error
from coremlscope.base.processes.child import Child, ChildLimits, Task, python_child
from coremlscope.base.processes.endings import Failures, KnownFailure
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import temporary_error, write_draft
from coremlscope.measure.embedded import child as engine_child

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress
    from coremlscope.model.ir import Model

CHILD = python_child("coremlscope.measure.embedded.child")
HINT = "`coremlscope inspect` and `coremlscope estimate` work without running the model"
#: Known failures of a process that runs an embedded engine.
ENGINE = Failures(
    "it",
    (
        KnownFailure(
            r"std::bad_alloc|MemoryError|[Ff]ailed to allocate memory|Cannot allocate memory",
            "the memory was not enough",
            "close other programs, or raise --memory",
        ),
    ),
)
_TASK = Task("the engine", HINT, ENGINE)
_NO_LIMITS = ChildLimits()


def call_isolated(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    limits: ChildLimits = _NO_LIMITS,
    progress: Progress | None = None,
    started: Callable[[EngineProcess], None] | None = None,
    command: Sequence[str] = CHILD,
) -> Any:
    """Calls a function that runs an engine in a process that may crash, hang or take too much memory.

    Args:
        function: A function of a module. It takes the argument `progress` if that is given here.
        arguments: Its arguments, which can be pickled.
        limits: When to give up.
        progress: Called with the phase, the repetitions done, and how many there will be.
        started: Called with the process, so that another thread can stop it.
        command: The child process to run; tests give another one.

    Returns:
        What the function returned.

    Raises:
        CoremlscopeError: The function raised it.
        EngineError: The process failed.
        LimitError: A limit was reached.
        KeyboardInterrupt: Ctrl-C.
    """
    process = take_process(command)
    try:
        reply = ProcessReply(progress)
        if started is not None:
            started(process)
        process.ask(
            engine_child.call,
            limits,
            function=function,
            arguments=arguments,
            result=process.folder / "result",
            has_progress=progress is not None,
        )
        error = process.follow(reply, limits) or reply.error
        if error is not None:
            raise error
        if not reply.result:
            raise EngineError("the engine sent no result", HINT)
        # It is a process of this package with our own rights, and its folder is private.
        return pickle.loads((process.folder / "result").read_bytes())
    finally:
        process.close()


def file_of(model: Model) -> Path:
    """Returns the path of a model.

    Raises:
        UsageError: It is not in a file.
    """
    if model.source is None:
        raise UsageError(
            "a model in memory cannot be run in a process of its own",
            "save it to a file, or leave out isolate and limits",
        )
    return model.source.absolute()


#: A process that was started before its work is known.
_waiting: list[EngineProcess] = []


@contextmanager
def started_early(is_wanted: bool) -> Iterator[None]:
    """Starts the process of the next measurement, which loads the engine while this one reads the model.

    Args:
        is_wanted: Whether there will be a measurement with an embedded engine.
    """
    with suppress(EngineError):  # The measurement fails for the same reason, and says so.
        _waiting.extend(EngineProcess(CHILD) for _ in range(is_wanted))
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().close()


def take_process(command: Sequence[str]) -> EngineProcess:
    """Returns the process that was started early, or starts one."""
    return _waiting.pop() if _waiting and command == CHILD else EngineProcess(command)


class ProcessReply:
    """The messages of the process.

    Attributes:
        progress: Called with its progress; None for no more calls.
        result: The file of what a call returned; empty before that.
        error: The error that it reported; None for none.
    """

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.result = ""
        self.error: CoremlscopeError | None = None

    def receive(self, message: Mapping[str, Any]) -> None:
        """Reads one message."""
        if "error" in message:
            self.error = rebuild_error(message)
        elif "phase" in message and self.progress is not None:
            self.progress(str(message["phase"]), int(message["done"]), int(message["total"]))
        self.result = str(message.get("result", self.result))


class EngineProcess:
    """The child process, and its private folder."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._folder = scratch_folder()
        except OSError as error:
            raise temporary_error(error) from error
        names = ("TMPDIR",) if os.name == "posix" else ("TEMP", "TMP")
        environment = dict.fromkeys(names, self._folder.name)
        try:
            self._child = Child(command, environment=environment, is_attached=True)
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def folder(self) -> Path:
        """The private folder."""
        return Path(self._folder.name)

    def ask(self, work: Callable[..., None], limits: ChildLimits, **arguments: Any) -> None:
        """Sends a request; see `engine_child.ProcessRequest`."""
        file = self.folder / "request"
        request = engine_child.ProcessRequest(
            work=work, arguments=arguments, time_s=limits.time_s, memory_bytes=limits.memory_bytes
        )
        try:
            write_draft(file, pickle.dumps(request))
        except OSError as error:
            raise temporary_error(error) from error
        self._child.send(str(file))

    @property
    def described(self) -> Path:
        """The file of the description of the model to measure."""
        return self.folder / "described"

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Sends the description of the model to measure; see `engine_child.measure`."""
        try:
            write_draft(self.described, pickle.dumps(fields))
        except OSError as error:
            raise temporary_error(error) from error
        self._child.send("")

    def follow(self, reply: ProcessReply, limits: ChildLimits) -> CoremlscopeError | KeyboardInterrupt | None:
        """Collects the messages; returns what ended the process early, or None."""
        try:
            for message in self._child.messages(limits, _TASK):
                reply.receive(message)
            self._child.check_end(_TASK)
        except (EngineError, KeyboardInterrupt) as error:
            reply.progress = None
            for message in self._child.rest():
                reply.receive(message)
            return error
        return None

    def stop(self) -> None:
        """Ends the process from another thread; what it does fails then."""
        self._child.stop()

    def close(self) -> None:
        """Ends the process, and removes its folder."""
        self._child.close()
        self._folder.cleanup()
