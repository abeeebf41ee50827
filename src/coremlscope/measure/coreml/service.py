"""One way to Core ML: a model under a setting of compute units, in a process of its own.

Whoever meets Core ML goes this way: the setting that Core ML is held to, the limits, the private caches, and
an error that names the setting and the phase. Not yet confirmed on a device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import write_draft
from coremlscope.devices.unit import ComputeUnits
from coremlscope.measure.contract import Progress
from coremlscope.measure.coreml.failures import FAILURES, fallback_findings, not_finite_findings
from coremlscope.measure.coreml.files import readable_by_core_ml, require_coremltools
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.timing_child import CoreMLTimingRequest
from coremlscope.measure.coreml.units import OTHER_UNITS, effective_units, unit_findings
from coremlscope.measure.coreml.values import RESULTS, STATES, load_values, save_arrays, save_values
from coremlscope.model.features import dummy_values
from coremlscope.model.ir import Array, Model
from coremlscope.results.measurement import Settings
from coremlscope.runtime.execution.wiring import input_functions, interface_of

#: The child process that compiles, loads and predicts; tests set another one.
CHILD = python_child("coremlscope.measure.coreml.timing_child", "time_model")


def require_core_ml(instead: str) -> None:
    """Checks that Core ML can be reached.

    Args:
        instead: What works elsewhere, as a hint.

    Raises:
        UsageError: This is not a Mac.
        MissingDependencyError: coremltools is not installed.
    """
    if sys.platform != "darwin":
        raise UsageError("Core ML runs on a Mac only", instead)
    require_coremltools()


@contextmanager
def core_ml_process(
    command: Sequence[str],
    units: str,
    home: Path,
    limits: ChildLimits = CORE_ML_LIMITS,
    *,
    doing: str = "Core ML",
    hint: str = OTHER_UNITS,
    inherited: Collection[str] | None = None,
    heard: Callable[[str], object] = lambda _: None,
) -> Iterator[Iterator[dict[str, Any]]]:
    """Runs a process that works with Core ML, and gives its messages. Leaving the context ends it.

    Args:
        command: What is run.
        units: The setting that Core ML is given.
        home: The folder of its caches and temporary files, which end with that folder even if it is killed.
        limits: When to give up.
        doing: What it does, as the subject of a sentence.
        hint: What to do where it fails for a reason that is not known.
        inherited: The variables of this process that it gets; None for all.
        heard: Called with the last part of what it wrote to its standard error, however it ended.

    Raises:
        EngineError: It failed, or went past a limit. The message names the setting and the phase.
    """
    task, phase = Task(f"{doing} under {units}", hint, FAILURES), "start"

    def noted(messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        nonlocal phase
        for message in messages:
            phase = message.get("begins") or message.get("progress") or phase
            yield message

    environment = {"CFFIXED_USER_HOME": str(home), "TMPDIR": str(home)}
    try:
        with run_child(
            command, limits, task, environment=environment, inherited=inherited, heard=heard
        ) as messages:
            yield noted(messages)
    except EngineError as error:
        raise type(error)(f"{error.message} (phase: {phase})", error.hint) from error


def prepare_request(
    model: Model,
    settings: Settings,
    inputs: Mapping[str, Any],
    folder: Path,
    *,
    waits: bool = False,
    keeps: bool = False,
    compiled: Path | None = None,
) -> Path:
    """Writes the values of the inputs and the request of a child; returns the file of the request.

    Args:
        model: The model.
        settings: What is timed.
        inputs: Values of inputs by name; absent ones are synthetic.
        folder: A private folder.
        waits: True for a child that waits before timed predictions; see `timing_child.CoreMLTimingRequest`.
        keeps: True for one that keeps what the last prediction returned.
        compiled: The model as Core ML compiled it before; None to compile it.
    """
    path = compiled or readable_by_core_ml(model.source, folder)
    function, interface = interface_of(model, settings.function or None)
    bodies = input_functions(model, function)
    synthetic = dummy_values(interface, *bodies, seed=settings.seed, shapes=settings.shapes)
    save_values(interface, {**synthetic, **inputs}, folder)
    request = CoreMLTimingRequest(
        model=str(path),
        compute_units=effective_units(settings.compute_units),
        function=function if len(model.description.functions) > 1 else "",
        states=[state.name for state in interface.states],
        compiles=settings.compile_iterations,
        loads=settings.load_iterations,
        iterations=settings.iterations,
        early=settings.early,
        warmups=settings.warmups,
        waits=waits,
        keeps=keeps,
    )
    file = folder / "request.json"
    write_draft(file, msgspec.json.encode(request))
    return file


class CoreMLPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """What Core ML returned from one prediction.

    Attributes:
        compute_units: The setting that Core ML was given.
        outputs: By name: arrays, Pillow images, numbers, texts and dictionaries, as coremltools gives them.
        states: The content of states after it.
        findings: The setting that Core ML was held to, and units for which it could not compile, NaNs.
    """

    compute_units: ComputeUnits
    outputs: Mapping[str, Any]
    states: Mapping[str, Array]
    findings: tuple[Finding, ...] = ()


def predict_by_core_ml(
    model: Model,
    inputs: Mapping[str, Any],
    units: ComputeUnits,
    *,
    function: str | None = None,
    states: Mapping[str, Array] | None = None,
    limits: ChildLimits = CORE_ML_LIMITS,
    progress: Progress | None = None,
) -> CoreMLPrediction:
    """Predicts once under a setting of compute units.

    Args:
        model: The model, in a file.
        inputs: Values of inputs by name; absent ones are synthetic.
        units: The setting.
        function: The function; None for the default one.
        states: The content of states before it; zeros for others.
        limits: When to give up.
        progress: Called with the phase when it begins.

    Raises:
        EngineError: Core ML failed, or went past a limit.
        InputError: A value does not suit its input.
        UnsupportedModelError: coremltools cannot pass such inputs to Core ML.
    """
    effective = effective_units(units)
    once = Settings(
        compute_units=units,
        function=function or "",
        compile_iterations=1,
        load_iterations=0,
        iterations=1,
        warmups=0,
    )
    said: list[str] = []
    not_finite: list[str] = []
    with scratch_folder() as name:
        folder = Path(name)
        request = prepare_request(model, once, inputs, folder, keeps=True)
        save_arrays(states or {}, folder, STATES)
        with core_ml_process(
            [*CHILD, str(request)], effective, folder, limits, heard=said.append
        ) as messages:
            for message in messages:
                not_finite += message.get("not_finite", ())
                if progress is not None and "begins" in message:
                    progress(f"{effective}: {message['begins']}", 0, 1)
        outputs, after = load_values(folder, RESULTS), load_values(folder, STATES)
    return CoreMLPrediction(
        compute_units=effective,
        outputs=outputs,
        states=after,
        findings=(
            *unit_findings("Run", units),
            *fallback_findings("".join(said), effective),
            *not_finite_findings(not_finite, effective),
        ),
    )
