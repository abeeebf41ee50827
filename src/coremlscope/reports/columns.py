"""Results as columns of equal length, for spreadsheets and data frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coremlscope.base.errors import MissingDependencyError
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.devices.unit import ComputeUnits
from coremlscope.reports.op_forms import op_forms
from coremlscope.reports.timing import measurement_name, partial_mark
from coremlscope.reports.words import systems
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import Plan, PlannedOp
from coremlscope.results.profile import Profile

Columns = dict[str, list[Any]]

_WORK = ("flops", "read_bytes", "written_bytes", "weight_bytes", "work_is_complete")
_LAYER = ("layer", "layer_type")
_GROUP = (
    *("status", "group", "group_label", "group_ops"),
    *("group_measured_s", "group_low_s", "group_high_s", "group_share", "measured_by"),
)
_FP16 = ("largest", "overflows", "infinities", "nans")
_FIGURES = ("model", "origin", "by", "compute_units", "power_mode", "median_s", "low_s", "high_s")
_CHANGED = ("label", "name", "before", "after", "presence")
_CHANGE = ("ratio", "low", "high", "verdict", "origin")


def op_columns(profile: Profile) -> Columns:
    """Returns the operations of a profile as columns, one row each.

    They are followed by a row for each node that an engine added (the status is `engine`) and for each
    operation that Core ML inserts (`inserted`).

    Rows of operations that share a group repeat the group's time, which is never split among them, and rows
    that share an estimated kernel repeat the kernel's time. Unknown values are None. Columns without any
    known value are omitted, except those that every profile or every measurement has.

    With several measurements, the columns of each begin with its label and setting. Columns of plans and
    estimates begin with the device and the setting: `m1.all.unit`, `m1.all.planned_ms`, `m1.all.kernel`,
    `m1.all.kernel_estimated_s`, `m1.all.kernel_bound`.
    """
    return _Table(profile).columns()


class _Table:
    """The columns of a profile: operations, then nodes of engines, then inserted operations."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        inserted = (op for plan in profile.plans for op in plan.ops if op.inserted)
        self._inserted: list[PlannedOp] = list({op.id: op for op in inserted}.values())
        self._engine = [
            (measurement, place)
            for measurement in profile.measurements
            for place, group in enumerate(measurement.groups)
            if not group.ops
        ]

    def columns(self) -> Columns:
        """Returns all columns."""
        found = dict(self._facts())
        always = set(found)
        prefixes = _unique(map(self._label, self._profile.measurements))
        for measurement, prefix in zip(self._profile.measurements, prefixes, strict=True):
            single = len(self._profile.measurements) == 1
            for name, values in self._measured(measurement):
                title = name if single else f"{prefix}.{name}"
                found[title] = values
                if name in _GROUP:
                    always.add(title)
        if self._inserted:
            status = found.setdefault("status", [None] * len(found["id"]))
            status[len(status) - len(self._inserted) :] = ["inserted"] * len(self._inserted)
        ops = self._profile.ops
        for name in (*_LAYER, "live_bytes"):
            found[name] = self._column(getattr(ops, name))
        found.update(self._planned_and_estimated())
        return {
            name: values
            for name, values in found.items()
            if name in always or any(value is not None for value in values)
        }

    def _label(self, measurement: Measurement) -> str:
        return _slug(measurement_name(measurement, self._profile.measurements))

    def _column(
        self, ops: Iterable[Any], engine: Sequence[Any] = (), inserted: Sequence[Any] = ()
    ) -> list[Any]:
        """Returns a column; missing values are None."""
        return [
            *ops,
            *(engine or [None] * len(self._engine)),
            *(inserted or [None] * len(self._inserted)),
        ]

    def _facts(self) -> Iterator[tuple[str, list[Any]]]:
        ops, inserted = self._profile.ops, self._inserted
        nodes = [
            "; ".join(name for name, _ in measurement.groups[place].engine_nodes)
            for measurement, place in self._engine
        ]
        yield "id", self._column(ops.id, (), [op.id for op in inserted])
        yield "type", self._column(ops.type, (), [op.type for op in inserted])
        yield "name", self._column(ops.name, nodes, [""] * len(inserted))
        yield "function", self._column(ops.function, (), [op.function for op in inserted])
        yield (
            "results",
            self._column(map("; ".join, ops.outputs), (), ["; ".join(op.outputs) for op in inserted]),
        )
        for name in _WORK:
            yield name, self._column(getattr(ops, name))

    def _measured(self, measurement: Measurement) -> Iterator[tuple[str, list[Any]]]:
        count = len(self._profile.ops)
        places = measurement.group or (-1,) * count
        unknown = "partial" if measurement.partial is not None else None
        statuses: Sequence[str | None] = measurement.status or (unknown,) * count
        own = [place if of is measurement else None for of, place in self._engine]
        rows = [
            *((status, *_group(measurement, place)) for status, place in zip(statuses, places, strict=True)),
            *(("engine", *_group(measurement, p)) if p is not None else (None,) * len(_GROUP) for p in own),
            *((None,) * len(_GROUP) for _ in self._inserted),
        ]
        for place, name in enumerate(_GROUP):
            yield name, [row[place] for row in rows]
        if measurement.fp16 is not None:
            for name in _FP16:
                yield f"fp16_{name}", self._column(getattr(measurement.fp16, name))

    def _planned_and_estimated(self) -> Iterator[tuple[str, list[Any]]]:
        names = _device_names(self._profile)
        estimates: dict[tuple[str, str, str], list[Estimate]] = {}
        for estimate in self._profile.estimates:
            key = estimate.device, estimate.os, estimate.compute_units
            estimates.setdefault(key, []).append(estimate)
        for plan in self._profile.plans:
            device = names[plan.device, plan.os] + (".core-ml" if plan.planner == "Core ML" else "")
            yield from self._judged(plan, device)
            for setting in plan.settings:
                prefix = f"{device}.{setting.compute_units}"
                yield from self._planned(plan, setting.compute_units, prefix)
                for estimate in estimates.pop((plan.device, plan.os, setting.compute_units), ()):
                    yield from self._estimated(estimate, prefix)
        for (device, os, units), without_plan in estimates.items():
            for estimate in without_plan:
                yield from self._estimated(estimate, f"{names[device, os]}.{units}")

    def _of_plan(self, plan: Plan, value_of: Callable[[PlannedOp], Any]) -> list[Any]:
        ids = (*self._profile.ops.id, *(op.id for op in self._inserted))
        planned = [plan.ops.get(id_) for id_ in ids]
        values = [None if op is None else value_of(op) for op in planned]
        count = len(self._profile.ops)
        return self._column(values[:count], (), values[count:])

    def _judged(self, plan: Plan, prefix: str) -> Iterator[tuple[str, list[Any]]]:
        """Yields the units that can run each operation, and why others cannot."""
        yield (
            f"{prefix}.supported",
            self._of_plan(
                plan, lambda op: "; ".join(unit for unit, known in op.supported.items() if known == "yes")
            ),
        )
        yield (
            f"{prefix}.reasons",
            self._of_plan(
                plan, lambda op: "; ".join(f"{reason.unit}: {reason.text}" for reason in op.why) or None
            ),
        )

    def _planned(self, plan: Plan, setting: ComputeUnits, prefix: str) -> Iterator[tuple[str, list[Any]]]:
        yield f"{prefix}.unit", self._of_plan(plan, lambda op: op.choices[setting].unit)
        if any(op.choices[setting].alternatives for op in plan.ops):
            yield (
                f"{prefix}.alternatives",
                self._of_plan(plan, lambda op: "; ".join(op.choices[setting].alternatives) or None),
            )
        yield f"{prefix}.backend", self._of_plan(plan, lambda op: op.choices[setting].backend)
        yield f"{prefix}.planned_ms", self._of_plan(plan, lambda op: op.choices[setting].planned_ms)

    def _estimated(self, estimate: Estimate, prefix: str) -> Iterator[tuple[str, list[Any]]]:
        if not estimate.kernel_s:
            return
        kernels = {row: index for index, k in enumerate(self._profile.kernels_of(estimate)) for row in k.ops}
        numbers = [kernels.get(row) for row in range(len(self._profile.ops))]
        seconds = [None if n is None else estimate.kernel_s[n] for n in numbers]
        bounds = [None if n is None else estimate.kernel_bound[n] for n in numbers]
        yield f"{prefix}.kernel", self._column(numbers)
        yield f"{prefix}.kernel_estimated_s", self._column(seconds)
        yield f"{prefix}.kernel_bound", self._column(bounds)


