"""A matrix of models and settings for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.batch import Forecast, Matrix, MatrixRow, Timing
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.words import plural
from coremlscope.units import format_duration

__all__ = ["describe_runs", "forecast_blocks", "forecast_remarks", "measured_blocks", "render_matrix"]

#: A heading with its remark, the titles of the columns, and the rows.
Block = tuple[str, str, tuple[str, ...], list[tuple[str, ...]]]


def render_matrix(
    matrix: Matrix, *, width: int = 100, color: bool = False, state: str = "", hint: bool = True
) -> str:
    """A matrix as text.

    Args:
        matrix: The matrix.
        width: Columns.
        color: Whether to use ANSI colours.
        state: What is being done now, while it is being filled.
        hint: Whether to say how to see more.
    """
    page = Page(width, color)
    page.title("Matrix", f"  {plural(len(matrix.rows), 'model')}, {describe_runs(matrix)}")
    for title, remark, titles, rows in (*measured_blocks(matrix), *forecast_blocks(matrix)):
        page.heading(title, remark)
        columns = [
            Column(titles[0], style="cyan", most=max(14, width - 58)),
            *(Column(name, is_number=bool(name)) for name in titles[1:]),
        ]
        page.table(columns, rows)
    _show_problems(page, matrix)
    if state:
        page.line()
        page.line(state, "dim")
    elif hint:
        page.line()
        settings = "" if matrix.devices else "--device m1 for every setting, planned and estimated; "
        page.line(f"more: {settings}-o report.md or report.json; `coremlscope profile MODEL`", "dim")
    return page.text


def describe_runs(matrix: Matrix) -> str:
    """How often each was timed, and whether that came to an end."""
    stopped = "; stopped before all was done" if matrix.interrupted else ""
    return f"{plural(matrix.iterations, 'prediction')} each{stopped}"


def measured_blocks(matrix: Matrix) -> list[Block]:
    """What was measured: a block for everything that did work in one power mode."""
    keys = dict.fromkeys((t.by, t.power_mode) for row in matrix.rows for t in row.timings)
    blocks = []
    for by, mode in keys:
        chosen = [
            (row, [t for t in row.timings if (t.by, t.power_mode) == (by, mode)]) for row in matrix.rows
        ]
        settings = [s for s in matrix.settings if any(t.compute_units == s for _, ts in chosen for t in ts)]
        remark = f"by {by}" + (f"; power mode: {mode}" if mode else "")
        if settings:
            rows = [cells for row, timings in chosen for cells in _by_setting(row, timings, settings)]
            blocks.append(("Measured", remark, ("model", "", *settings), rows))
        else:
            rows = [_on_host(row, timings[0]) for row, timings in chosen if timings]
            remark += ", whatever the setting; not Core ML"
            blocks.append(("Measured", remark, ("model", "median", "average", "p95", "load"), rows))
    return blocks


def _on_host(row: MatrixRow, timing: Timing) -> tuple[str, ...]:
    predict = timing.predict.statistics
    values = (predict.median, predict.mean, predict.p95, timing.load.statistics.median)
    return (row.model, *map(format_duration, values))


def _by_setting(row: MatrixRow, timings: Sequence[Timing], settings: Sequence[str]) -> list[tuple[str, ...]]:
    found = {timing.compute_units: timing.predict.statistics for timing in timings}
    medians = [format_duration(found[s].median) if s in found else "–" for s in settings]
    averages = [format_duration(found[s].mean) if s in found else "–" for s in settings]
    return [(row.model, "median", *medians), ("", "average", *averages)] if found else []


def forecast_blocks(matrix: Matrix) -> list[Block]:
    """What is planned and estimated: a block for each device."""
    keys = dict.fromkeys((f.device, f.os) for row in matrix.rows for f in row.forecasts)
    blocks = []
    for device, os in keys:
        rows: list[tuple[str, ...]] = []
        for row in matrix.rows:
            found = {f.compute_units: f for f in row.forecasts if (f.device, f.os) == (device, os)}
            if found:
                rows += [
                    (row.model, "estimated", *(_estimate(found.get(s)) for s in matrix.settings)),
                    ("", "planned", *(_planned(found.get(s)) for s in matrix.settings)),
                ]
        remark = "planned and estimated; nothing of it was measured"
        blocks.append((f"{device}, {os}", remark, ("model", "", *matrix.settings), rows))
    return blocks


def _estimate(forecast: Forecast | None) -> str:
    if forecast is None:
        return "–"
    return format_duration(forecast.latency.value) + ("*" if forecast.basis == "extrapolated" else "")


def _planned(forecast: Forecast | None) -> str:
    return "–" if forecast is None else format_duration(forecast.planned_s.value)


def forecast_remarks(matrix: Matrix) -> list[str]:
    """What to know of plans and estimates, where there are any."""
    forecasts = [forecast for row in matrix.rows for forecast in row.forecasts]
    remarks = []
    if forecasts:
        remarks.append(
            "estimated: from published latencies; planned: Core ML's own cost model, which only ranks the"
            " units, so nothing takes that long"
        )
    if any(forecast.basis == "extrapolated" for forecast in forecasts):
        remarks.append("* no latencies of this chip went into the estimate")
    return remarks


def _show_problems(page: Page, matrix: Matrix) -> None:
    for remark in forecast_remarks(matrix):
        page.line(remark, "dim", indent=2)
    problems = [(row, problem) for row in matrix.rows for problem in row.problems]
    if problems:
        page.heading("Failed")
    for row, problem in problems:
        page.bullet("!", f"{row.model}, {problem.what}: {problem.message}", problem.hint, "yellow")
