"""Recordings of running programs, as lanes of events: activity, data conversions, computation.

Events are columns of NumPy arrays, so that a million of them stay small.
"""

from __future__ import annotations

import base64
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import msgspec.structs
import numpy as np
import numpy.typing as npt

from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Origin
from coremlscope.base.folders import read_file
from coremlscope.base.units import short_repr
from coremlscope.base.writing import write_file
from coremlscope.results.events import EVENT_KINDS, KIND_CODES
from coremlscope.results.presentation import Presented
from coremlscope.results.recording import UnitSamples

#: The name and version of the schema.
SCHEMA = "coremlscope.trace/1"
#: The largest file that is read, in bytes of columns after decompression.
_MOST_BYTES = 4 << 30

_Column = npt.NDArray[Any]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Events in the order of their start; every column has one element for each event.

    Attributes:
        start_ns: Nanoseconds from the start of the trace.
        duration_ns: Nanoseconds.
        kind: Position in `EVENT_KINDS`.
        model: Position in `Trace.models`; −1 for none.
        process: Position in `Trace.processes`.
        thread: Position in `Trace.threads`.
        task: Position in `Trace.tasks`, of asyncio; −1 outside tasks.
        site: Position in `Trace.sites`: the line of the program that made the call; −1 if unknown.
        detail: Position in `Trace.details`; −1 for none.
        bytes: Bytes that were converted, or of the inputs of a prediction; 0 if unknown.
        address: The address of the first input's memory, which shows slices of one array; 0 if unknown.
        flags: Bits: `FAILED` and others.
        depth: How many recorded events of the same thread enclose it.
    """

    start_ns: _Column
    duration_ns: _Column
    kind: _Column
    model: _Column
    process: _Column
    thread: _Column
    task: _Column
    site: _Column
    detail: _Column
    bytes: _Column
    address: _Column
    flags: _Column
    depth: _Column

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> _Column:
        """When each event ended, in nanoseconds from the start of the trace."""
        return self.start_ns + self.duration_ns

    def where(self, mask: _Column) -> Events:
        """Returns the events that a boolean mask or an array of positions selects."""
        return Events(**{f: getattr(self, f)[mask] for f in self.__struct_fields__})

    def of(self, *names: str) -> Events:
        """Returns the events of the kinds with these names."""
        return self.where(np.isin(self.kind, [KIND_CODES[name] for name in names]))

    def between(self, start_s: float, end_s: float) -> Events:
        """Returns the events that overlap a span of time, in seconds from the start of the trace."""
        return self.where((self.end_ns >= start_s * 1e9) & (self.start_ns <= end_s * 1e9))


#: The types of columns in a file.
_DTYPES: Final = ("<i8", "<i4", "|u1")


class Site(msgspec.Struct, frozen=True):
    """A line of a program that made a call.

    Attributes:
        file: The path of the source file.
        line: The line.
        function: The function.
    """

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


class TracedFeature(msgspec.Struct, frozen=True):
    """An input or output of a model.

    Attributes:
        name: Its name.
        type: `array`, `image`, or another type's name.
        dtype: Of arrays, and of the pixels of images: `float16`, `uint8`.
        shape: Of arrays; height, width and, for color, channels of images; empty if unknown. 0 marks a
            flexible size.
    """

    name: str
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()


class TracedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model: each load makes another one.

    Attributes:
        name: The name of its file, without the suffix.
        path: Its path; empty for a model that was made in memory.
        key: Equal for loads of the same model.
        runtime: What runs it: `Core ML`, `coremlscope`, `ONNX Runtime`.
        function: The function; empty for the default one.
        compute_units: The setting; empty if there is none.
        process: Position in `Trace.processes`.
        inputs: Its inputs.
        outputs: Its outputs.
        is_half: Whether it computes in fp16; None if unknown.
        loaded_at_ns: When loading ended, in nanoseconds from the start of the trace.
        unloaded_at_ns: When it was released; None if it never was.
    """

    name: str
    path: str = ""
    key: str = ""
    runtime: str = ""
    function: str = ""
    compute_units: str = ""
    process: int = 0
    inputs: tuple[TracedFeature, ...] = ()
    outputs: tuple[TracedFeature, ...] = ()
    is_half: bool | None = None
    loaded_at_ns: int = 0
    unloaded_at_ns: int | None = None


class TracedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded process.

    Attributes:
        pid: Its number.
        parent: The number of the process that started it.
        command: Its command line.
        started_ns: When recording began, in nanoseconds from the start of the trace.
        ended: Whether it stopped recording by itself; False if it was killed or still ran.
        lost: Events that later ones replaced, because the ring was full.
        overhead_s: Time that recording took.
    """

    pid: int
    parent: int = 0
    command: tuple[str, ...] = ()
    started_ns: int = 0
    ended: bool = False
    lost: int = 0
    overhead_s: float = 0.0


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake that a recording shows.

    Attributes:
        id: A stable identifier in kebab case: `model-reloaded`.
        severity: `warning`, or `info` where it may be intended.
        title: A few words.
        evidence: One sentence with the figures that show it.
        fix: One sentence with what to change.
        site: Position in `Trace.sites` of the line to change; −1 if unknown.
        model: Position in `Trace.models`; −1 for none.
        events: How many events show it.
        gain_s: The time that the change would have saved in this recording, from its measured times, without
            what costlier mistakes already count; None if the recording does not tell.
        shared_s: The part of its saving that costlier mistakes already count.
    """

    id: str
    severity: Literal["warning", "info"] = "warning"
    title: str
    evidence: str
    fix: str
    site: int = -1
    model: int = -1
    events: int = 0
    gain_s: float | None = None
    shared_s: float = 0.0


