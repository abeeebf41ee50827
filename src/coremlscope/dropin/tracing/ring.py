"""The file in which a process keeps its events: a ring of fixed-size records, and a log of strings.

Both survive the process: records are written through a shared memory mapping and strings by unbuffered
appends, so that the system keeps them when the process is killed. When the ring is full, new events replace
the oldest ones.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import struct
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coremlscope.base.errors import OutputError

#: Events that a process keeps by default: 64 MiB, of which only used pages take space.
CAPACITY = 1 << 20
#: The most strings of a process; what exceeds them refers to `OTHER`.
_MOST_STRINGS = 1 << 16
#: The text of strings beyond that limit.
_OTHER = "…"
MAGIC = b"coremlscope ring 1\0\0\0\0\0\0"
#: The header: magic, capacity, time spent on recording in nanoseconds, events that were replaced.
HEADER = struct.Struct("<24sQQ24x")
_OVERHEAD_WORD = 4
#: Numbers of events and models wrap.
_WRAP, _MOST = 0xFFFFFFFF, 0xFFFF
#: The overhead is stored with every 64th event.
_STORE_OFTEN = 63
#: A record: seven words of 64 bits, of which the last three hold two to four numbers each.
_WORDS = 7
RECORD_SIZE = 8 * _WORDS
_FIRST = HEADER.size // 8

#: An event: its start (nanoseconds of `time.perf_counter_ns`), duration, bytes, the address of an array, the
#: number of the string for the detail, the number of the model, the code of its kind, and flags.
Row = tuple[int, int, int, int, int, int, int, int]

#: Disk space is allocated for as many events at a time, before they come: a write to memory that the disk has
#: no space for would end the program.
_SEGMENT = 1 << 14
#: The next segment is allocated when so many events or fewer are left.
_AHEAD = 1 << 13


class Ring:
    """Writes the events of this process. Safe to use from several threads.

    Args:
        path: The file to create; its strings go to `strings_file(path)`.
        capacity: The number of events that it keeps.

    Attributes:
        overhead: The time that recording took, in nanoseconds.
        sites: Numbers of lines by the address of the instruction that makes the call; 0 for lines of
            packages.
        details: Numbers of details by what they are made from.
        kept: What the addresses in those keys belong to.

    Raises:
        OutputError: The files cannot be created.
    """

    def __init__(self, path: Path, capacity: int = CAPACITY) -> None:
        size = HEADER.size + capacity * RECORD_SIZE
        self._allocated = min(_SEGMENT, capacity)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            weakref.finalize(self, os.close, self._file).atexit = False
            os.truncate(self._file, size)
            _allocate(self._file, 0, HEADER.size + self._allocated * RECORD_SIZE)
            memory = mmap.mmap(self._file, size)
            log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC
            self._log = os.open(strings_file(path), log_flags, 0o600)
        except OSError as error:
            raise OutputError(
                f"the recording cannot be written to {path.parent}: {error.strerror or error}",
                "free some disk space, or choose another folder with TMPDIR",
            ) from error
        weakref.finalize(self, os.close, self._log).atexit = False
        HEADER.pack_into(memory, 0, MAGIC, capacity, 0)
        # Words take half the time of `struct`, which finds the memory again in each call.
        self._words = memoryview(memory).cast("Q")
        self._capacity = capacity
        self._count = itertools.count(1)
        self._strings: dict[str, int] = {}
        self._is_cut = False
        self.overhead = 0
        self.sites: dict[int, int] = {}
        self.details: dict[Any, tuple[int, int, int]] = {}
        self.kept: list[Any] = []

    def write(self, rows: Iterable[Row], thread: int = 0, task: int = 0, site: int = 0) -> None:
        """Writes events of one call.

        Args:
            rows: The events.
            thread: The number of the string for the thread.
            task: The number of the string for the task.
            site: The number of the string for the line.
        """
        words, place = self._words, task | site << 32
        for start, duration, size, address, detail, model, kind, flags in rows:
            number = next(self._count)
            at = _FIRST + (number - 1) % self._capacity * _WORDS
            words[at] = start
            words[at + 1] = duration
            words[at + 2] = size
            words[at + 3] = address
            words[at + 5] = place
            words[at + 6] = detail | (model & _MOST) << 32 | kind << 48 | flags << 56
            words[at + 4] = number & _WRAP | thread << 32
            if not number & _STORE_OFTEN:
                self.store_overhead()
                if self._allocated - _AHEAD < number <= self._allocated < self._capacity:
                    self._extend()

    def _extend(self) -> None:
        """Allocates the next segment before it is reached; on a full disk the ring keeps its present size."""
        first, end = self._allocated, min(self._allocated + _SEGMENT, self._capacity)
        try:
            _allocate(self._file, HEADER.size + first * RECORD_SIZE, (end - first) * RECORD_SIZE)
        except OSError:
            self._capacity = first
        else:
            self._allocated = end

    def number(self, text: str) -> int:
        """Returns the number of a string, which is stored when it is first used; 0 is the empty string."""
        found = self._strings.get(text)
        if found is not None:
            return found
        if not text:
            return 0
        if len(self._strings) >= _MOST_STRINGS:
            text = _OTHER
            if text in self._strings:
                return self._strings[text]
        number = len(self._strings) + 1
        if not self.log({"string": number, "text": text}):
            return 0
        self._strings[text] = number
        return number

    def log(self, row: dict[str, Any]) -> bool:
        """Appends a row to the log: a string, a model, or a fact about the process.

        Returns:
            Whether it was written. A row that cannot be written is left out: the recorded program must not
            fail.
        """
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if self._is_cut:  # A full disk took only a part of the last row.
            line = b"\n" + line
        written = 0
        with contextlib.suppress(OSError):
            written = os.write(self._log, line)
            self._is_cut = written < len(line)
        return written == len(line)

    def store_overhead(self) -> None:
        """Stores `overhead` in the file."""
        self._words[_OVERHEAD_WORD] = self.overhead


def strings_file(path: Path) -> Path:
    """The log that belongs to a ring."""
    return path.with_suffix(".jsonl")


def _allocate(file: int, offset: int, size: int) -> None:
    """Reserves space on the disk.

    Raises:
        OSError: The disk is full, or the file must not be that large.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, offset, size)
        return
    os.lseek(file, offset, os.SEEK_SET)
    while size:
        size -= os.write(file, bytes(min(size, 1 << 20)))
