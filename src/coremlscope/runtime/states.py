"""A model's state, as coremltools' `MLState` holds it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from coremlscope.runtime.refusals import as_runtime_error

if TYPE_CHECKING:
    from coremlscope.execution import State
    from coremlscope.ir import Array

__all__ = ["StateProxy"]


class StateProxy:
    """The values that predictions read and update. Predictions with one state take turns."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.lock = threading.Lock()

    def read_state(self, name: str) -> Array:
        """A copy of a value; float32 for fp16 states.

        Raises:
            RuntimeError: The model has no such state.
        """
        with self.lock, as_runtime_error():
            return self.state.read(name)

    def write_state(self, name: str, value: Any) -> None:
        """Sets a value, rounded to the type of the state.

        Raises:
            RuntimeError: The model has no such state, or the value has another shape.
        """
        with self.lock, as_runtime_error():
            self.state.write(name, value)
