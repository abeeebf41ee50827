"""Measures Core ML itself: a child process compiles, loads and predicts through coremltools.

Written against coremltools' documented interface; not yet confirmed on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.formats.recordings.power import energy_findings, summarize_readings
from coremlscope.measure.contract import MeasuredModel, Progress, note_seconds, now
from coremlscope.measure.coreml import service
from coremlscope.measure.coreml.energy import readings_of
from coremlscope.measure.coreml.failures import fallback_findings, not_finite_findings
from coremlscope.measure.coreml.kept import KeptFolders
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.other_predictions import OtherPhases
from coremlscope.measure.coreml.service import core_ml_process, prepare_request
from coremlscope.measure.coreml.units import OTHER_UNITS, effective_units, unit_findings
from coremlscope.measure.partial import explain_partial, interrupted
from coremlscope.measure.repetitions import repetition_findings
from coremlscope.model.ir import ArrayFeature, DType
from coremlscope.results.measurement import (
    EarlyEnd,
    Machine,
    Measurement,
    Phase,
    Runtime,
    Settings,
    condition_findings,
)
from coremlscope.results.recording import Energy
from coremlscope.runtime.engines.host import conditions, this_machine
from coremlscope.runtime.execution.wiring import interface_of


class CoreMLMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """Measures Core ML on this Mac, under the compute units of the settings.

    Attributes:
        limits: When to give up.
        command: The child process to run; None for `service.CHILD`.
        others: Times other ways to predict as well, as `time_others` does; None to leave them out.
        kept: Keeps what Core ML compiled for those who load the model again; None to keep nothing.
    """

    limits: ChildLimits = CORE_ML_LIMITS
    command: Sequence[str] | None = None
    others: Callable[..., OtherPhases] | None = None
    kept: KeptFolders | None = None

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Times compilations, loads and predictions in a process of its own; see `Measurer`.

        The first load after the last compilation is a phase of its own. Loads and predictions are Core ML's
        own times where coremltools has them, with the wall times around coremltools' calls.

        Raises:
            EngineError: The model is not in a file, Core ML failed, or went past a limit.
            InputError: A value does not suit its input.
            UnsupportedModelError: coremltools cannot pass such inputs to Core ML.
        """
        machine, before, after = this_machine(), conditions(), None
        units = effective_units(settings.compute_units)
        with (self.kept or KeptFolders()).make(units, keeps=self.kept is not None) as folder:
            request = prepare_request(subject.model, settings, inputs or {}, folder)
            reported = self._run(request, settings, progress)
            others, found = self._time_others(subject, settings, request, reported.partial, progress)
            try:
                after = conditions()
            except KeyboardInterrupt:
                found.append(interrupted("Reading the conditions"))
        bare = Measurement(
            label=f"Core ML on {place_of(machine)}",
            runtime=Runtime("coreml", "Core ML", through=f"coremltools {reported.coremltools}".strip()),
            machine=machine,
            settings=settings,
            compute_units=units,
            compile=reported.phase("compile"),
            first_load=reported.phase("first load"),
            load=reported.phase("load"),
            predict=reported.phase("predict", "warm-up", _passed(subject, settings)),
            other_predictions=others,
            peak_memory_bytes=reported.peak_memory_bytes,
            before=before,
            after=after,
            energy=reported.energy,
            partial=reported.partial,
            measured_at=now(),
        )
        findings = (
            *unit_findings("Measured", settings.compute_units),
            *reported.findings,
            *(() if reported.partial else _compilation_findings(reported)),
            *(fallback_findings(reported.said, units) if "first load" in reported.seconds else ()),
            *not_finite_findings(reported.not_finite, units),
            *found,
            *_machine_findings(machine),
            *repetition_findings(settings, {} if reported.partial else bare.phases),
            *condition_findings(before, after),
        )
        return msgspec.structs.replace(bare, findings=findings)

    def _run(self, request: Path, settings: Settings, progress: Progress | None) -> Reported:
        """Returns what the child sends; of one that fails or is interrupted, what it sent before.

        Raises:
            EngineError: Core ML failed, or reached a limit, before anything was timed.
        """
        reported, units = Reported(), effective_units(settings.compute_units)
        command = [*(self.command or service.CHILD), str(request)]
        try:
            with core_ml_process(
                command, units, request.parent, self.limits, heard=reported.hear
            ) as messages:
                listen(messages, settings, progress, reported)
            if not reported.is_complete(settings):
                raise EngineError(f"Core ML under {units} made no predictions", OTHER_UNITS)
        except (EngineError, KeyboardInterrupt) as error:
            if not reported.seconds:
                raise
            reported.partial, finding = explain_partial(error, reported.last, reported.seconds)
            reported.findings = (*reported.findings, finding)
        return reported

    def _time_others(
        self,
        subject: MeasuredModel,
        settings: Settings,
        request: Path,
        partial: EarlyEnd | None,
        progress: Progress | None,
    ) -> OtherPhases:
        """Times other ways to predict, if they were asked for, with the model that the child compiled."""
        if self.others is None or partial is not None:
            return {}, []
        _, interface = interface_of(subject.model, settings.function or None)
        return self.others(
            request,
            interface,
            iterations=settings.iterations,
            limits=self.limits,
            units=effective_units(settings.compute_units),
            progress=progress,
        )


