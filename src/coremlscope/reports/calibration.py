"""A user's own measurements and what they say."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.devices.catalog import all_chips
from coremlscope.reports.document import Block, Column, Heading, Hint, Item, Table, Text, Title
from coremlscope.reports.figures import milliseconds
from coremlscope.reports.words import UNIT_NAMES, plural
from coremlscope.results.calibration import CalibrationReport, CheckedMeasurement, UnitCorrection

_COLUMNS = (
    Column("id", style="dim"),
    Column("model", most=32, least=16, style="cyan"),
    Column("setting", most=11, rank=4),
    Column("measured", is_number=True),
    Column("estimated", is_number=True),
    Column("ratio", is_number=True, rank=1),
    Column("refined", is_number=True, rank=2),
    Column("", style="yellow", rank=5),
)
_LEFT_OUT = "(name left out)"


def calibration_document(report: CalibrationReport) -> Iterator[Block]:
    """Yields the measurements by chip and unit, each next to our estimate of it."""
    yield Title("Your own measurements", str(report.path))
    yield from (Text(text, "") for text in _changes(report))
    for one in report.skipped:
        yield Item(f"not used: {one.where} {one.reason}", mark="!", style="warning")
    for correction in report.corrections:
        yield from _correction(correction)
    if report.stale:
        listed = ", ".join(dict.fromkeys(one.source or one.id for one in report.stale))
        were = "measurement was" if len(report.stale) == 1 else "measurements were"
        text = f"{len(report.stale)} {were} recorded by another version"
        yield Item(text, f"add again: {listed}", "!", "warning")
    if report.corrections:
        yield Hint("estimates for these chips use them, and say so; chips without them do not change")
        yield Hint("more: `measurements remove ID`, --share FILE; `coremlscope estimate --no-calibration`")
    else:
        yield Hint("no measurements: `coremlscope measurements add FILE` adds some")


def _changes(report: CalibrationReport) -> Iterator[str]:
    if report.added:
        yield f"added {plural(len(report.added), 'measurement')}"
    if report.known:
        yield f"{plural(report.known, 'measurement')} had been added before"
    if report.removed:
        yield f"removed {plural(report.removed, 'measurement')}"


def _correction(correction: UnitCorrection) -> Iterator[Block]:
    name = f"{all_chips()[correction.chip].name}, {UNIT_NAMES[correction.unit]}"
    yield Heading(name, _meaning(correction))
    yield Table(_COLUMNS, [_row(one) for one in correction.checked])
    for one in correction.checked:
        if one.apart is not None:
            yield Item(_remark(one), "it changes nothing: check its unit, chip and model", "!", "warning")


def _meaning(correction: UnitCorrection) -> str:
    if not correction.models:
        return "estimates do not change: no measurement is in use"
    factor = correction.factor
    return (
        f"takes {factor.value:.2f} × as long as estimated (80 % within {factor.low:.2f} – {factor.high:.2f}),"
        f" by {plural(correction.measurements, 'measurement')} of {plural(correction.models, 'model')}"
    )


def _row(one: CheckedMeasurement) -> tuple[str, ...]:
    measured = one.measurement
    ratio = f"{measured.measured_s / one.estimated_s:.2f}" if one.estimated_s else ""
    return (
        measured.id,
        measured.model or _LEFT_OUT,
        measured.compute_units,
        f"{milliseconds(measured.measured_s)} ms",
        f"{milliseconds(one.estimated_s)} ms" if one.estimated_s else "",
        ratio,
        f"{milliseconds(one.refined_s)} ms" if one.refined_s else "",
        "" if one.apart is None else "set apart",
    )


def _remark(one: CheckedMeasurement) -> str:
    near = f", and nearer to that of the {UNIT_NAMES[one.like]}" if one.like else ""
    return (
        f"{one.measurement.id} is set apart: {one.apart:.1f} standard deviations from our estimate and the"
        f" other measurements{near}"
    )
