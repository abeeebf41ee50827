"""The child process that times a model in Core AI and sends each phase to its parent.

It calls `time_model` with the JSON file of a `CoreAITimingRequest`; the values of the inputs are next to it.
The system's framework compiles the bundle as it loads it; not yet confirmed on a device. coreai-core's
interpreter is no runtime to be timed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.processes.channel import send
from coremlscope.base.processes.endings import end_with
from coremlscope.base.processes.limits import peak_memory_bytes
from coremlscope.base.writing import write_draft
from coremlscope.measure.coreai.program import CoreAIProgram
from coremlscope.measure.phase_timer import PhaseTimer

#: The file beside the request for the debug information of the program.
DEBUG_INFO = "debug-info.json"
#: What the process says where coreai-core runs programs by its own interpreter.
NO_FRAMEWORK = "this machine has no Core AI framework, which macOS 27 brings"
#: Predictions whose operations are timed, unless they take longer than so many seconds; and at least so many.
_PROFILED_RUNS, _PROFILED_S, _LEAST_PROFILED = 30, 10.0, 3
_OPERATION, _CALL = "call.", "Function Execute"


class CoreAITimingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Timings requested of the child process.

    Attributes:
        model: The bundle.
        compute_units: The setting.
        function: The function.
        loads: Timed loads.
        iterations: Timed predictions.
        warmups: Predictions before them; None for as many as it takes.
        early: The phases that end early; see `Settings`.
    """

    model: str
    compute_units: str
    function: str
    loads: int
    iterations: int
    warmups: int | None
    early: Sequence[str] = ()


def time_model(file: str) -> None:
    """Times loads, predictions and operations.

    Args:
        file: The file of the request.
    """
    request = msgspec.json.decode(Path(file).read_bytes(), type=CoreAITimingRequest)
    with asyncio.Runner() as runner:
        _Run(request, Path(file).parent, runner.run).time()
    send(peak_memory_bytes=peak_memory_bytes())


class _Run:
    """The phases of one model."""

    def __init__(
        self, request: CoreAITimingRequest, folder: Path, wait: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._program = CoreAIProgram(request.model, request.function, folder, wait, request.compute_units)
        self._request, self._folder = request, folder
        self._phases = PhaseTimer(request.warmups, request.early)
        if not self._program.is_system:
            end_with(NO_FRAMEWORK)
        send(coreai=self._program.version)

    def time(self) -> None:
        """Times every phase."""
        request, program = self._request, self._program
        self._phases.repeat("first load", program.load, 1, before=program.release)
        self._phases.repeat("load", program.load, request.loads, before=program.release)
        inputs, states = program.inputs(), program.states()

        def predict() -> None:
            program.predict(inputs, states)

        self._phases.repeat("warm-up", predict, None, clock=lambda: program.called_s)
        self._phases.repeat("predict", predict, request.iterations, clock=lambda: program.called_s)
        write_draft(self._folder / DEBUG_INFO, program.debug_info)
        self._time_operations(predict)
        program.release()

    def _time_operations(self, predict: Callable[[], object]) -> None:
        """Predicts while Core AI's profiler reports events, and sends the operations' times of each run."""
        recorder = _Recorder()
        profiler = self._program.runtime.Profiler(recorder.event, recorder.begin, recorder.end)
        self._program.observe(profiler=profiler)
        began = time.perf_counter()
        for number in range(_PROFILED_RUNS):
            if number >= _LEAST_PROFILED and time.perf_counter() - began > _PROFILED_S:
                break
            recorder.clear()
            seconds = self._program.called_s
            predict()
            seconds = self._program.called_s - seconds
            recorder.read()
            run_s = recorder.call_s or seconds
            send(run=recorder.operations, run_s=run_s, groups=recorder.groups)
            send(progress="operations", seconds=seconds)


class _Recorder:
    """Collects the events of one prediction. Callbacks may come from another thread.

    They only keep the events, which are read after the prediction: each microsecond in a callback makes an
    operation, or the time until the next one, longer.

    Attributes:
        groups: Of delegates, the operations that are run as one, by the number of that.
        operations: The number, the delegate's number, the label and the nanoseconds of each operation.
        call_s: Seconds of the whole call by the runtime's own clock; 0 if it does not tell.
    """

    def __init__(self) -> None:
        self.groups: dict[str, list[int]] = {}
        self.operations: list[tuple[int | None, int | None, str, int]] = []
        self.call_s = 0.0
        self._began: dict[int, Any] = {}
        self._ended: list[tuple[Any, int]] = []
        self._single: list[Any] = []
        self._count = itertools.count(1)

    def clear(self) -> None:
        """Forgets the events so far, but not the groups, of which delegates tell once."""
        for kept in (self._began, self._ended, self._single, self.operations):
            kept.clear()
        self.call_s = 0.0

    def begin(self, event: Any) -> int:
        """Keeps the begin of an interval, and returns its number."""
        number = next(self._count)
        self._began[number] = event
        return number

    def end(self, event: Any, number: int) -> None:
        """Keeps the end of an interval."""
        self._ended.append((event, number))

    def event(self, event: Any) -> None:
        """Keeps an event without an end."""
        self._single.append(event)

    def read(self) -> None:
        """Reads the events that were kept: durations of operations and of the call, and groups."""
        for event, number in self._ended:
            duration = event.timestamp - self._began.get(number, event).timestamp
            if event.event_id.startswith(_OPERATION):
                self._note(event, duration)
            elif event.event_id == _CALL:
                self.call_s = max(self.call_s, duration / 1e9)
        for event in self._single:
            self._read_single(event)

    def _read_single(self, event: Any) -> None:
        """Notes the duration, or the members of a group, that a single event carries."""
        content = json.loads(event.encoded_data) if event.encoded_data else {}
        if not isinstance(content, dict):
            return
        duration = content.get("interval", {}).get("duration")
        if duration is not None and not _is_host_side(event):
            self._note(event, int(duration))
        group = content.get("compileIdGroup")
        if group is not None:
            self.groups[str(group["groupId"])] = [int(member) for member in group["members"]]

    def _note(self, event: Any, nanoseconds: int) -> None:
        ids = event.compile_ids
        self.operations.append(
            (ids.id, ids.delegate_id, event.event_id.removeprefix(_OPERATION), nanoseconds)
        )


def _is_host_side(event: Any) -> bool:
    """True for the time that the processor waited for the GPU, which has an event of its own."""
    return event.event_id.startswith("GPU") and " HW " not in event.event_id