def _group(measurement: Measurement, place: int) -> Sequence[Any]:
    """Returns the columns of a group, without the status."""
    if place < 0:
        return (None,) * (len(_GROUP) - 1)
    group = measurement.groups[place]
    interval = (group.low_s, group.high_s)
    return place, group.label, len(group.ops), group.wall_s, *interval, group.share, measurement.label


def _device_names(profile: Profile) -> dict[tuple[str, str], str]:
    """Returns the prefixes of columns of devices; they include the system if a device has several."""
    keys = systems([profile])
    counts = Counter(device for device, _ in keys)
    return {(device, os): _slug(f"{device} {os}" if counts[device] > 1 else device) for device, os in keys}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _unique(names: Iterable[str]) -> list[str]:
    """Returns the names; repeated ones are numbered."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found


def listed_columns(model: ModelSummary) -> Columns:
    """Returns the listed operations of a model, one row each."""
    ops = model.ops
    return {
        "id": list(ops.id),
        "type": list(ops.type),
        "form": list(op_forms(ops)),
        "name": list(ops.name),
        "results": ["; ".join(types) for types in ops.outputs],
        **{name: list(getattr(ops, name)) for name in (*_WORK, *_LAYER)},
    }


def change_columns(comparison: Comparison) -> Columns:
    """Returns the compared operations, one row each, largest difference first."""
    rows = [(difference, row) for difference in comparison.differences for row in difference.rows]
    return {
        "subject": [comparison.subjects[difference.other].label for difference, _ in rows],
        **{name: [getattr(row, name) for _, row in rows] for name in _CHANGED},
        "before_s": [row.time.before for _, row in rows],
        "after_s": [row.time.after for _, row in rows],
        **{name: [getattr(row.time, name) for _, row in rows] for name in _CHANGE},
    }


def figure_columns(profiles: Sequence[Profile]) -> Columns:
    """Returns one row for each time of a prediction: measured or estimated."""
    rows: list[tuple[Any, ...]] = []
    for profile in profiles:
        path = profile.model.path
        for m in profile.measurements:
            if m.predict is not None:
                median = m.predict.statistics.median
                place = (m.label + partial_mark(m), m.compute_units, m.machine.power_mode)
                rows.append((path, m.origin, *place, median, None, None))
        for e in profile.estimates:
            place = (f"{e.device}, {e.os}", e.compute_units, "")
            ends = (e.latency.value, e.latency.low, e.latency.high)
            rows.append((path, e.latency.origin, *place, *ends))
    return {name: [row[place] for row in rows] for place, name in enumerate(_FIGURES)}


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Converts columns to a pandas DataFrame.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError(
            "to_dataframe needs pandas, which is not installed", "pip install pandas"
        ) from None
    return pandas.DataFrame(dict(columns))
