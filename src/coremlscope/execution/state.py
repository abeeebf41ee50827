"""States: what a model remembers from one prediction to the next."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from coremlscope.errors import InputError
from coremlscope.ir import Array, DType
from coremlscope.ops.program import StatePort

__all__ = ["State"]


class State:
    """The content of all states of one function, zero to begin with.

    Content of fp16 states is rounded to fp16 whenever it is written, as it would be on a device. A lock is
    held while a prediction reads and updates it, so that predictions that share a state follow one another.
    """

    def __init__(self, ports: Sequence[StatePort]) -> None:
        self._ports = {port.name: port for port in ports}
        self._content: dict[str, Array] = {
            port.name: np.zeros([d or 1 for d in port.type.shape or ()], port.dtype) for port in ports
        }
        self.lock = threading.RLock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the states."""
        return tuple(self._ports)

    def read(self, name: str) -> Array:
        """A copy of one state's content, in the dtype in which the program carries it.

        Raises:
            InputError: There is no such state.
        """
        self._port(name)
        with self.lock:
            return self._content[name].copy()

    def write(self, name: str, value: Array) -> None:
        """Replaces one state's content.

        Raises:
            InputError: There is no such state, or it has another shape.
        """
        port = self._port(name)
        array = np.asarray(value)
        expected = self._content[name].shape
        if array.shape != expected:
            raise InputError(
                f"the state {name!r} has the shape {list(expected)}, but {list(array.shape)} was given",
                "give an array of that shape",
            )
        if port.type.dtype is DType.FP16:
            with np.errstate(over="ignore"):
                array = array.astype(np.float16)
        with self.lock:
            self._content[name] = np.array(array, dtype=port.dtype, order="C")

    def feeds(self) -> dict[str, Array]:
        """What the graph is fed, by the names of its values."""
        return {port.value: self._content[port.name] for port in self._ports.values()}

    def update(self, results: Mapping[str, Array]) -> None:
        """Takes over what the graph gave, by the names of its values."""
        for port in self._ports.values():
            if port.updated is not None:
                self.write(port.name, results[port.updated])

    def _port(self, name: str) -> StatePort:
        if name not in self._ports:
            known = ", ".join(self._ports) or "none"
            raise InputError(f"the model has no state {name!r}", f"states: {known}")
        return self._ports[name]
