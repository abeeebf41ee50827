"""Renders a profile as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

The form is Chrome's Trace Event Format: times in microseconds, `X` for something with a duration, `M` for
names, `s` and `f` for the ends of an arrow. Each measurement and each estimate is a process of its own; what
a plan charges is no time, and is not drawn. Only durations are known: starts follow from them, without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from coremlscope.base.units import format_duration
from coremlscope.base.version import __version__
from coremlscope.devices.unit import SETTINGS, ComputeUnit
from coremlscope.reports.json import displayed
from coremlscope.reports.timing import disclaimer, measurement_name
from coremlscope.reports.words import compact_type, model_name, plural
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.profile import Profile

Event = dict[str, Any]

_US = 1e6
_TRACKS: dict[ComputeUnit, tuple[int, str]] = {
    "cpu": (1, "CPU"),
    "gpu": (2, "GPU"),
    "neural_engine": (3, "Neural Engine"),
}


def render_trace(profile: Profile) -> str:
    """Renders a profile as the JSON text of a trace."""
    events: list[Event] = []
    for process, events_of in enumerate(_processes(profile, _Arrows()), 1):
        events += events_of(process)
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": model_name(profile.model.path),
            "made by": f"coremlscope {__version__}",
            "note": "durations are measured or estimated, as processes say; starts are not",
        },
    }
    return json.dumps(displayed(trace), ensure_ascii=False, allow_nan=False) + "\n"


def _processes(profile: Profile, arrows: _Arrows) -> Iterator[Callable[[int], Iterable[Event]]]:
    """Yields the processes as functions of their numbers: measurements, then estimates."""
    for measurement in profile.measurements:
        yield partial(_measured, profile, measurement)
    for estimate in profile.estimates:
        if estimate.kernel_s:
            yield partial(_estimated, profile, estimate, arrows)


def _process(process: int, name: str, tracks: Iterable[tuple[int, str]], label: str = "") -> Iterator[Event]:
    yield _meta(process, 0, "process_name", name=name)
    yield _meta(process, 0, "process_sort_index", sort_index=process)
    if label:
        yield _meta(process, 0, "process_labels", labels=label)
    for track, title in tracks:
        yield _meta(process, track, "thread_name", name=title)
        yield _meta(process, track, "thread_sort_index", sort_index=track)


def _meta(process: int, track: int, kind: str, **arguments: Any) -> Event:
    return {"ph": "M", "pid": process, "tid": track, "name": kind, "args": arguments}


def _slice(
    process: int,
    track: int,
    name: str,
    *,
    kind: str,
    start_s: float,
    seconds: float,
    arguments: Mapping[str, Any],
) -> Event:
    where = {"pid": process, "tid": track, "ts": start_s * _US, "dur": seconds * _US}
    return {"ph": "X", "name": name, "cat": kind, **where, "args": dict(arguments)}


def _measured(profile: Profile, measurement: Measurement, process: int) -> Iterator[Event]:
    phases, operations = 1, 2
    name = measurement_name(measurement, profile.measurements)
    tracks = [(phases, "phases")] if measurement.phases else []
    if measurement.groups:
        tracks.append((operations, "one prediction, by operation (medians)"))
    threads = "" if measurement.threads is None else plural(measurement.threads, "thread")
    label = f"{threads}{disclaimer(measurement)}".removeprefix("; ")
    yield from _process(process, f"measured: {name}", tracks, label)
    now = 0.0
    for phase_name, phase in measurement.phases.items():
        taken = [("warm-up of " + phase_name, s) for s in phase.warmups_s]
        for index, (title, seconds) in enumerate([*taken, *((phase_name, s) for s in phase.samples_s)]):
            arguments: dict[str, Any] = {"number": index, "origin": phase.origin}
            yield _slice(
                process, phases, title, kind="measured", start_s=now, seconds=seconds, arguments=arguments
            )
            now += seconds
    now = 0.0
    rows = list(profile.ops)
    for group in measurement.groups:
        members = [rows[row] for row in group.ops]
        arguments = {
            "origin": "measured by the engine's profiler, median",
            "share": group.share,
            "operations": [_operation(op.id, op.type, op.name, op.outputs) for op in members],
            "engine_nodes": [f"{op_type} {node}" for node, op_type in group.engine_nodes],
        }
        yield _slice(
            process,
            operations,
            group.label,
            kind="measured",
            start_s=now,
            seconds=group.wall_s,
            arguments=arguments,
        )
        now += group.wall_s


def _operation(id_: str, type_: str, name: str, outputs: Sequence[str]) -> dict[str, str]:
    results = ", ".join(map(compact_type, outputs))
    return {"id": id_, "type": type_, "name": name, "results": results}


class _Arrows:
    """Arrows between units, with unique numbers."""

    def __init__(self) -> None:
        self._last = 0

    def between(self, before: Event, after: Event) -> Iterator[Event]:
        """An arrow from the end of one slice to the beginning of another."""
        self._last += 1
        common = {"cat": "switch", "name": "change of unit", "id": self._last, "pid": before["pid"]}
        # Just before the end: an arrow that starts at the end of a slice is not attached to it.
        end = before["ts"] + before["dur"] * 0.999
        yield {**common, "ph": "s", "tid": before["tid"], "ts": end}
        yield {**common, "ph": "f", "bp": "e", "tid": after["tid"], "ts": after["ts"]}

    def linked(self, slices: Iterable[Event]) -> Iterator[Event]:
        """The slices, with an arrow wherever the unit changes. Slices without a length hold no arrows."""
        last: Event | None = None
        for event in slices:
            yield event
            if not event["dur"]:
                continue
            if last is not None and last["tid"] != event["tid"]:
                yield from self.between(last, event)
            last = event


def _estimated(profile: Profile, estimate: Estimate, arrows: _Arrows, process: int) -> Iterator[Event]:
    rows = list(profile.ops)
    whole = estimate.latency
    ends = " – ".join(map(format_duration, (whole.low, whole.high)))
    label = f"{format_duration(whole.value)} in all, in 80 % of the cases {ends}; nothing was measured"
    name = f"estimated: {estimate.device}, {estimate.compute_units}"
    tracks = [_TRACKS[unit] for unit in SETTINGS[estimate.compute_units]]
    yield from _process(process, name, tracks, label)
    columns = (estimate.kernel_s, estimate.kernel_unit, estimate.kernel_bound)

    def slices() -> Iterator[Event]:
        now = 0.0
        for kernel, seconds, unit, bound in zip(profile.kernels_of(estimate), *columns, strict=True):
            members = [rows[row] for row in kernel.ops]
            arguments = {
                "origin": whole.origin,
                "waits_for": bound,
                "operations": [_operation(op.id, op.type, op.name, op.outputs) for op in members],
            }
            yield _slice(
                process,
                _TRACKS[estimate.units[unit]][0],
                " + ".join(dict.fromkeys(op.type for op in members)) or "kernel",
                kind="estimated",
                start_s=now,
                seconds=seconds,
                arguments=arguments,
            )
            now += seconds

    yield from arrows.linked(slices())
