"""Single layers as rows: where each runs on each device under each setting, its costs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from coremlscope.base.units import format_cost, format_duration
from coremlscope.devices.unit import SETTINGS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.reports.csv import render_columns
from coremlscope.reports.document import Block, Column, Heading, Item, Table, Text, Title, labels, numbers
from coremlscope.reports.figures import interval_ms, mark_of
from coremlscope.reports.side_by_side import device_remarks, failures, measured_sections
from coremlscope.reports.words import FINDING_MARKS, SHORT_UNIT_NAMES, UNIT_NAMES, plural
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.plan import PlannedOp, PlanView
from coremlscope.results.profile import Profile

_LEGEND = (
    "elsewhere: how much more the cheapest plan with the layer on another unit of the setting would cost; "
    "no: the unit does not run it, for the reason of that number"
)


class LayerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One layer on one device under one setting.

    Attributes:
        layer: The expression: `conv(dilations=4)`.
        options: The options in which it differs from the other layers: `dilations=4`.
        device: The device, or its chip.
        os: Its system.
        compute_units: The setting.
        runs_on: The units of its operations in words, those that Core ML inserts left out; `unknown` if no
            rule covers them.
        planned_ms: The planned cost of a prediction.
        estimate: The estimate; None if there is none.
        detours: For each other unit of the setting that can run it, what the cheapest plan would cost more
            in milliseconds.
        reasons: Why it cannot run on other units of the setting, by unit.
    """

    layer: str
    options: str
    device: str
    os: str
    compute_units: ComputeUnits
    runs_on: str
    planned_ms: float
    estimate: Estimate | None
    detours: Mapping[ComputeUnit, float]
    reasons: Mapping[ComputeUnit, str]


def layer_rows(profiles: Sequence[Profile]) -> Iterator[LayerRow]:
    """Yields the rows of layers, in order of layers, devices and settings."""
    _, names = _split_labels([profile.model.path for profile in profiles])
    for name, profile in zip(names, profiles, strict=True):
        estimates = {(e.device, e.os, e.compute_units): e for e in profile.estimates}
        for plan in profile.plans:
            for setting in plan.settings:
                ops = [op for op in PlanView(plan, profile.ops, setting).ops if not op.inserted]
                units = dict.fromkeys(UNIT_NAMES[op.unit] for op in ops if op.unit is not None)
                detours, reasons = _elsewhere(ops, setting.compute_units)
                yield LayerRow(
                    layer=profile.model.path,
                    options=name,
                    device=plan.device,
                    os=plan.os,
                    compute_units=setting.compute_units,
                    runs_on=" + ".join(units) or "unknown",
                    planned_ms=setting.total_ms,
                    estimate=estimates.get((plan.device, plan.os, setting.compute_units)),
                    detours=detours,
                    reasons=reasons,
                )


def _elsewhere(
    ops: Sequence[PlannedOp], setting: ComputeUnits
) -> tuple[dict[ComputeUnit, float], dict[ComputeUnit, str]]:
    """Returns what other units of a setting would cost more, and why they cannot run the layer."""
    detours: dict[ComputeUnit, float] = {}
    reasons: dict[ComputeUnit, str] = {}
    for unit in (unit for unit in UNITS if unit in SETTINGS[setting]):
        for op in ops:
            found = [reason.text for reason in op.why if reason.unit == unit]
            if found and op.unit != unit:
                reasons.setdefault(unit, "; ".join(found))
            elif unit in op.detour_ms and op.unit != unit:
                detours[unit] = max(op.detour_ms[unit], detours.get(unit, 0.0))
    return {unit: ms for unit, ms in detours.items() if unit not in reasons}, reasons


