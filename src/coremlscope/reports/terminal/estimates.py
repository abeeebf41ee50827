"""Estimated latencies for the console, and the form of `estimate --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_duration, format_rate, format_share
from coremlscope.devices.catalog import all_chips
from coremlscope.devices.unit import ComputeUnit
from coremlscope.reports.json import render_values
from coremlscope.reports.plan_json import what_if_to_json
from coremlscope.reports.reasons import find_savings
from coremlscope.reports.terminal.explanation import show_explanations
from coremlscope.reports.terminal.findings import show_findings
from coremlscope.reports.terminal.generation import show_rates
from coremlscope.reports.terminal.savings import show_savings
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import BOUND_WORDS, SHORT_UNIT_NAMES, describe_own, model_name, plural
from coremlscope.results.encoding import plain
from coremlscope.results.estimate import Estimate, UnitTerms
from coremlscope.results.generation import TokenRate
from coremlscope.results.profile import Profile

__all__ = [
    "EXTRAPOLATED",
    "calibrated_on",
    "estimates_to_json",
    "interval_ms",
    "latency_rows",
    "listed_estimates",
    "mark_of",
    "milliseconds",
    "render_estimates",
    "render_estimates_json",
    "show_device_latencies",
    "within_ms",
]

_COSTLIEST = 5
_WIDE = 100
_COLUMNS = (
    Column("model", most=40),
    Column("device", most=24),
    Column("setting", most=11),
    Column("estimate", is_number=True),
    Column("80 % within", is_number=True),
    Column("rate", is_number=True),
    Column("runs on", most=24),
    Column("waits for", most=11, style="cyan"),
)
_IS_OWN, _IS_EXTRAPOLATED = "†", "*"
#: Meaning of the mark of an extrapolated estimate.
EXTRAPOLATED = "* extrapolated from the chip's specification: fewer than three publications measured it"


def render_estimates(
    profiles: Sequence[Profile], *, width: int = 100, color: bool = False, explained: bool = False
) -> str:
    """Estimates as tables: models × devices × settings, then the costliest kernels of a single one.

    Args:
        profiles: The profiles.
        width: The width of the terminal in characters.
        color: Uses colours.
        explained: Shows what each estimate is made of instead of kernels.
    """
    screen = Screen(width, color)
    results = [(profile, estimate) for profile in profiles for estimate in profile.estimates]
    _show_table(screen, profiles, results)
    _show_notes(screen, results)
    show_rates(screen, [rate for profile in profiles for rate in profile.rates])
    if len(profiles) == 1:
        show_savings(screen, profiles[0], profiles[0].estimates)
    if explained:
        show_explanations(screen, (estimate for _, estimate in results))
    elif len(results) == 1:
        _show_kernels(screen, *results[0])
    show_findings(screen, dict.fromkeys(finding for profile in profiles for finding in profile.findings))
    screen.line()
    explain = "" if explained else "--explain, "
    screen.line(
        f"more: {explain}--compute-units every, --json -; `coremlscope plan MODEL --device NAME`", "dim"
    )
    return screen.text


def _show_table(
    screen: Screen, profiles: Sequence[Profile], results: Sequence[tuple[Profile, Estimate]]
) -> None:
    models = list(dict.fromkeys(profile.model.path for profile in profiles))
    screen.title(
        "Estimated latency of one prediction", f"  {model_name(models[0])}" if len(models) == 1 else ""
    )
    if not results:
        return
    cells = [_cells(profile, estimate) for profile, estimate in results]
    hidden = set()
    if screen.width < _WIDE:
        hidden = {"rate", "waits for"} if len(models) > 1 else {"rate"}
    # What all have in common is not worth a column.
    if len({row["model"] for row in cells}) == 1:
        hidden.add("model")
    if {row["setting"] for row in cells} == {"all"}:
        hidden.add("setting")
    kept = [column for column in _COLUMNS if column.title not in hidden]
    screen.table(kept, [tuple(row[column.title] for column in kept) for row in cells])


def _show_notes(screen: Screen, results: Sequence[tuple[Profile, Estimate]]) -> None:
    """Explains marks, and prints what estimates leave out and what else they say."""
    _show_marks(screen, [estimate for _, estimate in results])
    for text in dict.fromkeys(_left_out(profile, estimate) for profile, estimate in results):
        if text:
            screen.line(text, "yellow", indent=2)
    for _, estimate in results:
        of = f"{estimate.device}, {estimate.compute_units}: " if len(results) > 1 else ""
        for text in estimate.notes:
            screen.line(of + text, "dim", indent=2)
    note = "estimated from published latencies, not measured; assumes that nothing else runs on the device"
    screen.line(note if results else "no estimate", "dim", indent=2)


def _left_out(profile: Profile, estimate: Estimate) -> str:
    """Names the operations that the estimate does not include."""
    if not estimate.left_out:
        return ""
    name = Path(profile.model.path).stem
    return f"{name + ' ' if name else ''}at least, without {', '.join(estimate.left_out)}: unknown"


def _cells(profile: Profile, e: Estimate) -> dict[str, str]:
    return {
        "model": Path(profile.model.path).stem,
        "device": e.device,
        "setting": e.compute_units,
        "estimate": _value(e),
        "80 % within": interval_ms(e),
        "rate": f"{'< ' if e.is_at_least else ''}{format_rate(e.latency.value)} /s",
        "runs on": _placement(e.placement),
        "waits for": BOUND_WORDS[e.bound],
    }


def _show_kernels(screen: Screen, profile: Profile, e: Estimate) -> None:
    changes = plural(e.switches, "change")
    rows = _costliest(profile, e)
    if rows:
        screen.heading("The costliest kernels", f"{len(e.kernel_s)} in all, {changes} of unit")
        columns = [
            Column("kernel", most=36),
            Column("kind", style="cyan"),
            Column("operations", is_number=True),
            Column("unit"),
            Column("estimate", is_number=True),
            Column("share", is_number=True),
            Column("waits for"),
        ]
        screen.table(columns, [_kernel_row(profile, e, index) for index in rows])
    parts = [
        (name, format_duration(s), format_share(s / e.latency.value)) for name, s in e.parts.items() if s
    ]
    if parts:
        screen.heading("Where the time goes")
        columns = [Column("waiting for"), Column("estimate", is_number=True), Column("share", is_number=True)]
        screen.table(columns, parts)


def _costliest(profile: Profile, e: Estimate) -> list[int]:
    """The kernels that take longest, as indices."""
    order = sorted(range(len(e.kernel_s)), key=lambda index: -e.kernel_s[index])
    return order[:_COSTLIEST] if profile.kernels else []


def _kernel_row(profile: Profile, e: Estimate, index: int) -> tuple[str, ...]:
    kernel, seconds = profile.kernels[index], e.kernel_s[index]
    return (
        kernel.name,
        kernel.kind,
        str(len(kernel.ops)),
        SHORT_UNIT_NAMES[e.units[e.kernel_unit[index]]],
        format_duration(seconds),
        format_share(seconds / e.latency.value),
        BOUND_WORDS[e.kernel_bound[index]],
    )


def _show_marks(screen: Screen, estimates: Sequence[Estimate]) -> None:
    """Explains the marks of estimates."""
    if any(mark_of(e) == _IS_EXTRAPOLATED for e in estimates):
        screen.line(EXTRAPOLATED, "dim", indent=2)
    for text in dict.fromkeys(f"{_IS_OWN} {calibrated_on(e)}" for e in estimates if e.own):
        screen.line(text, "dim", indent=2)


def mark_of(e: Estimate) -> str:
    """The mark of an estimate: `†` if the user's own measurements refine it, `*` if its chip has none."""
    if e.own is not None:
        return _IS_OWN
    return _IS_EXTRAPOLATED if e.basis == "extrapolated" else ""


