"""Several models side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coremlscope.base.units import format_cost, format_duration
from coremlscope.describe.comparison.profiles import label_subjects
from coremlscope.devices.unit import SETTINGS
from coremlscope.measure.partial import ends_work
from coremlscope.reports.document import (
    Block,
    Column,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
    labels,
    numbers,
)
from coremlscope.reports.figures import explain_marks, interval_ms, mark_of, shown_plans
from coremlscope.reports.renderers import PROFILES_RENDERERS, describe_formats
from coremlscope.reports.timing import disclaimer, partial_mark
from coremlscope.reports.words import FINDING_MARKS, by_severity, plural, systems
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.profile import Profile

__all__ = [
    "device_remarks",
    "failures",
    "measured_sections",
    "side_by_side",
    "side_by_side_document",
    "summary_line",
]


def side_by_side_document(profiles: Sequence[Profile], *, state: str = "") -> Iterator[Block]:
    """Yields what is known of several profiles.

    Args:
        profiles: One for each model.
        state: What is being done now, while profiles are being made.
    """
    yield from side_by_side(profiles)
    if state:
        yield Hint(state)
        return
    has_devices = any(profile.plans or profile.estimates for profile in profiles)
    settings = "" if has_devices else "--device m1 for plans and estimates; "
    yield Hint(f"more: {settings}{describe_formats(PROFILES_RENDERERS)}; `coremlscope profile MODEL`")


def side_by_side(profiles: Sequence[Profile], names: Sequence[str] = ()) -> Iterator[Block]:
    """Yields measurements, plans and estimates for devices, failures.

    Args:
        profiles: One for each model.
        names: Their names; without one for each, they are derived from the paths of models.
    """
    yield Title("Side by side", summary_line(profiles))
    yield from measured_sections(profiles, names)
    named = _named(profiles, names)
    for device, os in systems(profiles):
        yield from _device_section(device, os, named)
    yield from (Text(remark) for remark in device_remarks(profiles))
    failed = failures(profiles, names)
    if failed:
        yield Heading("Failed")
    yield from (Item(text, hint, FINDING_MARKS["error"], "error") for text, hint in failed)


def summary_line(profiles: Sequence[Profile]) -> str:
    """How many models there are, how often each was timed, and whether all work was done."""
    text = plural(len(profiles), "model")
    iterations = {m.settings.iterations for profile in profiles for m in profile.measurements}
    if len(iterations) == 1:
        text += f", {plural(iterations.pop(), 'prediction')} each"
    if any(ends_work(finding) for profile in profiles for finding in profile.findings):
        text += "; stopped before all was done"
    return text


def _named(profiles: Sequence[Profile], names: Sequence[str]) -> list[tuple[str, Profile]]:
    paths = [profile.model.path for profile in profiles]
    names = names if len(names) == len(paths) else label_subjects(paths) if paths else []
    return list(zip(names, profiles, strict=True))


def _ordered(settings: Iterable[str]) -> list[str]:
    known = set(settings)
    return [setting for setting in SETTINGS if setting in known]


def measured_sections(profiles: Sequence[Profile], names: Sequence[str] = ()) -> Iterator[Block]:
    """Yields measurements: a section for each runtime, machine and power mode."""
    found: dict[tuple[str, int | None, str], list[tuple[str, list[Measurement]]]] = {}
    for name, profile in _named(profiles, names):
        own: dict[tuple[str, int | None, str], list[Measurement]] = {}
        for m in profile.measurements:
            if m.predict is not None:
                own.setdefault((m.label, m.threads, m.machine.power_mode), []).append(m)
        for key, measurements in own.items():
            found.setdefault(key, []).append((name, measurements))
    for key, rows in found.items():
        yield from _measured_section(*key, rows)


def _measured_section(
    label: str, threads: int | None, mode: str, rows: list[tuple[str, list[Measurement]]]
) -> Iterator[Block]:
    remark = f"by {label}" + ("" if threads is None else f", {plural(threads, 'thread')}")
    remark += f"; power mode: {mode}" if mode else ""
    settings = _ordered(m.compute_units for _, measurements in rows for m in measurements)
    if settings:
        cells = [row for name, measurements in rows for row in _by_setting(name, measurements, settings)]
        yield Heading("Measured", remark)
        yield Table((labels("model"), Column("", rank=-1), *numbers(*settings)), cells)
        return
    yield Heading("Measured", f"{remark}, whatever the setting{disclaimer(rows[0][1][0])}")
    cells = [_whatever_setting(name, m) for name, measurements in rows for m in measurements]
    yield Table((labels("model"), *numbers("median", "mean", "p95", "load")), cells)


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


def _device_section(device: str, os: str, named: Sequence[tuple[str, Profile]]) -> Iterator[Block]:
    """Yields the estimates for a device; planned costs of profiles that have no estimates."""
    known = [
        (name, _estimates_of(profile, device, os), _costs_of(profile, device, os)) for name, profile in named
    ]
    settings = _ordered(s for _, estimates, costs in known for s in (*estimates, *costs))
    rows: list[tuple[str, ...]] = []
    origins: dict[str, None] = {}
    for name, estimates, costs in known:
        lines = []
        if estimates:
            origins["estimated"] = None
            lines.append(("estimated", *(_estimated(estimates.get(s)) for s in settings)))
            lines.append(("80 %, ms", *(_within(estimates.get(s)) for s in settings)))
        if any(costs.values()):
            origins["planned"] = None
            lines.append(("planned cost", *(format_cost(costs.get(s)) for s in settings)))
        rows += [("" if place else name, *line) for place, line in enumerate(lines)]
    yield Heading(f"{device}, {os}", f"{' and '.join(origins) or 'placed'}; nothing of it was measured")
    yield Table((labels("model"), Column("", rank=-1), *numbers(*settings)), rows)


def _estimates_of(profile: Profile, device: str, os: str) -> dict[str, Estimate]:
    return {e.compute_units: e for e in profile.estimates if (e.device, e.os) == (device, os)}


def _costs_of(profile: Profile, device: str, os: str) -> dict[str, float | None]:
    """Returns the planned costs by setting; None where the planner gives none."""
    plans = [plan for plan in shown_plans(profile) if (plan.device, plan.os) == (device, os)]
    return {s.compute_units: plan.total_ms(s) for plan in reversed(plans) for s in plan.settings}


def _estimated(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return format_duration(estimate.latency.value) + mark_of(estimate)


def _within(estimate: Estimate | None) -> str:
    return "–" if estimate is None else interval_ms(estimate)


def device_remarks(profiles: Sequence[Profile]) -> list[str]:
    """Returns notes on plans and estimates, if there are any."""
    estimates = [estimate for profile in profiles for estimate in profile.estimates]
    plans = [plan for profile in profiles for plan in shown_plans(profile)]
    remarks = []
    if estimates:
        remarks.append("estimated: from published latencies, with the interval that holds 80 % of the cases")
    if any(plan.total_ms(setting) is not None for plan in plans for setting in plan.settings):
        remarks.append("planned: Core ML's own cost model, which only ranks the units: not a time")
    return [*(["; ".join(remarks)] if remarks else []), *explain_marks(estimates)]


def failures(profiles: Sequence[Profile], names: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns failures: a sentence with the name of the model, and a hint."""
    return [
        (f"{name}, {finding.text}", finding.hint)
        for name, profile in _named(profiles, names)
        for finding in by_severity(profile.all_findings)
        if finding.severity == "error"
    ]
