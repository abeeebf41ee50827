"""The child process that times a model in Core ML and sends each phase to its parent.

It calls `time_model` with the JSON file of a `CoreMLTimingRequest`; the values of the inputs are next to it.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.processes.channel import send
from coremlscope.base.processes.limits import peak_memory_bytes
from coremlscope.measure.coreml.energy import find_meter, measure_energy
from coremlscope.measure.coreml.messages import end_with_error
from coremlscope.measure.coreml.values import RESULTS, STATES, load_values, save_arrays
from coremlscope.measure.phase_timer import PhaseTimer

#: A file beside the request: the parent creates it when timed predictions are to begin.
GO = "go"
_POLL_S = 0.005
_LONGEST_WAIT_S = 600.0
#: Recordings grow by some 30 MB a second.
_RECORDED_S = 5.0


class CoreMLTimingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Timings requested of the child process.

    Attributes:
        model: The model.
        compute_units: Name of a `coremltools.ComputeUnit`.
        function: The function; empty for the only one.
        states: The names of its states, which predictions share.
        compiles: Timed compilations.
        loads: Timed loads after the first one.
        iterations: Timed predictions.
        early: The phases that end early; see `Settings`.
        warmups: Predictions before them; None for as many as it takes.
        waits: True to wait for the parent before the timed predictions, and to end them after some seconds.
        keeps: True to write what the last prediction returned, and states, whose content was written before.
    """

    model: str
    compute_units: str
    function: str
    states: Sequence[str]
    compiles: int
    loads: int
    iterations: int
    warmups: int | None
    waits: bool = False
    keeps: bool = False
    early: Sequence[str] = ()


def time_model(file: str) -> None:
    """Times compilations, loads and predictions.

    Args:
        file: The file of the request.
    """
    request = msgspec.json.decode(Path(file).read_bytes(), type=CoreMLTimingRequest)
    try:
        _Run(request, Path(file).parent).time()
    except Exception as error:
        end_with_error(error)
    send(peak_memory_bytes=peak_memory_bytes())


class _Run:
    """One model, compiled and loaded repeatedly; at most one loaded model exists at a time."""

    def __init__(self, request: CoreMLTimingRequest, folder: Path) -> None:
        import coremltools
        from coremltools.libcoremlpython import _MLModelProxy  # noqa: F401 - absent: Core ML is out of reach

        send(coremltools=coremltools.__version__)
        self._request, self._folder = request, folder
        self._unit = getattr(coremltools.ComputeUnit, request.compute_units.upper())
        self._compiled = Path(request.model)
        self._model: Any = None
        self._results: Mapping[str, Any] = {}
        self._numbers = itertools.count()
        self._phases = PhaseTimer(request.warmups, request.early)

    def time(self) -> None:
        """Times every phase."""
        request = self._request
        if self._compiled.suffix != ".mlmodelc":
            self._phases.repeat("compile", self._compile, request.compiles, after=self._keep_one)
        # The first load after a compilation is cold.
        self._phases.repeat("first load", self._load, 1, before=self._release, after=self._note_load)
        self._phases.repeat("load", self._load, request.loads, before=self._release, after=self._note_load)
        values, states = load_values(self._folder), self._make_states()

        def predict() -> None:
            self._results = self._model.predict(values, *states)

        warmups = self._phases.repeat("warm-up", predict, None, after=self._note_prediction)
        iterations = request.iterations
        if request.waits:
            iterations = min(iterations, _fitting(predict, warmups))
            self._wait()
        self._phases.repeat("predict", predict, iterations, after=self._note_prediction)
        send(not_finite=_not_finite(self._results))
        if request.keeps:
            save_arrays(self._results, self._folder, RESULTS)
            after = {name: state.read_state(name) for state in states for name in request.states}
            save_arrays(after, self._folder, STATES)
            return
        meter = None if request.waits else find_meter()
        if meter is not None:
            send(progress="energy")
            send(energy=measure_energy(meter, predict))

    def _make_states(self) -> list[Any]:
        """Returns the state of predictions, with the content that was written for it; none without states."""
        if not self._request.states:
            return []
        send(begins="state")
        state = self._model.make_state()
        for name, content in (load_values(self._folder, STATES) if self._request.keeps else {}).items():
            state.write_state(name, content)
        return [state]

    def _wait(self) -> None:
        """Reports to the parent that the model is loaded, and waits until it has started to record."""
        send(waits=os.getpid())
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while not (self._folder / GO).exists():
            if time.monotonic() > deadline:
                sys.exit("the parent process did not say when to predict")
            time.sleep(_POLL_S)

    def _compile(self) -> None:
        from coremltools.models.utils import compile_model

        target = self._folder / f"compiled{next(self._numbers)}.mlmodelc"
        self._compiled = Path(compile_model(self._request.model, str(target)))

    def _keep_one(self) -> None:
        for folder in self._folder.glob("*.mlmodelc"):
            if folder != self._compiled:
                shutil.rmtree(folder, ignore_errors=True)

    def _release(self) -> None:
        """Releases the model that was loaded before, so that two never take memory at a time."""
        self._model = None
        gc.collect()

    def _load(self) -> None:
        from coremltools.models import CompiledMLModel

        options = {"function_name": self._request.function} if self._request.function else {}
        self._model = CompiledMLModel(str(self._compiled), self._unit, **options)

    def _note_load(self) -> None:
        self._note("get_load_duration_in_nano_seconds")

    def _note_prediction(self) -> None:
        self._note("get_last_predict_duration_in_nano_seconds")

    def _note(self, name: str) -> None:
        """Core ML's own duration, where coremltools has it: without conversions of inputs and outputs."""
        with suppress(AttributeError):
            duration = getattr(self._model._proxy, name)()
            if duration is not None:
                self._phases.native_ns.append(int(duration))


def _not_finite(results: Mapping[str, Any]) -> list[str]:
    """Names the outputs with elements, or probabilities of labels, that are infinite or not a number."""
    values = {name: list(one.values()) if isinstance(one, dict) else one for name, one in results.items()}
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return [name for name, one in arrays.items() if one.dtype.kind == "f" and not np.isfinite(one).all()]


def _fitting(predict: Callable[[], object], seconds: Sequence[float]) -> int:
    """How many predictions fit into a recording, at least one, by the last warm-up."""
    if not seconds:
        began = time.perf_counter()
        predict()
        seconds = [time.perf_counter() - began]
    return max(1, int(_RECORDED_S / max(seconds[-1], 1e-9)))
