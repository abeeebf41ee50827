"""Model states, which persist from one prediction to the next."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.model.ir import Array, DType
from coremlscope.ops.program import StatePort

__all__ = ["State"]

#: At most one element in so many is replaced by itself; otherwise all of them are.
_FEW = 8


class State:
    """The content of all states of one function, initially zero.

    The content of fp16 states is rounded to fp16 on every write, as on a device. A prediction holds the lock
    while it reads and updates the content, so predictions that share a state run one after another.

    Args:
        ports: The states of the lowered program.
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
        """Copies one state's content, in the dtype of the lowered program: float32 for fp16 states.

        Raises:
            InputError: The state is unknown.
        """
        self._port(name)
        with self.lock:
            return self._content[name].copy()

    def write(self, name: str, value: Array) -> None:
        """Replaces one state's content.

        Args:
            name: The state's name.
            value: The new content, of the state's shape. It is converted to the state's type.

        Raises:
            InputError: The state is unknown, or its shape differs.
        """
        port = self._port(name)
        array = np.asarray(value)
        expected = self._content[name].shape
        if array.shape != expected:
            raise InputError(
                f"the state {name!r} has the shape {list(expected)}, but {list(array.shape)} was given",
                "use an array of that shape",
            )
        with self.lock:
            self._content[name] = np.array(_rounded(array, port), dtype=port.dtype, order="C")

    def feeds(self) -> dict[str, Array]:
        """The engine's inputs for the states, by the names of their ONNX values."""
        return {port.value: self._content[port.name] for port in self._ports.values()}

    def update(self, results: Mapping[str, Array]) -> None:
        """Stores the updated states from the engine's results, by the names of their ONNX values."""
        for port in self._ports.values():
            if port.updated is not None:
                self._change(port, results[port.updated])

    def _change(self, port: StatePort, value: Array) -> None:
        """Replaces the elements that differ: a decoder changes one row of a cache of thousands."""
        with self.lock:
            content = self._content[port.name]
            if value.shape == content.shape:
                places = np.flatnonzero(value != content)
                if places.size * _FEW <= content.size:
                    content.reshape(-1)[places] = _rounded(value.reshape(-1)[places], port)
                    return
            self.write(port.name, value)

    def _port(self, name: str) -> StatePort:
        if name not in self._ports:
            known = ", ".join(self._ports) or "none"
            raise InputError(f"unknown state {name!r}", f"states: {known}")
        return self._ports[name]


def _rounded(array: Array, port: StatePort) -> Array:
    """The elements as the type of a state holds them."""
    if port.type.dtype is not DType.FP16:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float16)
