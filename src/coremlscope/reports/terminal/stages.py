"""The stages of a pipeline, for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.units import format_bytes, format_count
from coremlscope.model.ir import kind_name
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.timing import STAGE_TITLES, stage_rows
from coremlscope.reports.words import plural
from coremlscope.results.measurement import StageTiming
from coremlscope.results.model import StageSummary

__all__ = ["show_stage_timings", "show_stages"]

#: Features of a stage, and stages, that are listed; the rest is counted.
_LISTED_FEATURES, _LISTED = 4, 20


def show_stages(screen: Screen, stages: Sequence[StageSummary]) -> None:
    """Prints each stage: one line, and below it what else its file holds."""
    screen.heading("Stages", f"{len(stages)}, one after the other")
    columns = (
        Column("", style="cyan"),
        Column("type", most=28),
        Column("operations", is_number=True),
        Column("parameters", is_number=True),
        Column("bytes", is_number=True),
    )
    screen.table(columns, [_stage_row(stage) for stage in stages])
    for stage in stages[:_LISTED]:
        text = f"{stage.name} takes {_features(stage.inputs)}; gives {_features(stage.outputs)}"
        screen.line(text, "dim", indent=2)
        if stage.facts:
            screen.line("; ".join(f"{what}: {how}" for what, how in stage.facts), "dim", indent=4)
        if stage.absent:
            screen.line(f"cannot run here: {stage.absent}", "yellow", indent=4)


def _features(pairs: Sequence[tuple[str, str]]) -> str:
    named = [f"{name} ({type_})" for name, type_ in pairs[:_LISTED_FEATURES]]
    rest = len(pairs) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


def _stage_row(stage: StageSummary) -> tuple[str, ...]:
    parameters = format_count(stage.parameters) if stage.parameters else ""
    nbytes = format_bytes(stage.weights_bytes) if stage.parameters else ""
    operations = "" if stage.operations is None else str(stage.operations)
    return stage.name, kind_name(stage.kind), operations, parameters, nbytes


def show_stage_timings(screen: Screen, stages: Sequence[StageTiming]) -> None:
    """Prints what each stage takes."""
    if not stages:
        return
    screen.heading("Stages", f"measured in predictions of all {plural(len(stages), 'stage')}, medians")
    columns = [
        Column("stage", style="cyan"),
        Column("type"),
        *(Column(title.removesuffix(">"), is_number=True) for title in STAGE_TITLES[2:]),
    ]
    screen.table(columns, stage_rows(stages))
