"""Aggregation of a trace's events: counts, times and percentiles by model and kind, for any span of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from coremlscope.results.events import EVENT_KINDS, FAILED, Lane
from coremlscope.results.trace import Events, Trace

#: The model of rows over all models.
ALL_MODELS = "all models"


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """All events of one kind and model.

    Attributes:
        model: The model's name; empty for events without a model.
        kind: The name of the kind of event.
        lane: Its lane.
        count: How many there are.
        failed: How many of them raised an error.
        total_s: The sum of their durations, in seconds; those of several threads overlap.
        mean_s: The mean duration.
        min_s: The shortest.
        median_s: The median.
        p95_s: The 95th percentile.
        p99_s: The 99th percentile.
        max_s: The longest.
        bytes: The sum of their bytes.
        share: The share of the recording's time in which at least one of them was under way.
    """

    model: str
    kind: str
    lane: Lane
    count: int
    failed: int
    total_s: float
    mean_s: float
    min_s: float
    median_s: float
    p95_s: float
    p99_s: float
    max_s: float
    bytes: int
    share: float


class OperationTotal(msgspec.Struct, frozen=True, kw_only=True):
    """All executions of an operation, or of operations that the engine runs as one.

    Attributes:
        model: The model's name; empty if it is unknown.
        operation: The operations: `conv conv_1 (main/12)`.
        count: How many executions there are.
        total_s: The sum of their durations, in seconds.
        median_s: The median duration.
        share: The part of the time of all operations of the model.
    """

    model: str
    operation: str
    count: int
    total_s: float
    median_s: float
    share: float


def total_operations(trace: Trace) -> tuple[OperationTotal, ...]:
    """Sums the recorded operations by model and operation, the longest first.

    Operations inside another one, such as a loop, are left out.
    """
    events = trace.events.of("operation")
    events = events.where((events.detail >= 0) & ~_is_inside(events))
    names, groups = group_models(trace)
    of_event = np.where(events.model >= 0, groups[events.model] if len(groups) else -1, -1)
    sums = np.bincount(of_event + 1, events.duration_ns, len(names) + 1)
    found = []
    for group, detail in sorted(set(zip(of_event.tolist(), events.detail.tolist(), strict=True))):
        durations = events.duration_ns[(of_event == group) & (events.detail == detail)]
        total = float(durations.sum())
        row = OperationTotal(
            model=names[group] if group >= 0 else "",
            operation=trace.details[detail],
            count=len(durations),
            total_s=total / 1e9,
            median_s=float(np.median(durations)) / 1e9,
            share=total / max(float(sums[group + 1]), 1.0),
        )
        found.append(row)
    return tuple(sorted(found, key=lambda row: -row.total_s))


def _is_inside(operations: Events) -> np.ndarray:
    """Which operations lie inside another one of their thread, such as a loop."""
    order = np.lexsort((-operations.duration_ns, operations.start_ns, operations.thread, operations.process))
    lanes = np.stack([operations.process, operations.thread])[:, order]
    inside = np.zeros(len(operations), bool)
    edges = np.flatnonzero((np.diff(lanes) != 0).any(axis=0)) + 1
    for part in np.split(order, edges):
        reached = np.maximum.accumulate(operations.end_ns[part])
        inside[part[1:]] = operations.start_ns[part[1:]] < reached[:-1]
    return inside


def group_models(trace: Trace) -> tuple[tuple[str, ...], np.ndarray]:
    """Groups loads of the same model.

    Returns:
        The names of the groups, different from each other, and the group of each of `trace.models`.
    """
    keys: dict[tuple[str, str], int] = {}
    groups = [keys.setdefault((m.key or m.name, m.function), len(keys)) for m in trace.models]
    names: list[str] = []
    for index in range(len(keys)):
        model = trace.models[groups.index(index)]
        name = f"{model.name}:{model.function}" if model.function else model.name
        names.append(f"{name} ({index + 1})" if name in names else name)
    return tuple(names), np.array(groups, np.int64)


def aggregate(
    trace: Trace,
    span_s: tuple[float, float] | None = None,
) -> tuple[Aggregate, ...]:
    """Aggregates events by model and kind, the longest total first.

    Loads of the same model count as one model.

    Args:
        trace: The trace.
        span_s: Leaves out events that ended before or started after it, in seconds from the start of the
            trace.
    """
    events = trace.events
    if span_s is not None:
        events = events.between(*span_s)
    names, groups = group_models(trace)
    of_event = np.where(events.model >= 0, groups[events.model] if len(groups) else -1, -1)
    return tuple(sorted(_rows(trace, events, names, of_event), key=lambda row: -row.total_s))


def aggregate_models(trace: Trace) -> tuple[Aggregate, ...]:
    """Aggregates events by kind over all models, the longest total first; none where one model has all."""
    if len(group_models(trace)[0]) < 2:
        return ()
    events = trace.events.where(trace.events.model >= 0)
    rows = _rows(trace, events, (ALL_MODELS,), np.zeros(len(events), np.int64))
    return tuple(sorted(rows, key=lambda row: -row.total_s))


def covered_ns(starts: np.ndarray, ends: np.ndarray) -> int:
    """Returns the time that at least one span covers."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([starts[:1], reached[:-1]])
    return int((reached - np.maximum(starts, before)).clip(0).sum())


def _rows(trace: Trace, events: Events, names: Sequence[str], of_event: np.ndarray) -> Iterator[Aggregate]:
    if not len(events):
        return
    combined = (of_event + 1) * len(EVENT_KINDS) + events.kind
    order = np.argsort(combined, kind="stable")
    keys, starts = np.unique(combined[order], return_index=True)
    for key, indices in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
        group, kind = divmod(key, len(EVENT_KINDS))
        seconds = events.duration_ns[indices] / 1e9
        median, p95, p99 = (float(value) for value in np.percentile(seconds, (50, 95, 99)))
        yield Aggregate(
            model=names[group - 1] if group else "",
            kind=EVENT_KINDS[kind].name,
            lane=EVENT_KINDS[kind].lane,
            count=len(indices),
            failed=int(((events.flags[indices] & FAILED) > 0).sum()),
            total_s=float(seconds.sum()),
            mean_s=float(seconds.mean()),
            min_s=float(seconds.min()),
            median_s=median,
            p95_s=p95,
            p99_s=p99,
            max_s=float(seconds.max()),
            bytes=int(events.bytes[indices].sum()),
            share=covered_ns(events.start_ns[indices], events.end_ns[indices]) / max(trace.duration_ns, 1),
        )