@dataclass(slots=True, kw_only=True)
class Reported:
    """The report of the child: by phase, seconds of wall time and nanoseconds of Core ML's own clock; energy.

    Attributes:
        partial: Why it ended before everything was timed; None if it did not.
        last: The phase that was repeated last.
        said: What the child wrote to its standard error.
        not_finite: Outputs with elements that are infinite or not a number.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    native_ns: dict[str, list[int]] = field(default_factory=dict)
    peak_memory_bytes: int | None = None
    coremltools: str = ""
    energy: Energy | None = None
    findings: tuple[Finding, ...] = ()
    partial: EarlyEnd | None = None
    last: str = ""
    said: str = ""
    not_finite: tuple[str, ...] = ()

    def hear(self, said: str) -> None:
        """Notes what the child wrote to its standard error."""
        self.said = said

    def is_complete(self, settings: Settings) -> bool:
        """True if everything that was asked for was timed."""
        asked = {"load": settings.load_iterations, "predict": settings.iterations}
        least = {phase: 1 if phase in settings.early else count for phase, count in asked.items()}
        return all(least[phase] <= len(self.seconds.get(phase, ())) <= asked[phase] for phase in asked)

    def phase(self, name: str, warmups: str = "", remark: str = "") -> Phase | None:
        """A phase, by Core ML's own clock where coremltools has it; None where it was not timed."""
        samples = self.seconds.get(name)
        if not samples:
            return None
        native_s = self._native_s(name)
        if not native_s:
            return Phase.of(samples, self.seconds.get(warmups, ()), remark=remark)
        return Phase.of(native_s, self._native_s(warmups), samples, remark)

    def _native_s(self, name: str) -> list[float]:
        """Seconds of a phase by Core ML's own clock; empty where it did not time each repetition."""
        durations = self.native_ns.get(name, ())
        is_whole = len(durations) == len(self.seconds.get(name, ()))
        return [duration / 1e9 for duration in durations] if is_whole else []


def listen(
    messages: Iterable[Mapping[str, Any]],
    settings: Settings,
    progress: Progress | None,
    reported: Reported | None = None,
) -> Reported:
    """Collects the messages of the child.

    Args:
        messages: The messages.
        settings: What is timed.
        progress: Called after each repetition.
        reported: What they are added to; None for a new one.
    """
    reported = reported or Reported()
    done: dict[str, int] = {}
    totals = {
        "compile": settings.compile_iterations,
        "first load": 1,
        "load": settings.load_iterations,
        "predict": settings.iterations,
    }
    for message in messages:
        if "begins" in message:
            reported.last = phase = message["begins"]
            if progress is not None and phase in totals:
                progress(phase, 0, totals[phase])
        elif "phase" in message:
            reported.seconds[message["phase"]] = [float(seconds) for seconds in message["seconds"]]
            reported.native_ns[message["phase"]] = [int(duration) for duration in message["native_ns"]]
        elif "progress" in message:
            reported.last = phase = message["progress"]
            if "seconds" in message:
                reported.seconds.setdefault(phase, []).append(float(message["seconds"]))
                reported.native_ns.setdefault(phase, []).extend(map(int, message.get("native_ns", ())))
                note_seconds(progress, phase, reported.seconds[phase][-1:])
            done[phase] = done.get(phase, 0) + 1
            if progress is not None:
                progress(phase, done[phase], totals.get(phase, done[phase]))
        reported.peak_memory_bytes = message.get("peak_memory_bytes", reported.peak_memory_bytes)
        reported.coremltools = message.get("coremltools", reported.coremltools)
        reported.not_finite = tuple(message.get("not_finite", reported.not_finite))
        if message.get("energy"):
            readings, predictions = readings_of(message["energy"])
            reported.energy = summarize_readings(readings, predictions)
            reported.findings = tuple(energy_findings(readings, reported.energy))
    return reported


def _passed(subject: MeasuredModel, settings: Settings) -> str:
    """What coremltools does to the inputs of each prediction; empty for nothing."""
    _, interface = interface_of(subject.model, settings.function or None)
    types = [feature.type for feature in interface.inputs]
    is_converted = any(isinstance(type_, ArrayFeature) and type_.dtype is DType.FP16 for type_ in types)
    return "fp16 as float32" if is_converted else ""


def place_of(machine: Machine) -> str:
    """Names a machine in labels: `M2, macOS 15.1`."""
    system = machine.os.partition(" (")[0]
    return f"{machine.processor.removeprefix('Apple ')}, {system}"


def _compilation_findings(reported: Reported) -> list[Finding]:
    if reported.seconds.get("compile"):
        return []
    text = (
        "The model was already compiled, so that compilation was not measured, and the first load may have"
        " found it in Core ML's caches."
    )
    return [Finding(id="already-compiled", severity="info", text=text)]


def _machine_findings(machine: Machine) -> Iterator[Finding]:
    if machine.is_virtual:
        text = (
            f"{machine.processor} is a virtual machine without a Neural Engine; its times do not compare with"
            " those of a Mac."
        )
        yield Finding(id="virtual-machine", severity="warning", text=text)
    if machine.is_translated:
        text = (
            "Python is a program for Intel Macs, which Rosetta translates on this Mac; its times, above all"
            " those through Python, do not compare with those of a program for Apple silicon."
        )
        hint = "use a Python for Apple silicon: its platform.machine() is arm64"
        yield Finding(id="rosetta", severity="warning", text=text, hint=hint)