def calibrated_on(e: Estimate) -> str:
    """Which of the user's measurements an estimate uses; empty if it uses none."""
    if e.own is None:
        return ""
    return describe_own(e.own, all_chips()[e.chip].name)


def _value(e: Estimate) -> str:
    return f"{'≥ ' if e.is_at_least else ''}{milliseconds(e.latency.value)} ms{mark_of(e):1}"


def interval_ms(e: Estimate) -> str:
    """The interval of an estimate, in milliseconds; open at the end of one that leaves something out."""
    return f"{milliseconds(e.latency.low)} – ?" if e.is_at_least else within_ms(e.latency)


def within_ms(latency: Figure) -> str:
    """The interval of a figure in seconds, in milliseconds: `1.20 – 3.40`."""
    return f"{milliseconds(latency.low)} – {milliseconds(latency.high)}"


def milliseconds(seconds: float) -> str:
    """Milliseconds with three digits: the unit in which latencies of networks are given."""
    ms = seconds * 1e3
    if ms < 0.0995:
        return f"{ms:.3g}"
    digits = 3 if ms < 0.9995 else 2 if ms < 9.995 else 1 if ms < 99.95 else 0
    return f"{ms:.{digits}f}"


def _placement(placement: Mapping[ComputeUnit, float]) -> str:
    shares = sorted(placement.items(), key=lambda pair: -pair[1])
    return " ".join(f"{SHORT_UNIT_NAMES[unit]} {share:.0%}" for unit, share in shares if share >= 0.005)


