"""The stages of a pipeline, for the console and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.describe.stages import StageSummary
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.words import KINDS, plural
from coremlscope.results.profile import StageTiming
from coremlscope.units import format_bytes, format_count, format_duration, format_share

__all__ = ["TIMING_TITLES", "show_stage_timings", "show_stages", "timing_rows"]

#: Features of a stage, and stages, that are listed; the rest is counted.
_LISTED_FEATURES, _LISTED = 4, 20
#: Columns that the numbers in the table of times take, and the gaps between them.
_NUMBERS_WIDTH = 48
#: Titles of the columns of `timing_rows`; those that end with `>` are numbers.
TIMING_TITLES = ("stage", "type", "time>", "share>", "conversion>", "operations>")


def show_stages(page: Page, stages: Sequence[StageSummary]) -> None:
    """Prints what is told of each stage: one line each, and what else its file tells below it."""
    page.heading("Stages", f"{len(stages)}, one after the other")
    columns = (
        Column("", most=max(12, page.width // 4), style="cyan"),
        Column("type", most=28),
        Column("operations", is_number=True),
        Column("parameters", is_number=True),
        Column("bytes", is_number=True),
    )
    page.table(columns, [_stage_row(stage) for stage in stages])
    for stage in stages[:_LISTED]:
        text = f"{stage.name} takes {_features(stage.inputs)}; gives {_features(stage.outputs)}"
        page.line(text, "dim", indent=2)
        if stage.facts:
            page.line("; ".join(f"{what}: {how}" for what, how in stage.facts), "dim", indent=4)
        if stage.absent:
            page.line(f"cannot run here: {stage.absent}", "yellow", indent=4)


def _features(pairs: Sequence[tuple[str, str]]) -> str:
    named = [f"{name} ({type_})" for name, type_ in pairs[:_LISTED_FEATURES]]
    rest = len(pairs) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


def _stage_row(stage: StageSummary) -> tuple[str, ...]:
    parameters = format_count(stage.parameters) if stage.parameters else ""
    nbytes = format_bytes(stage.weights_bytes) if stage.parameters else ""
    operations = "" if stage.operations is None else str(stage.operations)
    return stage.name, KINDS.get(stage.kind, stage.kind), operations, parameters, nbytes


def show_stage_timings(page: Page, stages: Sequence[StageTiming]) -> None:
    """Prints what each stage takes."""
    if not stages:
        return
    page.heading("Stages", f"measured in predictions of all {plural(len(stages), 'stage')}, medians")
    name_width = min(max(len(stage.name) for stage in stages), page.width // 5)
    columns = [
        Column("stage", most=name_width, style="cyan"),
        Column("type", most=max(10, page.width - name_width - _NUMBERS_WIDTH)),
        *(Column(title.removesuffix(">"), is_number=True) for title in TIMING_TITLES[2:]),
    ]
    page.table(columns, timing_rows(stages))


def timing_rows(stages: Sequence[StageTiming]) -> list[tuple[str, ...]]:
    """A row for each stage; the shares are those of the stages' times, conversions included."""
    total = sum((stage.run_s or 0.0) + (stage.convert_s or 0.0) for stage in stages)
    rows: list[tuple[str, ...]] = []
    for stage in stages:
        kind = KINDS.get(stage.kind, stage.kind)
        if stage.run_s is None or stage.convert_s is None or stage.operations_s is None:
            rows.append((stage.name, kind, "not run", "", "", ""))
            continue
        own = stage.run_s + stage.convert_s
        share = format_share(own / total) if total else ""
        times = (format_duration(own), share, format_duration(stage.convert_s))
        rows.append((stage.name, kind, *times, format_duration(stage.operations_s)))
    return rows
