"""Several models side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.describe.comparison.profiles import label_subjects
from coremlscope.devices.unit import SETTINGS
from coremlscope.measure.partial import ends_work
from coremlscope.reports.document import (
    Block,
    Column,
    Folded,
    Heading,
    Hint,
    Item,
    Row,
    Strong,
    Table,
    Text,
    Title,
    join_equal,
    labels,
    numbers,
)
from coremlscope.reports.figures import explain_marks, interval_ms, mark_of
from coremlscope.reports.renderers import PROFILES_RENDERERS, describe_formats
from coremlscope.reports.timing import disclaimer, partial_mark
from coremlscope.reports.words import FINDING_MARKS, by_severity, model_name, plural, systems
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.profile import Profile

#: The power mode that others are compared with.
_USUAL_MODE = "normal"


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
    yield from _doubts(profiles, names)
    named = _named(profiles, names)
    for device, os in systems(profiles):
        yield from _device_section(device, os, named)
    yield from (Text(remark) for remark in device_remarks(profiles))
    failed = failures(profiles, names)
    if failed:
        yield Heading("Failed")
    yield from (Item(text, hint, FINDING_MARKS["error"], "error") for text, hint in failed)


def _doubts(profiles: Sequence[Profile], names: Sequence[str]) -> Iterator[Block]:
    """Yields warnings, each once, with the models that it is of; without those on the models themselves."""
    of: dict[Finding, dict[str, None]] = {}
    for name, profile in _named(profiles, names):
        for finding in profile.all_findings:
            if finding.severity == "warning" and not finding.confidence:
                of.setdefault(finding, {})[name] = None
    for finding, known in of.items():
        yield Item(f"{', '.join(known)}: {finding.text}", finding.hint, FINDING_MARKS["warning"], "warning")


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
    """Yields measurements: a section for each runtime and machine."""
    found: dict[tuple[str, int | None], list[tuple[str, Measurement]]] = {}
    for name, profile in _with_joined_modes(_named(profiles, names)):
        for m in profile.measurements:
            if m.predict is not None:
                found.setdefault((m.host, m.threads), []).append((name, m))
    for (label, threads), timed in found.items():
        yield from _measured_section(label, threads, timed)


def _with_joined_modes(named: Sequence[tuple[str, Profile]]) -> Iterator[tuple[str, Profile]]:
    """Yields profiles, those of one model in different power modes under the model's name."""
    alike: dict[str, list[Profile]] = {}
    for _, profile in named:
        alike.setdefault(profile.model.path, []).append(profile)
    for name, profile in named:
        others = alike[profile.model.path]
        modes = [mode for one in others for mode in {m.machine.power_mode for m in one.measurements}]
        is_one = (
            len(others) > 1 and len(set(modes)) == len(modes) and all(o.ops == profile.ops for o in others)
        )
        yield model_name(profile.model.path) if is_one else name, profile


def _measured_section(
    label: str, threads: int | None, timed: list[tuple[str, Measurement]]
) -> Iterator[Block]:
    """Yields a table with a row for each model and setting; several power modes are columns of medians.

    Each mode but the usual one also has a column of its times relative to those of that one.
    """
    modes = list(dict.fromkeys(m.machine.power_mode for _, m in timed))
    remark = f"by {label}" + ("" if threads is None else f", {plural(threads, 'thread')}")
    remark += f"; power mode: {modes[0]}" if len(modes) == 1 and modes[0] else ""
    if not any(m.compute_units for _, m in timed):
        remark += f", whatever the setting{disclaimer(timed[0][1])}"
    yield Heading("Measured", remark + ("; medians" if len(modes) > 1 else ""))
    order: dict[str, int] = {setting: place for place, setting in enumerate(SETTINGS)}
    modes.sort(key=lambda mode: mode != _USUAL_MODE)
    rows = _rows_of(sorted(timed, key=lambda one: order.get(one[1].compute_units, len(order))), modes)
    usual, *names = [mode or "unknown mode" for mode in modes]
    ratios = _known_ratios([found for _, found in rows], modes)
    against = [f"÷ {usual}" if len(modes) == 2 else f"{names[place]} ÷ {usual}" for place in ratios]
    titles = [usual, *names, *against] if names else ["median", "mean", "p95", "load"]
    columns = (labels("model"), Column("setting", style="cyan", most=24), *numbers(*titles))
    yield Table(
        columns, [(*cells, *(_ratio_text(found[place]) for place in ratios)) for cells, found in rows]
    )
    for place, known in ratios.items():
        yield _relative(names[place], usual, known)


def _known_ratios(rows: Sequence[Sequence[float | None]], modes: Sequence[str]) -> dict[int, list[float]]:
    """The ratios of each later power mode to the usual one; only times of known modes have some."""
    found = {}
    for place, mode in enumerate(modes[1:] if modes[0] == _USUAL_MODE else ()):
        ratios = [ratio for row in rows if (ratio := row[place]) is not None]
        if mode and ratios:
            found[place] = ratios
    return found


def _relative(mode: str, usual: str, ratios: Sequence[float]) -> Block:
    """Returns how much longer predictions take in a power mode, by the rows that were measured in both."""
    text = (
        f"in {mode} mode a prediction takes {statistics.median(ratios):.2f} times as long as in {usual} mode"
    )
    if len(ratios) > 1:
        text += f", the median of {len(ratios)} rows: {min(ratios):.2f} to {max(ratios):.2f} times"
    return Text(text)


