"""The child process that times what coremltools lacks: output backings and asynchronous predictions.

It calls `time_other`. The request is that of `timing_child`, whose compiled model is in the same folder.

Written against Apple's documented interface and pyobjc's metadata; not yet confirmed on a device.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.processes.channel import send
from coremlscope.measure.coreml.messages import end_with_error
from coremlscope.measure.coreml.objective_c import PredictionModel, find_framework, release_pool
from coremlscope.measure.coreml.timing_child import CoreMLTimingRequest
from coremlscope.measure.coreml.values import load_values
from coremlscope.runtime.engines.sampling import sample

#: How many asynchronous predictions are in flight at the same time.
IN_FLIGHT = (1, 2, 4)


def time_other(file: str, kind: str) -> None:
    """Times one other way to predict.

    Args:
        file: The file of the request.
        kind: `backings` or `async`.
    """
    framework, folder = find_framework("MLPredictionOptions"), Path(file).parent
    if framework is None:
        send(absent=True)
        return
    request = msgspec.json.decode(Path(file).read_bytes(), type=CoreMLTimingRequest)
    try:
        model = PredictionModel(
            framework, _compiled(request, folder), request.compute_units, request.function
        )
        send(progress="load")
        _KINDS[kind](model, model.provider(load_values(folder)), request)
    except RuntimeError as error:
        end_with_error(error)


def _compiled(request: CoreMLTimingRequest, folder: Path) -> str:
    """The model as it was compiled last."""
    if request.model.endswith(".mlmodelc"):
        return request.model
    compiled = next(folder.glob("*.mlmodelc"), None)
    if compiled is None:
        raise RuntimeError("the compiled model is absent")
    return str(compiled)


def _time_backings(model: PredictionModel, provider: Any, request: CoreMLTimingRequest) -> None:
    """Times predictions into arrays made after the outputs of one prediction."""
    with release_pool():
        backings = model.make_backings(model.predict(provider, model.options()))
    if not backings:
        raise RuntimeError("the model has no outputs that are multi-arrays")
    options = model.options(backings)
    with release_pool():
        used = model.used_backings(model.predict(provider, options), backings)

    def predict() -> None:
        with release_pool():
            model.predict(provider, options)

    taken = sample(predict, request.iterations, request.warmups, after=lambda _: send(progress="backings"))
    send(
        phase="output backings",
        seconds=taken.seconds,
        warmups=taken.warmups,
        used=used,
        ignored=sorted(set(backings) - set(used)),
    )


def _time_async(model: PredictionModel, provider: Any, request: CoreMLTimingRequest) -> None:
    """Times asynchronous predictions; a sample lasts from the call to the call of its completion handler."""
    submit = model.submitter(provider)
    warm = sample(
        lambda: _predict_in_flight(submit, 1, 1),
        0,
        request.warmups,
        after=lambda _: send(progress="async"),
    )
    warmups: Sequence[float] = warm.warmups
    for in_flight in IN_FLIGHT:
        seconds, wall_s = _predict_in_flight(submit, request.iterations, in_flight)
        name = f"async, {in_flight} in flight"
        send(phase=name, seconds=seconds, warmups=warmups, in_flight=in_flight, wall_s=wall_s)
        warmups = ()


def _predict_in_flight(
    submit: Callable[[Callable[[Any, Any], None]], object], count: int, in_flight: int
) -> tuple[list[float], float]:
    """Predicts asynchronously, and starts a prediction whenever another one is completed.

    Handlers run on Core ML's queues; everything else happens in this thread.

    Args:
        submit: Starts a prediction; takes its completion handler.
        count: The number of predictions.
        in_flight: How many of them there are at a time.

    Returns:
        Seconds of each prediction, in the order of completion, and seconds from first to last.

    Raises:
        RuntimeError: A prediction failed.
    """
    completed: queue.SimpleQueue[tuple[float, Any, Any]] = queue.SimpleQueue()

    def start() -> None:
        began = time.perf_counter()
        with release_pool():
            submit(lambda outputs, error: completed.put((time.perf_counter() - began, outputs, error)))

    seconds: list[float] = []
    first = time.perf_counter()
    for _ in range(min(in_flight, count)):
        start()
    for number in range(count):
        taken, outputs, error = completed.get()
        if outputs is None:
            raise RuntimeError(str(error or "Core ML gave neither outputs nor an error"))
        seconds.append(taken)
        if number + in_flight < count:
            start()
        send(progress="async")
    return seconds, time.perf_counter() - first


_KINDS: Mapping[str, Callable[[PredictionModel, Any, CoreMLTimingRequest], None]] = {
    "backings": _time_backings,
    "async": _time_async,
}
