"""Variants of a model: a document, and columns for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from coremlscope.base.units import format_bytes, format_duration
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import kind_name
from coremlscope.reports.difference import format_pair_ratio
from coremlscope.reports.document import (
    Block,
    Column,
    Conclusion,
    Drawing,
    Heading,
    Item,
    Table,
    Text,
    findings,
    in_columns,
    labels,
    numbers,
)
from coremlscope.reports.words import FINDING_MARKS, SHORT_UNIT_NAMES, model_name, plural
from coremlscope.results.answer import PairVerdict
from coremlscope.results.variants import Variant, VariantForecast, VariantReport, pareto_front

# A chart of variants: size against quality.

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


_NARROWEST = 60
_SAME = "equal"
#: How many faster variants a conclusion names.
_FASTER = 2
_FACTS = ("on the NE", "of the time", "memory", "first load")


def _size(variant: Variant, original: Variant) -> tuple[str, str]:
    if variant.size_bytes is None:
        return "–", ""
    whole = original.size_bytes
    part = f"{variant.size_bytes / whole:.0%}" if whole and variant is not original else ""
    return format_bytes(variant.size_bytes), part


def _quality(variant: Variant) -> tuple[str, str, str]:
    """Returns PSNR, largest difference and agreement on the first class."""
    difference = variant.difference
    if difference is None:
        return "", "", ""
    top1 = "" if difference.top1 is None else f"{difference.top1:.0%}"
    if difference.is_equal:
        return _SAME, "0", top1
    worst = difference.worst
    lost = sum(output.not_finite for output in difference.outputs)
    if lost:
        return f"{lost} not finite", "", top1
    if worst is None or worst.psnr_db is None:
        return "–", "", top1
    return f"{worst.psnr_db:.1f} dB", f"{worst.max_abs:.3g}", top1


def variants_document(report: VariantReport) -> Iterator[Block]:
    """Yields tables of sizes, outputs, plans and estimates, a chart, remarks, and what could not be made."""
    count = plural(len(report.variants) - 1, "variant")
    version = f" as by coremltools {report.coremltools}" if report.coremltools else ""
    yield conclude_variants(report)
    yield Text(f"{kind_name(report.kind)}, {count}{version}", indent=0)
    yield from _quality_section(report)
    yield from _device_sections(report)
    points = chart_points(report)
    if draw_chart(points, _NARROWEST):
        yield Heading("Size against quality", "● none of the others is smaller and closer to the original")
        yield Drawing(lambda width: draw_chart(points, width))
    yield from (Text(remark) for remark in _remarks(report))
    failed = variant_failures(report)
    if failed:
        yield Heading("Not made")
    yield from (Item(text, hint, FINDING_MARKS["warning"], "warning") for text, hint in failed)
    yield from findings(report.findings)


def conclude_variants(report: VariantReport) -> Conclusion:
    """Returns which variants are faster than the original, and which is the smallest, hazards first."""
    title = model_name(report.path)
    made = [one for one in report.variants[1:] if one.size_bytes is not None]
    if not made:
        return Conclusion("wrong", "not made", "no variant was made", title)
    pairs = [(one.name, pair) for one in made for f in one.forecasts if (pair := f.verdict) is not None]
    hazards = dict.fromkeys(text for _, pair in pairs for text in pair.hazards)
    faster = [(name, pair) for name, pair in pairs if pair.verdict == "faster"]
    text = "; ".join(filter(None, (*hazards, _faster(faster) if pairs else "", _smallest(report, made))))
    if faster:
        return Conclusion("kept", "faster", text, title)
    if hazards or any(pair.verdict in ("unclear", "unknown") for _, pair in pairs):
        return Conclusion("doubt", "unclear", text, title)
    return Conclusion("kept", "not faster" if pairs else "smaller", text, title)


def _faster(faster: Sequence[tuple[str, PairVerdict]]) -> str:
    if not faster:
        return "none is certainly faster"
    told = [f"{name} on {pair.device} ({format_pair_ratio(pair)})" for name, pair in faster[:_FASTER]]
    more = len(faster) - len(told)
    return f"faster: {', '.join(told)}{f' and {more} more' if more else ''}"


def _smallest(report: VariantReport, made: Sequence[Variant]) -> str:
    """Returns the smallest variant, of those that give the same classes where there are some."""
    alike = [one for one in made if one.difference is not None and one.difference.top1 == 1]
    least = min(alike or made, key=lambda one: one.size_bytes or 0)
    size, part = _size(least, report.original)
    facts = filter(None, (size, part and f"{part} of it", _quality(least)[0]))
    return f"smallest{' with the same classes' if alike else ''}: {least.name}, {', '.join(facts)}"


def _quality_section(report: VariantReport) -> Iterator[Block]:
    """Yields size and outputs of all variants."""
    rows = []
    for variant in report.variants:
        size, part = _size(variant, report.original)
        needs = variant.platforms.split(",")[0]
        rows.append((variant.name, size, part, variant.storage, *_quality(variant), needs))
    yield Heading("Size and outputs", _compared_with(report))
    columns = (
        labels("variant"),
        *numbers("size", "of it"),
        Column("weights", most=26, rank=1),
        *numbers("PSNR", "largest difference", "same class"),
        Column("needs", most=26, rank=2),
    )
    yield Table(columns, rows)


def _compared_with(report: VariantReport) -> str:
    """Describes the inputs on which the outputs were compared."""
    known = next((v.difference for v in report.variants if v.difference), None)
    if known is None:
        return "outputs not compared"
    kind = "synthetic " if known.synthetic else ""
    return f"outputs compared with the original's on {plural(known.samples, kind + 'input')}, here"


def _device_sections(report: VariantReport) -> Iterator[Block]:
    """Yields plans and estimates, a section for each device and setting, with the verdict on each variant."""
    columns = (
        labels("variant"),
        *numbers("estimated", "change"),
        Column("", least=6),
        *(Column(title, is_number=True, rank=1) for title in _FACTS),
    )
    for key in report.keys:
        found = [(variant.name, variant.forecast(key)) for variant in report.variants]
        rows = [(name, *_forecast(forecast)) for name, forecast in found if forecast is not None]
        pairs = [one.verdict for _, one in found if one is not None and one.verdict is not None]
        yield Heading(", ".join(key), "planned and estimated, not measured; change with its 80 % interval")
        for text in dict.fromkeys(text for pair in pairs for text in pair.hazards):
            yield Item(text, "", FINDING_MARKS["warning"], "warning")
        yield Table(columns, rows)
        doubtful = [pair for pair in pairs if pair.verdict in ("unclear", "unknown")]
        if doubts := dict.fromkeys(text for pair in doubtful for text in pair.doubts[:1]):
            yield Text(f"in doubt: {'; '.join(doubts)}")


def _forecast(found: VariantForecast) -> tuple[str, ...]:
    answer, pair = found.answer, found.verdict
    return (
        "–"
        if answer.latency is None
        else f"{'≥ ' * answer.is_at_least}{format_duration(answer.latency.value)}",
        *(("", "") if pair is None else (format_pair_ratio(pair), pair.verdict)),
        f"{found.operations.get(NEURAL_ENGINE, 0)} of {sum(found.operations.values())}",
        f"{answer.units.get(NEURAL_ENGINE, 0.0):.0%}",
        "–" if found.memory.peak is None else format_bytes(found.memory.peak.value),
        "" if answer.load is None else format_duration(answer.load.first_s.value),
    )


def _remarks(report: VariantReport) -> list[str]:
    """Returns notes on the tables, and those on variants, each once with the variants that it concerns."""
    forecasts = [f for variant in report.variants for f in variant.forecasts]
    found = []
    if any(v.difference for v in report.variants):
        found.append(
            "PSNR: the square of the largest magnitude in the original's output against the mean square of"
            " the difference, of the output with the least; in fp32 arithmetic, here, unless fp16 is tried"
        )
    if forecasts:
        found.append(
            "memory: stored weights, states and the results that are alive at the same time; an estimate from"
            " the file"
        )
    if any(f.answer.load for f in forecasts):
        found.append("first load: Core ML compiles for the Neural Engine; from published times")
    found += _limits(forecasts)
    notes: dict[str, list[str]] = {}
    for variant in report.variants:
        for note in variant.notes:
            notes.setdefault(note, []).append(variant.name)
    return [*found, *(f"{', '.join(names)}: {note}" for note, names in notes.items())]


def _limits(forecasts: Sequence[VariantForecast]) -> Iterator[str]:
    """Yields what an app may use on each device, where that is published."""
    for device in dict.fromkeys(f.answer.device for f in forecasts):
        limit, os = next((f.memory.limit, f.answer.os) for f in forecasts if f.answer.device == device)
        if not os.startswith("iOS"):
            continue
        if limit is None:
            yield f"{device}: what an app may use is not known here"
        else:
            on = f" on {limit.os}" if limit.os else ""
            yield f"{device}: an app may use about {format_bytes(limit.limit_bytes)}{on} ({limit.source})"


def variant_failures(report: VariantReport) -> list[tuple[str, str]]:
    """Returns failures: each sentence once, with the names of the variants, and a hint."""
    failed: dict[tuple[str, str], list[str]] = {}
    for variant in report.variants:
        if variant.failure:
            failed.setdefault((variant.failure, variant.hint), []).append(variant.name)
    return [(f"{', '.join(names)}: {failure}", hint) for (failure, hint), names in failed.items()]


def variant_columns(report: VariantReport) -> dict[str, list[Any]]:
    """Returns one row for each variant, device and setting, by column."""
    columns: dict[str, list[Any]] = {name: [] for name in _CSV}
    for variant in report.variants:
        for found in variant.forecasts or (None,):
            row = {**_variant_cells(variant), **({} if found is None else _forecast_cells(found))}
            for name, column in columns.items():
                column.append(row.get(name))
    return columns


_LATENCY = ("estimated_ms", "low_ms", "high_ms")
_RATIO = ("ratio", "ratio_low", "ratio_high")
_CSV = (
    *("variant", "size_bytes", "weights_bytes", "storage", "psnr_db", "snr_db", "max_abs", "top1", "equal"),
    *("device", "os", "compute_units", *_LATENCY, *_RATIO, "verdict"),
    *("cpu_ops", "gpu_ops", "neural_engine_ops", "peak_bytes", "first_load_s", "failure"),
)


def _variant_cells(variant: Variant) -> dict[str, Any]:
    difference = variant.difference
    worst = None if difference is None else difference.worst
    return {
        "variant": variant.name,
        "size_bytes": variant.size_bytes,
        "weights_bytes": variant.weights_bytes,
        "storage": variant.storage,
        "psnr_db": None if worst is None else worst.psnr_db,
        "snr_db": None if worst is None else worst.snr_db,
        "max_abs": None if worst is None else worst.max_abs,
        "top1": None if difference is None else difference.top1,
        "equal": None if difference is None else difference.is_equal,
        "failure": variant.failure,
    }


def _forecast_cells(found: VariantForecast) -> dict[str, Any]:
    answer, pair, peak = found.answer, found.verdict, found.memory.peak
    ratio = None if pair is None else pair.ratio
    latency = () if answer.latency is None else msgspec.structs.astuple(answer.latency)[:3]
    return {
        "device": answer.device,
        "os": answer.os,
        "compute_units": answer.compute_units,
        **dict(zip(_LATENCY, (1e3 * one for one in latency), strict=False)),
        **dict(zip(_RATIO, () if ratio is None else msgspec.structs.astuple(ratio), strict=False)),
        "verdict": None if pair is None else pair.verdict,
        **{f"{unit}_ops": found.operations.get(unit, 0) for unit in SHORT_UNIT_NAMES},
        "peak_bytes": None if peak is None else peak.value,
        "first_load_s": None if answer.load is None else answer.load.first_s.value,
    }