def show_device_latencies(screen: Screen, profile: Profile) -> None:
    """Prints the estimates of a profile, apart from what was measured."""
    estimates = listed_estimates(profile)
    if not estimates:
        return
    screen.heading("On Apple devices", "estimated from published latencies; nothing of it was measured")
    columns = [
        Column("device", style="cyan"),
        Column("setting", most=11),
        Column("estimate", is_number=True),
        Column("80 % within", is_number=True),
        Column("runs on"),
        Column("waits for"),
    ]
    if len({e.compute_units for e in estimates}) == 1:
        del columns[1]
        rows = latency_rows(estimates)
    else:
        pairs = zip(latency_rows(estimates), estimates, strict=True)
        rows = [(row[0], e.compute_units, *row[1:]) for row, e in pairs]
    screen.table(columns, rows)
    _show_marks(screen, estimates)
    if estimates[0].left_out:
        screen.line(f"at least, without {', '.join(estimates[0].left_out)}: unknown", "yellow", indent=2)
    show_rates(screen, profile.rates)
    show_savings(screen, profile, list(profile.headline_estimates()))


def listed_estimates(profile: Profile) -> list[Estimate]:
    """Those that a report lists: one a device beside measurements, all where nothing was measured."""
    return list(profile.headline_estimates() if profile.measurements else profile.estimates)


def latency_rows(estimates: Sequence[Estimate]) -> list[tuple[str, ...]]:
    """Device, estimate, interval, placement and bound of each."""
    return [
        (e.device, _value(e), interval_ms(e), _placement(e.placement), BOUND_WORDS[e.bound])
        for e in estimates
    ]


def render_estimates_json(profiles: Sequence[Profile]) -> str:
    """Estimates as JSON text: a list."""
    return render_values(estimates_to_json(profiles))


def estimates_to_json(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """Estimates as plain values, one for every model, device and setting."""
    return [_to_json(profile, estimate) for profile in profiles for estimate in profile.estimates]


def _to_json(profile: Profile, e: Estimate) -> dict[str, Any]:
    ends = {name: getattr(e.latency, name) * 1e3 for name in ("value", "low", "high")}
    return {
        "model": profile.model.path,
        "device": e.device,
        "chip": e.chip,
        "os": e.os,
        "compute_units": e.compute_units,
        "origin": e.latency.origin,
        "basis": e.basis,
        "own_measurements": None if e.own is None else plain(e.own),
        "latency_ms": ends,
        "frames_per_second": e.per_second,
        "bound": e.bound,
        "parts_ms": {name: seconds * 1e3 for name, seconds in e.parts.items()},
        "placement": dict(e.placement),
        "switches": e.switches,
        "terms_ms": [_terms_to_json(terms) for terms in e.terms],
        "left_out": list(e.left_out),
        "left_out_share": e.left_out_share,
        "is_at_least": e.is_at_least,
        "notes": list(e.notes),
        "kernels": [_kernel_to_json(profile, e, index) for index in _costliest(profile, e)],
        "load": None if e.load is None else plain(e.load),
        "near": [plain(row) for row in e.near],
        "savings": _savings_to_json(profile, e),
        "tokens_per_second": [plain(rate) for rate in profile.rates if _is_of(rate, e)],
    }


def _savings_to_json(profile: Profile, e: Estimate) -> list[dict[str, Any]]:
    """The reasons without which a prediction would take less time, as in the form of a plan."""
    view = profile.view_of(e)
    return [] if view is None else [what_if_to_json(view, one) for one in find_savings(view)]


def _is_of(rate: TokenRate, e: Estimate) -> bool:
    return (rate.device, rate.os, rate.compute_units) == (e.device, e.os, e.compute_units)


def _terms_to_json(terms: UnitTerms) -> dict[str, Any]:
    """The terms of a unit in milliseconds: `launch`, `compute`, …."""
    return {
        name.removesuffix("_s"): value * 1e3 if name.endswith("_s") else value
        for name, value in plain(terms).items()
    }


def _kernel_to_json(profile: Profile, e: Estimate, index: int) -> dict[str, Any]:
    kernel = profile.kernels[index]
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "operations": [profile.ops.id[row] for row in kernel.ops],
        "unit": e.units[e.kernel_unit[index]],
        "ms": e.kernel_s[index] * 1e3,
        "bound": e.kernel_bound[index],
    }
