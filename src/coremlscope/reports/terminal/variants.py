"""Variants of a model for the console: tables, and a chart of size against quality."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.units import format_bytes
from coremlscope.model.ir import kind_name
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.terminal.side_by_side import Block
from coremlscope.reports.variants import (
    ChartPoint,
    chart_points,
    device_blocks,
    quality_block,
    remarks,
    variant_failures,
)
from coremlscope.reports.words import FINDING_MARKS, model_name, plural
from coremlscope.results.variants import VariantReport

__all__ = ["render_chart", "render_variants"]

_WIDEST_CHART, _HEIGHT = 76, 14
#: The columns for the scale of PSNR, and the marks of points.
_SCALE = 8
_MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Higher ratios are those of rounding, and stand in one line, so that the others have room.
_ROUNDING_DB = 100.0
_TEXT_COLUMNS = ("weights", "needs")


def render_variants(
    report: VariantReport, *, width: int = 100, color: bool = False, hint: bool = True
) -> str:
    """Renders variants as tables and a chart.

    Args:
        report: The variants.
        width: Columns.
        color: Whether to use ANSI colours.
        hint: Whether to say how to see more.
    """
    screen = Screen(width, color)
    count = plural(len(report.variants) - 1, "variant")
    kind = kind_name(report.kind)
    version = f" by coremltools {report.coremltools}" if report.coremltools else ""
    screen.title(model_name(report.path), f"  {kind}, {count}{version}")
    for block in (quality_block(report), *device_blocks(report)):
        _show(screen, block)
    chart = render_chart(chart_points(report), width)
    if chart:
        screen.heading("Size against quality", "● none of the others is smaller and closer to the original")
        for line in chart:
            screen.line(line)
    screen.line()
    for remark in remarks(report):
        screen.line(remark, "dim", indent=2)
    failed = variant_failures(report)
    if failed:
        screen.heading("Not made")
    for text, advice in failed:
        screen.bullet(FINDING_MARKS["warning"], text, advice, "yellow")
    if hint:
        screen.line()
        screen.line(
            "more: --apply NAME -o model.mlpackage writes one; -o report.html, .md, .csv, .json", "dim"
        )
    return screen.text


def _show(screen: Screen, block: Block) -> None:
    screen.heading(block.title, block.remark)
    columns = [
        Column(name, style="cyan", most=26)
        if place == 0
        else Column(name, most=26, rank=1)
        if name in _TEXT_COLUMNS
        else Column(name, is_number=True)
        for place, name in enumerate(block.titles)
    ]
    screen.table(columns, block.rows)


def render_chart(points: Sequence[ChartPoint], width: int) -> list[str]:
    """Draws the variants as letters over size and PSNR; equal outputs are in the first line.

    Args:
        points: The variants.
        width: Columns.

    Returns:
        Lines, with a legend; none for fewer than two variants with differences.
    """
    drawn = [point for point in points if point.psnr_db is not None][: len(_MARKS)]
    if len(drawn) < 2:
        return []
    across = min(width, _WIDEST_CHART) - _SCALE - 2
    sizes = [point.size_bytes for point in points]
    least, most = min(sizes), max(sizes)
    ratios = [point.psnr_db for point in drawn if point.psnr_db is not None]
    low, high = min(*ratios, _ROUNDING_DB), min(max(ratios), _ROUNDING_DB)
    cells = [[" "] * across for _ in range(_HEIGHT)]
    shown = [*drawn, *(point for point in points if point.psnr_db is None)][: len(_MARKS)]
    legend = []
    for mark, point in zip(_MARKS, shown, strict=False):
        column = round((point.size_bytes - least) / max(most - least, 1) * (across - 1))
        ratio = high if point.psnr_db is None else min(point.psnr_db, high)
        row = (
            0
            if point.psnr_db is None
            else _HEIGHT - 1 - round((ratio - low) / max(high - low, 1e-9) * (_HEIGHT - 3))
        )
        cells[row][_free(cells[row], column)] = mark
        legend.append(f"{'●' if point.is_best else ' '}{mark} {point.name}")
    beyond = "≥ " if max(ratios) > high else ""
    names = {0: _EQUAL, 2: f"{beyond}{high:.0f} dB", _HEIGHT - 1: f"{low:.0f} dB"}
    lines = [f"{names.get(row, ''):>{_SCALE}} │{''.join(line)}" for row, line in enumerate(cells)]
    ends = format_bytes(least), format_bytes(most)
    lines.append(" " * _SCALE + " └" + "─" * across)
    lines.append(" " * (_SCALE + 2) + ends[0] + ends[1].rjust(across - len(ends[0])))
    return [*lines, *_in_columns(legend, width)]


def _free(cells: Sequence[str], column: int) -> int:
    """Returns the empty column that is nearest to one, so that equal variants stand side by side."""
    free = (place for place, cell in enumerate(cells) if cell == " ")
    return min(free, key=lambda place: abs(place - column), default=column)


_EQUAL = "equal"


def _in_columns(texts: Sequence[str], width: int) -> list[str]:
    widest = max(map(len, texts)) + 2
    each = max(1, (width - 2) // widest)
    return [
        "  " + "".join(t.ljust(widest) for t in texts[i : i + each]).rstrip()
        for i in range(0, len(texts), each)
    ]
