"""The error hierarchy. Every error has a one-sentence message, a hint and an exit code.

    CoremlscopeError                    1
    ├─ UsageError                       2  an option or argument is invalid
    ├─ ModelError                       3  the model file cannot be used
    │  ├─ NotAModelError                3  the path is not a Core ML model
    │  ├─ CorruptModelError             3  the model is damaged, truncated or malicious
    │  ├─ MissingWeightsError           3  a weight file is missing or a blob is out of range
    │  └─ UnsupportedModelError         5  the model is valid, but cannot be run here
    │     └─ UnsupportedOpError         5  operations cannot be lowered (the error lists all of them)
    ├─ InputError                       4  an input value is missing, unknown, or has the wrong shape or dtype
    ├─ EngineError                      6  the engine rejected the graph or failed
    │  └─ LimitError                   10  a limit of time or memory was reached
    ├─ MissingDependencyError           7  an optional package is not installed
    ├─ OutputError                      8  the result cannot be written
    └─ UnforeseenError                 12  a fault of coremlscope itself

Exceptions of other libraries are wrapped at the boundaries only: reader, engine, output. What none of these
expects becomes a sentence where a verb or a job ends, by `known_error`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

#: The oldest and the newest Python for which coremltools 9 has wheels, of those that this package runs on.
_FIRST_PYTHON, _LAST_PYTHON = (3, 11), (3, 13)

__all__ = [
    "INTERRUPTED_EXIT",
    "CoremlscopeError",
    "CorruptModelError",
    "EngineError",
    "InputError",
    "LimitError",
    "MissingDependencyError",
    "MissingWeightsError",
    "ModelError",
    "NotAModelError",
    "OutputError",
    "UnforeseenError",
    "UnsupportedModelError",
    "UnsupportedOpError",
    "UsageError",
    "how_to_install",
    "known_error",
    "wheels_hint",
]

#: The exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it.
INTERRUPTED_EXIT = 130
#: Errors of the system that say that a disk takes no more.
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)})
#: Longest part of a foreign message that is shown.
_LONGEST = 300


class CoremlscopeError(Exception):
    """The base class of all errors.

    Args:
        message: One sentence that describes the problem, with the relevant names and numbers.
        hint: One sentence that suggests a solution.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        # A path may hold bytes that are no text, and the message may go into a file.
        with suppress(UnicodeEncodeError):
            message = message.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # Tracebacks show it, as of notebooks.


class UsageError(CoremlscopeError):
    """An option or an argument is invalid."""

    exit_code = 2


class ModelError(CoremlscopeError):
    """The model file cannot be used."""

    exit_code = 3


class NotAModelError(ModelError):
    """The path does not hold a Core ML model."""


class CorruptModelError(ModelError):
    """The file is a Core ML model, but damaged, truncated or malicious."""


class MissingWeightsError(ModelError):
    """A weight file is missing, or a blob lies outside it."""


class UnsupportedModelError(ModelError):
    """The model is valid, but cannot be run here."""

    exit_code = 5


class UnsupportedOpError(UnsupportedModelError):
    """The program contains operations that cannot be lowered.

    Args:
        ops: `(op type, op id, reason)` of every such operation.
    """

    def __init__(self, ops: Sequence[tuple[str, str, str]]) -> None:
        self.ops = tuple(ops)
        by_type: dict[str, list[tuple[str, str]]] = {}
        for op_type, op_id, reason in self.ops:
            by_type.setdefault(op_type, []).append((op_id, reason))
        parts = []
        for op_type, places in by_type.items():
            op_id, reason = places[0]
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            because = f": {reason}" if reason else ""
            parts.append(f"{op_type} (at {op_id}{more}{because})")
        noun = "operation" if len(by_type) == 1 else "operations"
        super().__init__(
            f"cannot run {noun} {', '.join(parts)}",
            "`coremlscope inspect` still works on this model; "
            "replace these operations before conversion to run it here",
        )


class InputError(CoremlscopeError):
    """An input value is missing, unknown, or has the wrong shape or type."""

    exit_code = 4


