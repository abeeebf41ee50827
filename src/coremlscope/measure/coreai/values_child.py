"""The child process that runs a model once in Core AI's interpreter and saves what its operations compute.

It calls `save_values_of` with the JSON file of a `ValuesRequest`; the values of the inputs are next to it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.base.processes.channel import send
from coremlscope.base.writing import open_draft, write_draft
from coremlscope.formats.recordings.core_ai import INTERPRETER, read_debug_info
from coremlscope.measure.coreai.program import CoreAIProgram

#: The files beside the request: the debug information, and the arrays, named by their order.
DEBUG_INFO, RESULTS = "debug-info.json", "results.npz"
#: Message of the process where the values do not fit in memory.
TOO_LARGE = "intermediate values are larger than allowed"
#: Kinds of types of NumPy that a file can hold; others, such as bfloat16, are saved as float32.
_PLAIN_KINDS = "fiub"


class ValuesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Values requested of the child process.

    Attributes:
        model: The bundle.
        function: The function.
        most_bytes: The most that all values may take.
    """

    model: str
    function: str
    most_bytes: int


def save_values_of(file: str) -> None:
    """Runs the model, and saves its values.

    Args:
        file: The file of the request.
    """
    request = msgspec.json.decode(Path(file).read_bytes(), type=ValuesRequest)
    with asyncio.Runner() as runner:
        _record(request, Path(file).parent, runner.run)


def _record(request: ValuesRequest, folder: Path, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    program = CoreAIProgram(request.model, request.function, folder, wait)
    if program.is_system:
        raise UsageError("the system's framework does not report the values of operations")
    send(coreai=program.version)
    program.lower()
    program.load()
    write_draft(folder / DEBUG_INFO, program.debug_info)
    recorder = _Recorder(request.most_bytes)
    program.observe(intermediate_logger=recorder.logger(program))
    outputs = program.predict(program.inputs(), program.states())
    if recorder.bytes > request.most_bytes:
        raise MemoryError(TOO_LARGE)
    arrays = [
        *(array for _, array in recorder.values),
        *(_plain(found.numpy()) for found in outputs.values()),
    ]
    with open_draft(folder / RESULTS) as file:
        np.savez(file, **{str(place): array for place, array in enumerate(arrays)})  # type: ignore[arg-type]
    program.release()
    send(values=[about for about, _ in recorder.values], outputs=list(outputs))


class _Recorder:
    """Collects the results of operations. Callbacks may come from another thread.

    Attributes:
        values: The number of the operation, how many ran before it, and the place among its results; with the
            elements.
        bytes: The size of all, also of those that were not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self.values: list[tuple[tuple[int, int, int], np.ndarray]] = []
        self.bytes = 0
        self._count = 0
        self._most_bytes = most_bytes
        self._wanted: dict[int, frozenset[int]] = {}

    def logger(self, program: CoreAIProgram) -> Any:
        """Returns what makes the runtime report the results that are those of operations of the file."""
        for record in read_debug_info(json.loads(program.debug_info)):
            if record.record == INTERPRETER and record.id is not None and record.results:
                self._wanted[record.id] = frozenset(own for own, *_ in record.results)
        runtime = program.runtime
        self._wrap = runtime._ndarray.NDArray._wrap
        return runtime.IntermediateLogger(
            requested_intermediates=[runtime.CompileIdentifiers(number, None) for number in self._wanted],
            callback=self._note,
            is_enabled=True,
        )

    def _note(self, arrays: Sequence[Any], kind: str, ids: Any) -> None:
        if kind != "output":
            return
        for place, array in enumerate(arrays):
            if array is None or place not in self._wanted.get(ids.id, ()):
                continue
            found = self._wrap(array).numpy()
            self.bytes += found.nbytes
            if self.bytes <= self._most_bytes:
                self.values.append(((ids.id, self._count, place), _plain(found)))
        self._count += 1


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns a copy in a type that a file can hold."""
    return np.array(array, None if array.dtype.kind in _PLAIN_KINDS else np.float32)
