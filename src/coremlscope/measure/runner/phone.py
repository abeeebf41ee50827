"""Measures models on a connected iPhone or iPad: builds the runner, starts it, and copies its results back.

The app is started again after a crash, and continues with the next setting. Written against the documented
tools of Xcode; not yet confirmed on a device.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.site import page
from coremlscope.measure.runner.devicectl import (
    Phone,
    ask,
    check_team,
    devicectl_command,
    explain_failure,
    ready_phone,
    wake,
)
from coremlscope.measure.runner.project import default_bundle_id, write_runner
from coremlscope.measure.runner.request import POWER_MODES, RunnerSettings, names_of
from coremlscope.measure.runner.xcode import build_app, require_xcode
from coremlscope.model.ir import Model
from coremlscope.results.runner_record import Record, read_record

_MARK = b"coremlscope-runner "
_POLL_S = 0.2
_COPIES = 3
_INSTALL_S = 600.0
#: Seconds of the app to end.
_END_S = 5.0
_HINT = f"connect the device by cable, unlock it, and run it again; see {page('guides/iphone')}"

#: Called with what happens, settings done, and how many there are.
Progress = Callable[[str, int, int], None]


class PhoneTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """When the runner is given up.

    Attributes:
        silence_s: Seconds without a word of the app, after which it is started again. Core ML compiles for
            the device on the first load, which can take minutes.
        copy_pause_s: Seconds between attempts to copy the results.
    """

    silence_s: float = 900.0
    copy_pause_s: float = 1.0


class PhoneResults(msgspec.Struct, frozen=True):
    """The results of a device.

    Attributes:
        phone: The device.
        record: The results.
        content: The file of results as the app wrote it.
        names: The names of the models in the results, in the order in which they were given.
    """

    phone: Phone
    record: Record
    content: bytes
    names: tuple[str, ...]


def measure_on_phone(
    models: Sequence[Model],
    settings: RunnerSettings,
    *,
    name: str,
    team: str,
    progress: Progress | None = None,
    timeouts: PhoneTimeouts | None = None,
) -> PhoneResults:
    """Measures models on an iPhone or iPad that is connected to this Mac.

    Args:
        models: The models, each from a file.
        settings: What is measured.
        name: The name or identifier of the device, or `any`.
        team: The development team that signs the app.
        progress: Called with what happens.
        timeouts: When it is given up.

    Raises:
        UsageError: This is not a Mac, or the device or the team is missing or malformed.
        MissingDependencyError: Xcode is not installed.
        EngineError: The app cannot be built, installed or started, or its results cannot be read.
    """
    if sys.platform != "darwin":
        raise UsageError(
            "a connected device can be measured only from a Mac",
            "it needs a Mac with Xcode, and an iPhone or iPad in developer mode; elsewhere"
            " `coremlscope runner` writes the project of the app",
        )
    if not name:
        raise UsageError("no device is named", "use --on-device NAME, or --on-device any")
    check_team(team)
    require_xcode()
    phone = ready_phone(name)
    report = progress or (lambda *_: None)
    with scratch_folder() as folder:
        project = Path(folder) / "Runner"
        id_ = write_runner(project, models, settings, team=team)
        report("building the app", 0, 1)
        app = build_app(project, phone.udid)
        report("installing the app", 0, 1)
        ask("device", "install", "app", "--device", phone.identifier, str(app), timeout_s=_INSTALL_S)
        run = _Run(phone, default_bundle_id(team), id_, timeouts or PhoneTimeouts())
        record, content = run.measure(_Count(settings, models, report), Path(folder))
    return PhoneResults(phone, record, content, tuple(names_of(models)))


class _Count:
    """Counts the settings that were measured.

    Args:
        settings: What is measured.
        models: The models.
        report: Called with what happens.
    """

    def __init__(self, settings: RunnerSettings, models: Sequence[Model], report: Progress) -> None:
        modes = max(1, len(POWER_MODES[settings.power_mode]))
        self._total = len(models) * len(settings.compute_units) * modes
        self._done = 0
        self._report = report

    def report(self, message: Mapping[str, Any]) -> None:
        """Reports a message of the app."""
        if message.get("kind") == "progress" and message.get("status") not in ("", "running", None):
            self._done = min(self._done + 1, self._total)
        self._report(str(message.get("text", ""))[:200], self._done, self._total)


class _Run:
    """The app on one device.

    Args:
        phone: The device.
        bundle_id: The identifier of the app, which is installed.
        id_: The id of the request.
        timeouts: When the app is given up.
    """

    def __init__(self, phone: Phone, bundle_id: str, id_: str, timeouts: PhoneTimeouts) -> None:
        self._phone, self._bundle_id, self._id, self._timeouts = phone, bundle_id, id_, timeouts

    def measure(self, count: _Count, folder: Path) -> tuple[Record, bytes]:
        """Starts the app until it has attempted everything, or a start attempts nothing new.

        The results are fetched after each end of the app: its messages are progress, and may be lost.

        Raises:
            EngineError: It could not be started, or its results cannot be read.
        """
        attempted = -1
        while True:
            failure = self._start(count)
            try:
                record, content = self._results(folder / "results.json")
            except EngineError as lost:
                raise (failure or lost) from None
            now = len(record.results) + len(record.compilations)
            if record.complete or now <= attempted:
                return record, content
            attempted = now

    def _start(self, count: _Count) -> EngineError | None:
        """Starts the app and listens until it ends; returns why it said nothing, or could not do anything.

        devicectl passes on what the app prints to a terminal only, and its signals to the app.
        """
        command = devicectl_command(
            *("device", "process", "launch", "--console", "--terminate-existing"),
            *("--device", self._phone.identifier, self._bundle_id, "--", "--exit"),
        )
        failure, has_answered = None, False
        own, terminal = os.openpty()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=errors)
            os.close(terminal)
            try:
                for message in self._messages(own):
                    has_answered = True
                    count.report(message)
                    if message.get("kind") == "failed":
                        failure = EngineError(f"the runner failed: {message.get('text')}", _HINT)
            finally:
                _end(process)
                os.close(own)
            if not has_answered:
                errors.seek(0)
                said = errors.read().decode("utf-8", "replace")
                failure = explain_failure({}, said, "the app could not be started")
        return failure

    def _messages(self, stream: int) -> Iterator[dict[str, Any]]:
        """The messages of the app, until it ends, reports that it has finished, or is silent for too long."""
        pending, last_message = b"", time.monotonic()
        while time.monotonic() - last_message < self._timeouts.silence_s:
            if not select.select([stream], [], [], _POLL_S)[0]:
                continue
            try:
                chunk = os.read(stream, 65536)
            except OSError:  # Linux says so that nobody has the terminal open any more
                return
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if _MARK in line:
                    last_message = time.monotonic()
                    with suppress(ValueError):
                        yield json.loads(line.partition(_MARK)[2])

    def _results(self, target: Path) -> tuple[Record, bytes]:
        """Copies the results from the device; a copy that is not whole is made again.

        Raises:
            EngineError: They cannot be copied, or are those of another run.
        """
        error = EngineError("the results cannot be copied from the device", _HINT)
        for attempt in range(_COPIES):
            if attempt:
                time.sleep(self._timeouts.copy_pause_s)
                wake(self._phone.identifier)
            try:
                content = self._copy(target)
                record = read_record(json.loads(content), target.name)
            except EngineError as failure:
                error = failure
            except (ValueError, UsageError):
                error = EngineError("the results were not copied whole from the device", _HINT)
            else:
                if record.id == self._id:
                    return record, content
                error = EngineError("the results on the device are those of another run", _HINT)
        raise error

    def _copy(self, target: Path) -> bytes:
        target.unlink(missing_ok=True)
        ask(
            *("device", "copy", "from", "--device", self._phone.identifier),
            *("--domain-type", "appDataContainer", "--domain-identifier", self._bundle_id),
            *("--source", "Documents/results.json", "--destination", str(target)),
        )
        try:
            return target.read_bytes()
        except OSError:
            raise EngineError("the app wrote no results", _HINT) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends devicectl, and through its signal the app."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    if process.poll() is None:
        process.kill()
    process.wait()
