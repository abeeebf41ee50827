"""Profiles for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.units import format_duration, format_rate
from coremlscope.model.ir import kind_name
from coremlscope.reports.terminal.agreement import show_agreements
from coremlscope.reports.terminal.estimates import show_device_latencies
from coremlscope.reports.terminal.findings import show_findings
from coremlscope.reports.terminal.generation import show_timings
from coremlscope.reports.terminal.plan import show_plan, show_settings
from coremlscope.reports.terminal.recording import show_energy, show_recording
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.terminal.stages import show_stage_timings
from coremlscope.reports.timing import (
    describe_conditions,
    describe_inputs,
    describe_machine,
    describe_runtime,
    describe_units,
    group_name,
    kinds,
    measurement_name,
    nodes_line,
    phase_cells,
    phase_rows,
    python_note,
    share_text,
    slowest,
    status_line,
    total,
)
from coremlscope.reports.words import (
    count,
    describe_flops,
    main_function,
    model_name,
    parameter_facts,
    plural,
)
from coremlscope.results.measurement import Group, Measurement
from coremlscope.results.operations import OpTable
from coremlscope.results.profile import Profile

__all__ = ["show_profile"]

_LISTED_KINDS, _LISTED_GROUPS = 8, 10
_WIDE, _NARROW = 100, 72
_BAR, _NARROW_BAR = 20, 14
_PHASE_TITLES = ("runs", "min", "median", "mean", "p95", "p99", "max", "std")
_FEWER_TITLES = tuple(title for title in _PHASE_TITLES if title != "max")
#: Titles of phase statistics on narrow screens, and in the tables of several measurements.
_FEWEST_TITLES = ("runs", "min", "median", "p95", "max")


def show_profile(screen: Screen, profile: Profile) -> None:
    """Prints the measurements, estimates and plans of a model."""
    screen.title(model_name(profile.model.path))
    screen.pairs(_facts(profile))
    if len(profile.measurements) == 1:
        _show_one(screen, profile, profile.measurement)
    else:
        for measurement in profile.measurements:
            _show_among_others(screen, profile, measurement)
        show_timings(screen, profile.token_timings)
        show_device_latencies(screen, profile)
        _show_plans(screen, profile)
        show_agreements(screen, profile)
        show_findings(screen, profile.findings)
    screen.line()
    has_devices = profile.plans or profile.estimates
    device = "; --device NAME" if profile.measurements and not has_devices else ""
    screen.line(f"more: -o report.html, or .md, .csv, .json, .trace.json{device}", "dim")


def _facts(profile: Profile) -> list[tuple[str, str]]:
    model, work = profile.model, main_function(profile.model).work
    what = [*filter(None, [kind_name(model.kind)]), *parameter_facts(model)]
    if work is not None:
        what.append(f"{describe_flops(work)} FLOPs a prediction (declared)")
    facts = [("model", ", ".join(what))]
    if len(profile.measurements) == 1:
        (measurement,) = profile.measurements
        several = len(model.functions) > 1
        facts += [
            ("function", measurement.settings.function if several else ""),
            ("inputs", describe_inputs(profile, measurement)),
            *_circumstances(measurement),
        ]
    return facts


def _circumstances(measurement: Measurement) -> list[tuple[str, str]]:
    return [
        ("machine", describe_machine(measurement)),
        ("runtime", describe_runtime(measurement)),
        ("compute units", describe_units(measurement)),
        ("conditions", describe_conditions(measurement)),
    ]


def _show_one(screen: Screen, profile: Profile, measurement: Measurement) -> None:
    """Prints the only measurement with all details."""
    if measurement.phases:
        screen.heading("Times", f"measured by {measurement_name(measurement)}")
        titles = _PHASE_TITLES if screen.width >= _WIDE else _FEWER_TITLES
        _show_phases(screen, measurement, titles if screen.width >= _NARROW else _FEWEST_TITLES)
    show_stage_timings(screen, measurement.stages)
    show_recording(screen, measurement.recording)
    show_energy(screen, measurement.energy)
    show_timings(screen, profile.token_timings)
    show_device_latencies(screen, profile)
    _show_plans(screen, profile)
    show_agreements(screen, profile)
    _show_groups(screen, profile, measurement)
    show_findings(screen, profile.all_findings)


def _show_among_others(screen: Screen, profile: Profile, measurement: Measurement) -> None:
    """Prints the block of one of several measurements."""
    screen.line()
    screen.title(measurement_name(measurement, profile.measurements), "  measured")
    screen.pairs([*_circumstances(measurement), ("inputs", describe_inputs(profile, measurement))])
    if measurement.phases:
        screen.heading("Times", f"measured by {measurement_name(measurement, profile.measurements)}")
        _show_phases(screen, measurement, _FEWEST_TITLES)
    show_stage_timings(screen, measurement.stages)
    show_recording(screen, measurement.recording)
    show_energy(screen, measurement.energy)
    _show_groups(screen, profile, measurement)
    show_findings(screen, measurement.findings)


def _show_phases(screen: Screen, measurement: Measurement, titles: Sequence[str]) -> None:
    phases = measurement.phases
    columns = [Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)]
    rows = []
    for name, numbers, _ in phase_rows(measurement):
        cells = phase_cells(numbers)
        rows.append((name, *(cells[title] for title in titles)))
    screen.table(columns, rows)
    if note := python_note(measurement):
        screen.line(note, "dim", indent=2)
    dropped = ", ".join(
        f"{len(phase.warmups_s)} of {name}" for name, phase in phases.items() if phase.warmups_s
    )
    if dropped:
        screen.line(f"warm-ups dropped: {dropped}", "dim", indent=2)
    is_whole = not any(stage.absent for stage in measurement.stages)
    if is_whole and measurement.predict is not None and (median := measurement.predict.statistics.median):
        rate = format_rate(median)
        screen.line(f"about {rate} predictions per second, one after the other", "bold", indent=2)


def _show_groups(screen: Screen, profile: Profile, measurement: Measurement) -> None:
    """Prints times of operations, if there are any."""
    if not measurement.groups:
        return
    what = "layers" if main_function(profile.model).layers else "operations"
    screen.heading(
        "Where the time goes",
        f"measured by {measurement_name(measurement, profile.measurements)} with its profiler, medians",
    )
    _show_kinds(screen, profile.ops, measurement, what)
    screen.line(nodes_line(measurement), "dim", indent=2)
    screen.line(status_line(measurement), "dim", indent=2)
    _show_slowest(screen, profile.ops, measurement, what)


def _show_kinds(screen: Screen, ops: OpTable, measurement: Measurement, what: str) -> None:
    bar = _BAR if screen.width >= _WIDE else _NARROW_BAR
    rows = kinds(ops, measurement)
    rest = rows[_LISTED_KINDS:]
    if rest:
        rows[_LISTED_KINDS:] = [total(plural(len(rest), "other kind"), rest)]
    columns = (
        Column(what, style="cyan"),
        Column("count", is_number=True),
        Column("time", is_number=True),
        Column("share", is_number=True),
        Column("", style="cyan", rank=1),
    )
    cells = [
        (
            kind.label,
            str(kind.groups),
            format_duration(kind.wall_s),
            share_text(kind.share),
            "" if kind.share is None else _bar(kind.share, bar),
        )
        for kind in rows
    ]
    screen.table(columns, cells)


def _bar(share: float, width: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _show_slowest(screen: Screen, ops: OpTable, measurement: Measurement, what: str) -> None:
    groups = slowest(ops, measurement)
    shown = groups[:_LISTED_GROUPS]
    screen.heading("Slowest", f"{len(shown)} of {plural(len(groups), 'group')} of {what}")
    columns = [
        Column("time", is_number=True),
        Column("share", is_number=True),
        Column("first id", most=40, least=24, style="dim"),
        Column(what, most=screen.width // 2, style="cyan"),
        Column("names", most=screen.width // 2),
        *([Column("FLOPs (declared)", is_number=True)] if screen.width >= _WIDE else []),
    ]
    screen.table(columns, [_slowest_row(ops, group)[: len(columns)] for group in shown])


def _slowest_row(ops: OpTable, group: Group) -> tuple[str, ...]:
    flops = [ops.flops[row] for row in group.ops]
    known = [number for number in flops if number is not None]
    is_complete = len(known) == len(flops) and all(ops.work_is_complete[row] for row in group.ops)
    return (
        format_duration(group.wall_s),
        share_text(group.share),
        ops.id[group.ops[0]] if group.ops else "",
        group.label,
        group_name(group, ops),
        count(sum(known), is_complete) if group.ops else "",
    )


def _show_plans(screen: Screen, profile: Profile) -> None:
    """Prints plans if there are no estimates, in full if there are no measurements either."""
    if profile.estimates:
        return
    for plan in profile.plans:
        if profile.measurements:
            show_settings(screen, profile, plan)
        else:
            screen.line()
            show_plan(screen, profile, plan)
