"""Reads crash reports of macOS and iOS (`.ips`): a line with a JSON header, then a JSON body."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from coremlscope.base.units import escape_controls, format_bytes

#: Larger bodies are not read as crash reports, in bytes.
LARGEST_REPORT = 32 << 20
#: Characters kept of a text of the report, and number of frames kept.
_KEPT, _MOST_FRAMES = 300, 64
#: The type of reports on memory (JetsamEvent), and the largest size of a page, in bytes.
_MEMORY_EVENT, _LARGEST_PAGE = "298", 1 << 20


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """A crash.

    Attributes:
        process: The program that crashed.
        system: The operating system: `macOS 26.5 (25F71)`.
        device: The device's identifier: `Mac16,10`.
        exception: Type and signal: `EXC_CRASH (SIGABRT)`.
        reason: Why the process was ended, in the system's words; may be empty.
        queue: The name of the faulting thread's queue or of the thread; may be empty.
        frames: The frames of the faulting thread, `IMAGE symbol`, innermost first, then those where an
            exception was thrown.
        messages: What frameworks recorded about the crash, such as a failed assertion.
    """

    process: str
    system: str
    device: str
    exception: str
    reason: str
    queue: str
    frames: Sequence[str]
    messages: Sequence[str]

    @property
    def lines(self) -> Iterator[str]:
        """The report as lines that rows of failures match."""
        yield f"{self.exception} {self.reason}"
        yield from self.messages
        yield from (f"frame {index}: {frame}" for index, frame in enumerate(self.frames))
        if self.queue:
            yield f"queue: {self.queue}"


def is_header(line: bytes) -> bool:
    """True if a line is the header of a crash report."""
    return line.startswith(b"{") and b'"bug_type"' in line


def read_crash(header: bytes, body: bytes) -> Crash | None:
    """Reads a crash report.

    Args:
        header: The first line.
        body: The rest.

    Returns:
        The crash; None if the body is not that of a crash report.
    """
    head, report = _object(header), _object(body)
    if str(head.get("bug_type")) == _MEMORY_EVENT and "processes" in report:
        return _memory_event(head, report)
    if not head or "exception" not in report:
        return None
    thread = _faulting_thread(report)
    exception, termination = _mapping(report.get("exception")), _mapping(report.get("termination"))
    reasons = [_text(termination.get("indicator")), *map(_text, _list(termination.get("reasons")))]
    signal = _text(exception.get("signal"))
    return Crash(
        process=_text(report.get("procName")) or _text(head.get("name")),
        system=_text(head.get("os_version")),
        device=_text(report.get("modelCode")),
        exception=_text(exception.get("type")) + (f" ({signal})" if signal else ""),
        reason="; ".join(filter(None, (_text(exception.get("subtype")), *reasons))),
        queue=_text(thread.get("queue")) or _text(thread.get("name")),
        frames=tuple(_every_frame(report, thread)),
        messages=tuple(_messages(report)),
    )


def _faulting_thread(report: Mapping[str, Any]) -> Mapping[str, Any]:
    threads = [_mapping(thread) for thread in _list(report.get("threads"))]
    index = report.get("faultingThread")
    if isinstance(index, int) and 0 <= index < len(threads):
        return threads[index]
    return next((thread for thread in threads if thread.get("triggered")), {})


def _memory_event(head: Mapping[str, Any], report: Mapping[str, Any]) -> Crash:
    """A report on memory: the processes that the system ended have a reason; the largest need not."""
    page = _mapping(report.get("memoryStatus")).get("pageSize")
    size = page if isinstance(page, int) and 0 < page <= _LARGEST_PAGE else 16384
    ended = [process for process in map(_mapping, _list(report.get("processes"))) if process.get("reason")]
    messages = []
    for process in ended[:_MOST_FRAMES]:
        pages = process.get("rpages")
        memory = (
            f" with {format_bytes(pages * size)}" if isinstance(pages, int) and 0 <= pages < 2**40 else ""
        )
        messages.append(f"ended {_text(process.get('name')) or '?'}{memory}: {_text(process.get('reason'))}")
    return Crash(
        process=_text(ended[0].get("name")) if ended else "",
        system=_text(head.get("os_version")),
        device=_text(report.get("product")),
        exception="JetsamEvent",
        reason="; ".join(dict.fromkeys(_text(process.get("reason")) for process in ended)),
        queue="",
        frames=(),
        messages=tuple(messages),
    )


def _every_frame(report: Mapping[str, Any], thread: Mapping[str, Any]) -> Iterator[str]:
    """The frames of the faulting thread, then those where an Objective-C exception was thrown."""
    images = _list(report.get("usedImages"))
    yield from _frames(thread, images)
    yield from _frames({"frames": report.get("lastExceptionBacktrace")}, images)


def _frames(thread: Mapping[str, Any], images: Sequence[Any]) -> Iterator[str]:
    for frame in map(_mapping, _list(thread.get("frames"))[:_MOST_FRAMES]):
        index = frame.get("imageIndex")
        image = ""
        if isinstance(index, int) and 0 <= index < len(images):
            image = _text(_mapping(images[index]).get("name"))
        yield f"{image or '?'} {_text(frame.get('symbol')) or '?'}"


def _messages(report: Mapping[str, Any]) -> Iterator[str]:
    for texts in _mapping(report.get("asi")).values():
        yield from filter(None, map(_text, _list(texts)[:_MOST_FRAMES]))


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return escape_controls(value[:_KEPT]) if isinstance(value, str) else ""
