"""What is known of a model's predictions: measurements, estimates and plans."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.units import format_duration, format_rate
from coremlscope.model.ir import kind_name
from coremlscope.reports.agreement import agreement_sections
from coremlscope.reports.answer import answer_blocks
from coremlscope.reports.document import (
    Block,
    Column,
    Facts,
    Folded,
    Heading,
    Hint,
    Table,
    Text,
    Title,
    findings,
    numbers,
)
from coremlscope.reports.figures import shown_plans
from coremlscope.reports.generation import rate_section, timing_section
from coremlscope.reports.plan import plan_section, reason_sections, settings_section
from coremlscope.reports.provider import log_sections, verdict_section
from coremlscope.reports.recording import energy_section, recording_section
from coremlscope.reports.renderers import RENDERERS, describe_formats
from coremlscope.reports.timing import (
    describe_conditions,
    describe_inputs,
    describe_machine,
    describe_runtime,
    describe_units,
    disclaimer,
    group_name,
    kinds,
    measurement_name,
    nodes_line,
    phase_cells,
    phase_rows,
    python_note,
    share_text,
    slowest,
    stage_rows,
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

_LISTED_KINDS, _LISTED_GROUPS = 8, 10


def profile_document(profile: Profile) -> Iterator[Block]:
    """Yields the measurements, estimates and plans of a model."""
    measurements = profile.measurements
    yield Title(model_name(profile.model.path), _headline(profile))
    if not measurements:
        yield from answer_blocks(profile)
    yield Facts(_facts(profile))
    if len(measurements) == 1:
        yield from _measurement(profile, measurements[0])
    elif measurements:
        yield from _medians(profile)
        for m in measurements:
            yield Title(measurement_name(m, measurements), "measured")
            yield Facts([*_circumstances(m), ("inputs", describe_inputs(profile, m))])
            yield from _measurement(profile, m)
            yield from _groups(profile, m)
            yield from findings(m.findings)
    yield from timing_section(profile.token_timings)
    if measurements and profile.answers:
        yield Heading("On Apple devices", "estimated; nothing of it was measured")
        yield from answer_blocks(profile, is_brief=True)
    yield from rate_section(profile.rates)
    yield from _plans(profile)
    yield from agreement_sections(profile)
    yield from log_sections(profile)
    yield from verdict_section(profile)
    if len(measurements) == 1:
        yield from _groups(profile, measurements[0])
    yield from findings(profile.findings if len(measurements) > 1 else profile.all_findings)
    has_devices = profile.plans or profile.estimates
    device = "; --device NAME" if measurements and not has_devices else ""
    yield Hint(f"more: {describe_formats(RENDERERS)}{device}")


def _headline(profile: Profile) -> str:
    """The figure that people look for first, and its origin."""
    if len(profile.measurements) > 1:
        return f"{plural(len(profile.measurements), 'measurement')}, each with its own table"
    for m in profile.measurements:
        by = f"measured by {measurement_name(m)}{disclaimer(m)}"
        if m.predict is None or not (median := m.predict.statistics.median):
            return by
        is_whole = not any(stage.absent for stage in m.stages)
        rate = f"about {format_rate(median)} a second one after the other, " if is_whole else ""
        return f"{format_duration(median)} a prediction, {rate}{by}"
    known = [word for word, held in (("estimated", profile.estimates), ("planned", profile.plans)) if held]
    return f"{' and '.join(known)}; nothing was measured" if known else "nothing was measured"


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


def _medians(profile: Profile) -> Iterator[Block]:
    """Yields the times of several measurements next to each other."""
    rows = []
    for m in profile.measurements:
        cells = {name: phase_cells(phase.statistics)["median"] for name, phase in m.phases.items()}
        phases = (cells.get(name, "–") for name in ("predict", "load", "compile"))
        rows.append((f"{measurement_name(m, profile.measurements)}{disclaimer(m)}", *phases))
    yield Heading("Measured", "medians")
    yield Table((Column("by", style="cyan"), *numbers("prediction", "load", "compile")), rows)


def _measurement(profile: Profile, measurement: Measurement) -> Iterator[Block]:
    """Yields phases, stages, busy units and energy."""
    name = measurement_name(measurement, profile.measurements)
    if measurement.phases:
        yield Folded("Times", f"measured by {name}", tuple(_phases(measurement)))
    if measurement.stages:
        remark = f"measured in predictions of all {plural(len(measurement.stages), 'stage')}, medians"
        columns = (
            Column("stage", style="cyan"),
            Column("type"),
            *numbers("time", "share", "conversion", "operations"),
        )
        yield Folded("Stages", remark, (Table(columns, stage_rows(measurement.stages)),))
    yield from recording_section(measurement.recording)
    yield from energy_section(measurement.energy)


def _phases(measurement: Measurement) -> Iterator[Block]:
    titles = ("runs", "min", "median", "mean", "p95", "p99", "max", "std")
    ranks = {"median": -1, "mean": 2, "p99": 2, "max": 1, "std": 2}
    columns = (
        Column("", style="cyan"),
        *(Column(title, is_number=True, rank=ranks.get(title, 0)) for title in titles),
    )
    rows = []
    for name, numbers_of, _ in phase_rows(measurement):
        cells = phase_cells(numbers_of)
        rows.append((name, *(cells[title] for title in titles)))
    yield Table(columns, rows)
    if note := python_note(measurement):
        yield Text(note)
    dropped = ", ".join(
        f"{len(phase.warmups_s)} of {name}" for name, phase in measurement.phases.items() if phase.warmups_s
    )
    if dropped:
        yield Text(f"warm-ups dropped: {dropped}")


def _groups(profile: Profile, measurement: Measurement) -> Iterator[Block]:
    """Yields times of operations, if there are any."""
    if not measurement.groups:
        return
    what = "layers" if main_function(profile.model).layers else "operations"
    by = measurement_name(measurement, profile.measurements)
    rows = kinds(profile.ops, measurement)
    rest = rows[_LISTED_KINDS:]
    if rest:
        rows[_LISTED_KINDS:] = [total(plural(len(rest), "other kind"), rest)]
    cells = [
        (
            kind.label,
            str(kind.groups),
            format_duration(kind.wall_s),
            share_text(kind.share),
            "" if kind.share is None else kind.share,
        )
        for kind in rows
    ]
    columns = (
        Column(what, style="cyan"),
        *numbers("count", "time", "share"),
        Column("", style="cyan", rank=1),
    )
    lines = Text(nodes_line(measurement)), Text(status_line(measurement))
    remark = f"measured by {by} with its profiler, medians"
    yield Folded("Where the time goes", remark, (Table(columns, cells), *lines))
    groups = slowest(profile.ops, measurement)
    columns = (
        *numbers("time", "share"),
        Column("first id", most=40, least=24, style="dim", is_code=True),
        Column(what, most=80, style="cyan"),
        Column("names", most=80, is_code=True),
        Column("FLOPs (declared)", is_number=True, rank=3),
    )
    listed = Table(columns, [_slowest_row(profile.ops, group) for group in groups], _LISTED_GROUPS, "group")
    yield Folded("Slowest", f"of {plural(len(groups), 'group')} of {what}, measured by {by}", (listed,))


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


def _plans(profile: Profile) -> Iterator[Block]:
    """Yields plans where they are shown, in full if nothing was measured; else what each reason costs."""
    plans = shown_plans(profile)
    for plan in plans:
        if profile.measurements:
            yield from settings_section(profile, plan)
        else:
            yield from plan_section(profile, plan)
    if profile.measurements or not plans:
        yield from reason_sections(profile)
