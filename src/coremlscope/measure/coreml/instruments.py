"""Records a process with Instruments through `xcrun xctrace`, and exports the tables of the recording.

Written against the manual of xctrace and public harnesses; not yet confirmed on a device.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from coremlscope.base.errors import EngineError, MissingDependencyError
from coremlscope.base.site import page
from coremlscope.base.writing import open_draft
from coremlscope.formats.recordings.export import CORE_ML, KINDS, Export, read_export

TEMPLATE = "Core ML"
_XCTRACE = ("xcrun", "xctrace")
_INSTALL = "install Xcode, and select it with `sudo xcode-select -s /Applications/Xcode.app`"
_ATTACH_HINT = f"Instruments attaches only to programs that may be debugged: {page('guides/mac')}"
#: Line that xctrace prints when it records.
_READY = "Ctrl-C to stop"
_POLL_S = 0.05
_LAST_CHARACTERS = 300
_CHUNK_BYTES = 1 << 20


class InstrumentsTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long each step may take, in seconds, and how often it is tried.

    Attributes:
        ask_s: Questions about versions and templates.
        start_s: From the start of xctrace until it records.
        record_s: The longest recording.
        stop_s: From the end of the recording until it is written.
        export_s: The export of one table.
        tries: Exports of one table: crashes of xctrace are often transient.
    """

    ask_s: float = 60.0
    start_s: float = 90.0
    record_s: float = 60.0
    stop_s: float = 180.0
    export_s: float = 120.0
    tries: int = 3


_TIMEOUTS = InstrumentsTimeouts()


def require_instruments(timeouts: InstrumentsTimeouts = _TIMEOUTS) -> None:
    """Checks that Instruments can record Core ML here.

    Raises:
        MissingDependencyError: Xcode or the template is not installed, or xctrace does not answer.
    """
    if shutil.which(_XCTRACE[0]) is None:
        raise MissingDependencyError("recording needs Xcode, and xcrun is not installed", _INSTALL)
    templates = _ask(["list", "templates"], timeouts)
    if TEMPLATE not in (line.strip() for line in templates.splitlines()):
        text = f"Instruments has no template {TEMPLATE!r}, which recording needs"
        raise MissingDependencyError(text, "update Xcode: the template came with Xcode 14")


