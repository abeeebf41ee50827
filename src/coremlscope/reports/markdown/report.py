"""Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from coremlscope.base.escaping import html_text, markdown_cell
from coremlscope.base.escaping import markdown_code as code
from coremlscope.base.escaping import markdown_text as cell
from coremlscope.base.findings import Finding
from coremlscope.base.site import finding_page
from coremlscope.base.units import (
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_share,
)
from coremlscope.devices.unit import GPU, NEURAL_ENGINE
from coremlscope.model.ir import kind_name
from coremlscope.reports.agreement import (
    DISAGREEMENT_TITLES,
    agreement_line,
    agreement_name,
    disagreement_rows,
)
from coremlscope.reports.op_forms import op_forms
from coremlscope.reports.reasons import ReasonGroup, find_dearer, group_what_ifs
from coremlscope.reports.recording import (
    ENERGY_TITLES,
    RECORDING_TITLES,
    energy_line,
    energy_rows,
    recording_lines,
    recording_rows,
)
from coremlscope.reports.terminal.estimates import calibrated_on, latency_rows, listed_estimates, mark_of
from coremlscope.reports.terminal.generation import (
    RATE_NOTE,
    TIMING_NOTE,
    cache_text,
    rate_rows,
    timing_rows,
)
from coremlscope.reports.terminal.plan import describe_planner, setting_rows
from coremlscope.reports.timing import (
    STAGE_TITLES,
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
)
from coremlscope.reports.words import (
    UNIT_NAMES,
    alternative_words,
    by_severity,
    compact_type,
    count,
    describe_finding,
    describe_flops,
    elide,
    finding_hint,
    histogram,
    main_function,
    model_name,
    parameter_facts,
    plural,
    undecided_line,
    unit_name,
    weight_cells,
)
from coremlscope.results.measurement import Measurement
from coremlscope.results.model import FunctionSummary, ModelSummary, StageSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import COST_RULE, Plan, PlannedOp
from coremlscope.results.profile import Profile

__all__ = ["details", "render_markdown", "table"]

#: Operations in the list of all operations.
_LISTED_OPS = 10_000

_LISTED_GROUPS = 20
_PHASE_TITLES = ("runs", "min", "median", "mean", "p95", "p99", "max", "std")
_MARKS = {"error": "✗ ", "warning": "⚠ ", "info": ""}


def render_markdown(subject: Profile | ModelSummary) -> str:
    """Renders a report as Markdown with tables."""
    blocks = _summary(subject) if isinstance(subject, ModelSummary) else _profile(subject)
    return "\n\n".join(blocks) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Renders a table; columns whose title ends with `>` are right-aligned."""
    titles = [markdown_cell(column.removesuffix(">")) for column in columns]
    rules = ["---:" if column.endswith(">") else "---" for column in columns]
    lines = [
        list(map(markdown_cell, titles)),
        rules,
        *([markdown_cell(text) for text in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def details(title: str, *blocks: str) -> str:
    """Renders collapsed blocks."""
    return "\n\n".join([f"<details>\n<summary>{html_text(title)}</summary>", *blocks, "</details>"])


def _summary(model: ModelSummary) -> list[str]:
    main = main_function(model)
    blocks = [f"## {cell(model_name(model.path))}", cell(" · ".join(_summary_facts(model, main)))]
    if model.description:
        blocks.append(cell(model.description))
    blocks += [f"{cell(what)}: {cell(how)}" for what, how in model.facts]
    if model.absent:
        blocks.append(f"⚠ cannot run here: {cell(model.absent)}")
    if model.findings:
        blocks += ["### Findings", _finding_list(model.findings)]
    if model.missing_weights:
        listed, more = elide(model.missing_weights, "file", 8)
        blocks.append(f"⚠ weights absent: {', '.join([*map(code, listed), *_rest(more)])}")
    if model.short_weights:
        listed, more = elide(model.short_weights, "file", 8)
        blocks.append(f"⚠ weights truncated: {', '.join([*map(code, listed), *_rest(more)])}")
    functions, more = elide(model.functions, "function")
    for function in functions:
        blocks += _features(function, f" of {code(function.name)}" if len(model.functions) > 1 else "")
    blocks += _rest(more)
    if model.stages:
        blocks += ["### Stages", _stage_table(model.stages)]
    if model.weights:
        blocks += ["### Parameters", _weights(model)]
    if main.layers:
        blocks += ["### Layers", cell(histogram(main.layers))]
    elif main.ops:
        blocks += ["### Operations", cell(histogram(main.ops))]
    if model.ops:
        blocks.append(_operations(model.ops))
        blocks += _rest(elide(range(len(model.ops)), "operation", _LISTED_OPS)[1])
    return blocks


def _summary_facts(model: ModelSummary, main: FunctionSummary) -> list[str]:
    facts = [kind_name(model.kind)] if model.kind else []
    if model.platforms:
        version = f", specification {model.spec_version}" if model.spec_version else ""
        facts[-1:] = [f"{''.join(facts[-1:])}{version} ({model.platforms})"]
    if model.size_bytes:
        facts.append(f"{format_bytes(model.size_bytes)} on disk")
    facts += parameter_facts(model)
    if main.work is not None:
        facts.append(f"{describe_flops(main.work)} FLOPs a prediction (declared)")
    return facts


def _features(function: FunctionSummary, name: str) -> Iterator[str]:
    sections = (("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states))
    for title, features in sections:
        if features:
            listed, more = elide(features, "feature")
            rows = [(code(f.name), f.type, f.flexibility, f.preprocessing or f.doc) for f in listed]
            yield f"### {title}{name}"
            yield table(("name", "type", "allows", "about"), rows)
            yield from _rest(more)


def _rest(text: str) -> Iterator[str]:
    """Yields what is left out of a list, if anything is."""
    if text:
        yield f"… {text}"


def _weights(model: ModelSummary) -> str:
    rows = [weight_cells(group) for group in model.weights]
    return table(("stored as", "used as", "tensors>", "parameters>", "bytes>", "bits each>"), rows)


def _stage_table(stages: Iterable[StageSummary]) -> str:
    rows = []
    for stage in stages:
        about = [f"cannot run here: {stage.absent}"] if stage.absent else []
        about += [f"{what}: {how}" for what, how in stage.facts]
        rows.append(
            (
                code(stage.name),
                kind_name(stage.kind),
                "" if stage.operations is None else str(stage.operations),
                format_count(stage.parameters) if stage.parameters else "",
                "; ".join(about),
            )
        )
    return table(("stage", "type", "operations>", "parameters>", "about"), rows)


def _operations(ops: OpTable) -> str:
    rows = [
        (
            code(op.id),
            op.type,
            form,
            code(op.name),
            ", ".join(map(compact_type, op.outputs)),
            count(op.flops, op.work_is_complete),
        )
        for op, form in islice(zip(ops, op_forms(ops), strict=True), _LISTED_OPS)
    ]
    return table(("id", "type", "form", "name", "results", "FLOPs>"), rows)


def _profile(profile: Profile) -> list[str]:
    model, work = profile.model, main_function(profile.model).work
    facts = [*filter(None, [kind_name(model.kind)]), *parameter_facts(model)]
    if work is not None:
        facts.append(f"{describe_flops(work)} FLOPs (declared)")
    return [
        f"## {cell(model_name(model.path))}",
        *([cell(" · ".join(facts))] if facts else []),
        *_predictions(profile),
        *_timings(profile),
        *_estimates(profile),
        *_plans(profile),
        *_reasons(profile),
        *_agreements(profile),
        *_findings(profile),
        *(block for measurement in profile.measurements for block in _measurement(profile, measurement)),
    ]


def _predictions(profile: Profile) -> Iterator[str]:
    """Yields the time of a prediction: a sentence, or a table of several measurements."""
    if len(profile.measurements) > 1:
        yield "### Measured (medians)"
        rows = []
        for m in profile.measurements:
            cells = {name: phase_cells(phase.statistics)["median"] for name, phase in m.phases.items()}
            phases = (cells.get(name, "–") for name in ("predict", "load", "compile"))
            rows.append((f"{measurement_name(m, profile.measurements)}{disclaimer(m)}", *phases))
        yield table(("measured by", "prediction>", "load>", "compile>"), rows)
    for m in profile.measurements if len(profile.measurements) == 1 else ():
        if m.predict is not None and (median := m.predict.statistics.median):
            is_whole = not any(stage.absent for stage in m.stages)
            rate = f"about {format_rate(median)} a second one after the other, " if is_whole else ""
            by = cell(measurement_name(m))
            yield f"**{format_duration(median)} a prediction**, {rate}measured by {by}"


def _measurement(profile: Profile, measurement: Measurement) -> Iterator[str]:
    """Yields the details of one measurement, collapsed."""
    name = measurement_name(measurement, profile.measurements)
    ops = profile.ops
    if measurement.phases:
        note = python_note(measurement)
        yield details(f"Times (measured by {name})", _times(measurement), *([cell(note)] if note else []))
    if measurement.stages:
        title = f"Stages (measured by {name} in predictions of the whole pipeline, medians)"
        yield details(title, table(STAGE_TITLES, stage_rows(measurement.stages)))
    yield from _activity(measurement, name)
    if measurement.groups:
        profiler = f"(measured by {name} with its profiler)"
        yield details(f"Slowest operations {profiler}", *_slowest(ops, measurement))
        yield details(f"Where the time goes {profiler}", *_where(ops, measurement))
    if len(profile.measurements) > 1 and measurement.findings:
        yield details(f"Findings on {name}", _finding_list(measurement.findings))
    circumstances = [
        describe_machine(measurement),
        describe_runtime(measurement),
        f"compute units: {describe_units(measurement)}",
        f"inputs: {describe_inputs(profile, measurement)}",
        *filter(None, [describe_conditions(measurement)]),
    ]
    title = f"How {name} measured" if len(profile.measurements) > 1 else "How it was measured"
    yield details(title, "\n".join(f"- {cell(text)}" for text in circumstances))


def _activity(measurement: Measurement, name: str) -> Iterator[str]:
    """Yields recorded busy times and energy, collapsed."""
    recording, energy = measurement.recording, measurement.energy
    if recording is not None:
        rows = [table(RECORDING_TITLES, recording_rows(recording))] if recording.units else []
        lines = "\n".join(f"- {cell(line)}" for line in recording_lines(recording))
        yield details(f"Busy units (measured in a recording of {name}, which slows it down)", *rows, lines)
    if energy is not None:
        rows = [table(ENERGY_TITLES, energy_rows(energy))] if energy.units else []
        yield details("Energy (estimated by the system's counters)", *rows, cell(energy_line(energy)))


def _times(measurement: Measurement) -> str:
    rows = []
    for name, numbers, dropped in phase_rows(measurement):
        cells = phase_cells(numbers)
        rows.append((name, *(cells[title] for title in _PHASE_TITLES), dropped))
    return table(("", *(f"{title}>" for title in _PHASE_TITLES), "warm-ups dropped>"), rows)


def _estimates(profile: Profile) -> list[str]:
    estimates = listed_estimates(profile)
    if not estimates:
        return []
    titles = ["device", "setting", "estimate>", "80 % of cases, ms>", "runs on", "waits for"]
    rows: list[tuple[str, ...]] = list(latency_rows(estimates))
    if len({e.compute_units for e in estimates}) > 1:
        rows = [(row[0], e.compute_units, *row[1:]) for row, e in zip(rows, estimates, strict=True)]
    else:
        titles.remove("setting")
    left_out = estimates[0].left_out
    return [
        "### On Apple devices (estimated from published latencies, not measured)",
        table(titles, rows),
        *(["\\* extrapolated"] if any(mark_of(e) == "*" for e in estimates) else []),
        *dict.fromkeys(f"† {cell(calibrated_on(e))}" for e in estimates if e.own),
        *([f"at least, without {cell(', '.join(left_out))}: unknown"] if left_out else []),
        *_rates(profile),
    ]


_STEP_TITLES = ("setting", "function", "phase", "tokens>", "context>", "prediction>", "tokens/s>")


def _rates(profile: Profile) -> list[str]:
    if not profile.rates:
        return []
    return [
        f"### As a language model (estimated; {cache_text(profile.rates)})",
        table(("device", *_STEP_TITLES, "80 % of cases>", "waits for"), rate_rows(profile.rates)),
        RATE_NOTE,
    ]


def _timings(profile: Profile) -> list[str]:
    timings = profile.token_timings
    if not timings:
        return []
    labels = cell(", ".join(dict.fromkeys(one.label for one in timings)))
    return [
        f"### Tokens per second (measured by {labels})",
        table((*_STEP_TITLES, "95 % interval>", "runs>", "memory>"), timing_rows(timings)),
        f"{cache_text(timings)}; {TIMING_NOTE}",
    ]


def _plans(profile: Profile) -> Iterator[str]:
    """Yields plans of profiles without estimates."""
    for plan in () if profile.estimates else profile.plans:
        views = [plan.view(profile.ops, setting) for setting in plan.settings]
        if plan.notes and not any(view.ops for view in views):
            yield f"### On {cell(f'{plan.device}, {plan.os}')} (nothing to plan)"
            yield "\n".join(f"- {cell(note)}" for note in plan.notes)
            continue
        yield f"### On {cell(f'{plan.device}, {plan.os}')} ({cell(describe_planner(plan))}, not measured)"
        titles = ("operations on", *(f"{name}>" for name in UNIT_NAMES.values()))
        yield table((*titles, "switches>", "planned in all>"), setting_rows(views))
        undecided = ((view.compute_units, undecided_line(view.ops)) for view in views)
        notes = [*plan.notes, *(f"under {setting}: {line}" for setting, line in undecided if line)]
        if notes:
            yield "\n".join(f"- {cell(note)}" for note in notes)
        title = f"Operations on {plan.device} under {views[0].compute_units} (planned by {plan.planner})"
        yield details(title, _planned(plan, views[0].ops))


def _reasons(profile: Profile) -> Iterator[str]:
    """Yields what keeps operations from faster units and what each reason costs, collapsed."""
    for plan in profile.plans:
        for setting in plan.settings:
            view = plan.view(profile.ops, setting)
            names = view.functions()
            lines = [
                _reason_line(group, name if len(names) > 1 else "")
                for name in names
                for group in (
                    *group_what_ifs(view, name, "without", "without all", "moved", "doubt"),
                    *filter(None, (find_dearer(view, unit, names[name]) for unit in (NEURAL_ENGINE, GPU))),
                )
            ]
            if lines:
                where = f"{plan.device}, {plan.os}, under {setting.compute_units}"
                title = f"What keeps operations from faster units on {where} (planned and estimated)"
                yield details(title, "\n".join(lines))


def _reason_line(group: ReasonGroup, function: str) -> str:
    reason = group.reason
    where = ", ".join(filter(None, [unit_name(group.unit), function]))
    names = f" (such as {code(group.example)})" if group.example else ""
    known = (
        f" [rule {reason.rule}, evidence: {reason.confidence}]"
        if reason.rule and reason.rule != COST_RULE
        else ""
    )
    text = f"- **{cell(where)}**, {plural(len(group.ops), 'operation')}: {cell(reason.text)}{names}{known}"
    lines = [text, *([f"  - {cell(group.effect)}"] if group.effect else [])]
    return "\n".join([*lines, f"  - fix: {cell(reason.fix)}"] if reason.fix else lines)


def _agreements(profile: Profile) -> Iterator[str]:
    """Yields how far our plans agree with Core ML's, with the operations on different units collapsed."""
    for found in profile.agreements:
        yield f"### Agreement with Core ML on {cell(agreement_name(profile, found))}"
        yield f"Of the plan by rules with Core ML's own: {agreement_line(found)}."
        if found.disagreements:
            title = f"{plural(len(found.disagreements), 'operation')} on different units"
            yield details(title, table(DISAGREEMENT_TITLES, disagreement_rows(found.disagreements)))


def _planned(plan: Plan, ops: Iterable[PlannedOp]) -> str:
    rows = []
    for op in ops:
        cost = "–" if op.planned_ms is None else format_duration(op.planned_ms / 1e3)
        able = ", ".join(unit_name(unit) for unit in plan.units if op.supported.get(unit) == "yes")
        name = f"({op.name})" if op.inserted else code(op.name)
        where = " or ".join([unit_name(op.unit), *alternative_words(op)])
        rows.append((code(op.id), op.type, name, where, cost, format_share(op.weight), able))
    return table(("id", "type", "name", "unit", "planned>", "share>", "supported on"), rows)


def _where(ops: OpTable, measurement: Measurement) -> list[str]:
    shares = [
        (kind.label, str(kind.groups), format_duration(kind.wall_s), share_text(kind.share))
        for kind in kinds(ops, measurement)
    ]
    return [
        table(("operations", "count>", "time>", "share>"), shares),
        cell(f"{nodes_line(measurement)}. {status_line(measurement)}."),
    ]


def _slowest(ops: OpTable, measurement: Measurement) -> list[str]:
    groups = slowest(ops, measurement)
    rows = [
        (
            format_duration(group.wall_s),
            share_text(group.share),
            code(ops.id[group.ops[0]] if group.ops else ""),
            group.label,
            code(group_name(group, ops)),
        )
        for group in groups[:_LISTED_GROUPS]
    ]
    more = len(groups) - len(rows)
    return [
        table(("time>", "share>", "first id", "operations", "names"), rows),
        *([f"and {plural(more, 'faster group')}"] if more > 0 else []),
    ]


def _findings(profile: Profile) -> list[str]:
    """Yields all findings; with several measurements, grouped by measurement."""
    findings = profile.findings if len(profile.measurements) > 1 else profile.all_findings
    return ["### Findings", _finding_list(findings)] if findings else []


def _finding_list(findings: Iterable[Finding]) -> str:
    return "\n".join(
        f"- {_MARKS[finding.severity]}{cell(describe_finding(finding))}"
        + (f" ({cell(hint)})" if (hint := finding_hint(finding)) else "")
        + (f" [{finding.id}]({address})" if (address := finding_page(finding.id)) else "")
        for finding in by_severity(findings)
    )
