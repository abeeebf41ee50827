"""Starts recording in a process that was started by a recorded one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path

from coremlscope.errors import CoremlscopeError
from coremlscope.tracing.recorder import CAPACITY_VARIABLE, FOLDER_VARIABLE, Recorder, is_recording

__all__ = ["DROPIN_VARIABLE", "begin"]

#: Set if children get the replacement of Core ML.
DROPIN_VARIABLE = "COREMLSCOPE_TRACE_DROPIN"


def begin() -> None:
    """Records this process into the folder that the environment names. A failure never stops the program."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    if is_recording() or not folder.is_dir():
        return
    try:
        recorder = Recorder(folder, int(os.environ[CAPACITY_VARIABLE]))
        recorder.start()
    except (CoremlscopeError, ValueError, KeyError) as error:
        sys.stderr.write(f"coremlscope trace: this process is not recorded: {error}\n")
        return
    atexit.register(recorder.stop)
    if os.environ.get(DROPIN_VARIABLE) and sys.platform != "darwin":
        from importlib import import_module

        # Programs without coremltools need no replacement.
        with contextlib.suppress(CoremlscopeError):
            import_module("coremlscope.dropin").install()
