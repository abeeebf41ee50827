"""Measures Core AI on a Mac with macOS 27: a child process loads and predicts through coreai-core.

Not yet confirmed on a device. Elsewhere coreai-core runs programs by its reference interpreter, whose times
say nothing about Apple's hardware.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs
import numpy as np

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError, how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.base.processes.endings import Failures, KnownFailure
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import open_draft, write_draft
from coremlscope.formats.aimodel.network import find_layers
from coremlscope.formats.aimodel.reader import open_content
from coremlscope.formats.recordings.core_ai import read_debug_info
from coremlscope.measure.contract import MeasuredModel, Progress, now
from coremlscope.measure.coreai.operations import (
    UNOWNED,
    Event,
    OperationTimes,
    attribute,
)
from coremlscope.measure.coreai.program import VALUES
from coremlscope.measure.coreai.timing_child import DEBUG_INFO, NO_FRAMEWORK, CoreAITimingRequest
from coremlscope.measure.coreml.timing import Reported, listen
from coremlscope.measure.embedded.findings import profiler_finding
from coremlscope.measure.partial import explain_partial
from coremlscope.measure.repetitions import repetition_findings
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.results.measurement import Measurement, NodeTiming, Runtime, Settings, condition_findings
from coremlscope.runtime.engines.host import conditions, this_machine
from coremlscope.runtime.execution.wiring import input_functions, interface_of

CHILD = python_child("coremlscope.measure.coreai.timing_child", "time_model")
LIMITS = ChildLimits(memory_bytes=12 * 10**9)
_HINT = "use --engine onnxruntime, which needs no coreai-core"
#: Share of the time without an operation of the file that is worth a remark.
_MUCH = 0.05
_INSTALL = how_to_install("coreai")
FAILURES = Failures(
    "Core AI",
    (
        KnownFailure(r"No module named 'coreai'", "coreai-core is not installed", _INSTALL),
        KnownFailure(r"No space left on device", "the disk is full", "free disk space"),
        KnownFailure(NO_FRAMEWORK, "", "use --engine onnxruntime, and --device NAME for an estimate"),
    ),
)


def require_coreai(instead: str = "`--engine onnxruntime` needs no coreai-core") -> None:
    """Checks that coreai-core is installed.

    Args:
        instead: What works without it.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("coreai") is None:
        raise MissingDependencyError(
            "Core AI is reached through coreai-core, which is not installed",
            f"{_INSTALL}, on Linux (x86_64) or macOS; {instead}",
        )


class CoreAIMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """Measures the system's framework on a Mac with macOS 27.

    Attributes:
        limits: When to give up.
        command: The child process to run; tests give another one.
    """

    limits: ChildLimits = LIMITS
    command: Sequence[str] = CHILD

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Times loads, predictions and operations in a process of its own; see `Measurer`.

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
        with scratch_folder() as name:
            request = _prepare_request(subject, settings, inputs or {}, source, Path(name))
            report = self._run(request, settings, progress)
            found = _attribute(report, subject, settings, source, Path(name))
        runtime = Runtime("coreai", "Core AI", through=f"coreai-core {report.version}".strip())
        bare = Measurement(
            label=f"{runtime.name} on {machine.processor}",
            runtime=runtime,
            machine=machine,
            settings=settings,
            compute_units=settings.compute_units,
            first_load=report.phases.phase("first load"),
            load=report.phases.phase("load"),
            predict=report.phases.phase("predict", "warm-up"),
            groups=found.groups if found else (),
            status=found.status if found else (),
            group=found.group if found else (),
            nodes=_node_timing(report) if found else None,
            peak_memory_bytes=report.phases.peak_memory_bytes,
            before=before,
            after=conditions(),
            partial=report.phases.partial,
            measured_at=now(),
        )
        findings = (
            *report.phases.findings,
            *_unowned_findings(found),
            *filter(None, [profiler_finding(bare)]),
            *repetition_findings(settings, {} if report.phases.partial else bare.phases),
            *condition_findings(before, bare.after),
        )
        return msgspec.structs.replace(bare, findings=findings)

    def _run(self, request: Path, settings: Settings, progress: Progress | None) -> _ChildReport:
        """Returns what the child says; of one that fails or is interrupted, what it said before."""
        report, task = _ChildReport(), Task("Core AI", _HINT, FAILURES)
        environment = {"TMPDIR": str(request.parent)}
        try:
            with run_child(
                [*self.command, str(request)], self.limits, task, environment=environment
            ) as messages:
                listen(report.collect(messages), settings, progress, report.phases)
            if not report.phases.is_complete(settings):
                raise EngineError("Core AI made no predictions", _HINT)
        except (EngineError, KeyboardInterrupt) as error:
            if not report.phases.seconds:
                raise
            report.phases.partial, finding = explain_partial(error, report.phases.last, report.phases.seconds)
            report.phases.findings = (*report.phases.findings, finding)
        return report