#: What costs less than both is no mistake: seconds, and a share of the recording.
LEAST_COST_S, LEAST_COST_SHARE = 0.005, 0.01


class Trace(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """A recording of a program, with its children.

    Attributes:
        events: The events of all processes.
        made: When it began, as ISO 8601 in UTC.
        epoch_ns: The same in nanoseconds since 1970, to which the times of events add.
        version: The version of coremlscope.
        host: The processor and the system.
        command: The command line of the recorded program; empty in a program that records itself.
        duration_ns: From the start of the recording to its end.
        processes: The processes, the first one first.
        models: The loaded models, in the order of loading.
        threads: The names of threads.
        tasks: The names of asyncio's tasks.
        sites: The lines that made calls.
        details: What events say about themselves: `float64[1,3,224,224] → float16`.
        mistakes: What should be changed, the costliest first.
        searched: The mistakes that were looked for, by id: those that the recording has the events for.
        samples: Samples of call stacks by unit, where Instruments took some.
        fps: Frames per second that the program should reach; None if not asked.
        origin: Times are measured.
    """

    events: Events
    made: str = ""
    epoch_ns: int = 0
    version: str = ""
    host: str = ""
    command: tuple[str, ...] = ()
    duration_ns: int = 0
    processes: tuple[TracedProcess, ...] = ()
    models: tuple[TracedModel, ...] = ()
    threads: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    details: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    searched: tuple[str, ...] = ()
    samples: tuple[UnitSamples, ...] = ()
    fps: float | None = None
    origin: Origin = "measured"

    __repr__ = short_repr

    @property
    def duration_s(self) -> float:
        """The length of the recording in seconds."""
        return self.duration_ns / 1e9

    @property
    def gain_s(self) -> float:
        """The time that all mistakes together cost, in seconds; no event counts twice."""
        return sum(mistake.gain_s or 0.0 for mistake in self.mistakes)

    @property
    def loads(self) -> int:
        """How often models were loaded, by the events."""
        return int((self.events.kind == KIND_CODES["load"]).sum())

    @property
    def lost(self) -> int:
        """Events that were replaced by later ones, in all processes."""
        return sum(process.lost for process in self.processes)

    @property
    def overhead_s(self) -> float:
        """Time that recording took in all processes."""
        return sum(process.overhead_s for process in self.processes)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the trace as JSON, with compressed columns; `Trace.load` reads it.

        Raises:
            OutputError: The file cannot be written.
        """
        write_file(path, msgspec.json.encode(self.to_json()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Trace:
        """Reads a trace that `save` wrote.

        Raises:
            UsageError: The file cannot be read, is not a trace, or is damaged.
        """
        try:
            data = msgspec.json.decode(read_file(path))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}", "check the path") from error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not valid JSON: {error}", "record the program again") from error
        return cls.from_json(data)

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values: columns are base64 of zlib of little-endian numbers."""
        values = msgspec.to_builtins(self, str_keys=True, enc_hook=_encode_column)
        return {"schema": SCHEMA, **values}

    @classmethod
    def from_json(cls, data: object) -> Trace:
        """Reads the values that `to_json` returns.

        Raises:
            UsageError: They are not those of a trace, or are damaged.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise UsageError("the file is not a recording of a program", "make one with `coremlscope trace`")
        values = {key: value for key, value in data.items() if key != "schema"}
        try:
            trace = msgspec.convert(values, cls, dec_hook=_decode_column)
        except (msgspec.ValidationError, RecursionError) as error:
            raise UsageError(f"the recording is damaged: {error}", "record the program again") from error
        trace.check()
        return trace

    def check(self) -> None:
        """Checks that columns fit each other and refer to rows that exist.

        Raises:
            UsageError: They do not.
        """
        tables = {
            "kind": EVENT_KINDS,
            "model": self.models,
            "process": self.processes,
            "thread": self.threads,
            "task": self.tasks,
            "site": self.sites,
            "detail": self.details,
        }
        for column_field in self.events.__struct_fields__:
            name = column_field
            column = getattr(self.events, name)
            if len(column) != len(self.events):
                raise UsageError(f"the recording is damaged: the column {name} has another length")
            table = tables.get(name)
            if table is None or not len(column):
                continue
            if not -1 <= column.min() <= column.max() < len(table):
                raise UsageError(f"the recording is damaged: {name} refers to rows that do not exist")


def _encode_column(value: Any) -> str:
    """Encodes a column as its dtype, and its bytes compressed."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(type(value).__name__)
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 1))
    return f"{value.dtype.str}:{packed.decode('ascii')}"


def _decode_column(_type: type, text: object) -> _Column:
    """Decodes a column.

    Raises:
        ValueError: It is damaged.
    """
    dtype, _, packed = str(text).partition(":")
    if dtype not in _DTYPES:
        raise ValueError("a column has no known type")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"a column cannot be decompressed: {error}") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("a column is cut off or too large")
    return np.frombuffer(data, dtype)


def costs_enough(mistake: Mistake, trace: Trace) -> bool:
    """Returns whether a mistake costs enough to be called one; those whose cost is unknown do."""
    cost_s = None if mistake.gain_s is None else mistake.gain_s + mistake.shared_s
    return cost_s is None or cost_s >= min(LEAST_COST_S, LEAST_COST_SHARE * trace.duration_s)
