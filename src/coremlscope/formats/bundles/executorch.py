"""ExecuTorch programs (`.pte`): the files that their Core ML delegates hold.

A program is a FlatBuffer with the identifier `ET12`, followed by segments. The extended header at byte 8
(`eh00`, `u32` length, `u64` size of the FlatBuffer, `u64` offset of the first segment) locates them. Each
execution plan (a method) lists delegates; those of the backend `CoreMLBackend` hold a flattened folder: the
contents of all files, then JSON with the tree of names, in reverse order of bytes, so that it is found from
the end. Methods may share a folder: then a delegate holds `CMJR` and JSON with the key of named data.
(Sources: ExecuTorch's `schema/program.fbs`, `exir/_serialize`, `backends/apple/coreml/runtime/inmemoryfs`.)
"""

from __future__ import annotations

import itertools
import json
import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.base.units import shown
from coremlscope.formats.bundles.trees import MemoryTree
from coremlscope.formats.mlmodel import is_inside

_IDENTIFIERS = (b"ET12",)
_HEADER_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQ")
_HEADER_OFFSET = 8
_BACKEND = "CoreMLBackend"
_REFERENCE = b"CMJR"
_FILE = 0
#: Maximum number of entries in a list of the program.
_MAX_ENTRIES = 10_000
#: Maximum size of the JSON with the names, and of the nesting of folders.
_MAX_NAMES_BYTES, _MAX_DEPTH = 16 * 2**20, 32
_DAMAGED = "the file is damaged, truncated or newer than this version; export it again"

#: Indices of fields in the tables of `program.fbs`.
_PROGRAM_PLANS, _PROGRAM_INLINE, _PROGRAM_SEGMENTS, _PROGRAM_NAMED = 1, 3, 4, 7
_PLAN_NAME, _PLAN_DELEGATES = 0, 7
_DELEGATE_ID, _DELEGATE_DATA = 0, 1
_REFERENCE_LOCATION, _REFERENCE_INDEX = 0, 1
_SEGMENT_OFFSET, _SEGMENT_SIZE = 0, 1
_NAMED_KEY, _NAMED_SEGMENT = 0, 1
_INLINE_DATA = 0


def looks_like_executorch(head: bytes) -> bool:
    """True if the first bytes are those of an ExecuTorch program."""
    return head[4:8] in _IDENTIFIERS


def read_executorch(path: Path) -> MemoryTree:
    """Reads the files of all Core ML delegates of a program.

    Each delegate is a folder `METHOD` or, if a method has several, `METHOD-1`, `METHOD-2` and so on. Methods
    that share files have one folder, with the name of the first.

    Raises:
        CorruptModelError: The program or a delegate is damaged.
        NotAModelError: No part of the program runs on Core ML.
    """
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        delegates = list(itertools.islice(_delegates(data), _MAX_ENTRIES))
    except (struct.error, LookupError, TypeError, ValueError, OverflowError, RecursionError):
        raise CorruptModelError(f"the ExecuTorch program {path} is damaged", _DAMAGED) from None
    if not any(delegate.backend == _BACKEND for delegate in delegates):
        others = ", ".join(sorted({shown(delegate.backend) for delegate in delegates})) or "none"
        raise NotAModelError(
            f"no part of the ExecuTorch program {path} runs on Core ML (its delegates: {others})",
            "export it with ExecuTorch's CoreMLPartitioner",
        )
    files: dict[PurePosixPath, memoryview] = {}
    for name, content in _folders(path, delegates):
        for inside, part in _unflatten(path, content):
            files[PurePosixPath(name, *inside.parts)] = part
    return MemoryTree(path, files)


class _Delegate(msgspec.Struct, frozen=True):
    """A delegate: its method, the name of its backend, the place of its content in the file, the content."""

    method: str
    backend: str
    place: tuple[bool, int]
    content: memoryview


def _folders(path: Path, delegates: list[_Delegate]) -> Iterator[tuple[str, memoryview]]:
    """Yields the content of each delegate of Core ML once, with a name."""
    ours = [delegate for delegate in delegates if delegate.backend == _BACKEND]
    seen = set()
    for position, delegate in enumerate(ours):
        if delegate.place in seen:
            continue
        seen.add(delegate.place)
        same = [index for index, other in enumerate(ours) if other.method == delegate.method]
        suffix = f"-{same.index(position) + 1}" if len(same) > 1 else ""
        name = f"{delegate.method or 'method'}{suffix}"
        if not is_inside(PurePosixPath(name)) or "/" in name:
            raise CorruptModelError(f"{path} has a method with the name '{shown(name)}'", _DAMAGED)
        yield name, delegate.content


# The FlatBuffer


