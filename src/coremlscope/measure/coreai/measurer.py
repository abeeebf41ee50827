"""Measures Core AI itself: a child process lowers, loads and predicts through coreai-core.

On Linux, coreai-core runs programs by Core AI's reference interpreter, whose times say nothing about Apple's
hardware. On macOS 27 it reaches the system's framework, which is not yet confirmed on a device.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coremlscope.engines.host import conditions, this_machine
from coremlscope.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.execution.wiring import input_functions, interface_of
from coremlscope.features import dummy_values, to_tensors
from coremlscope.findings import Finding
from coremlscope.formats.aimodel.network import find_layers
from coremlscope.formats.aimodel.reader import open_content
from coremlscope.measure.child import Limits, Task, python_child, run_child
from coremlscope.measure.contract import Progress, Subject, now
from coremlscope.measure.coreai.operations import (
    UNOWNED,
    Attribution,
    Event,
    Recording,
    attribute,
    recording_cost,
)
from coremlscope.measure.coreai.program import VALUES
from coremlscope.measure.coreai.timing_child import DEBUG_INFO, Request
from coremlscope.measure.coreml.timing import Reported, listen
from coremlscope.measure.embedded.findings import profiler_finding
from coremlscope.measure.endings import Failure, Failures
from coremlscope.measure.partial import explain_partial
from coremlscope.measure.repetitions import repetition_findings
from coremlscope.recordings.core_ai import read_debug_info
from coremlscope.results.measurement import Measurement, NodeTiming, Runtime, Settings, condition_findings
from coremlscope.units import format_duration
from coremlscope.writing import open_draft, write_draft

__all__ = ["CHILD", "FAILURES", "LIMITS", "CoreAIMeasurer", "require_coreai", "save_inputs"]

CHILD = python_child("coremlscope.measure.coreai.timing_child")
LIMITS = Limits(memory_bytes=12 * 10**9)
_HINT = "use --engine onnxruntime, which needs no coreai-core"
#: Share of the time without an operation of the file that is worth a remark.
_MUCH = 0.05
_INSTALL = "pip install 'coremlscope[coreai]'"
FAILURES = Failures(
    "Core AI",
    (
        Failure(r"No module named 'coreai'", "coreai-core is not installed", _INSTALL),
        Failure(r"No space left on device", "the disk is full", "free disk space"),
    ),
)


def require_coreai() -> None:
    """Checks that coreai-core is installed.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("coreai") is None:
        raise MissingDependencyError(
            "Core AI is reached through coreai-core, which is not installed",
            f"{_INSTALL}, on Linux (x86_64) or macOS; `--engine onnxruntime` needs no coreai-core",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAIMeasurer:
    """Measures Core AI on this machine: its reference interpreter, or on macOS 27 the system's framework.

    Attributes:
        limits: When to give up.
        command: The child process to run; tests give another one.
    """

    limits: Limits = LIMITS
    command: Sequence[str] = CHILD

    def measure(
        self,
        subject: Subject,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Times lowering, loads, predictions and operations in a process of its own; see `Measurer`.

        Raises:
            UsageError: The model is not a Core AI bundle, or a setting is not for Core AI.
            EngineError: Core AI failed, or went past a limit.
            InputError: A value does not suit its input.
        """
        source = subject.model.source
        if subject.model.container != "aimodel" or source is None:
            raise UsageError(
                "Core AI runs .aimodel bundles only", "use --engine onnxruntime for other models"
            )
        if settings.random_weights or settings.precision != "fp32":
            raise UsageError(
                "synthetic weights and fp16 precision are not for Core AI", "use --engine onnxruntime"
            )
        machine, before = this_machine(), conditions()
        with tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True) as name:
            request = _prepare_request(subject, settings, inputs or {}, source, Path(name))
            told = self._run(request, settings, progress)
            found = _attribute(told, subject, settings, source, Path(name))
        runtime = Runtime(
            "coreai",
            "Core AI" if told.is_system else "Core AI's reference interpreter",
            through=f"coreai-core {told.version}".strip(),
        )
        bare = Measurement(
            label=f"{runtime.name} on {machine.processor}",
            runtime=runtime,
            machine=machine,
            settings=settings,
            compute_units=settings.compute_units if told.is_system else "",
            threads=None if told.is_system else 1,
            compile=told.phases.phase("compile"),
            load=told.phases.phase("load", "first load"),
            predict=told.phases.phase("predict", "warm-up"),
            groups=found.groups if found else (),
            status=found.status if found else (),
            group=found.group if found else (),
            nodes=_node_timing(told, found) if found else None,
            peak_memory_bytes=told.phases.peak_memory_bytes,
            before=before,
            after=conditions(),
            partial=told.phases.partial,
            measured_at=now(),
        )
        findings = (
            *told.phases.findings,
            *_interpreter_findings(told, found),
            *filter(None, [_recording_finding(told) or profiler_finding(bare)]),
            *repetition_findings(settings, {} if told.phases.partial else bare.phases),
            *condition_findings(before, bare.after),
        )
        return dataclasses.replace(bare, findings=findings)

    def _run(self, request: Path, settings: Settings, progress: Progress | None) -> _Told:
        """Returns what the child says; of one that fails or is interrupted, what it said before."""
        told, task = _Told(), Task("Core AI", _HINT, FAILURES)
        environment = {"TMPDIR": str(request.parent)}
        try:
            with run_child(
                [*self.command, str(request)], self.limits, task, environment=environment
            ) as messages:
                listen(told.watch(messages), settings, progress, told.phases)
            if not told.phases.is_complete(settings):
                raise EngineError("Core AI made no predictions", _HINT)
        except (EngineError, KeyboardInterrupt) as error:
            if not told.phases.seconds:
                raise
            told.phases.partial, finding = explain_partial(error, told.phases.last)
            told.phases.findings = (*told.phases.findings, finding)
        return told


@dataclass(slots=True, kw_only=True)
class _Told:
    """What the child said.

    Attributes:
        phases: The times of phases.
        version: The version of coreai-core.
        is_system: True for the system's framework, False for the reference interpreter.
        runs: The events of each profiled run.
        runs_s: The seconds of each profiled run.
        members: Operations that a delegate runs as one.
    """

    phases: Reported = field(default_factory=Reported)
    version: str = ""
    is_system: bool = False
    runs: list[list[Event]] = field(default_factory=list)
    runs_s: list[float] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)

    @property
    def plain_s(self) -> float:
        """Seconds of a prediction without the profiler, or with it if there was none without."""
        predict = self.phases.phase("predict")
        return statistics.median(self.runs_s) if predict is None else predict.statistics.median

    def recording(self) -> Recording:
        """Returns the time of the profiler within each event; that of the system is not known."""
        if self.is_system or not self.runs:
            return Recording()
        return recording_cost(self.runs, statistics.median(self.runs_s) - self.plain_s)

    def watch(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Collects what is Core AI's own from messages, and passes them on."""
        for message in messages:
            self.version = message.get("coreai", self.version)
            self.is_system = message.get("is_system", self.is_system)
            if "run" in message:
                self.runs.append([Event(n, d, label, ns / 1e9) for n, d, label, ns in message["run"]])
                self.runs_s.append(float(message["run_s"]))
                self.members = {int(group): found for group, found in message["groups"].items()}
            yield message


def _prepare_request(
    subject: Subject, settings: Settings, inputs: Mapping[str, Any], source: Path, folder: Path
) -> Path:
    """Writes the values of the inputs and the request of the child; returns the file of the request."""
    function, interface = interface_of(subject.model, settings.function or None)
    bodies = input_functions(subject.model, function)
    synthetic = dummy_values(interface, *bodies, seed=settings.seed, shapes=settings.shapes)
    save_inputs(to_tensors(interface.inputs, {**synthetic, **inputs}, settings.shapes), folder)
    request = Request(
        model=str(source.expanduser().resolve()),
        compute_units=settings.compute_units,
        function=function,
        compiles=settings.compile_iterations,
        loads=settings.load_iterations,
        iterations=settings.iterations,
        warmups=settings.warmups,
        early=settings.early,
    )
    path = folder / "request.json"
    write_draft(path, json.dumps(dataclasses.asdict(request)))
    return path


def save_inputs(tensors: Mapping[str, Any], folder: Path) -> None:
    """Writes the values of inputs for a child."""
    with open_draft(folder / VALUES) as file:
        np.savez(file, **{name: np.asarray(tensor) for name, tensor in tensors.items()})  # type: ignore[arg-type]


def _attribute(
    told: _Told, subject: Subject, settings: Settings, source: Path, folder: Path
) -> Attribution | None:
    """Returns the times of operations; None if the child did not report any."""
    debug_info = folder / DEBUG_INFO
    if not told.runs or not debug_info.is_file():
        return None
    content = open_content(source).content
    layers = find_layers(content, content.graphs[settings.function])
    records = read_debug_info(msgspec.json.decode(debug_info.read_bytes()))
    plain_s = 0.0 if told.is_system else min(told.plain_s, statistics.median(told.runs_s))
    return attribute(
        told.runs,
        records,
        layers,
        subject.ops,
        told.members,
        call_s=plain_s,
        recording_s=told.recording().seconds,
    )


def _node_timing(told: _Told, found: Attribution) -> NodeTiming:
    run_s, nodes_s = statistics.median(told.runs_s), statistics.median(found.runs_s)
    recording = told.recording()
    return NodeTiming(
        iterations=len(told.runs_s),
        warmups=0,
        run_s=run_s,
        nodes_s=nodes_s,
        node_overhead_s=run_s - nodes_s,
        profiler_overhead_s=run_s - told.plain_s,
        recording_s=recording.seconds * recording.events,
    )


def _interpreter_findings(told: _Told, found: Attribution | None) -> list[Finding]:
    """Returns what the times of the interpreter are good for, and which operations it reported none of."""
    findings = []
    if not told.is_system:
        text = (
            "Core AI's reference interpreter ran the model. Its times are not a speed of Apple hardware, nor"
            " that of a good runtime on this processor."
        )
        hint = "--engine onnxruntime times this processor, --device estimates Apple's"
        findings.append(Finding(id="reference-interpreter", severity="warning", text=text, hint=hint))
    share = sum(group.share or 0 for group in found.groups if group.label == UNOWNED) if found else 0.0
    if share > _MUCH:
        text = f"{share:.0%} of the time belongs to no operation of the file."
        findings.append(Finding(id="coreai-unattributed", severity="info", text=text))
    return findings


def _recording_finding(told: _Told) -> Finding | None:
    """Returns what the profiler's own time is, where it was taken off; None else."""
    recording = told.recording()
    if not recording.seconds:
        return None
    each, usual = format_duration(recording.seconds), format_duration(recording.usual_s)
    before, after = format_duration(told.plain_s), format_duration(statistics.median(told.runs_s))
    return Finding(
        id="coreai-profiler",
        severity="info",
        text=f"Core AI's profiler makes a prediction {after} long instead of {before}. {each} of it is within"
        f" each of {recording.events} events ({usual} in the median of runs), and was taken off their times.",
        hint="times of operations below this are noise",
    )