def _ask(arguments: Sequence[str], timeouts: InstrumentsTimeouts) -> str:
    try:
        reported = subprocess.run(
            [*_XCTRACE, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeouts.ask_s,
        )
    except subprocess.TimeoutExpired:
        text = f"xctrace did not answer within {timeouts.ask_s:.0f} s"
        raise MissingDependencyError(text, "open Xcode once, so that it finishes its installation") from None
    except OSError as error:
        text = f"xcrun cannot be run: {error.strerror or error}"
        raise MissingDependencyError(text, _INSTALL) from None
    if reported.returncode:
        said = _last_line(reported.stderr or reported.stdout) or f"exit code {reported.returncode}"
        raise MissingDependencyError(f"xctrace cannot be run: {said}", _INSTALL)
    return reported.stdout + reported.stderr


class InstrumentsRecording(msgspec.Struct, frozen=True):
    """A finished recording.

    Attributes:
        trace: The folder that Instruments wrote.
        is_attached: True if one process was recorded, False for all processes.
    """

    trace: Path
    is_attached: bool


class InstrumentsRecorder:
    """Records one process: `start` returns once Instruments records, `stop` once the recording is written.

    Args:
        folder: A private folder for the recording.
        timeouts: How long steps may take.
    """

    def __init__(self, folder: Path, timeouts: InstrumentsTimeouts = _TIMEOUTS) -> None:
        self._folder, self._timeouts = folder, timeouts
        self._process: subprocess.Popen[bytes] | None = None
        self._is_attached = True
        self._tries = 0

    def start(self, pid: int) -> None:
        """Starts to record a process, or all processes if Instruments cannot attach to it.

        Raises:
            EngineError: Instruments does not record.
        """
        try:
            self._begin(["--attach", str(pid)])
        except EngineError:
            self._is_attached = False
            self._begin(["--all-processes"])

    def stop(self) -> InstrumentsRecording:
        """Ends the recording.

        Raises:
            EngineError: Instruments does not end, or wrote nothing.
        """
        process = self._process
        if process is None:
            raise EngineError("nothing was recorded", "run it again")
        _signal(process, signal.SIGINT)
        try:
            process.wait(self._timeouts.stop_s)
        except subprocess.TimeoutExpired:
            self.close()
            text = f"Instruments did not write the recording within {self._timeouts.stop_s:.0f} s"
            raise EngineError(text, "predict fewer times with --iterations") from None
        self._process = None
        trace = self._trace
        if not trace.exists():
            raise EngineError(f"Instruments wrote no recording: {self._said()}", _ATTACH_HINT)
        return InstrumentsRecording(trace, self._is_attached)

    def close(self) -> None:
        """Ends Instruments, even while it records."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            _signal(process, signal.SIGKILL)
            process.wait()

    @property
    def _trace(self) -> Path:
        return self._folder / f"run{self._tries}.trace"

    @property
    def _log(self) -> Path:
        return self._folder / f"xctrace{self._tries}.log"

    def _begin(self, target: Sequence[str]) -> None:
        self._tries += 1
        name = f"coremlscope.recording.{os.getpid()}.{self._tries}"
        arguments = ["record", "--template", TEMPLATE, "--no-prompt", "--output", str(self._trace)]
        arguments += ["--time-limit", f"{self._timeouts.record_s:.0f}s", "--notify-tracing-started", name]
        notified = _listen_for(name)
        try:
            with open_draft(self._log) as log:
                self._process = subprocess.Popen(
                    [*_XCTRACE, *arguments, *target],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._wait_until_ready(self._process, notified)
        except BaseException:
            self.close()
            raise
        finally:
            if notified is not None:
                notified.kill()
                notified.wait()

    def _wait_until_ready(
        self, process: subprocess.Popen[bytes], notified: subprocess.Popen[bytes] | None
    ) -> None:
        """Waits for xctrace's notification, or for its text: notifications are not queued."""
        deadline = time.monotonic() + self._timeouts.start_s
        while time.monotonic() < deadline:
            if _READY in self._text() or (notified is not None and notified.poll() == 0):
                return
            if process.poll() is not None:
                raise EngineError(f"Instruments did not record: {self._said()}", _ATTACH_HINT)
            time.sleep(_POLL_S)
        text = f"Instruments did not begin to record within {self._timeouts.start_s:.0f} s"
        raise EngineError(text, "open Instruments once: it may wait for a permission")

    def _text(self) -> str:
        return self._log.read_bytes().decode("utf-8", "replace") if self._log.exists() else ""

    def _said(self) -> str:
        return _last_line(self._text()) or "it printed nothing"


def _listen_for(name: str) -> subprocess.Popen[bytes] | None:
    """A process that ends when a Darwin notification is posted; None where macOS's tool is absent."""
    tool = shutil.which("notifyutil")
    if tool is None:
        return None
    quiet = subprocess.DEVNULL
    return subprocess.Popen([tool, "-1", name], stdin=quiet, stdout=quiet, stderr=quiet)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Sends a signal to a process and its children, which are a session of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def export_recording(
    trace: Path, folder: Path, timeouts: InstrumentsTimeouts = _TIMEOUTS
) -> tuple[list[Export], list[str]]:
    """Exports and reads the tables of compute units, one process after the other.

    Args:
        trace: The recording.
        folder: A private folder.
        timeouts: How long each export may take, and how often it is tried.

    Returns:
        The table of contents and the tables; and the names of tables that xctrace could not export.

    Raises:
        EngineError: xctrace cannot export the table of contents.
        UsageError: It exported something damaged.
    """
    contents = _export(trace, ["--toc"], folder / "toc.xml", timeouts)
    if contents is None or contents.contents is None:
        raise EngineError("xctrace could not export the recording", "run it again: such failures often pass")
    exports, failed = [contents], []
    wanted = tuple(kind.schema for kind in KINDS if kind.unit is not None or kind is CORE_ML)
    for number, table in enumerate(contents.contents.tables):
        if table.startswith(wanted) and '"' not in table:
            query = f'/trace-toc/run[@number="1"]/data/table[@schema="{table}"]'
            found = _export(trace, ["--xpath", query], folder / f"table{number}.xml", timeouts)
            if found is None:
                failed.append(table)
            else:
                exports.append(found)
    return exports, failed


def _export(trace: Path, what: Sequence[str], target: Path, timeouts: InstrumentsTimeouts) -> Export | None:
    """Exports in a new process, several times if it fails; None if it fails each time."""
    command = [*_XCTRACE, "export", "--input", str(trace), *what, "--output", str(target)]
    quiet = subprocess.DEVNULL
    for _ in range(timeouts.tries):
        target.unlink(missing_ok=True)
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=timeouts.export_s)
            if done.returncode == 0 and target.exists():
                with target.open("rb") as file:
                    return read_export(iter(lambda: file.read(_CHUNK_BYTES), b""))
    return None


def _last_line(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1][:_LAST_CHARACTERS] if lines else ""
