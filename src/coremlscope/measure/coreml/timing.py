"""Measures Core ML itself on this Mac, through coremltools.

Written against coremltools' documented interface; not yet confirmed on a device. Each measurement runs in a
child process: Core ML keeps what it loaded, and a model that aborts it costs that measurement alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from coremlscope.engines.host import this_machine
from coremlscope.errors import EngineError, InputError
from coremlscope.measure.contract import Progress, Subject, now
from coremlscope.results.measurement import Measurement, Phase, Runtime, Settings

__all__ = ["LIMIT_S", "LOADS", "CoreMLMeasurer", "collect_samples"]

_CHILD = (sys.executable, "-m", "coremlscope.measure.coreml.timing_child")
_HINT = "try another setting with --compute-units"
#: How often a model is loaded; the first time compiles for the device.
LOADS = 3
#: Core ML compiles for a device on the first load, which can take minutes.
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMLMeasurer:
    """Measures Core ML on this Mac, under the compute units of the settings. Not yet confirmed on a device.

    Attributes:
        limit_s: How long to wait for the next sample before giving up.
        command: The child process to run; tests give another one.
    """

    limit_s: float = LIMIT_S
    command: Sequence[str] = _CHILD

    def measure(
        self,
        subject: Subject,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Times loads and predictions with synthetic inputs; see `Measurer`.

        Raises:
            EngineError: The model is not in a file, Core ML failed, or took too long.
            InputError: Values of inputs are given: they cannot be passed on yet.
        """
        if inputs:
            raise InputError("Core ML is measured with synthetic inputs", "leave --input out")
        source, setting = subject.model.source, settings.compute_units
        if source is None:
            raise EngineError("Core ML reads models from files, and this one is in memory", "give its path")
        arguments = [str(source), setting, str(settings.iterations), str(LOADS), str(settings.seed)]
        _, load, predict = collect_samples(
            [*self.command, *arguments],
            iterations=settings.iterations,
            progress=progress,
            limit_s=self.limit_s,
        )
        machine = this_machine()
        return Measurement(
            label=f"Core ML on {machine.processor}",
            runtime=Runtime("coreml", "Core ML"),
            machine=machine,
            settings=settings,
            compute_units=setting,
            load=load,
            predict=predict,
            measured_at=now(),
        )


def collect_samples(
    command: Sequence[str],
    *,
    iterations: int,
    progress: Progress | None = None,
    limit_s: float = LIMIT_S,
    hint: str = _HINT,
) -> tuple[str, Phase, Phase]:
    """Runs a process that times a model and prints what it finds as lines of JSON.

    Args:
        command: What is run.
        iterations: How many predictions it times.
        progress: Told of each repetition.
        limit_s: How long to wait for the next sample before giving up.
        hint: What to do where Core ML fails.

    Returns:
        What the process says it measures on, empty where it does not say; loads, of which the first is set
        apart, since it compiles for the device; predictions with their warm-ups.

    Raises:
        EngineError: Core ML failed, or took too long.
    """
    place = ""
    seconds: dict[str, list[float]] = {"load": [], "warm-up": [], "predict": []}
    totals = {"load": LOADS, "predict": iterations}
    with _lines(command, limit_s, hint) as lines:
        for told in map(_parse, lines):
            place = str(told.get("device", place))
            phase = told.get("phase", "")
            if phase not in seconds:
                continue
            seconds[phase].append(told["seconds"])
            if progress is not None:
                done = len(seconds[phase])
                progress(phase, done, totals.get(phase, done))
    if len(seconds["load"]) < LOADS or len(seconds["predict"]) < iterations:
        raise EngineError("Core ML made no predictions", hint)
    load = Phase.of(seconds["load"][1:], seconds["load"][:1])
    return place, load, Phase.of(seconds["predict"], seconds["warm-up"])


def _parse(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
        if "device" in told:
            return {"device": str(told["device"])}
        return {"phase": str(told["phase"]), "seconds": float(told["seconds"])}
    except (ValueError, KeyError, TypeError):
        return {}  # frameworks print remarks of their own


@contextmanager
def _lines(command: Sequence[str], limit_s: float, hint: str) -> Iterator[Iterator[str]]:
    """The lines that a process prints. It is ended when none comes for too long."""
    late = False
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None

        def end() -> None:
            nonlocal late
            late = True
            process.kill()

        try:
            yield _watched(process.stdout, limit_s, end)
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
        if late:
            raise EngineError(f"Core ML gave no sign of life for {limit_s:.0f} s", "try a smaller model")
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit code {process.returncode}"
            raise EngineError(f"Core ML failed: {reason}", hint)


def _watched(stream: IO[str], limit_s: float, end: Callable[[], None]) -> Iterator[str]:
    while True:
        watch = threading.Timer(limit_s, end)
        watch.daemon = True
        watch.start()
        try:
            line = stream.readline()
        finally:
            watch.cancel()
        if not line:
            return
        yield line
