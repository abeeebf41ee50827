"""Reads the XML of `xctrace export`, as a stream in bounded memory: tables of a recording, and its contents.

Form: rows of cells named by engineering type. The first occurrence of a value has an `id`, later ones have a
`ref` to it, across tables and also to elements nested in a row. Numbers are nanoseconds; `fmt` is for
display. Columns follow public parsers (microsoft/Microsoft-Performance-Tools-Apple,
wieslawsoltes/ActivityMonitor) and published exports; `docs/guides/mac-files.md` lists the tables.
"""

from __future__ import annotations

import xml.parsers.expat
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.formats.recordings.stacks import UNIT_BITS, classify_frame
from coremlscope.formats.recordings.values import MISSING, NumbersById, TextsByIndex

_HINT = "export the table again with `xcrun xctrace export`"
_DEEPEST = 64
#: Bytes that expat may hold of one token, such as an attribute; those of real exports are far shorter.
_LONGEST_TOKEN = 8 << 20
#: Rows with times of one table; a recording of a minute has some 100,000.
_MOST_ROWS = 20_000_000
_LONGEST_NUMBER = 18
#: Pieces in which expat gives a text; it joins what is short.
_MOST_PIECES = 16
_MOST_TABLES = 4096
#: A text whose id does not occur yet is kept as this number minus the id.
_PENDING = MISSING - 1