def _split_labels(labels: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the expression that layers share, and the options of each that are its own."""
    kinds = [label.partition("(")[0] for label in labels]
    given = [label.partition("(")[2].removesuffix(")").split(", ") for label in labels]
    shared = [option for option in given[0] if all(option in other for other in given)] if given else []
    kind = kinds[0] if kinds else ""
    own = [", ".join(option for option in options if option not in shared) for options in given]
    title = f"{kind}({', '.join(filter(None, shared))})" if any(shared) else kind
    return title, [name or kind for name in own]


def layers_document(profiles: Sequence[Profile]) -> Iterator[Block]:
    """Yields layers: a table for each device, what was measured, and layers that cannot be built.

    Args:
        profiles: One for each layer.
    """
    title, _ = _split_labels([profile.model.path for profile in profiles])
    yield Title(title, plural(len(profiles), "layer"))
    for (device, os), rows in _by_device(profiles).items():
        yield Heading(f"{device}, {os}", "planned and estimated; nothing of it was measured")
        cells, notes = _cells(rows)
        columns = (
            labels("options"),
            Column("setting", rank=2),
            Column("runs on", rank=-1),
            Column("planned cost", is_number=True, rank=1),
            *numbers("estimated", "80 %, ms"),
            Column("elsewhere", rank=1),
        )
        yield Table(columns, _without_repeated(_merged(cells)))
        yield from (Item(text, mark=number) for number, text in notes.items())
    yield from measured_sections(profiles)
    if any(profile.plans for profile in profiles):
        yield from map(Text, (_LEGEND, *device_remarks(profiles)))
    failed = failures(profiles)
    if failed:
        yield Heading("Not possible")
    yield from (Item(text, hint, FINDING_MARKS["error"], "error") for text, hint in failed)


def render_layers_csv(profiles: Sequence[Profile]) -> str:
    """Layers as comma-separated values: one row for a layer, device and setting."""
    measured = {profile.model.path: profile.measurements for profile in profiles}
    rows = [_values(row, measured[row.layer]) for row in layer_rows(profiles)]
    return render_columns({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})


def _values(row: LayerRow, measurements: Sequence[Measurement]) -> dict[str, Any]:
    latency = None if row.estimate is None else row.estimate.latency
    units = (row.compute_units, None)
    timed = [
        (m.predict.statistics.median * 1e3, m.label)
        for m in measurements
        if m.predict is not None and (m.compute_units if m.compute_units in SETTINGS else None) in units
    ]
    here, by = timed[0] if timed else (None, "")
    detours = (f"{UNIT_NAMES[unit]} {ms:.6g}" for unit, ms in row.detours.items())
    return {
        "layer": row.layer,
        "device": row.device,
        "os": row.os,
        "compute_units": row.compute_units,
        "runs_on": row.runs_on,
        "planned_ms": row.planned_ms,
        "estimated_ms": None if latency is None else latency.value * 1e3,
        "low_ms": None if latency is None else latency.low * 1e3,
        "high_ms": None if latency is None else latency.high * 1e3,
        "measured_here_ms": here,
        "measured_by": by,
        "costs_more_elsewhere_ms": "; ".join(detours),
        "cannot_run_on": "; ".join(f"{UNIT_NAMES[unit]}: {why}" for unit, why in row.reasons.items()),
    }


def _by_device(profiles: Sequence[Profile]) -> dict[tuple[str, str], list[LayerRow]]:
    found: dict[tuple[str, str], list[LayerRow]] = {}
    for row in layer_rows(profiles):
        found.setdefault((row.device, row.os), []).append(row)
    return found


def _cells(rows: Sequence[LayerRow]) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Returns the cells of rows, and reasons by number."""
    numbers: dict[str, str] = {}
    cells: list[tuple[str, ...]] = []
    for row in rows:
        elsewhere = [f"{SHORT_UNIT_NAMES[unit]} +{format_cost(ms)}" for unit, ms in row.detours.items()]
        for unit, why in row.reasons.items():
            number = numbers.setdefault(f"{UNIT_NAMES[unit]}: {why}", str(len(numbers) + 1))
            elsewhere.append(f"{SHORT_UNIT_NAMES[unit]} no ({number})")
        known = row.estimate
        cells.append(
            (
                row.options,
                row.compute_units,
                row.runs_on,
                format_cost(row.planned_ms),
                "–" if known is None else format_duration(known.latency.value) + mark_of(known),
                "–" if known is None else interval_ms(known),
                ", ".join(elsewhere),
            )
        )
    return cells, {number: why for why, number in numbers.items()}


def _merged(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Writes layers of a sweep that follow each other and do not differ as one: `dilations=2 … 6`."""
    found: list[tuple[list[str], list[tuple[str, ...]]]] = []
    for options, group in groupby(cells, key=lambda row: row[0]):
        rows = [row[1:] for row in group]
        if found and found[-1][1] == rows:
            found[-1][0].append(options)
        else:
            found.append(([options], rows))
    return [(_range(layers), *row) for layers, rows in found for row in rows]


def _range(layers: Sequence[str]) -> str:
    """Returns the options of layers that follow each other: `kernel=3`, `kernel=3, 5` or `kernel=3 … 7`."""
    first, last = layers[0], layers[-1]
    if len(layers) == 1:
        return first
    name, _, value = last.rpartition("=")
    sign = ", " if len(layers) == 2 else " … "
    return f"{first}{sign}{value if first.rpartition('=')[0] == name else last}"


def _without_repeated(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leaves out the options of rows that follow one of the same layer."""
    former = [("",), *cells[:-1]]
    return [
        ("" if row[0] == above[0] else row[0], *row[1:]) for row, above in zip(cells, former, strict=True)
    ]
