"""Reads the folder of a recording: one trace from the rings and logs of all its processes."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.version import __version__
from coremlscope.dropin.tracing.ring import HEADER, MAGIC, RECORD_SIZE, strings_file
from coremlscope.results.events import EVENT_KINDS, KIND_CODES
from coremlscope.results.trace import Events, Site, Trace, TracedModel, TracedProcess
from coremlscope.runtime.engines.host import processor_name

#: A record of a ring. `number` counts events from 1; 0 marks a record that was never written.
_RECORD = np.dtype(
    [
        ("start", "<u8"),
        ("duration", "<u8"),
        ("bytes", "<i8"),
        ("address", "<i8"),
        ("number", "<u4"),
        ("thread", "<u4"),
        ("task", "<u4"),
        ("site", "<u4"),
        ("detail", "<u4"),
        ("model", "<u2"),
        ("event", "u1"),
        ("flags", "u1"),
    ]
)
assert _RECORD.itemsize == RECORD_SIZE

_Rows = npt.NDArray[np.void]


@dataclass(slots=True)
class _Table:
    """Distinct values with their positions."""

    positions: dict[Any, int] = field(default_factory=dict)

    def position(self, value: Any) -> int:
        return self.positions.setdefault(value, len(self.positions))

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self.positions)


@dataclass(slots=True)
class _Tables:
    threads: _Table = field(default_factory=_Table)
    tasks: _Table = field(default_factory=_Table)
    sites: _Table = field(default_factory=_Table)
    details: _Table = field(default_factory=_Table)


@dataclass(slots=True, kw_only=True)
class _Process:
    """The log of a process, with times of its clock.

    Attributes:
        strings: By number.
        models: The rows of loaded models, by number.
        profiles: The rows of profiled sessions.
    """

    head: dict[str, Any] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    models: dict[int, dict[str, Any]] = field(default_factory=dict)
    profiles: list[dict[str, Any]] = field(default_factory=list)
    ended: int | None = None
    rows: _Rows = field(default_factory=lambda: np.empty(0, _RECORD))
    lost: int = 0
    overhead_ns: int = 0


def read_recording(folder: Path, *, command: Sequence[str] = (), fps: float | None = None) -> Trace:
    """Reads what was recorded into a folder so far.

    All clocks count from the start of the machine, so times of different processes compare.

    Args:
        folder: The folder of a `Recorder`.
        command: The command line of the recorded program.
        fps: Frames per second that it should reach.

    Raises:
        UsageError: Nothing was recorded.
    """
    processes = [_read_process(path) for path in sorted(folder.glob("*.ring"))]
    processes = sorted((p for p in processes if p.head), key=lambda process: int(process.head["at"]))
    origin = read_origin_ns(folder)
    tables, columns = _Tables(), []
    models: list[TracedModel] = []
    for index, process in enumerate(processes):
        first = len(models)
        numbers = sorted(process.models)
        models += [_model(process.models[number], index, origin) for number in numbers]
        lookup = {number: first + position for position, number in enumerate(numbers)}
        columns.append(_columns(process, index, origin, lookup, tables))
    events = merge_events(columns)
    models = _with_releases(models, events)
    last = int(events.end_ns.max()) if len(events) else 0
    ends = [process.ended - origin for process in processes if process.ended is not None]
    return Trace(
        events=events,
        made=datetime.datetime.fromtimestamp(float(processes[0].head["utc"]), datetime.UTC).isoformat(
            timespec="seconds"
        ),
        epoch_ns=int(float(processes[0].head["utc"]) * 1e9),
        version=__version__,
        host=processor_name(),
        command=tuple(command),
        duration_ns=max([last, *ends]),
        processes=tuple(_process(process, origin) for process in processes),
        models=tuple(models),
        threads=tables.threads.values,
        tasks=tables.tasks.values,
        sites=tables.sites.values,
        details=tables.details.values,
        fps=fps,
    )


def read_origin_ns(folder: Path) -> int:
    """Returns when the first process began to record, on the clock `time.perf_counter_ns`.

    Raises:
        UsageError: Nothing was recorded.
    """
    heads = []
    for path in folder.glob("*.jsonl"):
        with path.open(encoding="utf-8") as file, contextlib.suppress(ValueError, KeyError):
            heads.append(int(json.loads(file.readline())["at"]))
    if not heads:
        raise UsageError(
            "the program recorded nothing",
            "it must be a Python program, in an environment in which coremlscope is installed",
        )
    return min(heads)


def _read_process(path: Path) -> _Process:
    process = _Process()
    try:
        process.rows, process.lost, process.overhead_ns = _read_ring(path)
        with strings_file(path).open(encoding="utf-8", errors="replace") as file:
            for line in file:
                _take(process, line)
        _add_operations(process, path.parent)
    except OSError:  # The process has only begun, or removed the folder.
        process.head = {}
    return process


def _add_operations(process: _Process, folder: Path) -> None:
    """Adds the operations of profiled runs."""
    if not process.profiles:
        return
    from coremlscope.dropin.tracing.operations import OperationReader

    paths = {number: str(row.get("path", "")) for number, row in process.models.items()}
    reader = OperationReader(process.rows, paths, process.strings)
    made = [
        rows
        for profile in process.profiles
        for rows in reader.read(folder / Path(str(profile["profile"])).name, int(profile["from"]))
    ]
    process.rows = np.concatenate([process.rows, *made])


def _take(process: _Process, line: str) -> None:
    """Adds a row of the log; a last row that was cut off is left out."""
    try:
        row = json.loads(line)
    except ValueError:
        return
    if "string" in row:
        process.strings[row["string"]] = row["text"]
    elif "profile" in row:
        process.profiles.append(row)
    elif "model" in row:
        process.models[row["model"]] = row
    elif "process" in row:
        process.head = row
    elif "ended" in row:
        process.ended = row["ended"]


def _read_ring(path: Path) -> tuple[_Rows, int, int]:
    """Reads the events of a process, which may still run or have been killed.

    Returns:
        The events in the order in which they ended, the number of older events that they replaced, and the
        time that recording took in nanoseconds.
    """
    with path.open("rb") as file:
        header = file.read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            return np.empty(0, _RECORD), 0, 0
        _, capacity, overhead = HEADER.unpack(header)
        size = os.fstat(file.fileno()).st_size - HEADER.size
        used = _used(file, min(capacity, size // RECORD_SIZE))
        file.seek(HEADER.size)
        rows = np.fromfile(file, _RECORD, used)
    rows = rows[rows["number"] > 0]
    rows = rows[np.argsort(rows["number"], kind="stable")]
    return rows, int(rows["number"][0]) - 1 if len(rows) else 0, overhead


def _used(file: Any, capacity: int) -> int:
    """The number of records up to the last one that was written, which bisection finds."""

    def is_written(index: int) -> bool:
        file.seek(HEADER.size + index * RECORD_SIZE + 32)
        return bool(file.read(4).strip(b"\0"))

    low, high = 0, capacity
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_written(middle) else (low, middle)
    # Threads may write out of order by a few records.
    return min(low + 64, capacity)


def _model(row: dict[str, Any], process: int, origin: int) -> TracedModel:
    facts = {key: value for key, value in row.items() if key not in ("model", "at")}
    facts |= {"process": process, "loaded_at_ns": int(row["at"]) - origin}
    return msgspec.convert(facts, TracedModel)


def _columns(
    process: _Process, index: int, origin: int, models: dict[int, int], tables: _Tables
) -> dict[str, Any]:
    """The columns of a process's events, with positions in the tables of the whole trace."""
    rows = process.rows

    def positions(column: str, convert: dict[int, int]) -> npt.NDArray[np.int32]:
        numbers, inverse = np.unique(rows[column], return_inverse=True)
        return np.array([convert.get(int(n), -1) for n in numbers], np.int32)[inverse.reshape(-1)]

    strings = {number: _position(text, tables) for number, text in process.strings.items()}
    known = np.minimum(rows["event"], len(EVENT_KINDS) - 1)
    return {
        "start_ns": rows["start"].astype(np.int64) - origin,
        "duration_ns": rows["duration"].astype(np.int64),
        "kind": known.astype(np.uint8),
        "model": positions("model", models),
        "process": np.full(len(rows), index, np.int32),
        "thread": positions("thread", strings),
        "task": positions("task", strings),
        "site": positions("site", strings),
        "detail": positions("detail", strings),
        "bytes": rows["bytes"],
        "address": rows["address"],
        "flags": rows["flags"],
    }


