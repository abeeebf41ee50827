"""Notebook cards of results: the most important numbers.

Cards are plain HTML with inline styles: notebooks remove scripts and style sheets. Colours are the
notebook's own, so that they match light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from coremlscope.base.escaping import html_text
from coremlscope.base.units import format_duration, format_rate, format_share
from coremlscope.describe.comparison.change import Change
from coremlscope.describe.comparison.profiles import Comparison, Difference
from coremlscope.devices.unit import SETTINGS
from coremlscope.model.ir import kind_name
from coremlscope.reports.difference import (
    device_title,
    format_ratio,
    measured_by,
    seconds,
    verdict,
    whole_rows,
)
from coremlscope.reports.terminal.estimates import listed_estimates
from coremlscope.reports.terminal.plan import describe_planner
from coremlscope.reports.terminal.side_by_side import failures, summary_line
from coremlscope.reports.timing import disclaimer, measurement_name, phase_cells, phase_rows, share_text
from coremlscope.reports.variants import compared_with, device_blocks, quality_block, variant_failures
from coremlscope.reports.words import (
    UNIT_NAMES,
    alternative_words,
    by_severity,
    histogram,
    main_function,
    model_name,
    parameter_facts,
    plural,
    undecided_line,
)
from coremlscope.results.measurement import Measurement
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import Plan, PlannedOp, PlanView, unit_costs_ms, unit_counts
from coremlscope.results.profile import Profile
from coremlscope.results.variants import VariantReport

__all__ = ["Grid", "card", "comparison_card", "model_card", "profile_card", "profiles_card", "variants_card"]

_LINE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:2px 10px 2px 0;background:transparent;color:inherit;border:none;"
_BAR = "display:inline-block;height:.7em;background:#3b82c4;border-radius:1px;width:{:.1f}em"
_DRAWING = "margin:8px 0 0;padding:0;background:transparent;color:inherit;font-size:12px;line-height:1.2"
_LISTED = 8
_PHASE_TITLES = ("runs", "min", "median", "p95", "max")

#: Texts; a number is a share, drawn as a bar.
Row = Sequence[str | float]


class Grid(msgspec.Struct, frozen=True):
    """A table of a card.

    Attributes:
        title: Its title, with the origin of the numbers.
        columns: Titles; columns whose title ends with `>` are right-aligned.
        rows: Texts; a number is a share, drawn as a bar.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


def card(title: str, remark: str, grids: Sequence[Grid], notes: Sequence[str] = (), drawing: str = "") -> str:
    """Renders a card as HTML.

    Args:
        title: The title.
        remark: The text below the title.
        grids: Tables; those without rows are omitted.
        notes: Sentences below them.
        drawing: Text above the tables whose characters have one width.
    """
    parts = [
        '<div style="font-size:13px;line-height:1.45;max-width:60em;overflow-x:auto">',
        f'<div style="font-weight:600;font-size:15px">{html_text(title)}</div>',
        f'<div style="opacity:.75">{html_text(remark)}</div>',
        f'<pre style="{_DRAWING}">{html_text(drawing)}</pre>' if drawing else "",
        *(_grid(grid) for grid in grids if grid.rows),
        *(f'<div style="margin-top:4px">{html_text(note)}</div>' for note in notes),
        "</div>",
    ]
    return "".join(parts)


