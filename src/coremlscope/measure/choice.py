"""Chooses what measures: an embedded engine, in this process or in one of its own, Core ML or Core AI."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING

from coremlscope.engines import engine as engine_of
from coremlscope.errors import UsageError
from coremlscope.measure.child import ChildLimits
from coremlscope.measure.contract import Measurer
from coremlscope.measure.coreml.files import require_coremltools
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS

if TYPE_CHECKING:
    from coremlscope.measure.embedded.isolated import IsolatedMeasurer
    from coremlscope.measure.embedded.measurer import EngineMeasurer

__all__ = ["choose_embedded", "choose_engine", "choose_measurer"]

#: Names the engine that measures where none is named.
_ENGINE_VARIABLE = "COREMLSCOPE_ENGINE"


def choose_engine(asked: str | None = None, *, only_embedded: bool = False) -> str:
    """Returns the name of the engine that measures.

    Args:
        asked: The engine that the user named; None if there is none.
        only_embedded: Whether something is asked for that only embedded engines have.

    Returns:
        The engine that was named, else `onnxruntime` for what only embedded engines have, else that of the
        environment variable COREMLSCOPE_ENGINE, else `coreml` on a Mac and `onnxruntime` elsewhere.
    """
    if asked or only_embedded:
        return asked or "onnxruntime"
    return os.environ.get(_ENGINE_VARIABLE) or ("coreml" if sys.platform == "darwin" else "onnxruntime")


def choose_measurer(
    engine: str,
    threads: int | None,
    isolate: bool,
    limits: tuple[float | None, int | None],
    others: bool = False,
    only_embedded: bool = False,
) -> Measurer:
    """Returns what measures with an engine, with Core ML, or with Core AI.

    Args:
        engine: The engine, `coreml` or `coreai`.
        threads: Threads that work on one operation.
        isolate: Whether an engine runs in a process of its own; Core ML and Core AI always do.
        limits: Seconds and bytes of memory; None for no limit.
        others: Whether Core ML's other predictions are timed.
        only_embedded: Whether something is asked for that only embedded engines have.

    Raises:
        UsageError: The engine is unknown, or has no other predictions or no choice of threads, or Core ML is
            asked for elsewhere than on a Mac, or with what it does not have.
        MissingDependencyError: Core ML is asked for, and coremltools is not installed, or Core AI and
            coreai-core.
    """
    time_s, memory = limits
    if engine != "coreml":
        if others:
            raise UsageError(
                "--other-predictions times Core ML through pyobjc, on a Mac only", "profile without it"
            )
        if engine == "coreai":
            return _choose_core_ai(threads, limits)
        return choose_embedded(engine, threads, isolate, limits)
    if only_embedded:
        raise UsageError(
            "threads, synthetic weights, fp16 precision and models in memory are not for Core ML",
            "use --engine onnxruntime",
        )
    if sys.platform != "darwin":
        raise UsageError(
            "Core ML can be measured only on a Mac",
            "use --engine onnxruntime, and --device NAME for an estimate",
        )
    from coremlscope.measure.coreml.other_predictions import OtherPredictions
    from coremlscope.measure.coreml.timing import CoreMLMeasurer

    require_coremltools()
    held = dataclasses.replace(
        CORE_ML_LIMITS, time_s=time_s, memory_bytes=memory or CORE_ML_LIMITS.memory_bytes
    )
    return CoreMLMeasurer(limits=held, others=OtherPredictions() if others else None)


def _choose_core_ai(threads: int | None, limits: tuple[float | None, int | None]) -> Measurer:
    from coremlscope.measure.coreai.measurer import CoreAIMeasurer, require_coreai

    if threads is not None:
        raise UsageError("Core AI chooses its threads itself", "leave out --threads")
    require_coreai()
    time_s, memory = limits
    held = CoreAIMeasurer().limits
    return CoreAIMeasurer(
        limits=dataclasses.replace(held, time_s=time_s, memory_bytes=memory or held.memory_bytes)
    )


def choose_embedded(
    engine: str, threads: int | None, isolate: bool, limits: tuple[float | None, int | None]
) -> EngineMeasurer | IsolatedMeasurer:
    """Returns what measures with an embedded engine: in a process of its own if there are limits.

    Raises:
        UsageError: The engine is unknown.
    """
    time_s, memory = limits
    if isolate or time_s or memory:
        from coremlscope.measure.embedded.isolated import IsolatedMeasurer

        held = ChildLimits(time_s=time_s, memory_bytes=memory)
        return IsolatedMeasurer(engine=engine, threads=threads, limits=held)
    from coremlscope.measure.embedded.measurer import EngineMeasurer

    return EngineMeasurer(engine=engine_of(engine), threads=threads)