def _rows_of(
    timed: Sequence[tuple[str, Measurement]], modes: Sequence[str]
) -> list[tuple[tuple[str, ...], list[float | None]]]:
    """Returns rows model by model, with the ratios of later power modes to the first one.

    In each power mode the best setting of a model stands out.
    """
    rows: dict[str, list[tuple[str, dict[str, Measurement]]]] = {}
    has_functions = len({m.settings.function for _, m in timed}) > 1
    for name, m in timed:
        of_model = rows.setdefault(name, [])
        setting = ", ".join(filter(None, (m.compute_units, m.settings.function if has_functions else "")))
        free = (cells for said, cells in of_model if said == setting and m.machine.power_mode not in cells)
        if (cells := next(free, None)) is None:
            cells = {}
            of_model.append((setting, cells))
        cells[m.machine.power_mode] = m
    lines = []
    for name, of_model in rows.items():
        medians = [[_median(cells.get(mode)) for mode in modes] for _, cells in of_model]
        best = [min(column) if len(of_model) > 1 else -1.0 for column in zip(*medians, strict=True)]
        for place, (setting, cells) in enumerate(of_model):
            marks = "".join(sorted({partial_mark(m) for m in cells.values()}))
            texts = [_emphasised(cells.get(mode), lowest) for mode, lowest in zip(modes, best, strict=True)]
            others = _others(*cells.values()) if len(modes) == 1 else ()
            shown = name if not place or marks else ""
            ratios = _ratios([_median(cells.get(mode)) for mode in modes])
            lines.append(((shown + marks, setting, *texts, *others), ratios))
    return lines


def _ratios(medians: Sequence[float]) -> list[float | None]:
    """The ratios of later medians to the first one; None where either is unknown."""
    first, *later = medians
    return [None if math.inf in (first, one) or not first else one / first for one in later]


def _ratio_text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _median(measurement: Measurement | None) -> float:
    predict = None if measurement is None else measurement.predict
    return math.inf if predict is None else predict.statistics.median


def _emphasised(measurement: Measurement | None, best_s: float) -> str:
    """The median of a measurement, which stands out if it is the best."""
    median_s = _median(measurement)
    text = format_duration(median_s) if measurement is not None else "–"
    return Strong(text) if median_s == best_s else text


def _others(measurement: Measurement) -> tuple[str, ...]:
    assert measurement.predict is not None
    predict, load = measurement.predict.statistics, measurement.load
    loaded = "–" if load is None else format_duration(load.statistics.median)
    return (format_duration(predict.mean), format_duration(predict.p95), loaded)


def _device_section(device: str, os: str, named: Sequence[tuple[str, Profile]]) -> Iterator[Block]:
    """Yields estimates; of several models the best settings."""
    known = [(name, _estimates_of(profile, device, os)) for name, profile in named]
    if not any(estimates for _, estimates in known):
        return
    pick = max if len(named) == 1 else min
    slowest_s = max(pick(e.latency.value for e in es.values()) for _, es in known if es)
    rows = [row for one in known for row in _rows_on(*one, slowest_s)]
    columns = (
        labels("model"),
        Column("setting", style="cyan"),
        *numbers("estimate", "80 %, ms"),
        Column("", style="cyan", rank=2),
    )
    yield Heading(f"{device}, {os}", "estimated; nothing of it was measured")
    best = [row for row, is_best in rows if is_best]
    names = [row[0] for row, _ in rows]
    firsts = [name if names.index(name) == place else "" for place, name in enumerate(names)]
    every = Table(columns, [(first, *row[1:]) for first, (row, _) in zip(firsts, rows, strict=True)])
    yield every if len(named) == 1 else Table(columns, best)
    if len(named) > 1 and len(best) < len(rows):
        yield Folded(f"Every setting on {device}", "estimated", (every,), is_extra=True)


def _rows_on(name: str, estimates: Mapping[str, Estimate], slowest_s: float) -> Iterator[tuple[Row, bool]]:
    """Yields rows of a model, settings with equal figures in one, and whether each is the best."""
    settings = _ordered(estimates)
    best = min(estimates.values(), key=lambda e: e.latency.value, default=None)
    lines = [(s, _estimated(estimates[s]), interval_ms(estimates[s])) for s in settings]
    for joined, estimate, within in join_equal(lines):
        setting = "every" if len(settings) > 1 and joined == ", ".join(settings) else joined
        units = joined.split(", ")
        bar = estimates[units[0]].latency.value / slowest_s
        if best is not None and best.compute_units in units:
            yield (name, Strong(setting), Strong(estimate), within, bar), True
        else:
            yield (name, setting, estimate, within, bar), False


def _estimates_of(profile: Profile, device: str, os: str) -> dict[str, Estimate]:
    return {e.compute_units: e for e in profile.estimates if (e.device, e.os) == (device, os)}


def _estimated(estimate: Estimate) -> str:
    return format_duration(estimate.latency.value) + mark_of(estimate)


def device_remarks(profiles: Sequence[Profile]) -> list[str]:
    """Returns notes on estimates, if there are any."""
    estimates = [estimate for profile in profiles for estimate in profile.estimates]
    if not estimates:
        return []
    text = "estimated: from published latencies, with the interval that holds 80 % of the cases"
    return [text, *explain_marks(estimates)]


def failures(profiles: Sequence[Profile], names: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns failures: a sentence with the name of the model, and a hint."""
    return [
        (f"{name}, {finding.text}", finding.hint)
        for name, profile in _named(profiles, names)
        for finding in by_severity(profile.all_findings)
        if finding.severity == "error"
    ]
