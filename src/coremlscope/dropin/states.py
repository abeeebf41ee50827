"""A model's state, as coremltools' `MLState` holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coremlscope.dropin.refusals import as_runtime_error

if TYPE_CHECKING:
    from coremlscope.execution.state import State
    from coremlscope.ir import Array

__all__ = ["StateProxy"]


class StateProxy:
    """The values that predictions read and update. Predictions that share a state take turns."""

    def __init__(self, state: State) -> None:
        self.state = state

    def read_state(self, name: str) -> Array:
        """A copy of a value; float32 for fp16 states.

        Raises:
            RuntimeError: The model has no such state.
        """
        with as_runtime_error():
            return self.state.read(name)

    def write_state(self, name: str, value: Any) -> None:
        """Sets a value, rounded to the type of the state.

        Raises:
            RuntimeError: The model has no such state, or the value has another shape.
        """
        with as_runtime_error():
            self.state.write(name, value)
