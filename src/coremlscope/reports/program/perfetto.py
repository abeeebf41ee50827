"""A recorded program as a trace for Perfetto (ui.perfetto.dev), in Chrome's Trace Event Format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from coremlscope.base.version import __version__
from coremlscope.reports.json import displayed
from coremlscope.results.events import EVENT_KINDS, KIND_CODES, LANES
from coremlscope.results.trace import Trace

_OPERATION = KIND_CODES["operation"]
_LANE_NAMES = {"activity": "Activity", "data": "Data", "compute": "Compute"}


def render_program_perfetto(trace: Trace) -> str:
    """Renders a recorded program as a trace: a process each, with a track for each thread and lane."""
    events = list(_names(trace)) + list(_slices(trace))
    other = {
        "command": " ".join(trace.command),
        "made by": f"coremlscope {__version__}",
        "note": "all times are measured",
    }
    values = displayed({"traceEvents": events, "displayTimeUnit": "ms", "otherData": other})
    return json.dumps(values, ensure_ascii=False) + "\n"


def _names(trace: Trace) -> Iterator[dict[str, Any]]:
    for process in trace.processes:
        name = " ".join(process.command) or "process"
        yield {"ph": "M", "pid": process.pid, "tid": 0, "name": "process_name", "args": {"name": name}}
    used = set(
        zip(
            trace.events.process.tolist(),
            trace.events.thread.tolist(),
            trace.events.kind.tolist(),
            strict=True,
        )
    )
    tracks = {(process, thread, EVENT_KINDS[kind].lane) for process, thread, kind in used}
    for process, thread, lane in sorted(tracks):
        name = f"{trace.threads[thread] if thread >= 0 else 'thread'} · {_LANE_NAMES[lane]}"
        yield {
            "ph": "M",
            "pid": trace.processes[process].pid,
            "tid": _track(thread, lane),
            "name": "thread_name",
            "args": {"name": name},
        }


def _track(thread: int, lane: str) -> int:
    return (thread + 1) * len(LANES) + LANES.index(lane) + 1


def _slices(trace: Trace) -> Iterator[dict[str, Any]]:
    e = trace.events
    columns = (
        e.start_ns,
        e.duration_ns,
        e.kind,
        e.model,
        e.process,
        e.thread,
        e.task,
        e.site,
        e.detail,
        e.bytes,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for start, duration, code, model, process, thread, task, site, detail, size in rows:
        kind = EVENT_KINDS[code]
        name = trace.models[model].name if model >= 0 else ""
        facts = {
            "model": name,
            "line": str(trace.sites[site]) if site >= 0 else "",
            "task": trace.tasks[task] if task >= 0 else "",
            "detail": trace.details[detail] if detail >= 0 else "",
            "bytes": size or "",
        }
        yield {
            "ph": "X",
            "cat": kind.lane,
            "name": facts["detail"] if code == _OPERATION else f"{kind.name} {name}".strip(),
            "ts": start / 1e3,
            "dur": duration / 1e3,
            "pid": trace.processes[process].pid,
            "tid": _track(thread, kind.lane),
            "args": {key: str(value) for key, value in facts.items() if value != ""},
        }
