"""What a model takes, for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.render.terminal.estimates import show_device_latencies
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.terminal.stages import show_stage_timings
from coremlscope.render.terminal.timing import (
    describe_inputs,
    group_name,
    kinds,
    nodes_line,
    slowest,
    status_line,
)
from coremlscope.render.words import KINDS, count, model_name, plural
from coremlscope.results.profile import Group, Phase, Profile
from coremlscope.units import format_bytes, format_count, format_duration, format_rate, format_share

__all__ = ["show_profile"]

_LISTED_KINDS, _LISTED_GROUPS = 8, 10
_WIDE = 100
_BAR, _NARROW_BAR = 20, 14


def show_profile(page: Page, profile: Profile) -> None:
    """Prints everything that people want to know first."""
    page.title(model_name(profile.model.path))
    page.pairs(_facts(profile))
    _show_times(page, profile)
    show_stage_timings(page, profile.stages)
    show_device_latencies(page, profile.estimates)
    _show_kinds(page, profile)
    _show_slowest(page, profile)
    _show_findings(page, profile)
    page.line()
    page.line("more: -o report.html, or .md, .csv, .json, .trace.json; --device NAME", "dim")


def _facts(profile: Profile) -> list[tuple[str, str]]:
    model, host, request = profile.model, profile.host, profile.request
    what = [KINDS.get(model.kind, model.kind)]
    if model.weights:
        what.append(f"{format_count(model.parameters)} parameters in {format_bytes(model.weights_bytes)}")
    work = model.main.work
    if work is not None:
        at_least = "" if work.is_complete else "at least "
        what.append(f"{at_least}{format_count(work.flops)} FLOPs a prediction (declared)")
    several = len(model.functions) > 1
    return [
        ("model", ", ".join(what)),
        ("function", request.function if several else ""),
        ("inputs", describe_inputs(profile)),
        ("host", f"{host.processor}, {plural(host.cores, 'core')}, {host.os}, Python {host.python}"),
        ("engine", f"{host.engine} {host.engine_version}, {plural(host.threads, 'thread')}; not Core ML"),
        ("compute units", f"{request.compute_units}: recorded only, the processor above does all the work"),
    ]


def _show_times(page: Page, profile: Profile) -> None:
    page.heading("Times", "measured on the host above, by this runtime")
    is_wide = page.width >= _WIDE
    titles = ["runs", "min", "median", "mean", "p95", "p99", *(["max"] if is_wide else []), "std"]
    columns = [Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)]
    phases = (("compile", profile.compile), ("load", profile.load), ("predict", profile.predict))
    page.table(columns, [_phase_row(name, phase, is_wide) for name, phase in phases])
    dropped = ", ".join(f"{len(phase.warmups_s)} of {name}" for name, phase in phases if phase.warmups_s)
    if dropped:
        page.line(f"warm-ups dropped: {dropped}", "dim", indent=2)
    rate = format_rate(profile.predictions_per_s).removesuffix(" /s")
    page.line(f"{rate} predictions per second, one after the other", "bold", indent=2)


def _phase_row(name: str, phase: Phase, is_wide: bool) -> tuple[str, ...]:
    numbers = phase.statistics
    values = [numbers.min, numbers.median, numbers.mean, numbers.p95, numbers.p99]
    values += [numbers.max, numbers.std] if is_wide else [numbers.std]
    cells = [*map(format_duration, values)]
    if numbers.count == 1:
        cells[-1] = "–"
    return (name, str(numbers.count), *cells)


def _show_kinds(page: Page, profile: Profile) -> None:
    page.heading("Where the time goes", "measured by the engine's profiler, medians")
    bar = _BAR if page.width >= _WIDE else _NARROW_BAR
    rows = kinds(profile)
    cells = [
        (
            kind.label,
            str(kind.groups),
            format_duration(kind.wall_s),
            format_share(kind.share),
            _bar(kind.share, bar),
        )
        for kind in rows[:_LISTED_KINDS]
    ]
    rest = rows[_LISTED_KINDS:]
    if rest:
        time, share = sum(kind.wall_s for kind in rest), sum(kind.share for kind in rest)
        number = str(sum(kind.groups for kind in rest))
        label = plural(len(rest), "other kind")
        cells.append((label, number, format_duration(time), format_share(share), _bar(share, bar)))
    columns = (
        Column(_what(profile), most=max(12, page.width - bar - 28), style="cyan"),
        Column("count", is_number=True),
        Column("time", is_number=True),
        Column("share", is_number=True),
        Column("", style="cyan"),
    )
    page.table(columns, cells)
    page.line(nodes_line(profile), "dim", indent=2)
    page.line(status_line(profile), "dim", indent=2)


def _what(profile: Profile) -> str:
    """What groups are groups of."""
    return "layers" if profile.model.main.layers else "operations"


def _bar(share: float, width: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _show_slowest(page: Page, profile: Profile) -> None:
    groups = slowest(profile)
    shown = groups[:_LISTED_GROUPS]
    if not shown:
        return
    what = _what(profile)
    page.heading("Slowest", f"{len(shown)} of {plural(len(groups), 'group')} of {what}")
    columns = [
        Column("time", is_number=True),
        Column("share", is_number=True),
        Column("first id", most=page.width // 4, style="dim"),
        Column(what, most=page.width // 2, style="cyan"),
        Column("names", most=page.width // 2),
        *([Column("FLOPs (declared)", is_number=True)] if page.width >= _WIDE else []),
    ]
    page.table(columns, [row[: len(columns)] for row in _slowest_rows(profile, shown)])


def _slowest_rows(profile: Profile, groups: Sequence[Group]) -> list[tuple[str, ...]]:
    by_id = {row.id: row for row in profile.ops}
    rows: list[tuple[str, ...]] = []
    for group in groups:
        members = [by_id[op_id] for op_id in group.op_ids if op_id in by_id]
        known = [op.flops for op in members if op.flops is not None]
        is_complete = len(known) == len(members) and all(op.work_is_complete for op in members)
        rows.append(
            (
                format_duration(group.wall_s),
                format_share(group.share),
                group.op_ids[0] if group.op_ids else "",
                group.label,
                group_name(group, by_id),
                count(sum(known), is_complete) if members else "",
            )
        )
    return rows


def _show_findings(page: Page, profile: Profile) -> None:
    if not profile.findings:
        return
    page.heading("Findings")
    for finding in sorted(profile.findings, key=lambda finding: finding.severity != "warning"):
        is_warning = finding.severity == "warning"
        page.bullet("!" if is_warning else "·", finding.text, finding.hint, "yellow" if is_warning else "")
