"""A call of a recorded function, as those who describe it see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

#: The attribute that holds the number of a loaded model.
NUMBER = "_coremlscope_trace_number"


class Registry(Protocol):
    """Who keeps the facts of loaded models."""

    def new_model(self, facts: dict[str, Any], owner: Any) -> int:
        """Stores the facts of a model until `owner` ends, and returns its number."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of a recorded function.

    Attributes:
        args: Its positional arguments.
        kwargs: Its named arguments.
        recorder: Who records it.
        is_nested: Whether it is made inside another recorded activity.
        result: What it returned.
        model: The number of the model.
        detail: What it did, in a few words.
        bytes: Bytes that it converted, or of the inputs of a prediction.
        address: The address of the first input's memory.
        flags: Bits of `results.events`.
        is_dropped: Set if the call is no event.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    recorder: Registry
    is_nested: bool
    result: Any = None
    model: int = 0
    detail: str = ""
    bytes: int = 0
    address: int = 0
    flags: int = 0
    is_dropped: bool = False

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by its position, `self` included, or its name."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)