@dataclass(slots=True, kw_only=True)
class _ChildReport:
    """The report of the child process.

    Attributes:
        phases: The times of phases.
        version: The version of coreai-core.
        runs: The events of each profiled run.
        runs_s: The seconds of each profiled run, by the runtime's own clock if it has one.
        members: Operations that a delegate runs as one.
    """

    phases: Reported = field(default_factory=Reported)
    version: str = ""
    runs: list[list[Event]] = field(default_factory=list)
    runs_s: list[float] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)

    @property
    def plain_s(self) -> float:
        """Seconds of a prediction without the profiler, or with it if there was none without."""
        predict = self.phases.phase("predict")
        return statistics.median(self.runs_s) if predict is None else predict.statistics.median

    def collect(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Collects what is Core AI's own from messages, and passes them on."""
        for message in messages:
            self.version = message.get("coreai", self.version)
            if "run" in message:
                self.runs.append([Event(n, d, label, ns / 1e9) for n, d, label, ns in message["run"]])
                self.runs_s.append(message["run_s"])
                self.members = {int(group): found for group, found in message["groups"].items()}
            yield message


def _prepare_request(
    subject: MeasuredModel, settings: Settings, inputs: Mapping[str, Any], source: Path, folder: Path
) -> Path:
    """Writes the values of the inputs and the request of the child; returns the file of the request."""
    function, interface = interface_of(subject.model, settings.function or None)
    bodies = input_functions(subject.model, function)
    synthetic = dummy_values(interface, *bodies, seed=settings.seed, shapes=settings.shapes)
    save_inputs(to_tensors(interface.inputs, {**synthetic, **inputs}, settings.shapes), folder)
    request = CoreAITimingRequest(
        model=str(source.expanduser().resolve()),
        compute_units=settings.compute_units,
        function=function,
        loads=settings.load_iterations,
        iterations=settings.iterations,
        warmups=settings.warmups,
        early=settings.early,
    )
    path = folder / "request.json"
    write_draft(path, msgspec.json.encode(request))
    return path


def save_inputs(tensors: Mapping[str, Any], folder: Path) -> None:
    """Writes the values of inputs for a child."""
    with open_draft(folder / VALUES) as file:
        np.savez(file, **{name: np.asarray(tensor) for name, tensor in tensors.items()})  # type: ignore[arg-type]


def _attribute(
    report: _ChildReport, subject: MeasuredModel, settings: Settings, source: Path, folder: Path
) -> OperationTimes | None:
    """Returns the times of operations; None if the child did not report any."""
    debug_info = folder / DEBUG_INFO
    if not report.runs or not debug_info.is_file():
        return None
    content = open_content(source).content
    layers = find_layers(content, content.graphs[settings.function])
    records = read_debug_info(msgspec.json.decode(debug_info.read_bytes()))
    return attribute(report.runs, records, layers, subject.ops, report.members)


def _node_timing(report: _ChildReport) -> NodeTiming:
    run_s, nodes_s = statistics.median(report.runs_s), _nodes_s(report.runs)
    return NodeTiming(
        iterations=len(report.runs_s),
        warmups=0,
        run_s=run_s,
        nodes_s=nodes_s,
        node_overhead_s=run_s - nodes_s,
        profiler_overhead_s=run_s - report.plain_s,
    )


def _nodes_s(runs: Sequence[Sequence[Event]]) -> float:
    """Returns the median over runs of the sum of all events."""
    return statistics.median(sum(event.seconds for event in events) for events in runs)


def _unowned_findings(found: OperationTimes | None) -> list[Finding]:
    """Returns which share of the time belongs to no operation of the file, where it is large."""
    share = sum(group.share or 0 for group in found.groups if group.label == UNOWNED) if found else 0.0
    if share <= _MUCH:
        return []
    text = f"{share:.0%} of the time belongs to no operation of the file."
    return [Finding(id="coreai-unattributed", severity="info", text=text)]
