"""A file from elsewhere, read within bounds, and typed access to the JSON in it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import check_regular
from coremlscope.base.site import page

#: Suffixes of saved profiles, and of files that are imported.
_SUFFIXES = (".aimodelc", ".json", ".jsonl", ".mil", ".mlperf", ".plist", ".xml")
#: Larger files are refused where all of a file is kept: an analytics.mil of 10,000 operations has some 10 MB.
_MOST_BYTES = 256 << 20
#: A JSON object or list: logs begin with `[espresso] …` too.
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*(?:[\[{\"\]\d-]|true|false|null|$))")
_HEAD_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
#: More operations than any model has.
MOST_OPS = 500_000
_MOST_SAMPLES = 10_000_000
_HINT = "`coremlscope import --help` lists the files that can be read"


def is_readable(path: str | PathLike[str]) -> bool:
    """Whether a path is one of a saved profile or an imported file by its name, not of a model."""
    return Path(path).suffix.lower() in _SUFFIXES


class SourceFile:
    """A file, read when it is needed.

    Args:
        path: The file; of an Xcode report (`.mlperf`) or a compiled Core AI model (`.aimodelc`) the folder.
        progress: Called with `read`, the megabytes that were read of a stream, and how many it has.

    Raises:
        UsageError: It does not exist, or cannot be read.
    """

    def __init__(self, path: Path, progress: Callable[[str, int, int], None] | None = None) -> None:
        self.path = path
        self._progress = progress
        if path.suffix == ".trace" and path.is_dir():
            raise UsageError(
                f"{path} is a recording that only Instruments opens",
                f"export its tables on a Mac with `xcrun xctrace export`; see {page('guides/mac-files')}",
            )
        self.file = path / "report.json" if path.is_dir() else path
        if path.suffix == ".aimodelc" and path.is_dir():
            self.file, self.head, self.size = path, b"", 0
            return
        if path.is_dir() and not self.file.exists():
            raise UsageError(
                f"{path} is a folder without anything that is imported",
                "give a saved profile, or what a Mac or a phone wrote of a model; see "
                f"{page('guides/mac-files')}",
            )
        try:
            check_regular(self.file)
            with self.file.open("rb") as opened:
                self.head = opened.read(_HEAD_BYTES)
            self.size = self.file.stat().st_size
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}", "check the path") from error

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    @property
    def looks_like_json(self) -> bool:
        """True if it begins as a JSON object or list, which may be damaged; not for objects by line."""
        if self.path.suffix == ".mil" or self.has_lines_of_json:
            return False
        return _JSON.match(self.head) is not None

    @cached_property
    def has_lines_of_json(self) -> bool:
        """Returns True if the file begins with two JSON objects, each on a line of its own."""
        lines = self.head.splitlines()[:2]
        if len(lines) < 2 or not all(line.startswith(b"{") for line in lines):
            return False
        return lines[0].rstrip().endswith(b"}")

    @cached_property
    def content(self) -> bytes:
        """All of it.

        Raises:
            UsageError: It cannot be read, or is too large.
        """
        if self.size > _MOST_BYTES:
            most = _MOST_BYTES >> 20
            raise UsageError(f"{self.path} has {self.size >> 20} MB, and at most {most} MB are read", _HINT)
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}", "check the path") from error

    def chunks(self) -> Iterator[bytes]:
        """Yields the file, of any size, in pieces.

        Raises:
            UsageError: It cannot be read.
        """
        done, total = 0, max(self.size >> 20, 1)
        try:
            with self.file.open("rb") as opened:
                while chunk := opened.read(_CHUNK_BYTES):
                    yield chunk
                    done += len(chunk)
                    if self._progress is not None:
                        self._progress("read", min(done >> 20, total), total)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}", "check the path") from error

    @cached_property
    def json(self) -> Any:
        """Its content as plain JSON values.

        Raises:
            UsageError: It is not valid JSON, or is nested too deeply.
        """
        try:
            return msgspec.json.decode(self.content.removeprefix(b"\xef\xbb\xbf"))
        except RecursionError as error:
            raise UsageError(f"{self.path} is nested too deeply", _HINT) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path} is not valid JSON: {error}", "export the file again") from error

    @property
    def keys(self) -> frozenset[str]:
        """Returns the keys of the JSON object in the file; empty for any other content."""
        if not self.looks_like_json:
            return frozenset()
        return frozenset(self.json) if isinstance(self.json, Mapping) else frozenset()


def _damaged(what: str, value: object) -> UsageError:
    shown = repr(value)
    return UsageError(
        f"{what} is not valid: {shown[:60]}{'…' if len(shown) > 60 else ''}", "export the file again"
    )


def mapping(data: Mapping[str, Any], key: str, *, where: str = "") -> Mapping[str, Any]:
    """An object by its key; an empty one where it is absent or null.

    Raises:
        UsageError: It is something else.
    """
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _damaged(f"{where}{key}", value)
    return value


def items(data: Mapping[str, Any], key: str, *, where: str = "") -> Sequence[Mapping[str, Any]]:
    """A list of objects by its key; an empty one where it is absent or null.

    Raises:
        UsageError: It is something else, or too long.
    """
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise _damaged(f"{where}{key}", value)
    if len(value) > MOST_OPS:
        raise UsageError(f"{where}{key} has {len(value)} entries, and at most {MOST_OPS} are read", _HINT)
    return value


def text(data: Mapping[str, Any], key: str, *, where: str = "") -> str:
    """A string by its key; an empty one where it is absent or null.

    Raises:
        UsageError: It is something else.
    """
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _damaged(f"{where}{key}", value)
    return value


def number(data: Mapping[str, Any], key: str, *, where: str = "") -> float | None:
    """A finite number that is at least 0, by its key; None where it is absent or null.

    Raises:
        UsageError: It is something else.
    """
    value = data.get(key)
    return None if value is None else _finite(value, f"{where}{key}")


def samples(data: Mapping[str, Any], key: str, *, where: str = "") -> tuple[float, ...]:
    """A list of finite numbers that are at least 0, by its key; an empty one where it is absent or null.

    Raises:
        UsageError: It is something else, or too long.
    """
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MOST_SAMPLES:
        raise _damaged(f"{where}{key}", value)
    return tuple(_finite(item, f"{where}{key}") for item in value)


def _finite(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _damaged(what, value)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not (math.isfinite(found) and found >= 0):
        raise _damaged(what, value)
    return found


def count_ops(ops: Iterator[Any], where: str) -> list[Any]:
    """All operations of a file.

    Raises:
        UsageError: There are more than any model has.
    """
    found: list[Any] = []
    for op in ops:
        if len(found) == MOST_OPS:
            raise UsageError(f"{where} lists more than {MOST_OPS} operations", _HINT)
        found.append(op)
    return found
