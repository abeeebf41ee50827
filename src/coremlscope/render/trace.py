"""A profile as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The form is Chrome's Trace Event Format: times in microseconds, `X` for something with a duration, `M` for
names, `s` and `f` for the ends of an arrow. What was measured, what is planned and what is estimated are
processes of their own. Only durations are known: things follow each other without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.devices.unit import SETTINGS, ComputeUnit
from coremlscope.render.json import plain
from coremlscope.render.words import compact_type, model_name
from coremlscope.units import escape_controls, format_duration
from coremlscope.version import __version__

if TYPE_CHECKING:
    from coremlscope.results.plan import DevicePlan, SettingEstimate, SettingPlan
    from coremlscope.results.profile import Profile

__all__ = ["render_trace"]

Event = dict[str, Any]

_US = 1e6
_TRACKS: dict[ComputeUnit | None, tuple[int, str]] = {
    "cpu": (1, "CPU"),
    "gpu": (2, "GPU"),
    "neural_engine": (3, "Neural Engine"),
    None: (4, "unknown"),
}


def render_trace(profile: Profile) -> str:
    """A profile as the JSON text of a trace."""
    events = [*_measured(profile)]
    arrows = _Arrows()
    process = 2
    for plan in profile.plans:
        for setting in plan.settings:
            events += _planned(profile, plan, setting, process, arrows)
            process += 1
            if setting.estimate is not None:
                events += _estimated(profile, plan, setting, setting.estimate, process, arrows)
                process += 1
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": model_name(profile.model.path),
            "made by": f"coremlscope {__version__}",
            "note": "durations are measured, planned or estimated, as the processes say; starts are not",
        },
    }
    return json.dumps(plain(trace), ensure_ascii=False, allow_nan=False) + "\n"


def _process(process: int, name: str, tracks: Iterable[tuple[int, str]], label: str = "") -> Iterator[Event]:
    yield _meta(process, 0, "process_name", name=escape_controls(name))
    yield _meta(process, 0, "process_sort_index", sort_index=process)
    if label:
        yield _meta(process, 0, "process_labels", labels=escape_controls(label))
    for track, title in tracks:
        yield _meta(process, track, "thread_name", name=escape_controls(title))
        yield _meta(process, track, "thread_sort_index", sort_index=track)


def _meta(process: int, track: int, kind: str, **arguments: Any) -> Event:
    return {"ph": "M", "pid": process, "tid": track, "name": kind, "args": arguments}


def _slice(
    process: int, track: int, name: str, kind: str, start_s: float, seconds: float, **arguments: Any
) -> Event:
    return {
        "ph": "X", "pid": process, "tid": track, "name": escape_controls(name), "cat": kind,
        "ts": start_s * _US, "dur": seconds * _US, "args": arguments,
    }  # fmt: skip


def _measured(profile: Profile) -> Iterator[Event]:
    process, phases, operations = 1, 1, 2
    tracks = ((phases, "phases"), (operations, "one prediction, by operation (medians)"))
    label = f"{profile.host.threads} threads; not Core ML"
    yield from _process(process, f"measured on {profile.host.label}", tracks, label)
    now = 0.0
    for name in ("compile", "load", "predict"):
        phase = getattr(profile, name)
        taken = [("warm-up of " + name, s) for s in phase.warmups_s] + [(name, s) for s in phase.samples_s]
        for index, (title, seconds) in enumerate(taken):
            yield _slice(process, phases, title, "measured", now, seconds, number=index, origin=phase.origin)
            now += seconds
    now = 0.0
    by_id = {row.id: row for row in profile.ops}
    for group in profile.groups:
        members = [by_id[id_] for id_ in group.op_ids if id_ in by_id]
        yield _slice(
            process, operations, group.label, "measured", now, group.wall_s,
            origin="measured by the engine's profiler, median",
            share=group.share,
            operations=[_operation(op.id, op.type, op.name, op.outputs) for op in members],
            engine_nodes=[f"{op_type} {name}" for name, op_type in group.engine_nodes],
        )  # fmt: skip
        now += group.wall_s


def _operation(id_: str, type_: str, name: str, outputs: Sequence[str]) -> dict[str, str]:
    results = ", ".join(map(compact_type, outputs))
    return {"id": id_, "type": type_, "name": escape_controls(name), "results": results}


class _Arrows:
    """Arrows between units; each has a number of its own."""

    def __init__(self) -> None:
        self._last = 0

    def between(self, before: Event, after: Event) -> Iterator[Event]:
        """An arrow from the end of one slice to the beginning of another."""
        self._last += 1
        common = {"cat": "switch", "name": "change of unit", "id": self._last, "pid": before["pid"]}
        # Just within the slice: where it ends, the arrow would belong to nothing.
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


def _tracks(setting: SettingPlan, *, unknown: bool) -> list[tuple[int, str]]:
    units: list[ComputeUnit | None] = [*SETTINGS[setting.compute_units], *([None] if unknown else [])]
    return [_TRACKS[unit] for unit in units]


def _planned(
    profile: Profile, plan: DevicePlan, setting: SettingPlan, process: int, arrows: _Arrows
) -> Iterator[Event]:
    from coremlscope.results.placements import placed_ops

    ops = list(placed_ops(profile.ops, plan, setting))
    label = f"{format_duration(setting.total_ms / 1e3)} in all, launches and switches included"
    tracks = _tracks(setting, unknown=any(op.unit is None for op in ops))
    name = f"planned: {plan.device}, {setting.compute_units}"
    yield from _process(process, name, tracks, f"{label}; by Core ML's cost model, nothing was measured")

    def slices() -> Iterator[Event]:
        now = 0.0
        for op in ops:
            seconds = (op.planned_ms or 0.0) / 1e3
            told = _operation(op.id, op.type, op.name, op.outputs)
            track = _TRACKS[op.unit][0]
            yield _slice(
                process, track, op.type, "planned", now, seconds,
                origin="planned", operation=told, backend=op.backend, planned_ms=op.planned_ms,
            )  # fmt: skip
            now += seconds

    yield from arrows.linked(slices())


def _estimated(
    profile: Profile,
    plan: DevicePlan,
    setting: SettingPlan,
    estimate: SettingEstimate,
    process: int,
    arrows: _Arrows,
) -> Iterator[Event]:
    from coremlscope.results.placements import estimated_kernels

    rows = list(profile.ops)
    whole = estimate.latency
    ends = " – ".join(map(format_duration, (whole.low, whole.high)))
    label = f"{format_duration(whole.value)} in all, in 80 % of the cases {ends}; nothing was measured"
    name = f"estimated: {plan.device}, {setting.compute_units}"
    yield from _process(process, name, _tracks(setting, unknown=False), label)

    def slices() -> Iterator[Event]:
        now = 0.0
        for kernel in estimated_kernels(profile.ops, plan, estimate):
            members = [rows[row] for row in kernel.ops]
            yield _slice(
                process, _TRACKS[kernel.unit][0],
                " + ".join(dict.fromkeys(op.type for op in members)) or "kernel", "estimated",
                now, kernel.seconds, origin="estimated", waits_for=kernel.bound,
                operations=[_operation(op.id, op.type, op.name, op.outputs) for op in members],
            )  # fmt: skip
            now += kernel.seconds

    yield from arrows.linked(slices())
