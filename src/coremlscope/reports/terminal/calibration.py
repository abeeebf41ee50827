"""A user's own measurements and what they say, for the console."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.devices.catalog import all_chips
from coremlscope.reports.terminal.estimates import milliseconds
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import UNIT_NAMES, plural
from coremlscope.results.calibration import CalibrationReport, CheckedMeasurement, UnitCorrection

__all__ = ["render_calibration"]

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


def render_calibration(report: CalibrationReport, *, width: int = 100, color: bool = False) -> str:
    """Renders the measurements by chip and unit, each beside our estimate of it.

    Args:
        report: The measurements.
        width: The width of the terminal in characters.
        color: Uses colours.
    """
    screen = Screen(width, color)
    screen.title("Your own measurements", f"  {report.path}")
    for text in _changes(report):
        screen.line(text, indent=2)
    for one in report.skipped:
        screen.bullet("!", f"not used: {one.where} {one.reason}", style="yellow")
    for correction in report.corrections:
        _show(screen, correction)
    if report.stale:
        listed = ", ".join(dict.fromkeys(one.source or one.id for one in report.stale))
        were = "measurement was" if len(report.stale) == 1 else "measurements were"
        screen.line()
        screen.bullet(
            "!", f"{len(report.stale)} {were} recorded by another version", f"add again: {listed}", "yellow"
        )
    screen.line()
    if report.corrections:
        screen.line("estimates for these chips use them, and say so; chips without them do not change", "dim")
        screen.line(
            "more: `measurements remove ID`, --share FILE; `coremlscope estimate --no-calibration`", "dim"
        )
    else:
        screen.line("no measurements: `coremlscope measurements add FILE` adds some", "dim")
    return screen.text


def _changes(report: CalibrationReport) -> Iterator[str]:
    if report.added:
        yield f"added {plural(len(report.added), 'measurement')}"
    if report.known:
        yield f"{plural(report.known, 'measurement')} had been added before"
    if report.removed:
        yield f"removed {plural(report.removed, 'measurement')}"


def _show(screen: Screen, correction: UnitCorrection) -> None:
    name = f"{all_chips()[correction.chip].name}, {UNIT_NAMES[correction.unit]}"
    screen.heading(name, _meaning(correction))
    screen.table(_COLUMNS, [_row(one) for one in correction.checked])
    for one in correction.checked:
        if one.apart is not None:
            screen.bullet("!", _remark(one), "it changes nothing: check its unit, chip and model", "yellow")


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
