"""Model states, which persist from one prediction to the next."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.model.ir import Array, DType
from coremlscope.ops.program import StatePort
from coremlscope.runtime.engines.base import Session, SessionState


class State:
    """The content of all states of one function, initially zero.

    A session keeps the content between predictions, and hands it over to the next session that predicts with
    it, as functions that are compiled for other input shapes do. A prediction holds the lock, so predictions
    that share a state run one after another. One that fails leaves the content as it was.

    Args:
        ports: The states of the lowered program.
    """

    def __init__(self, ports: Sequence[StatePort]) -> None:
        self._ports = {port.name: port for port in ports}
        self._session: Session | None = None
        self._held: SessionState | None = None
        #: What no session keeps yet, by the names of ONNX values.
        self._content: dict[str, Array] = {
            port.value: np.zeros([d or 1 for d in port.type.shape or ()], port.dtype) for port in ports
        }
        self._lock = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the states."""
        return tuple(self._ports)

    def read(self, name: str) -> Array:
        """Copies one state's content, in the dtype of the lowered program: float32 for fp16 states.

        Raises:
            InputError: The state is unknown.
        """
        port = self._port(name)
        with self._lock:
            return self._read(port)

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
        with self._lock:
            expected = self._read(port).shape
            if array.shape != expected:
                raise InputError(
                    f"the state {name!r} has the shape {list(expected)}, but {list(array.shape)} was given",
                    "use an array of that shape",
                )
            content = np.array(_rounded(array, port), dtype=port.dtype, order="C")
            if self._held is None:
                self._content[port.value] = content
            else:
                self._held.write(port.value, content)

    def feeds(self) -> dict[str, Array]:
        """Copies the content of all states, by the names of their ONNX values."""
        with self._lock:
            return {port.value: self._read(port) for port in self._ports.values()}

    def run(self, session: Session, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs a session of the function with the content, and keeps what becomes of it.

        Args:
            session: The session.
            feeds: An array for each other input, by the name of the ONNX value.

        Returns:
            Every other output, by the name of the ONNX value.

        Raises:
            EngineError: The engine failed.
        """
        with self._lock:
            if self._held is None or session is not self._session:
                content = {port.value: self._read(port) for port in self._ports.values()}
                self._held, self._session = session.hold(content), session
                self._content.clear()
            return self._held.run(feeds)

    def _read(self, port: StatePort) -> Array:
        return self._content[port.value].copy() if self._held is None else self._held.read(port.value)

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
