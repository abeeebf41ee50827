"""A chart of variants: size against quality."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.units import format_bytes
from coremlscope.reports.document import in_columns
from coremlscope.results.variants import Variant, VariantReport, pareto_front

_WIDEST_CHART, _HEIGHT = 76, 14
#: The columns for the scale of PSNR, and the marks of points.
_SCALE = 8
_MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Higher ratios are those of rounding, and stand in one line, so that the others have room.
_ROUNDING_DB = 100.0


class ChartPoint:
    """A variant in the chart of size against quality.

    Args:
        variant: The variant.
        size_bytes: Its size.
        psnr_db: The PSNR of its outputs; None where they are equal to the original's.
    """

    def __init__(self, variant: Variant, size_bytes: int, psnr_db: float | None) -> None:
        self.name, self.size_bytes, self.psnr_db = variant.name, size_bytes, psnr_db
        self.is_best = False


def chart_points(report: VariantReport) -> list[ChartPoint]:
    """Returns the variants whose size and outputs are known; the best ones are marked.

    A variant is among the best if no other is smaller with a higher PSNR. Sizes that are shown as the same
    number are the same.
    """
    points = []
    for variant in report.variants:
        if variant.size_bytes is None:
            continue
        difference = variant.difference
        if variant is report.original or (difference is not None and difference.is_equal):
            points.append(ChartPoint(variant, variant.size_bytes, None))
        elif difference is not None and difference.worst is not None:
            points.append(ChartPoint(variant, variant.size_bytes, difference.worst.psnr_db))
    best = pareto_front(
        [(float(f"{p.size_bytes:.3g}"), float("inf") if p.psnr_db is None else p.psnr_db) for p in points]
    )
    for index in best:
        points[index].is_best = True
    return points


def draw_chart(points: Sequence[ChartPoint], width: int) -> list[str]:
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
    return [*lines, *in_columns(legend, width)]


def _free(cells: Sequence[str], column: int) -> int:
    """Returns the empty column that is nearest to one, so that equal variants stand side by side."""
    free = (place for place, cell in enumerate(cells) if cell == " ")
    return min(free, key=lambda place: abs(place - column), default=column)


_EQUAL = "equal"
