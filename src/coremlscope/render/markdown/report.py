"""Markdown, for a pull request."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coremlscope.render.terminal.estimates import latency_rows
from coremlscope.render.terminal.stages import TIMING_TITLES, timing_rows
from coremlscope.render.terminal.timing import (
    describe_inputs,
    group_name,
    kinds,
    nodes_line,
    slowest,
    status_line,
)
from coremlscope.render.words import KINDS, bits_each, compact_type, count, histogram, model_name, plural
from coremlscope.units import (
    escape_controls,
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_share,
)

if TYPE_CHECKING:
    from coremlscope.describe.model import ModelSummary, OpSummary
    from coremlscope.describe.stages import StageSummary
    from coremlscope.results.profile import Profile

__all__ = ["render_markdown"]


_LISTED_GROUPS = 20


def render_markdown(subject: Profile | ModelSummary) -> str:
    """A report as Markdown with tables."""
    from coremlscope.describe.model import ModelSummary

    blocks = _summary(subject) if isinstance(subject, ModelSummary) else _profile(subject)
    return "\n\n".join(blocks) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns whose title ends with `>` are set flush right."""
    titles = [column.removesuffix(">") for column in columns]
    rules = ["---:" if column.endswith(">") else "---" for column in columns]
    lines = [titles, rules, *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return escape_controls(text.replace("\r", "")).replace("|", "\\|")


def code(text: str) -> str:
    """A name, set as code."""
    return f"`{escape_controls(text).replace('`', 'ʼ')}`"


def details(title: str, *blocks: str) -> str:
    """Blocks that are folded away until somebody opens them."""
    summary = html.escape(escape_controls(title), quote=False)
    return "\n\n".join([f"<details>\n<summary>{summary}</summary>", *blocks, "</details>"])


def _summary(model: ModelSummary) -> list[str]:
    main = model.main
    facts = [
        f"{KINDS.get(model.kind, model.kind)}, specification {model.spec_version} ({model.platforms})",
        f"{format_bytes(model.size_bytes)} on disk",
    ]
    if model.weights:
        facts.append(f"{format_count(model.parameters)} parameters in {format_bytes(model.weights_bytes)}")
    if main.work is not None:
        at_least = "" if main.work.is_complete else "at least "
        facts.append(f"{at_least}{format_count(main.work.flops)} FLOPs a prediction (declared)")
    blocks = [f"## {_cell(model_name(model.path))}", " · ".join(facts)]
    if model.description:
        blocks.append(_cell(model.description))
    blocks += [f"{_cell(what)}: {_cell(how)}" for what, how in model.facts]
    if model.absent:
        blocks.append(f"⚠ cannot run here: {model.absent}")
    if model.missing_weights:
        blocks.append(f"⚠ weights absent: {', '.join(map(code, model.missing_weights))}")
    for function in model.functions:
        name = f" of {code(function.name)}" if len(model.functions) > 1 else ""
        for title, features in (
            ("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states),
        ):  # fmt: skip
            if features:
                rows = [(code(f.name), f.type, f.flexibility, f.preprocessing or f.doc) for f in features]
                blocks += [f"### {title}{name}", table(("name", "type", "allows", "about"), rows)]
    if model.stages:
        blocks += ["### Stages", _stage_table(model.stages)]
    if model.weights:
        groups = [
            (g.storage, g.dtype, str(g.tensors), format_count(g.parameters), format_bytes(g.nbytes),
             bits_each(g.nbytes, g.parameters))
            for g in model.weights
        ]  # fmt: skip
        titles = ("kept as", "used as", "tensors>", "parameters>", "bytes>", "bits each>")
        blocks += ["### Parameters", table(titles, groups)]
    if main.layers:
        blocks += ["### Layers", histogram(main.layers)]
    elif main.ops:
        blocks += ["### Operations", histogram(main.ops)]
    if model.op_list:
        blocks.append(_operations(model.op_list))
    return blocks


def _stage_table(stages: Iterable[StageSummary]) -> str:
    rows = [
        (
            code(stage.name),
            KINDS.get(stage.kind, stage.kind),
            "" if stage.operations is None else str(stage.operations),
            format_count(stage.parameters) if stage.parameters else "",
            "; ".join([f"cannot run here: {stage.absent}"] * bool(stage.absent)
                      + [f"{what}: {how}" for what, how in stage.facts]),
        )
        for stage in stages
    ]  # fmt: skip
    return table(("stage", "type", "operations>", "parameters>", "about"), rows)


def _operations(ops: Iterable[OpSummary]) -> str:
    rows = [
        (
            code(op.id),
            op.type,
            code(op.name),
            ", ".join(map(compact_type, op.outputs)),
            count(op.flops, op.work_is_complete),
        )
        for op in ops
    ]
    return table(("id", "type", "name", "results", "FLOPs>"), rows)


def _profile(profile: Profile) -> list[str]:
    model, host, request = profile.model, profile.host, profile.request
    facts = [KINDS.get(model.kind, model.kind)]
    if model.weights:
        facts.append(f"{format_count(model.parameters)} parameters in {format_bytes(model.weights_bytes)}")
    if model.main.work is not None:
        facts.append(f"{count(model.main.work.flops, model.main.work.is_complete)} FLOPs (declared)")
    rate = format_rate(profile.predictions_per_s).removesuffix(" /s")
    median = format_duration(profile.predict.statistics.median)
    settings = [
        f"{host.processor}, {plural(host.cores, 'core')}, {host.os}",
        f"{host.engine} {host.engine_version}, {plural(host.threads, 'thread')}; not Core ML",
        *([f"power mode: {host.power_mode}"] if host.power_mode else []),
        f"compute units {code(request.compute_units)}: recorded only",
        f"inputs: {describe_inputs(profile)}",
    ]
    return [
        f"## {_cell(model_name(model.path))}",
        " · ".join(facts),
        f"**{median} a prediction**, {rate} a second one after the other, measured on {_cell(host.label)}",
        *_estimates(profile),
        *_findings(profile),
        details("Times (measured on this host)", _times(profile)),
        *_stages(profile),
        details("Slowest operations (measured by the engine's profiler)", *_slowest(profile)),
        details("Where the time goes (measured by the engine's profiler)", *_where(profile)),
        details("How it was measured", "\n".join(f"- {_cell(text)}" for text in settings)),
    ]


def _times(profile: Profile) -> str:
    rows = []
    phases = (("compile", profile.compile), ("load", profile.load), ("predict", profile.predict))
    for name, phase in phases:
        numbers = phase.statistics
        values = (
            numbers.min,
            numbers.median,
            numbers.mean,
            numbers.p95,
            numbers.p99,
            numbers.max,
            numbers.std,
        )
        rows.append((name, str(numbers.count), *map(format_duration, values), str(len(phase.warmups_s))))
    titles = ("", "runs>", "min>", "median>", "mean>", "p95>", "p99>", "max>", "std>", "warm-ups dropped>")
    return table(titles, rows)


def _stages(profile: Profile) -> list[str]:
    if not profile.stages:
        return []
    title = "Stages (measured in predictions of the whole pipeline, medians)"
    return [details(title, table(TIMING_TITLES, timing_rows(profile.stages)))]


def _estimates(profile: Profile) -> list[str]:
    if not profile.estimates:
        return []
    titles = ("device", "estimate>", "80 % of cases, ms>", "runs on", "waits for")
    return [
        "### On Apple devices (estimated from published latencies, not measured)",
        table(titles, latency_rows(profile.estimates)),
        *(["\\* extrapolated"] if any(e.basis == "extrapolated" for e in profile.estimates) else []),
    ]


def _where(profile: Profile) -> list[str]:
    shares = [
        (kind.label, str(kind.groups), format_duration(kind.wall_s), format_share(kind.share))
        for kind in kinds(profile)
    ]
    return [
        table(("operations", "count>", "time>", "share>"), shares),
        f"{nodes_line(profile)}. {status_line(profile)}.",
    ]


def _slowest(profile: Profile) -> list[str]:
    by_id = {row.id: row for row in profile.ops}
    groups = slowest(profile)
    rows = [
        (format_duration(group.wall_s), format_share(group.share), ", ".join(map(code, group.op_ids[:1])),
         group.label, code(group_name(group, by_id)))
        for group in groups[:_LISTED_GROUPS]
    ]  # fmt: skip
    more = len(groups) - len(rows)
    return [
        table(("time>", "share>", "first id", "operations", "names"), rows),
        *([f"and {plural(more, 'faster group')}"] if more > 0 else []),
    ]


def _findings(profile: Profile) -> list[str]:
    if not profile.findings:
        return []
    lines = [
        f"- {'⚠ ' if finding.severity == 'warning' else ''}{_cell(finding.text)}"
        + (f" ({_cell(finding.hint)})" if finding.hint else "")
        for finding in sorted(profile.findings, key=lambda finding: finding.severity != "warning")
    ]
    return ["### Findings", "\n".join(lines)]
