"""Chooses what measures: an embedded engine, in this process or in one of its own, Core ML or Core AI."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

import msgspec.structs

from coremlscope.base.errors import UsageError, how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.measure.contract import Measurer
from coremlscope.measure.coreml.files import has_coremltools, require_coremltools
from coremlscope.measure.coreml.limits import core_ml_limits
from coremlscope.measure.effort import Effort
from coremlscope.runtime.engines import engine as engine_of

if TYPE_CHECKING:
    from coremlscope.measure.coreml.kept import KeptFolders
    from coremlscope.measure.embedded.isolated import IsolatedMeasurer
    from coremlscope.measure.embedded.measurer import EngineMeasurer

#: Names the engine that measures where none is named.
_ENGINE_VARIABLE = "COREMLSCOPE_ENGINE"


def choose_engine(asked: str | None = None, *, only_embedded: bool = False) -> str:
    """Returns the name of the engine that measures.

    Args:
        asked: The engine that the user named; None if there is none.
        only_embedded: Whether something is asked for that only embedded engines have.

    Returns:
        The engine that was named, else `onnxruntime` for what only embedded engines have, else that of the
        environment variable COREMLSCOPE_ENGINE, else `coreml` on a Mac with coremltools, and `onnxruntime`
        elsewhere.
    """
    if asked or only_embedded:
        return asked or "onnxruntime"
    has_core_ml = sys.platform == "darwin" and has_coremltools()
    return os.environ.get(_ENGINE_VARIABLE) or ("coreml" if has_core_ml else "onnxruntime")


def default_engine_findings(asked: str | None = None, *, only_embedded: bool = False) -> tuple[Finding, ...]:
    """Returns a finding where a Mac's own runtime is left out only because coremltools is not installed.

    Args:
        asked: The engine that the user named; None if there is none.
        only_embedded: Whether something is asked for that only embedded engines have.
    """
    is_default = not (asked or only_embedded or os.environ.get(_ENGINE_VARIABLE))
    if not is_default or sys.platform != "darwin" or has_coremltools():
        return ()
    text = "ONNX Runtime was measured instead of Core ML, which is reached through coremltools: it is absent."
    hint = f"measure Core ML itself: {how_to_install('coreml')}"
    return (Finding(id="core-ml-not-measured", severity="warning", text=text, hint=hint),)


def choose_measurer(
    engine: str,
    effort: Effort,
    others: bool = False,
    only_embedded: bool = False,
    kept: KeptFolders | None = None,
) -> Measurer:
    """Returns what measures with an engine, with Core ML, or with Core AI.

    Args:
        engine: The engine, `auto` for the faster of the embedded ones, `coreml` or `coreai`.
        effort: Threads and limits, and whether an engine runs in a process of its own; Core ML and Core AI
            always do.
        others: Whether Core ML's other predictions are timed.
        only_embedded: Whether something is asked for that only embedded engines have.
        kept: Keeps what Core ML compiled; None to keep nothing.

    Raises:
        UsageError: The engine is unknown, or has no other predictions or no choice of threads, or Core ML or
            Core AI is asked for elsewhere than on a Mac, or with what it does not have.
        MissingDependencyError: Core ML is asked for, and coremltools is not installed, or Core AI and
            coreai-core.
    """
    if engine != "coreml":
        if others:
            raise UsageError(
                "--other-predictions times Core ML through pyobjc, on a Mac only", "profile without it"
            )
        if engine == "coreai":
            return _choose_core_ai(effort)
        if engine == "auto":
            from coremlscope.measure.embedded.fastest import FastestMeasurer, try_engines

            time_s, memory = effort.timeout_s, effort.memory_bytes
            is_held = effort.isolate or time_s or memory
            held = ChildLimits(time_s=time_s, memory_bytes=memory) if is_held else None
            return FastestMeasurer(
                lambda name: choose_embedded(name, effort),
                functools.partial(try_engines, threads=effort.threads, limits=held),
            )
        return choose_embedded(engine, effort)
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
    from coremlscope.measure.coreml.other_predictions import time_others
    from coremlscope.measure.coreml.timing import CoreMLMeasurer

    require_coremltools("`--engine onnxruntime` needs no coremltools")
    return CoreMLMeasurer(limits=core_ml_limits(effort), others=time_others if others else None, kept=kept)


def _choose_core_ai(effort: Effort) -> Measurer:
    from coremlscope.measure.coreai.measurer import CoreAIMeasurer, require_coreai

    if effort.threads is not None:
        raise UsageError("Core AI chooses its threads itself", "leave out --threads")
    if sys.platform != "darwin":
        raise UsageError(
            "Core AI can be measured only on a Mac",
            "use --engine onnxruntime, and --device NAME for an estimate",
        )
    require_coreai()
    held = CoreAIMeasurer().limits
    memory = effort.memory_bytes or held.memory_bytes
    return CoreAIMeasurer(limits=msgspec.structs.replace(held, time_s=effort.timeout_s, memory_bytes=memory))


def choose_embedded(engine: str, effort: Effort) -> EngineMeasurer | IsolatedMeasurer:
    """Returns what measures with an embedded engine: in a process of its own if there are limits.

    Raises:
        UsageError: The engine is unknown.
    """
    if effort.isolate or effort.timeout_s or effort.memory_bytes:
        from coremlscope.measure.embedded.isolated import IsolatedMeasurer

        held = ChildLimits(time_s=effort.timeout_s, memory_bytes=effort.memory_bytes)
        return IsolatedMeasurer(engine=engine, threads=effort.threads, limits=held)
    from coremlscope.measure.embedded.measurer import EngineMeasurer

    return EngineMeasurer(engine=engine_of(engine), threads=effort.threads)
