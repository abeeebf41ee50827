"""Several models side by side, for the console; the tables are those of Markdown, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from coremlscope.base.units import format_duration
from coremlscope.describe.comparison.profiles import label_subjects
from coremlscope.devices.unit import SETTINGS
from coremlscope.measure.partial import ends_work
from coremlscope.reports.terminal.estimates import EXTRAPOLATED, calibrated_on, interval_ms, mark_of
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.timing import disclaimer, partial_mark
from coremlscope.reports.words import FINDING_MARKS, by_severity, plural, systems
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.profile import Profile

__all__ = [
    "Block",
    "device_blocks",
    "device_remarks",
    "failures",
    "measured_blocks",
    "render_side_by_side",
    "show_side_by_side",
    "summary_line",
]


class Block(msgspec.Struct, frozen=True):
    """A table.

    Attributes:
        title: Its heading.
        remark: Where the numbers come from.
        titles: The titles of its columns.
        rows: Its rows.
    """

    title: str
    remark: str
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]


def render_side_by_side(
    profiles: Sequence[Profile], *, width: int = 100, color: bool = False, state: str = "", hint: bool = True
) -> str:
    """Several profiles as text.

    Args:
        profiles: One for each model.
        width: Columns.
        color: Whether to use ANSI colours.
        state: What is being done now, while profiles are being made.
        hint: Whether to say how to see more.
    """
    screen = Screen(width, color)
    show_side_by_side(screen, profiles)
    if state:
        screen.line()
        screen.line(state, "dim")
    elif hint:
        screen.line()
        has_devices = any(profile.plans or profile.estimates for profile in profiles)
        settings = "" if has_devices else "--device m1 for plans and estimates; "
        screen.line(f"more: {settings}-o report.md or report.json; `coremlscope profile MODEL`", "dim")
    return screen.text


def show_side_by_side(screen: Screen, profiles: Sequence[Profile], labels: Sequence[str] = ()) -> None:
    """Prints what is known of several profiles: measurements, plans and estimates for devices, failures.

    Args:
        screen: The screen.
        profiles: One for each model.
        labels: Their names; without one for each, they are derived from the paths of models.
    """
    screen.title("Side by side", f"  {summary_line(profiles)}")
    for block in (*measured_blocks(profiles, labels), *device_blocks(profiles, labels)):
        screen.heading(block.title, block.remark)
        columns = [
            Column(block.titles[0], style="cyan", most=max(22, screen.width - 58), least=14),
            *(Column(name, is_number=bool(name)) for name in block.titles[1:]),
        ]
        screen.table(columns, block.rows)
    for remark in device_remarks(profiles):
        screen.line(remark, "dim", indent=2)
    _show_failures(screen, failures(profiles, labels))


def summary_line(profiles: Sequence[Profile]) -> str:
    """How many models there are, how often each was timed, and whether all work was done."""
    text = plural(len(profiles), "model")
    iterations = {m.settings.iterations for profile in profiles for m in profile.measurements}
    if len(iterations) == 1:
        text += f", {plural(iterations.pop(), 'prediction')} each"
    if any(ends_work(finding) for profile in profiles for finding in profile.findings):
        text += "; stopped before all was done"
    return text


def _named(profiles: Sequence[Profile], labels: Sequence[str]) -> list[tuple[str, Profile]]:
    paths = [profile.model.path for profile in profiles]
    names = labels if len(labels) == len(paths) else label_subjects(paths) if paths else []
    return list(zip(names, profiles, strict=True))


def _ordered(settings: Iterable[str]) -> list[str]:
    known = set(settings)
    return [setting for setting in SETTINGS if setting in known]


def measured_blocks(profiles: Sequence[Profile], labels: Sequence[str] = ()) -> list[Block]:
    """Returns measurements: a block for each runtime, machine and power mode."""
    found: dict[tuple[str, int | None, str], list[tuple[str, list[Measurement]]]] = {}
    for name, profile in _named(profiles, labels):
        own: dict[tuple[str, int | None, str], list[Measurement]] = {}
        for m in profile.measurements:
            if m.predict is not None:
                own.setdefault((m.label, m.threads, m.machine.power_mode), []).append(m)
        for key, measurements in own.items():
            found.setdefault(key, []).append((name, measurements))
    return [_measured_block(*key, rows) for key, rows in found.items()]


def _measured_block(
    label: str, threads: int | None, mode: str, rows: list[tuple[str, list[Measurement]]]
) -> Block:
    remark = f"by {label}" + ("" if threads is None else f", {plural(threads, 'thread')}")
    remark += f"; power mode: {mode}" if mode else ""
    settings = _ordered(m.compute_units for _, measurements in rows for m in measurements)
    if settings:
        cells = [row for name, measurements in rows for row in _by_setting(name, measurements, settings)]
        return Block("Measured", remark, ("model", "", *settings), cells)
    remark += f", whatever the setting{disclaimer(rows[0][1][0])}"
    cells = [_whatever_setting(name, m) for name, measurements in rows for m in measurements]
    return Block("Measured", remark, ("model", "median", "mean", "p95", "load"), cells)


def _whatever_setting(name: str, measurement: Measurement) -> tuple[str, ...]:
    assert measurement.predict is not None
    predict, load = measurement.predict.statistics, measurement.load
    loaded = "–" if load is None else format_duration(load.statistics.median)
    named = name + partial_mark(measurement)
    return (named, *map(format_duration, (predict.median, predict.mean, predict.p95)), loaded)


def _by_setting(
    name: str, measurements: Sequence[Measurement], settings: Sequence[str]
) -> list[tuple[str, ...]]:
    found = {m.compute_units: m.predict.statistics for m in measurements if m.predict is not None}
    medians = [format_duration(found[s].median) if s in found else "–" for s in settings]
    marks = {mark for m in measurements if (mark := partial_mark(m))}
    means = [format_duration(found[s].mean) if s in found else "–" for s in settings]
    return [(name + "".join(marks), "median", *medians), ("", "mean", *means)]


def device_blocks(profiles: Sequence[Profile], labels: Sequence[str] = ()) -> list[Block]:
    """Returns plans and estimates: a block for each device."""
    named = _named(profiles, labels)
    return [_device_block(device, os, named) for device, os in systems(profiles)]


def _device_block(device: str, os: str, named: Sequence[tuple[str, Profile]]) -> Block:
    known = [
        (name, _estimates_of(profile, device, os), _plans_of(profile, device, os)) for name, profile in named
    ]
    settings = _ordered(s for _, estimates, plans in known for s in (*estimates, *plans))
    rows: list[tuple[str, ...]] = []
    for name, estimates, plans in known:
        lines = []
        if estimates:
            lines.append(("estimated", *(_estimated(estimates.get(s)) for s in settings)))
            lines.append(("80 %, ms", *(_within(estimates.get(s)) for s in settings)))
        if any(plans.values()):
            lines.append(("planned", *(_planned(plans.get(s)) for s in settings)))
        rows += [("" if place else name, *line) for place, line in enumerate(lines)]
    has_costs = any(any(plans.values()) for _, _, plans in known)
    has_estimates = any(estimates for _, estimates, _ in known)
    origins = [word for word, is_there in (("planned", has_costs), ("estimated", has_estimates)) if is_there]
    remark = f"{' and '.join(origins) or 'placed'}; nothing of it was measured"
    return Block(f"{device}, {os}", remark, ("model", "", *settings), rows)


def _estimates_of(profile: Profile, device: str, os: str) -> dict[str, Estimate]:
    return {e.compute_units: e for e in profile.estimates if (e.device, e.os) == (device, os)}


def _plans_of(profile: Profile, device: str, os: str) -> dict[str, float | None]:
    """Returns the planned milliseconds by setting; None where the planner gives no costs."""
    plans = [plan for plan in profile.plans if (plan.device, plan.os) == (device, os)]
    return {s.compute_units: plan.total_ms(s) for plan in reversed(plans) for s in plan.settings}


def _estimated(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return format_duration(estimate.latency.value) + mark_of(estimate)


def _within(estimate: Estimate | None) -> str:
    return "–" if estimate is None else interval_ms(estimate)


def _planned(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else format_duration(milliseconds / 1e3)


def device_remarks(profiles: Sequence[Profile]) -> list[str]:
    """Returns notes on plans and estimates, if there are any."""
    estimates = [estimate for profile in profiles for estimate in profile.estimates]
    remarks = []
    if estimates:
        remarks.append("estimated: from published latencies, with the interval that holds 80 % of the cases")
    if any(
        plan.total_ms(s) is not None for profile in profiles for plan in profile.plans for s in plan.settings
    ):
        remarks.append("planned: Core ML's own cost model, which only ranks the units: not a time")
    found = ["; ".join(remarks)] if remarks else []
    if any(mark_of(estimate) == "*" for estimate in estimates):
        found.append(EXTRAPOLATED)
    return found + list(dict.fromkeys(f"† {calibrated_on(one)}" for one in estimates if one.own))


def failures(profiles: Sequence[Profile], labels: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns failures: a sentence with the name of the model, and a hint."""
    return [
        (f"{name}, {finding.text}", finding.hint)
        for name, profile in _named(profiles, labels)
        for finding in by_severity(profile.all_findings)
        if finding.severity == "error"
    ]


def _show_failures(screen: Screen, failed: Sequence[tuple[str, str]]) -> None:
    if failed:
        screen.heading("Failed")
    for text, hint in failed:
        screen.bullet(FINDING_MARKS["error"], text, hint, "red")
