"""Measures Core ML while Instruments records: when each compute unit was busy.

Not yet confirmed on a device.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.site import page
from coremlscope.base.writing import write_draft
from coremlscope.formats.recordings.activity import Summary, summarize_exports
from coremlscope.measure.contract import MeasuredModel, Progress, now
from coremlscope.measure.coreml import service
from coremlscope.measure.coreml.instruments import (
    InstrumentsRecorder,
    InstrumentsRecording,
    InstrumentsTimeouts,
    export_recording,
    require_instruments,
)
from coremlscope.measure.coreml.kept import KeptFolders, compiled_in
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.service import core_ml_process, prepare_request
from coremlscope.measure.coreml.timing import listen, place_of
from coremlscope.measure.coreml.timing_child import GO
from coremlscope.measure.coreml.units import effective_units
from coremlscope.results.measurement import Measurement, Runtime, Settings, condition_findings
from coremlscope.runtime.engines.host import conditions, this_machine

_HINT = "profile without --trace"
#: A recording stores the environment of the process; these variables are what Python needs.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DEVELOPER_DIR")


class TraceMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """Predicts in a process of its own while Instruments records it with the template Core ML.

    Its times are those of a recorded run, which is slower than one without a recording.

    Attributes:
        limits: When to give up.
        timeouts: How long Instruments may take.
        command: The child process to run; None for `service.CHILD`.
        kept: Has what Core ML compiled before; None to compile the model again.
    """

    limits: ChildLimits = CORE_ML_LIMITS
    timeouts: InstrumentsTimeouts = msgspec.field(default_factory=InstrumentsTimeouts)
    command: Sequence[str] | None = None
    kept: KeptFolders | None = None

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Records predictions, some seconds of them at most; see `Measurer`.

        Raises:
            EngineError: Core ML or Instruments failed, or went past a limit.
            InputError: A value does not suit its input.
            UnsupportedModelError: coremltools cannot pass such inputs to Core ML.
        """
        machine, before = this_machine(), conditions()
        once = msgspec.structs.replace(settings, compile_iterations=1, load_iterations=1)
        with scratch_folder() as name:
            folder = Path(name)
            units = effective_units(settings.compute_units)
            home = self.kept.of(units) if self.kept else None
            compiled = compiled_in(home)
            request = prepare_request(
                subject.model, once, inputs or {}, folder, waits=True, compiled=compiled
            )
            conductor = _Conductor(folder, self.timeouts, progress)
            with (
                core_ml_process(
                    [*(self.command or service.CHILD), str(request)],
                    units,
                    home or folder,
                    self.limits,
                    hint=_HINT,
                    inherited=_INHERITED,
                ) as messages,
                closing(conductor.follow(messages)) as followed,
            ):
                reported = listen(followed, once, progress)
            predicted = reported.seconds.get("predict", ())
            if conductor.recording is None or not predicted:
                raise EngineError("Core ML made no predictions while Instruments recorded", _HINT)
            summary, failed = _read(conductor, len(predicted), folder, self.timeouts)
        after = conditions()
        tool = summary.recording.tool
        return Measurement(
            label=f"Core ML on {place_of(machine)}, recorded by {tool}",
            runtime=Runtime("coreml", "Core ML", through=f"coremltools {reported.coremltools}".strip()),
            machine=machine,
            settings=msgspec.structs.replace(once, iterations=len(predicted)),
            compute_units=units,
            predict=reported.phase("predict", "warm-up"),
            before=before,
            after=after,
            recording=summary.recording,
            findings=(
                *_findings(conductor.recording, failed, tool),
                *summary.findings,
                *condition_findings(before, after),
            ),
            measured_at=now(),
        )


def trace_measurer(
    is_core_ml: bool, limits: ChildLimits = CORE_ML_LIMITS, kept: KeptFolders | None = None
) -> TraceMeasurer:
    """Returns the measurer that records Core ML on this Mac.

    Args:
        is_core_ml: True if Core ML is measured at all.
        limits: When to give up.
        kept: Has what Core ML compiled before; None to compile the model again.

    Raises:
        UsageError: Something else is measured.
        MissingDependencyError: Xcode is not installed.
    """
    if not is_core_ml:
        raise UsageError(
            "--trace records Core ML with Instruments, on a Mac only",
            "profile without it; `coremlscope import` reads recordings of a Mac anywhere",
        )
    require_instruments()
    return TraceMeasurer(limits=limits, kept=kept)


class _Conductor:
    """Starts and stops a recording when the child reports its progress."""

    def __init__(self, folder: Path, timeouts: InstrumentsTimeouts, progress: Progress | None) -> None:
        self._folder, self._progress = folder, progress
        self._recorder = InstrumentsRecorder(folder, timeouts)
        self.recording: InstrumentsRecording | None = None
        self.pid: int | None = None

    def follow(self, messages: Iterator[dict[str, Any]]) -> Generator[dict[str, Any], None, None]:
        """Passes the messages of the child on; the recorder ends with them."""
        try:
            for message in messages:
                if "waits" in message:
                    self.pid = int(message["waits"])
                    self._show("record")
                    self._recorder.start(self.pid)
                    write_draft(self._folder / GO, b"")
                elif message.get("phase") == "predict":
                    self._show("export")
                    self.recording = self._recorder.stop()
                yield message
        finally:
            self._recorder.close()

    def _show(self, phase: str) -> None:
        if self._progress is not None:
            self._progress(phase, 0, 1)


def _read(
    conductor: _Conductor, predictions: int, folder: Path, timeouts: InstrumentsTimeouts
) -> tuple[Summary, list[str]]:
    """The content of the recording, and the tables that could not be exported."""
    assert conductor.recording is not None
    try:
        exports, failed = export_recording(conductor.recording.trace, folder, timeouts)
    except UsageError as error:
        raise EngineError(f"what xctrace exported cannot be read: {error.message}", _HINT) from error
    return summarize_exports(exports, predictions=predictions, pid=conductor.pid), failed


def _findings(recording: InstrumentsRecording, failed: Sequence[str], tool: str) -> Iterator[Finding]:
    yield Finding(
        id="recorded",
        severity="info",
        text=f"{tool} recorded this run. Recording slows a program down, so its times are not those of a run"
        " without it, and are shown beside it.",
    )
    if not recording.is_attached:
        yield Finding(
            id="recorded-all-processes",
            severity="info",
            text="Instruments could not attach to the process, so all processes were recorded.",
            hint=f"sign Python with com.apple.security.get-task-allow; see {page('guides/mac')}",
        )
    if failed:
        yield Finding(
            id="tables-not-exported",
            severity="warning",
            text=f"xctrace could not export tables of the recording: {', '.join(failed)[:200]}.",
            hint="run it again: such failures often pass",
        )
