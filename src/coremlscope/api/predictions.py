"""Predictions by the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coremlscope.api.models import Source, read
from coremlscope.model.ir import Model

if TYPE_CHECKING:
    from coremlscope.results.measurement import Precision
    from coremlscope.runtime.execution.pipeline import PipelinePredictor
    from coremlscope.runtime.execution.predictor import Predictor


def open(
    source: Source, *, function: str | None = None, precision: Precision = "fp32"
) -> Predictor | PipelinePredictor:
    """Loads a model to make several predictions.

    Args:
        source: The model.
        function: The function; None for the default one.
        precision: `fp16` rounds every result that is declared as fp16, as a device does.

    Returns:
        A context manager with `predict(values)`, `new_state()` and `close()`.

    Raises:
        ModelError: The model cannot be read or run.
        UsageError: The model has no such function.
        EngineError: The engine rejected the model.
    """
    from coremlscope.runtime.execution.pipeline import open_predictor

    return open_predictor(read(source), function, precision=precision)


def predict(
    source: Source,
    values: Mapping[str, Any],
    *,
    function: str | None = None,
    precision: Precision = "fp32",
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
) -> dict[str, Any]:
    """Makes one prediction.

    Args:
        source: The model. States begin with zeros.
        values: Arrays, Pillow images, numbers, strings or dictionaries, by name of the input.
        function: The function; None for the default one.
        precision: `fp16` rounds every result that is declared as fp16, as a device does.
        isolate: Reads and runs the model in a process of its own.
        timeout_s: Seconds that it may take; implies `isolate`.
        memory_bytes: Resident memory that it may take; implies `isolate`.

    Returns:
        The outputs by name, with the types of coremltools on a Mac.

    Raises:
        ModelError: The model cannot be read or run.
        InputError: A value is missing, unknown, or has the wrong shape or type.
        UsageError: The model has no such function, or is not in a file and is to be isolated.
        EngineError: The engine failed, or reached a limit.
    """
    if isolate or timeout_s or memory_bytes:
        from coremlscope.base.processes.child import ChildLimits
        from coremlscope.measure.embedded.process import call_isolated, file_of

        given = {"source": file_of(source) if isinstance(source, Model) else source, "values": values}
        limits = ChildLimits(time_s=timeout_s, memory_bytes=memory_bytes)
        options = {"function": function, "precision": precision}
        found: dict[str, Any] = call_isolated(predict, {**given, **options}, limits=limits)
        return found
    with open(source, function=function, precision=precision) as predictor:
        return predictor.predict(values)
