"""Compares two recordings of a program: how often and how long what happened, and which mistakes are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from coremlscope.results.aggregate import ALL_MODELS, aggregate, aggregate_models, group_models
from coremlscope.results.recording_changes import EventChange, MedianChange, RecordingChanges
from coremlscope.results.statistics import median_interval
from coremlscope.results.trace import Mistake, Trace

#: The level of the interval of each median, of which the ratio's 95 % interval is made.
_LEVEL = 0.975
#: The number and the time of events that a recording does not have.
_NONE = (0, 0.0)


def compare_recordings(before: Trace, after: Trace, labels: tuple[str, str]) -> RecordingChanges:
    """Compares two recordings that were searched for mistakes.

    Models are matched by name. If just one model of each has another name, it is the same one after a change.

    Args:
        before: The recording before the change.
        after: The one after it.
        labels: What they are called.
    """
    renamed = _renamed(before, after)
    both = [one for one in before.searched if one in after.searched]
    found = [
        [(_key(trace, mistake, renamed), mistake) for mistake in trace.mistakes] for trace in (before, after)
    ]
    keys = [{key for key, _ in side} for side in found]
    alone = [
        [one for key, one in side if key not in other] for side, other in zip(found, keys[::-1], strict=True)
    ]
    gone, new_ones = ([one for one in side if one.id in both] for side in alone)
    return RecordingChanges(
        labels=labels,
        durations_s=(before.duration_s, after.duration_s),
        events=_events(before, after, renamed),
        medians=tuple(_medians(before, after)),
        searched=tuple(both),
        gone=tuple(gone),
        left=tuple(one for key, one in found[1] if key in keys[0]),
        new=tuple(new_ones),
        unsearched=tuple(one for side in alone for one in side if one.id not in both),
    )


def _medians(before: Trace, after: Trace) -> Iterator[MedianChange]:
    """Yields the times of predictions and loads, of which both have some."""
    for kind in ("predict", "load"):
        samples = [trace.events.of(kind).duration_ns / 1e9 for trace in (before, after)]
        if not all(map(len, samples)):
            continue
        first, second = (float(np.median(seconds)) for seconds in samples)
        totals = [float(seconds.sum()) for seconds in samples]
        ends = [median_interval(seconds.tolist(), _LEVEL) for seconds in samples]
        low = high = None
        if first and ends[0] is not None and ends[1] is not None and ends[0][0] > 0:
            low, high = ends[1][0] / ends[0][1], ends[1][1] / ends[0][0]
        yield MedianChange(
            kind=kind,
            counts=(len(samples[0]), len(samples[1])),
            totals_s=(totals[0], totals[1]),
            medians_s=(first, second),
            ratio=second / first if first else 1.0,
            low=low,
            high=high,
        )


def _renamed(before: Trace, after: Trace) -> dict[str, str]:
    """New names of a model that is called otherwise after the change."""
    names = [set(group_models(trace)[0]) for trace in (before, after)]
    only = [*(names[0] - names[1])], [*(names[1] - names[0])]
    if not len(only[0]) == len(only[1]) == 1:
        return {}
    (old,), (new,) = only
    return dict.fromkeys((old, new), f"{old} → {new}")


def _events(before: Trace, after: Trace, renamed: Mapping[str, str]) -> tuple[EventChange, ...]:
    """The events of both, those over all models first, then the largest change."""
    first, second = _totals(before, renamed), _totals(after, renamed)
    rows = []
    for model, kind in dict.fromkeys([*first, *second]):
        old, new = (side.get((model, kind), _NONE) for side in (first, second))
        row = EventChange(model=model, kind=kind, counts=(old[0], new[0]), totals_s=(old[1], new[1]))
        rows.append(row)
    return tuple(
        sorted(rows, key=lambda row: (row.model != ALL_MODELS, -abs(row.totals_s[0] - row.totals_s[1])))
    )


def _totals(trace: Trace, renamed: Mapping[str, str]) -> dict[tuple[str, str], tuple[int, float]]:
    """The number and the time of events by model and kind; what takes no time is left out."""
    return {
        (renamed.get(row.model, row.model), row.kind): (row.count, row.total_s)
        for row in (*aggregate_models(trace), *aggregate(trace))
        if row.total_s
    }


def _key(trace: Trace, mistake: Mistake, renamed: Mapping[str, str]) -> tuple[str, str]:
    """What makes a mistake the same in both recordings: its kind and its model, as lines change."""
    names, groups = group_models(trace)
    model = names[groups[mistake.model]] if mistake.model >= 0 else ""
    # More loads of a model have another name than two, but are the same mistake.
    kind = "model-reloaded" if mistake.id == "load-in-loop" else mistake.id
    return kind, renamed.get(model, model)