def _grid(grid: Grid) -> str:
    sides = ["right" if title.endswith(">") else "left" for title in grid.columns]
    heads = "".join(
        f'<th scope="col" style="{_CELL}text-align:{side};font-weight:400;opacity:.75">'
        f"{html_text(title.removesuffix('>'))}</th>"
        for title, side in zip(grid.columns, sides, strict=True)
    )
    rows = "".join(
        f'<tr style="background:transparent;border-top:{_LINE}">{"".join(map(_cell, row, sides))}</tr>'
        for row in grid.rows
    )
    return (
        f'<div style="margin-top:8px;font-weight:600">{html_text(grid.title)}</div>'
        f'<table style="border-collapse:collapse;margin:0;color:inherit"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _cell(value: str | float, side: str) -> str:
    style = f"{_CELL}text-align:{side};white-space:nowrap;font-variant-numeric:tabular-nums"
    if isinstance(value, str):
        return f'<td style="{style}">{html_text(value)}</td>'
    return f'<td style="{style}"><span style="{_BAR.format(max(0.0, min(value, 1.0)) * 12)}"></span></td>'


def model_card(model: ModelSummary) -> str:
    """Renders the description of a model as HTML."""
    main = main_function(model)
    facts = [*filter(None, [kind_name(model.kind), model.platforms]), *parameter_facts(model)]
    features = [
        (kind, feature.name, feature.type)
        for kind, listed in (("input", main.inputs), ("output", main.outputs), ("state", main.states))
        for feature in listed
    ]
    counts = main.layers or main.ops
    notes = [f"{'layers' if main.layers else 'operations'}: {histogram(counts, 12)}"] if counts else []
    notes += [f"⚠ cannot run here: {model.absent}"] if model.absent else []
    return card(
        model_name(model.path), ", ".join(facts), [Grid("Interface", ("", "name", "type"), features)], notes
    )


def profile_card(profile: Profile) -> str:
    """Renders the measurements, estimates and plans of a model as HTML."""
    grids = [grid for m in profile.measurements for grid in _measured(profile, m)]
    estimates = [
        (
            e.device,
            e.compute_units,
            format_duration(e.latency.value),
            f"{format_duration(e.latency.low)} – {format_duration(e.latency.high)}",
        )
        for e in listed_estimates(profile)
    ]
    columns = ("device", "setting", "estimate>", "80 % of cases>")
    grids.append(Grid("On Apple devices (estimated, not measured)", columns, estimates))
    notes: list[str] = []
    if not profile.estimates:
        grids += [grid for plan in profile.plans for grid in _planned(profile, plan)]
        notes += dict.fromkeys(note for plan in profile.plans for note in plan.notes)
    serious = [f for f in by_severity(profile.all_findings) if f.severity != "info"]
    notes += [f"⚠ {finding.text}" for finding in serious]
    return card(model_name(profile.model.path), _remark(profile), grids, notes)


def _remark(profile: Profile) -> str:
    """The figure that people look for first, and its origin."""
    if len(profile.measurements) > 1:
        return f"{plural(len(profile.measurements), 'measurement')}, each with its own table"
    for m in profile.measurements:
        if m.predict is not None and (median := m.predict.statistics.median):
            rate = f"about {format_rate(median)} a second"
            name = measurement_name(m)
            return f"{format_duration(median)} a prediction, {rate}, measured by {name}{disclaimer(m)}"
        return f"measured by {measurement_name(m)}{disclaimer(m)}"
    known = [word for word, held in (("estimated", profile.estimates), ("planned", profile.plans)) if held]
    return f"{' and '.join(known)}; nothing was measured" if known else "nothing was measured"


def _measured(profile: Profile, measurement: Measurement) -> Iterator[Grid]:
    name = measurement_name(measurement, profile.measurements)
    times = []
    for phase_name, numbers, _ in phase_rows(measurement):
        cells = phase_cells(numbers)
        times.append((phase_name, *(cells[title] for title in _PHASE_TITLES)))
    yield Grid(f"Times (measured by {name})", ("", *(f"{title}>" for title in _PHASE_TITLES)), times)
    groups = sorted(measurement.groups, key=lambda group: -group.wall_s)
    rows = [
        (
            group.label,
            profile.ops.name[group.ops[0]] if group.ops else "",
            format_duration(group.wall_s),
            share_text(group.share),
            group.share or 0.0,
        )
        for group in groups[:_LISTED]
    ]
    title = f"The slowest of {len(groups)} groups of operations (measured by {name} with its profiler)"
    yield Grid(title, ("operations", "first", "time>", "share>", ""), rows)


def _planned(profile: Profile, plan: Plan) -> Iterator[Grid]:
    """How many operations each unit runs, and the costliest operations, under the first setting."""
    view = plan.view(profile.ops)
    functions = view.functions()
    for name, ops in functions.items():
        prefix = f"{name}: " if len(functions) > 1 else ""
        yield _units(prefix, view, name, ops)
        yield _costliest(prefix, ops)


def _units(prefix: str, view: PlanView, name: str, ops: tuple[PlannedOp, ...]) -> Grid:
    counts, costs = unit_counts(ops), unit_costs_ms(ops, view.compute_units)
    whole = sum(costs.values()) or 1.0
    known = any(op.planned_ms is not None for op in ops)
    rows: list[Row] = [
        (
            UNIT_NAMES[unit],
            str(counts[unit]),
            format_duration(costs[unit] / 1e3) if known else "–",
            costs[unit] / whole,
        )
        for unit in SETTINGS[view.compute_units]
    ]
    if counts[None]:
        rows.append(("unknown", str(counts[None]), "–", ""))
    cost = view.setting.functions.get(name)
    has_costs = view.plan.total_ms(view.setting) is not None
    total = ""
    if cost is not None and has_costs:
        total = f"{format_duration(cost.total_ms / 1e3)} in all, launches and switches"
    where = f"{view.plan.device}, {view.plan.os}, {view.compute_units}"
    remark = f"{describe_planner(view.plan)}{': ' if total else ''}{total}{' included' if total else ''}"
    undecided = undecided_line(ops)
    remark += f"; {undecided}" if undecided else ""
    return Grid(f"{prefix}{where} ({remark})", ("unit", "operations>", "planned>", ""), rows)


def _costliest(prefix: str, ops: tuple[PlannedOp, ...]) -> Grid:
    rows = []
    for op in sorted(ops, key=lambda op: -op.weight)[:_LISTED]:
        planned = "–" if op.planned_ms is None else format_duration(op.planned_ms / 1e3)
        unit = "unknown" if op.unit is None else UNIT_NAMES[op.unit]
        where = " or ".join([unit, *alternative_words(op, UNIT_NAMES)])
        rows.append((op.name, op.type, where, planned, format_share(op.weight)))
    columns = ("operation", "type", "unit", "planned>", "share>")
    return Grid(f"{prefix}costliest operations (planned)", columns, rows)


def comparison_card(comparison: Comparison) -> str:
    """Renders the differences of a comparison as HTML."""
    grids: list[Grid] = []
    for difference in comparison.differences:
        label = comparison.subjects[difference.other].label
        prefix = f"{label}: " if len(comparison.differences) > 1 else ""
        grids += _differences(prefix, difference)
    first, *others = [subject.label for subject in comparison.subjects]
    notes = [f"times not compared: {d.incomparable}" for d in comparison.differences if d.incomparable]
    differing = ", ".join(comparison.differing)
    remark = f"what differs: {differing}" if differing else "the same model and settings"
    return card(f"{first} against {', '.join(others)}", remark, grids, notes)


def _differences(prefix: str, difference: Difference) -> Iterator[Grid]:
    columns = ("", "before>", "after>", "change>", "")
    phases = [(name, *_cells(change)) for name, change in difference.phases.items()]
    yield Grid(f"{prefix}times ({measured_by(difference)})", columns, phases)
    if not difference.incomparable:
        rows = [(f"{row.label} {row.name}", *_cells(row.time)) for row in difference.telling_rows[:_LISTED]]
        yield Grid(f"{prefix}largest differences ({measured_by(difference)})", columns, rows)
    for plan in difference.plans:
        whole = [(name, *_cells(change)) for name, change in whole_rows(plan)]
        yield Grid(f"{prefix}{device_title(plan)} (planned and estimated, not measured)", columns, whole)


def _cells(change: Change) -> tuple[str, str, str, str]:
    return seconds(change.before), seconds(change.after), format_ratio(change.ratio), verdict(change)


def profiles_card(profiles: Sequence[Profile]) -> str:
    """Several models under settings of compute units."""
    measured = [
        (
            model_name(profile.model.path),
            m.label,
            m.compute_units or "–",
            m.machine.power_mode or "–",
            format_duration(m.predict.statistics.median),
            format_duration(m.predict.statistics.mean),
        )
        for profile in profiles
        for m in profile.measurements
        if m.predict is not None
    ]
    return card(
        plural(len(profiles), "model"),
        summary_line(profiles),
        [
            Grid("Measured", ("model", "by", "setting", "power mode", "median>", "mean>"), measured),
            Grid(
                "Planned and estimated, not measured",
                ("model", "device", "setting", "estimated>", "planned>"),
                [row for profile in profiles for row in _on_devices(profile)],
            ),
        ],
        [f"⚠ {text}" for text, _ in failures(profiles)],
    )


def _on_devices(profile: Profile) -> Iterator[Row]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for plan in profile.plans:
        for setting in plan.settings:
            key = plan.device, plan.os, setting.compute_units
            total_ms = plan.total_ms(setting)
            planned = "–" if total_ms is None else format_duration(total_ms / 1e3)
            found.setdefault(key, ["–", "–"])[1] = planned
    for e in profile.estimates:
        key = e.device, e.os, e.compute_units
        found.setdefault(key, ["–", "–"])[0] = format_duration(e.latency.value)
    for (device, os, setting_name), cells in found.items():
        yield model_name(profile.model.path), f"{device}, {os}", setting_name, *cells


def variants_card(report: VariantReport) -> str:
    """Variants of a model."""
    blocks = (quality_block(report), *device_blocks(report))
    grids = [Grid(b.title, (b.titles[0], *(f"{name}>" for name in b.titles[1:])), b.rows) for b in blocks]
    failed = [f"⚠ {text}" for text, _ in variant_failures(report)]
    return card(f"Variants of {model_name(report.path)}", compared_with(report), grids, failed)