class _Table:
    """A table of a FlatBuffer.

    Every access checks that it is inside the buffer: the library checks reads, and this class the lengths of
    vectors.
    """

    def __init__(self, data: memoryview, position: int) -> None:
        import flatbuffers.table

        if not 0 <= position < len(data):
            raise ValueError("position")
        self._data = data
        self._table = flatbuffers.table.Table(data, position)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        """Returns the root table."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, layout: str) -> int:
        """Returns a number; 0 if the field is absent."""
        offset = self._offset(field)
        return struct.unpack_from(layout, self._data, self._table.Pos + offset)[0] if offset else 0

    def text(self, field: int) -> str:
        """Returns a string; empty if the field is absent."""
        offset = self._offset(field)
        return bytes(self._table.String(self._table.Pos + offset)).decode() if offset else ""

    def table(self, field: int) -> _Table | None:
        """Returns a table; None if the field is absent."""
        offset = self._offset(field)
        return _Table(self._data, self._table.Indirect(self._table.Pos + offset)) if offset else None

    def tables(self, field: int) -> Iterator[_Table]:
        """Yields the tables of a vector."""
        start, length = self._vector(field, 4)
        if length > _MAX_ENTRIES:
            raise ValueError("length")
        for index in range(length):
            yield _Table(self._data, self._table.Indirect(start + 4 * index))

    def content(self, field: int) -> memoryview:
        """Returns the bytes of a vector."""
        start, length = self._vector(field, 1)
        return self._data[start : start + length]

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        offset = self._offset(field)
        if not offset:
            return 0, 0
        start, length = self._table.Vector(offset), self._table.VectorLen(offset)
        if start < 0 or length < 0 or start + width * length > len(self._data):
            raise ValueError("vector")
        return start, length

    def _offset(self, field: int) -> int:
        """Returns the offset of a field in the table; 0 if it is absent."""
        return int(self._table.Offset(4 + 2 * field))


def _delegates(data: memoryview) -> Iterator[_Delegate]:
    program = _Table.root(data)
    segments = list(_segments(data, program))
    inline = [table.content(_INLINE_DATA) for table in program.tables(_PROGRAM_INLINE)]
    named = {t.text(_NAMED_KEY): t.number(_NAMED_SEGMENT, "<I") for t in program.tables(_PROGRAM_NAMED)}
    for plan in program.tables(_PROGRAM_PLANS):
        method = plan.text(_PLAN_NAME)
        for delegate in plan.tables(_PLAN_DELEGATES):
            where = delegate.table(_DELEGATE_DATA)
            if where is None:
                raise ValueError("delegate")
            is_segment = where.number(_REFERENCE_LOCATION, "<b") == 1
            place = is_segment, where.number(_REFERENCE_INDEX, "<I")
            content = (segments if is_segment else inline)[place[1]]
            if content[: len(_REFERENCE)] == _REFERENCE:
                place = True, named[json.loads(bytes(content[len(_REFERENCE) :]))["key"]]
                content = segments[place[1]]
            yield _Delegate(method, delegate.text(_DELEGATE_ID), place, content)


def _segments(data: memoryview, program: _Table) -> Iterator[memoryview]:
    magic, _, _, base = _HEADER.unpack_from(data, _HEADER_OFFSET)
    base = base if magic == _HEADER_MAGIC else 0
    for table in program.tables(_PROGRAM_SEGMENTS):
        start = base + table.number(_SEGMENT_OFFSET, "<Q")
        end = start + table.number(_SEGMENT_SIZE, "<Q")
        if end > len(data):
            raise ValueError("segment")
        yield data[start:end]


# The flattened folder


def _unflatten(path: Path, content: memoryview) -> Iterator[tuple[PurePosixPath, memoryview]]:
    """Yields the files of a delegate by their paths.

    Raises:
        CorruptModelError: The tree of names is damaged or points outside the content.
    """
    try:
        nodes = _names(content)
        unused = set(range(len(nodes) - 1))
        yield from _walk(nodes, len(nodes) - 1, PurePosixPath(), content, unused)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise CorruptModelError(f"a Core ML delegate in {path} is damaged", _DAMAGED) from None


def _names(content: memoryview) -> list[Mapping[str, Any]]:
    """Returns the nodes of the tree; the last one is the root, and children precede their parents."""
    tail = bytes(content[-_MAX_NAMES_BYTES:])[::-1]
    # Contents of files follow the JSON. In Latin-1 every byte is a character, so the end is always found.
    _, end = json.JSONDecoder().raw_decode(tail.decode("latin-1"))
    nodes = json.loads(tail[:end].decode())["nodes"]
    if not isinstance(nodes, list) or not nodes:
        raise TypeError("nodes")
    return nodes


def _walk(
    nodes: list[Mapping[str, Any]],
    index: int,
    inside: PurePosixPath,
    content: memoryview,
    unused: set[int],
) -> Iterator[tuple[PurePosixPath, memoryview]]:
    """Yields the files below a node. Each node has one parent, so there are no more files than nodes."""
    node = nodes[index]
    if int(node["kind"]) == _FILE:
        start, size = int(node["dataRegion"]["offset"]), int(node["dataRegion"]["size"])
        if start < 0 or size < 0 or start + size > len(content):
            raise ValueError("region")
        yield inside, content[start : start + size]
        return
    if len(inside.parts) > _MAX_DEPTH:
        raise ValueError("depth")
    for name, child in node["children"].items():
        part = PurePosixPath(name)
        if len(part.parts) != 1 or not is_inside(part):
            raise ValueError("name")
        unused.remove(int(child))
        yield from _walk(nodes, int(child), inside / part, content, unused)
