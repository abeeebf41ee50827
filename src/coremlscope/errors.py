"""The one error tree. Every error has a sentence, a hint and an exit code.

    CoremlscopeError                    1
    ├─ UsageError                       2  an option or argument is wrong
    ├─ ModelError                       3  something about the model file
    │  ├─ NotAModelError                3  the path is not a Core ML model at all
    │  ├─ CorruptModelError             3  it is one, but damaged or hostile
    │  ├─ MissingWeightsError           3  a weight file is absent or a blob is out of range
    │  └─ UnsupportedModelError         5  a valid model of a kind that cannot be run here
    │     └─ UnsupportedOpError         5  operations that cannot be lowered (all are named at once)
    ├─ InputError                       4  an input value: missing, unknown, wrong shape or dtype
    ├─ EngineError                      6  the engine refused or failed
    ├─ MissingDependencyError           7  an optional package is needed
    └─ OutputError                      8  the result cannot be written

Foreign exceptions are wrapped at the borders only: reader, engine, output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "CoremlscopeError",
    "CorruptModelError",
    "EngineError",
    "InputError",
    "MissingDependencyError",
    "MissingWeightsError",
    "ModelError",
    "NotAModelError",
    "OutputError",
    "UnsupportedModelError",
    "UnsupportedOpError",
    "UsageError",
]


class CoremlscopeError(Exception):
    """Something that stops the work.

    Args:
        message: One sentence that says what is wrong, with the names and numbers concerned.
        hint: One sentence that says what to do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CoremlscopeError):
    """An option or an argument is wrong."""

    exit_code = 2


class ModelError(CoremlscopeError):
    """The model file cannot be used."""

    exit_code = 3


class NotAModelError(ModelError):
    """The path does not hold a Core ML model."""


class CorruptModelError(ModelError):
    """The file is a Core ML model, but damaged, truncated or hostile."""


class MissingWeightsError(ModelError):
    """A weight file is absent, or a blob lies outside it."""


class UnsupportedModelError(ModelError):
    """A valid model that cannot be run here."""

    exit_code = 5


class UnsupportedOpError(UnsupportedModelError):
    """The program holds operations that cannot be lowered.

    Args:
        ops: `(op type, op id, reason)` of every such operation of the program.
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
    """The engine refused the graph or failed while running it."""

    exit_code = 6


class MissingDependencyError(CoremlscopeError):
    """An optional package is needed and not installed."""

    exit_code = 7


class OutputError(CoremlscopeError):
    """The result cannot be written where it was asked for."""

    exit_code = 8