class EngineError(CoremlscopeError):
    """The engine rejected the graph or failed while running it."""

    exit_code = 6


class LimitError(EngineError):
    """A measurement reached a limit of time or memory."""

    exit_code = 10


class MissingDependencyError(CoremlscopeError):
    """A required optional package is not installed."""

    exit_code = 7


class OutputError(CoremlscopeError):
    """The result cannot be written to the requested location."""

    exit_code = 8


class UnforeseenError(CoremlscopeError):
    """An exception that nobody expected: a fault of coremlscope itself."""

    exit_code = 12


def wheels_hint(python: tuple[int, ...], system: str, machine: str) -> str:
    """Returns why coremltools has no wheels for a machine, and what to do; empty where it has.

    Args:
        python: The version of Python.
        system: Its `sys.platform`.
        machine: Its processor, as `platform.machine` names it.
    """
    if system != "darwin" and (system != "linux" or machine not in ("x86_64", "amd64")):
        return "coremltools has wheels for macOS and for Linux on x86-64 only; the rest works without it"
    if not _FIRST_PYTHON <= python[:2] <= _LAST_PYTHON:
        first, last = (".".join(map(str, version)) for version in (_FIRST_PYTHON, _LAST_PYTHON))
        return f"coremltools has wheels for Python {first} to {last}: use one of these"
    return ""


def how_to_install(extra: str) -> str:
    """Returns the command that installs an optional part of this package for the Python that runs.

    The `pip` on the path may be another one's, and no index has this package: a checkout names itself, and an
    installed package needs no index for its own extras.

    Args:
        extra: The name of the extra.
    """
    import platform

    lacking = wheels_hint(sys.version_info[:2], sys.platform, platform.machine())
    if lacking and extra in ("coreml", "convert"):
        return lacking
    root = Path(__file__).parents[3]
    try:
        here = Path.cwd()
    except OSError:  # The folder was removed.
        here = root.parent
    package = "coremlscope"
    if (root / "pyproject.toml").is_file():
        package = "." if root == here else str(root)
    python = Path(sys.executable)
    shown = python.relative_to(here) if python.is_relative_to(here) else python
    return f"{shown} -m pip install '{package}[{extra}]'"


#: Created beforehand: there may be no memory left for it.
_NO_MEMORY = CoremlscopeError("there is not enough memory", "free memory, or use a larger machine")


def known_error(error: BaseException, subject: str = "") -> CoremlscopeError:
    """Returns the error that tells a person of any exception, at the border of a verb or a job.

    Args:
        error: The exception.
        subject: What was worked on: the path of a model, or several.
    """
    if isinstance(error, CoremlscopeError):
        return error
    # A library that does not fit into the limit of memory (`ulimit -v`) is no library that is missing.
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):
        return _NO_MEMORY
    if isinstance(error, OSError):
        name = error.filename if error.filename is not None else subject
        what = reason_of(error)
        text = f"{_text(name)}: {what}" if name else what
        if error.errno in _FULL:
            return OutputError(text, "free some space, or choose another folder")
        return CoremlscopeError(text, "check the path, its permissions and its disk")
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    shown = f"{type(error).__name__}{': ' if said else ''}{said}"[:_LONGEST]
    on = f" on {subject}" if subject else ""
    return UnforeseenError(
        f"coremlscope failed{on}; please report it: {shown}{_place(error)}",
        "run it with --debug and add the traceback, and the file if you may",
    )


def reason_of(error: OSError) -> str:
    """Returns what the system says; where a folder was copied, of the first file that failed."""
    said = error.args[0] if error.args else ""
    if isinstance(said, list) and said:  # of `shutil.Error`: its source, its target and the text of an error
        said = str(said[0][-1]).partition("] ")[2].partition(": ")[0]
    return error.strerror or str(said) or type(error).__name__


def _text(name: str | bytes | int) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


def _place(error: BaseException) -> str:
    """Returns where an exception was raised, as the end of a sentence."""
    import traceback  # slow to import

    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