def _position(text: str, tables: _Tables) -> int:
    """The position of a string in its table, which its first word names."""
    kind, _, rest = text.partition(" ")
    match kind:
        case "thread":
            return tables.threads.position(rest)
        case "task":
            return tables.tasks.position(rest)
        case "site":
            line, function, file = [*rest.split(" ", 2), "", ""][:3]
            return tables.sites.position(Site(file, int(line), function))
        case "detail":
            return tables.details.position(rest)
    return -1


def merge_events(parts: Sequence[dict[str, Any]]) -> Events:
    """The events of all processes in the order of their start; an event precedes those that it encloses.

    Args:
        parts: Columns of `Events` by name, without the depth.
    """
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((-columns["duration_ns"], columns["start_ns"]))
    columns = {name: column[order] for name, column in columns.items()}
    columns["depth"] = _nest(columns)
    return Events(**columns)


def _nest(columns: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """Counts the events of the same thread that enclose each event, which gets the model of the outermost."""
    models = columns["model"]
    depths = np.zeros(len(columns["start_ns"]), np.uint8)
    open_ends: dict[tuple[int, int], list[int]] = {}
    outermost: dict[tuple[int, int], int] = {}
    rows = zip(
        columns["process"].tolist(),
        columns["thread"].tolist(),
        columns["start_ns"].tolist(),
        columns["duration_ns"].tolist(),
        strict=True,
    )
    for index, (process, thread, start, duration) in enumerate(rows):
        lane = (process, thread)
        ends = open_ends.setdefault(lane, [])
        while ends and ends[-1] <= start:
            ends.pop()
        if ends:
            models[index] = models[outermost[lane]]
        else:
            outermost[lane] = index
        depths[index] = min(len(ends), 255)
        ends.append(start + duration)
    return depths


def _with_releases(models: Sequence[TracedModel], events: Events) -> list[TracedModel]:
    """Adds to each model when it was released."""
    released = events.where(events.kind == KIND_CODES["unload"])
    times = dict(zip(released.model.tolist(), released.start_ns.tolist(), strict=True))
    return [replace(model, unloaded_at_ns=times.get(index)) for index, model in enumerate(models)]


def _process(process: _Process, origin: int) -> TracedProcess:
    head = process.head
    return TracedProcess(
        pid=int(head["process"]),
        parent=int(head["parent"]),
        command=tuple(map(str, head["command"])),
        started_ns=int(head["at"]) - origin,
        ended=process.ended is not None,
        lost=process.lost,
        overhead_s=process.overhead_ns / 1e9,
    )