class TableKind(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is read.

    Attributes:
        schema: What its name begins with. Names differ by the version of Xcode: `ane-hw-intervals-internal`.
        unit: The unit whose intervals it holds; None for others.
        label: The column that distinguishes rows, by the names that it has.
        label_type: The engineering type of that column.
        telling: An engineering type that only this table has; empty if there is none. Exports of several
            tables name the columns of the first one only.
    """

    schema: str
    unit: ComputeUnit | None
    label: tuple[str, ...] = ()
    label_type: str = ""
    telling: str = ""


CORE_ML: Final = TableKind(
    schema="coreml-os-signpost",
    unit=None,
    label=("coreml-model-event", "event"),
    label_type="coreml-model-event",
    telling="coreml-model-event",
)
#: Core AI's own table, of Xcode 27. The types of its columns are not published, only their names, so every
#: cell is kept.
CORE_AI: Final = TableKind(schema="ODIEProfile", unit=None, label=("category",), telling="odie-profile")
#: The tables whose rows are kept.
KINDS: tuple[TableKind, ...] = (
    TableKind(
        schema="ane-hw-intervals",
        unit=NEURAL_ENGINE,
        label=("event-label",),
        label_type="formatted-label",
        telling="ane-event-name",
    ),
    TableKind(
        schema="mps-hw-intervals",
        unit=GPU,
        label=("event-label",),
        label_type="formatted-label",
        telling="mps-event-name",
    ),
    TableKind(
        schema="metal-gpu-intervals",
        unit=GPU,
        label=("channel-name",),
        label_type="gpu-channel-name",
        telling="gpu-channel-name",
    ),
    CORE_ML,
    CORE_AI,
    TableKind(schema="time-profile", unit=None),
    TableKind(schema="time-sample", unit=None),
    TableKind(schema="cpu-profile", unit=None),
    TableKind(schema="counters-profile", unit=None),
)
#: Samples of call stacks where a file does not name the table.
_SAMPLES = TableKind(schema="samples", unit=None)

_TIMES = frozenset(("start-time", "sample-time", "event-time"))
_NUMBERS = _TIMES | {"duration"}
_TEXTS = frozenset(
    ("formatted-label", "process", "thread", "gpu-channel-name", "coreml-model-name", "coreml-model-event")
)
_STACKS = frozenset(("tagged-backtrace", "backtrace", "kperf-bt"))
_FRAMES = frozenset(("frame", "binary"))
_KEPT = _NUMBERS | _TEXTS | _STACKS | _FRAMES
#: The text of the innermost frame of the software of each unit, in the order of `UNIT_BITS`.
_Frames = tuple[int, ...]
_NO_FRAMES: _Frames = (MISSING,) * len(UNIT_BITS)
#: Columns by name, and by the engineering type of the first cell where names are absent.
_COLUMNS: Mapping[str, str] = {
    "start": "start",
    "time": "start",
    "timestamp": "start",
    "duration": "duration",
    "process": "process",
    "thread": "thread",
    "coreml-model-name": "model",
    "model-name": "model",
    "stack": "stack",
    "backtrace": "stack",
    "cpu-stack": "stack",
}
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_TIMES, "start"),
    "duration": "duration",
    "process": "process",
    "thread": "thread",
    "coreml-model-name": "model",
    **dict.fromkeys(_STACKS, "stack"),
}


@dataclass(slots=True, kw_only=True)
class Table:
    """The rows of a table, as columns.

    Attributes:
        kind: Which table it is; None for one whose rows are only counted.
        rows: How many rows it has.
        starts: In nanoseconds from the start of the recording.
        durations: In nanoseconds.
        labels: Indices of texts; MISSING for none.
        processes: Likewise.
        models: Likewise.
        frames: The same by unit, the innermost such frame and the thread, as indices of texts.
    """

    kind: TableKind | None
    rows: int = 0
    starts: array[int] = field(default_factory=lambda: array("q"))
    durations: array[int] = field(default_factory=lambda: array("q"))
    labels: array[int] = field(default_factory=lambda: array("q"))
    processes: array[int] = field(default_factory=lambda: array("q"))
    models: array[int] = field(default_factory=lambda: array("q"))
    frames: dict[tuple[ComputeUnit, int, int], int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Contents:
    """The table of contents of a recording. Names and identifiers of devices are not read.

    Attributes:
        device: The device's model; empty if unknown.
        system: Its system: `macOS 27.0 (26A434)`.
        target: The recorded process with its id: `python3 (4711)`; empty if all were.
        template: The template: `Core ML`.
        version: The version of Instruments.
        duration_s: The duration in seconds; None if unknown.
        tables: The tables that the recording has.
        runs: How many runs it has.
    """

    device: str = ""
    system: str = ""
    target: str = ""
    template: str = ""
    version: str = ""
    duration_s: float | None = None
    tables: dict[str, None] = field(default_factory=dict)
    runs: int = 0


@dataclass(slots=True, kw_only=True)
class Export:
    """The content of one file.

    Attributes:
        contents: The table of contents; None in exports of tables.
        tables: By name of the table; names without a schema in the file are those of `TableKind.schema`.
        texts: Labels, processes and models of the tables.
        empty: Nodes without schema and rows: the recording has no such table, or it has no rows.
        unresolved: Cells whose reference leads nowhere.
        damaged: Rows without a time that can be read.
    """

    contents: Contents | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    texts: TextsByIndex = field(default_factory=TextsByIndex)
    empty: int = 0
    unresolved: int = 0
    damaged: int = 0


def read_export(chunks: Iterable[bytes]) -> Export:
    """Reads an export of tables, or a table of contents.

    Args:
        chunks: The file, in pieces.

    Raises:
        UsageError: It is not valid XML, declares entities, is nested too deeply, is too large, or is not an
            export.
    """
    reader = _Reader()
    fed = 0
    try:
        for chunk in chunks:
            fed += len(chunk)
            reader.parser.Parse(chunk, False)
            if fed - reader.parser.CurrentByteIndex > _LONGEST_TOKEN:
                raise UsageError("the export has a value that is too long", _HINT)
        reader.parser.Parse(b"", True)
    except xml.parsers.expat.ExpatError as error:
        raise UsageError(f"the export is truncated or not valid XML: {error}", _HINT) from error
    return reader.resolve()


class _Reader:
    """Handlers of the XML parser. Nothing of the document is kept except what `Export` holds and ids."""

    def __init__(self) -> None:
        self.export = Export()
        self.parser = xml.parsers.expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = _refuse_declarations
        self.parser.EntityDeclHandler = _refuse_declarations
        self._ids = NumbersById()
        self._depth = 0
        self._path: list[str] = []  # only in a table of contents
        self._text: list[str] = []
        self._wants_text = True
        self._node = _Node()
        self._row = 0  # the depth of the open row; 0 outside rows
        self._cells: list[tuple[str, int]] = []
        self._open: list[tuple[int, str, Mapping[str, str]]] = []
        self._frames: list[tuple[int, _Frames]] = []  # of the open stack and frame
        self._stacks: list[_Frames] = []
        self._numbers: dict[_Frames, int] = {}
        self._are_pending = False

    def resolve(self) -> Export:
        """Returns the export after resolving references to later elements."""
        if self._are_pending:
            for table in self.export.tables.values():
                for column in (table.labels, table.processes, table.models):
                    for row, value in enumerate(column):
                        if value < MISSING:
                            column[row] = self._ids.get(_PENDING - value)
                            self.export.unresolved += column[row] == MISSING
        return self.export

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth = depth = self._depth + 1
        if self._row:
            if name in _KEPT or (depth == self._row + 1 and self._node.keeps_all):
                self._start_value(name, attributes)
            elif depth == self._row + 1:
                self._cells.append((name, MISSING))
                self._wants_text = False
            if depth > _DEEPEST:
                raise UsageError("the export is nested too deeply", _HINT)
            return
        self._wants_text = True
        self._text.clear()
        if name == "row":
            self._row = depth
            self._cells = []
        elif name in _KEPT and self.export.contents is None:
            self._start_value(name, attributes)
        else:
            self._start_structure(name, attributes)

    def _start_structure(self, name: str, attributes: dict[str, str]) -> None:
        """Everything around rows."""
        if self._depth > _DEEPEST:
            raise UsageError("the export is nested too deeply", _HINT)
        if self._depth == 1:
            if name not in ("trace-query-result", "trace-toc"):
                raise UsageError(f"the root element is {name[:40]!r}, not that of an xctrace export", _HINT)
            if name == "trace-toc":
                self.export.contents = Contents()
        if self.export.contents is not None:
            self._path.append(name)
            self._start_contents(name, attributes)
        elif name == "node":
            self._node = _Node()
        elif name == "schema":
            self._node.schema = attributes.get("name", "")

    def _start_value(self, name: str, attributes: dict[str, str]) -> None:
        """A cell, or a value nested in one, or one outside rows."""
        reference = attributes.get("ref")
        if name in _STACKS or name in _FRAMES:
            self._frames.append(self._begin_frames(name, attributes))
            self._wants_text = False
        else:
            self._wants_text = reference is None and (name in _NUMBERS or "fmt" not in attributes)
            self._text.clear()
        self._open.append((self._depth, name, attributes))

    def _begin_frames(self, name: str, attributes: Mapping[str, str]) -> tuple[int, _Frames]:
        """The text of a frame, and what it says of units; both are nothing for a stack that begins."""
        reference = attributes.get("ref")
        known = MISSING if reference is None else self._ids.get(_index(reference))
        if known != MISSING:
            return MISSING, self._stacks[known]
        if name not in _FRAMES:
            return MISSING, _NO_FRAMES
        text = self.export.texts.index(attributes.get("name", ""))
        units = classify_frame(attributes.get("name", ""))
        return text, tuple(text if units & bit else MISSING for bit in UNIT_BITS.values())

    def _end_frames(self) -> int:
        """The number of a stack or frame, which the stack or frame around it takes over."""
        _, frames = self._frames.pop()
        if self._frames:
            text, outer = self._frames[-1]
            # A binary tells what the frame around it is; of the frames of a stack the innermost is first.
            own = tuple(text if text != MISSING and one != MISSING else one for one in frames)
            self._frames[-1] = text, tuple(a if a != MISSING else b for a, b in zip(outer, own, strict=True))
        number = self._numbers.setdefault(frames, len(self._stacks))
        if number == len(self._stacks):
            self._stacks.append(frames)
        return number

    def _characters(self, text: str) -> None:
        if self._wants_text and len(self._text) < _MOST_PIECES:
            self._text.append(text)

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if self._row == depth:
            self._row = 0
            self._end_row()
        elif self._open and self._open[-1][0] == depth:
            self._end_value()
        elif self._row:
            return
        elif self.export.contents is not None:
            self._path.pop()
            self._end_contents(name)
        elif name == "mnemonic":
            self._node.columns.append("".join(self._text).strip())
        elif name == "node":
            self._end_node()

    def _end_value(self) -> None:
        depth, name, attributes = self._open.pop()
        value = self._value(name, attributes)
        identifier = attributes.get("id")
        if identifier is not None and value != MISSING:
            self._ids.set(_index(identifier), value)
        if self._row and depth == self._row + 1:
            self._cells.append((name, value))

    def _value(self, name: str, attributes: Mapping[str, str]) -> int:
        """A value as a number: nanoseconds, the index of a text, or the number of a stack."""
        if name in _STACKS or name in _FRAMES:
            return self._end_frames()
        reference = attributes.get("ref")
        if reference is not None:
            index = _index(reference)
            found = self._ids.get(index)
            if found != MISSING:
                return found
            if name in _TEXTS and index >= 0:
                self._are_pending = True
                return _PENDING - index
            self.export.unresolved += 1
            return MISSING
        if name in _NUMBERS:
            return _nanoseconds("".join(self._text))
        return self.export.texts.index(attributes.get("fmt") or "".join(self._text).strip())

    def _end_row(self) -> None:
        node = self._node
        table = node.table
        if table is None:
            table = node.table = self._table(node)
        table.rows += 1
        kind = table.kind
        if kind is None:
            return
        cells = node.roles(kind, self._cells)
        if kind.unit is None and kind not in (CORE_ML, CORE_AI):
            stack = cells.get("stack", MISSING)
            frames = _NO_FRAMES if stack == MISSING else self._stacks[stack]
            for unit, text in zip(UNIT_BITS, frames, strict=True):
                if text != MISSING:
                    key = unit, text, cells.get("thread", MISSING)
                    table.frames[key] = table.frames.get(key, 0) + 1
            return
        start, duration = cells.get("start", MISSING), cells.get("duration", MISSING)
        if start == MISSING or duration == MISSING:
            self.export.damaged += 1
            return
        if len(table.starts) >= _MOST_ROWS:
            raise UsageError(f"a table has more than {_MOST_ROWS} rows", "record for a shorter time")
        table.starts.append(start)
        table.durations.append(duration)
        for column, role in ((table.labels, "label"), (table.processes, "process"), (table.models, "model")):
            column.append(cells.get(role, MISSING))

    def _table(self, node: _Node) -> Table:
        """The table of a node. Without a schema it is known by the types of its first row."""
        schema = node.schema
        kind = next((kind for kind in KINDS if schema and schema.startswith(kind.schema)), None)
        if not schema:
            types = {name for name, _ in self._cells}
            kind = next((kind for kind in KINDS if kind.telling in types), None)
            if kind is None and types & _STACKS:
                kind = _SAMPLES
            schema = kind.schema if kind is not None else "unknown"
        tables = self.export.tables
        if len(tables) >= _MOST_TABLES:
            raise UsageError("the export has too many tables", _HINT)
        return tables.setdefault(schema[: TextsByIndex.LONGEST], Table(kind=kind))

    def _end_node(self) -> None:
        node = self._node
        if node.table is None:
            if node.schema:
                self._table(node)
            else:
                self.export.empty += 1
        self._node = _Node()

    def _start_contents(self, name: str, attributes: dict[str, str]) -> None:
        contents = self.export.contents
        assert contents is not None
        if name == "run":
            contents.runs += 1
        if contents.runs > 1:
            return
        if name == "device":
            contents.device = attributes.get("model", "")[: TextsByIndex.LONGEST]
            system = f"{attributes.get('platform', '')} {attributes.get('os-version', '')}"
            contents.system = system.strip()[: TextsByIndex.LONGEST]
        elif name == "process" and self._path[-2] == "target":
            pid = attributes.get("pid", "")
            contents.target = f"{attributes.get('name', '')} ({pid})"[: TextsByIndex.LONGEST] if pid else ""
        elif name == "table" and len(contents.tables) < _MOST_TABLES:
            contents.tables[attributes.get("schema", "")[: TextsByIndex.LONGEST]] = None

    def _end_contents(self, name: str) -> None:
        contents = self.export.contents
        assert contents is not None
        text = "".join(self._text).strip()
        if contents.runs != 1 or self._path[-1:] != ["summary"]:
            return
        if name == "template-name":
            contents.template = text
        elif name == "instruments-version":
            contents.version = text
        elif name == "duration":
            try:
                seconds = float(text)
            except ValueError:
                return
            contents.duration_s = seconds if 0 <= seconds < 1e9 else None


class _Node:
    """The open node of an export: one table."""

    def __init__(self) -> None:
        self.schema = ""
        self.columns: list[str] = []
        self.table: Table | None = None

    @property
    def keeps_all(self) -> bool:
        """True if cells of any type are kept."""
        return self.schema.startswith(CORE_AI.schema)

    def roles(self, kind: TableKind, cells: list[tuple[str, int]]) -> dict[str, int]:
        """The values of a row by their role; by column, or by type where columns are not named."""
        found: dict[str, int] = {}
        named = len(self.columns) == len(cells)
        for index, (type_, value) in enumerate(cells):
            if named:
                column = self.columns[index]
                role = "label" if column in kind.label else _COLUMNS.get(column)
            else:
                role = "label" if type_ == kind.label_type else _TYPES.get(type_)
            if role is not None and role not in found:
                found[role] = value
        return found


def _refuse_declarations(*_: object) -> None:
    raise UsageError("the export declares a document type or entities, which no xctrace export does", _HINT)


def _index(text: str) -> int:
    """The number of an id; -1 if it is not one."""
    return int(text) if len(text) <= _LONGEST_NUMBER and text.isascii() and text.isdigit() else -1


def _nanoseconds(text: str) -> int:
    """A time that is at least 0; MISSING if it is not one."""
    number = _index(text.strip())
    return number if number >= 0 else MISSING
