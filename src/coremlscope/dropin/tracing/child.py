"""Starts recording in a process that was started by a recorded one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path

from coremlscope.base.errors import CoremlscopeError
from coremlscope.dropin.tracing.recorder import (
    CAPACITY_VARIABLE,
    FOLDER_VARIABLE,
    OPERATIONS_VARIABLE,
    Recorder,
    is_recording,
)

#: Set if children get the replacement of Core ML.
DROPIN_VARIABLE = "COREMLSCOPE_TRACE_DROPIN"


_recorder: Recorder | None = None


def begin(folder: str, capacity: int, *, children: bool = False, operations: bool = False) -> None:
    """Records this process into a folder. A failure never stops the program.

    Args:
        folder: The folder.
        capacity: The number of events that the process keeps.
        children: Whether its children are recorded too.
        operations: Whether the operations of runs are recorded.
    """
    global _recorder
    if is_recording() or not Path(folder).is_dir():
        return
    recorder = Recorder(Path(folder), capacity, children=children, operations=operations)
    try:
        recorder.start()
    except CoremlscopeError as error:
        sys.stderr.write(f"coremlscope trace: this process is not recorded: {error}\n")
        return
    _recorder = recorder
    atexit.register(recorder.stop)


def finish() -> None:
    """Stops what `begin` started."""
    if _recorder is not None:
        _recorder.stop()


def begin_as_child() -> None:
    """Records this process into the folder that the environment names, with its own children."""
    try:
        begin(
            os.environ[FOLDER_VARIABLE],
            int(os.environ[CAPACITY_VARIABLE]),
            children=True,
            operations=OPERATIONS_VARIABLE in os.environ,
        )
    except (ValueError, KeyError) as error:
        sys.stderr.write(f"coremlscope trace: this process is not recorded: {error}\n")
        return
    if os.environ.get(DROPIN_VARIABLE) and sys.platform != "darwin":
        from importlib import import_module

        # Programs without coremltools need no replacement.
        with contextlib.suppress(CoremlscopeError):
            import_module("coremlscope.dropin").install()
