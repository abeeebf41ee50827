"""Summarizes exported tables: when each unit was busy, in all and in each prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.findings import Finding
from coremlscope.devices.unit import CPU, ComputeUnit
from coremlscope.formats.recordings.export import CORE_AI, CORE_ML, KINDS, Contents, Export, Table
from coremlscope.formats.recordings.stacks import UNIT_BITS
from coremlscope.formats.recordings.values import MISSING
from coremlscope.results.recording import ActivityPart, FrameSamples, Recording, UnitActivity, UnitSamples
from coremlscope.results.statistics import summarize

_Ints = np.ndarray[Any, np.dtype[np.int64]]
#: Labels and processes that are listed, those with the longest times.
_LISTED = 12
_NS = 1e9
#: Events of the Core ML table, by the published exports: segments on the CPU within predictions.
_CPU = "cpu"
#: Names of predictions in the tables of Core ML and Core AI. Core AI lists functions within functions.
_PREDICTIONS: Mapping[str, str] = {CORE_ML.schema: "prediction", CORE_AI.schema: "inference"}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a recording.

    Attributes:
        recording: Busy times.
        predictions_s: The duration of each prediction that the recording delimits, in order.
        model: The model, by its name in the recording; empty if unknown.
        device: The device's model; empty if unknown.
        system: Its system.
        findings: Remarks.
    """

    recording: Recording
    predictions_s: tuple[float, ...] = ()
    model: str = ""
    device: str = ""
    system: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Intervals:
    """Intervals of one table, in nanoseconds, sorted by start."""

    starts: _Ints
    ends: _Ints
    labels: _Ints
    processes: _Ints
    models: _Ints

    @classmethod
    def of(cls, table: Table) -> _Intervals:
        starts = np.frombuffer(table.starts, np.int64)
        order = np.argsort(starts, kind="stable")
        ends = (starts + np.frombuffer(table.durations, np.int64))[order]
        return cls(
            starts=starts[order],
            ends=ends,
            labels=np.frombuffer(table.labels, np.int64)[order],
            processes=np.frombuffer(table.processes, np.int64)[order],
            models=np.frombuffer(table.models, np.int64)[order],
        )

    def __len__(self) -> int:
        return len(self.starts)

    def outermost(self) -> _Intervals:
        """The intervals that lie in no earlier one."""
        before = np.maximum.accumulate(np.concatenate([np.array([-1], np.int64), self.ends[:-1]]))
        return self.where(self.ends > before[: len(self)])

    def where(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> _Intervals:
        """The chosen intervals."""
        return _Intervals(
            starts=self.starts[chosen],
            ends=self.ends[chosen],
            labels=self.labels[chosen],
            processes=self.processes[chosen],
            models=self.models[chosen],
        )


@dataclass(slots=True)
class _Union:
    """Disjoint intervals that cover the same time as others, and the time covered up to each."""

    starts: _Ints
    ends: _Ints
    before: _Ints = field(init=False)

    def __post_init__(self) -> None:
        self.before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))

    @classmethod
    def of(cls, starts: _Ints, ends: _Ints) -> _Union:
        """Joins intervals that are sorted by start."""
        if not len(starts):
            return cls(starts, ends)
        latest = np.maximum.accumulate(ends)
        first = np.concatenate(([True], starts[1:] > latest[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls(starts[first], latest[last])

    @property
    def busy_s(self) -> float:
        return float(self.before[-1]) / _NS

    def busy_until(self, moments: _Ints) -> _Ints:
        """Covered nanoseconds before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        place = np.searchsorted(self.starts, moments, side="right") - 1
        inside = np.minimum(moments, self.ends[place]) - self.starts[place]
        return np.where(place < 0, 0, self.before[place] + inside)


@dataclass(slots=True)
class _Predictions:
    """The predictions that the table of Core ML or Core AI delimits, sorted by start."""

    starts: _Ints
    ends: _Ints
    model: str = ""
    others: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)


def summarize_exports(
    exports: Sequence[Export], *, predictions: int | None = None, pid: int | None = None
) -> Summary:
    """Summarizes the files of one recording.

    Args:
        exports: Its tables and its table of contents, in any order, no table twice.
        predictions: How many predictions were made in it, where that is known from elsewhere.
        pid: The id of the process of interest; None for the one that the contents name.
    """
    contents = next((export.contents for export in exports if export.contents is not None), None)
    reported = contents or Contents()
    target = reported.target if pid is None else _process(exports, pid)
    findings = _reading_findings(exports)
    if reported.runs > 1:
        text = f"The recording has {reported.runs} runs; the table of contents describes the first one."
        findings.append(Finding(id="several-runs", severity="info", text=text))
    delimited = _find_predictions(exports)
    units: list[UnitActivity] = []
    for export in exports:
        for name, table in export.tables.items():
            units += _activities(export, name, table, delimited, target)
    count = len(delimited) or predictions
    version = f" {reported.version}" if reported.version else ""
    recording = Recording(
        tool=f"Instruments{version}",
        template=reported.template,
        target=target,
        duration_s=reported.duration_s,
        predictions=count,
        are_delimited=len(delimited) > 0,
        tables=_rows(exports, contents),
        units=tuple(units),
        samples=samples_of(exports),
        total_samples=sum(t.rows for e in exports for t in e.tables.values() if _holds_samples(t)),
    )
    findings += _unit_findings(recording, delimited)
    return Summary(
        recording=recording,
        predictions_s=tuple(((delimited.ends - delimited.starts) / _NS).tolist()),
        model=delimited.model,
        device=reported.device,
        system=reported.system,
        findings=tuple(findings),
    )


def _process(exports: Sequence[Export], pid: int) -> str:
    """The name of a process with its id, as tables have it; only the id if none does."""
    texts = (text for export in exports for text in export.texts.all())
    return next((text for text in texts if text.endswith(f" ({pid})")), f"process ({pid})")


def _find_predictions(exports: Sequence[Export]) -> _Predictions:
    """Predictions of the model with the most of them."""
    for export in exports:
        for table in export.tables.values():
            event = _PREDICTIONS.get(table.kind.schema) if table.kind is not None else None
            if event is None or not len(table.starts):
                continue
            texts, intervals = export.texts.all(), _Intervals.of(table)
            wanted = [index for index, text in enumerate(texts) if text.strip().casefold() == event]
            found = intervals.where(np.isin(intervals.labels, wanted)).outermost()
            if not len(found):
                continue
            models, counts = np.unique(found.models, return_counts=True)
            most = models[np.argmax(counts)]
            own = found.where(found.models == most)
            names = {int(model): "" if model == MISSING else texts[int(model)] for model in models}
            others = tuple(name for model, name in names.items() if model != most)
            return _Predictions(own.starts, own.ends, names[int(most)], others)
    return _Predictions(np.zeros(0, np.int64), np.zeros(0, np.int64))


def _activities(
    export: Export, name: str, table: Table, predictions: _Predictions, target: str
) -> list[UnitActivity]:
    """The activity in a table; that in the Core ML table is the CPU's."""
    kind = table.kind
    if kind is None or not len(table.starts):
        return []
    texts, intervals, unit = export.texts.all(), _Intervals.of(table), kind.unit
    if kind is CORE_ML:
        wanted = [index for index, text in enumerate(texts) if text.strip().casefold() == _CPU]
        intervals, unit = intervals.where(np.isin(intervals.labels, wanted)), CPU
    if unit is None or not len(intervals):
        return []
    return [_activity(unit, name, intervals, texts, predictions, target)]


def _activity(
    unit: ComputeUnit,
    table: str,
    intervals: _Intervals,
    texts: Sequence[str],
    predictions: _Predictions,
    target: str,
) -> UnitActivity:
    processes = _parts(intervals, intervals.processes, texts)
    if target:
        named = [index for index, text in enumerate(texts) if text == target]
        own = np.isin(intervals.processes, named)
        intervals = intervals.where(own) if own.any() else intervals
    union = _Union.of(intervals.starts, intervals.ends)
    busy = union.busy_until(predictions.ends) - union.busy_until(predictions.starts)
    places = (
        np.searchsorted(intervals.starts, predictions.starts),
        np.searchsorted(intervals.starts, predictions.ends),
    )
    return UnitActivity(
        unit=unit,
        table=table,
        scope="processes" if processes or unit == CPU else "device",
        intervals=len(intervals),
        busy_s=union.busy_s,
        first_s=float(intervals.starts[0]) / _NS,
        last_s=float(intervals.ends.max()) / _NS,
        durations=summarize(((intervals.ends - intervals.starts) / _NS).tolist()),
        labels=_parts(intervals, intervals.labels, texts),
        processes=processes,
        per_prediction=summarize((busy / _NS).tolist()) if len(predictions) else None,
        intervals_per_prediction=float((places[1] - places[0]).mean()) if len(predictions) else None,
    )


def _parts(intervals: _Intervals, keys: _Ints, texts: Sequence[str]) -> tuple[ActivityPart, ...]:
    """The intervals by a text of theirs."""
    known, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    totals = np.bincount(inverse, weights=(intervals.ends - intervals.starts).astype(np.float64))
    found = []
    for place in np.argsort(-totals, kind="stable")[:_LISTED]:
        if known[place] == MISSING:
            continue
        own = inverse == place
        busy = _Union.of(intervals.starts[own], intervals.ends[own]).busy_s
        found.append(ActivityPart(texts[int(known[place])], int(counts[place]), busy))
    return tuple(found)


def _holds_samples(table: Table) -> bool:
    return table.kind is not None and table.kind.unit is None and table.kind is not CORE_ML


def samples_of(exports: Sequence[Export]) -> tuple[UnitSamples, ...]:
    """The samples of call stacks by unit."""
    frames: Counter[tuple[str, str, str]] = Counter()
    for export in exports:
        texts = [*export.texts.all(), ""]  # MISSING is the last one.
        for table in export.tables.values():
            for (unit, frame, thread), count in table.frames.items():
                frames[unit, texts[frame], texts[max(thread, MISSING)]] += count
    return unit_samples(frames)


def unit_samples(frames: Mapping[tuple[str, str, str], int]) -> tuple[UnitSamples, ...]:
    """Samples by unit, with the most frequent functions.

    Args:
        frames: Samples by unit, innermost function of its software, and thread. A sample has one of a unit.
    """
    listed = sorted(frames.items(), key=lambda one: (-one[1], one[0]))
    found = {
        unit: [FrameSamples(name, thread, n) for (owner, name, thread), n in listed if owner == unit]
        for unit in UNIT_BITS
    }
    return tuple(
        UnitSamples(unit, sum(one.samples for one in own), tuple(own[:_LISTED]))
        for unit, own in found.items()
        if own
    )


def _rows(exports: Sequence[Export], contents: Contents | None) -> dict[str, int | None]:
    """Rows by table that was exported; of the tables of units also those that the contents lack."""
    found: dict[str, int | None] = {}
    for export in exports:
        for name, table in export.tables.items():
            found[name] = (found.get(name) or 0) + table.rows
    if contents is not None:
        for kind in KINDS:
            is_unit = kind.unit is not None or kind is CORE_ML
            if is_unit and not any(name.startswith(kind.schema) for name in (*contents.tables, *found)):
                found[kind.schema] = None
    return found


def _reading_findings(exports: Sequence[Export]) -> list[Finding]:
    """Returns findings on tables that could not be read."""
    reported = (
        (
            "empty-export",
            sum(export.empty for export in exports),
            "tables were exported without columns and rows: the recording has no such table, or it is empty",
        ),
        (
            "unresolved-references",
            sum(export.unresolved for export in exports),
            "values refer to ids that the export does not have; they are left out",
        ),
        (
            "damaged-rows",
            sum(export.damaged for export in exports),
            "rows have no time that can be read; they are left out",
        ),
    )
    return [
        Finding(id=id_, severity="warning", text=f"{count} {text}") for id_, count, text in reported if count
    ]


def _unit_findings(recording: Recording, predictions: _Predictions) -> list[Finding]:
    """How to read the busy times."""
    found = []
    if any(activity.scope == "device" for activity in recording.units):
        text = "Intervals of the Neural Engine are those of the whole device: work of other programs counts."
        found.append(Finding(id="device-wide", severity="info", text=text))
    for table, rows in recording.tables.items():
        if table.startswith("ane-hw-intervals") and not rows:
            reported = (
                "has no table of the Neural Engine" if rows is None else "has no rows of the Neural Engine"
            )
            text = f"The recording {reported}. That is no proof that it was idle: whether it ran is unknown."
            hint = "record a model that is known to run there in the same session, for comparison"
            found.append(Finding(id="neural-engine-unknown", severity="warning", text=text, hint=hint))
        elif table.startswith(CORE_ML.schema) and not rows:
            text = "Core ML's own table is empty, so predictions are not distinguished."
            found.append(Finding(id="predictions-not-delimited", severity="info", text=text))
    if predictions.others:
        names = ", ".join(name or "one without a name" for name in predictions.others)[:200]
        text = f"The predictions are those of {predictions.model}; the recording has others too: {names}."
        found.append(Finding(id="other-models", severity="info", text=text))
    return found
