"""The state of a model, which coremltools' `MLState` wraps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coremlscope.dropin.errors import as_runtime_error

if TYPE_CHECKING:
    from coremlscope.model.ir import Array
    from coremlscope.runtime.execution.state import State


class StateProxy:
    """The state that predictions read and update. Predictions that share a state run one after another."""

    def __init__(self, state: State) -> None:
        self.state = state

    def read_state(self, name: str) -> Array:
        """Copies the content of a state; float32 for fp16 states.

        Raises:
            RuntimeError: The state is unknown.
        """
        with as_runtime_error():
            return self.state.read(name)

    def write_state(self, name: str, value: Any) -> None:
        """Replaces the content of a state, rounded to the state's type.

        Raises:
            RuntimeError: The state is unknown, or its shape differs.
        """
        with as_runtime_error():
            self.state.write(name, value)
