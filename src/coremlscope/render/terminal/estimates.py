"""Estimated latencies for the console and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.forecast.estimating import Estimated
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.words import model_name, plural
from coremlscope.results.profile import DeviceLatency
from coremlscope.units import format_duration, format_rate, format_share

__all__ = [
    "estimates_to_json",
    "latency_rows",
    "render_estimates",
    "render_estimates_json",
    "show_device_latencies",
]

_UNITS: dict[ComputeUnit, str] = {CPU: "CPU", GPU: "GPU", NEURAL_ENGINE: "NE"}
_COSTLIEST = 5
_WIDE = 100
_COLUMNS = (
    Column("model", most=40), Column("device", most=24), Column("setting", most=11),
    Column("estimate", is_number=True), Column("80 % within", is_number=True),
    Column("rate", is_number=True), Column("runs on", most=24), Column("waits for", most=11, style="cyan"),
)  # fmt: skip
_EXTRAPOLATED = "* extrapolated from the chip's specification: no latencies of it went into the model"


def render_estimates(results: Sequence[Estimated], *, width: int = 100, color: bool = False) -> str:
    """Estimates as tables: models × devices, then the costliest kernels of a single one."""
    page = Page(width, color)
    models = dict.fromkeys(result.model for result in results)
    page.title(
        "Estimated latency of one prediction", f"  {model_name(next(iter(models), ''))}" * (len(models) == 1)
    )
    columns = _COLUMNS if width >= _WIDE else [c for c in _COLUMNS if c.title != "rate"]
    if width < _WIDE and len(models) > 1:
        columns = [column for column in columns if column.title != "waits for"]
    cells = [_cells(result) for result in results]
    # What all have in common is not worth a column.
    dull = {
        name
        for name in ("model", "setting")
        if len({row[name] for row in cells}) == 1 and not (name == "setting" and cells[0][name] != "all")
    }
    kept = [column for column in columns if column.title not in dull]
    page.table(kept, [tuple(row[column.title] for column in kept) for row in cells])
    if any(result.estimate.basis == "extrapolated" for result in results):
        page.line(_EXTRAPOLATED, "dim", indent=2)
    for text in dict.fromkeys(map(_lacks, results)):
        if text:
            page.line(text, "yellow", indent=2)
    note = "estimated from published latencies, not measured; nothing else runs on the device"
    page.line(note, "dim", indent=2)
    if len(results) == 1:
        _show_kernels(page, results[0])
    page.line()
    page.line("more: --compute-units every, --json -; `coremlscope plan MODEL --device NAME`", "dim")
    return page.text


def _lacks(result: Estimated) -> str:
    """What the estimate of a pipeline does not hold."""
    if not result.left_out:
        return ""
    name = Path(result.model).stem
    return f"{name + ' ' if name else ''}without {', '.join(result.left_out)}: not known"


def _cells(result: Estimated) -> dict[str, str]:
    e = result.estimate
    mark = "" if e.basis == "calibrated" else "*"
    return {
        "model": Path(result.model).stem,
        "device": result.device.name,
        "setting": result.compute_units,
        "estimate": f"{_ms(e.latency.value)} ms{mark:1}",
        "80 % within": f"{_ms(e.latency.low)} – {_ms(e.latency.high)}",
        "rate": format_rate(e.per_second),
        "runs on": _placement(e.placement),
        "waits for": e.bound,
    }


def _show_kernels(page: Page, result: Estimated) -> None:
    e = result.estimate
    page.heading("The costliest kernels", f"{len(e.kernels)} in all, {plural(e.switches, 'change')} of unit")
    first = sorted(e.kernels, key=lambda kernel: -kernel.seconds)[:_COSTLIEST]
    page.table(
        [
            Column("kernel", most=36), Column("kind", style="cyan"), Column("operations", is_number=True),
            Column("unit"), Column("estimate", is_number=True), Column("share", is_number=True),
            Column("waits for"),
        ],
        [
            (
                k.name, k.kind, str(len(k.ops)), _UNITS[k.unit], format_duration(k.seconds),
                format_share(k.seconds / e.latency.value), k.bound,
            )
            for k in first
        ],
    )  # fmt: skip
    rows = [(name, format_duration(s), format_share(s / e.latency.value)) for name, s in e.parts.items() if s]
    page.heading("Where the time goes")
    page.table(
        [Column("waiting for"), Column("estimate", is_number=True), Column("share", is_number=True)], rows
    )


def _ms(seconds: float) -> str:
    """Milliseconds with three digits: what latencies of networks are told in."""
    ms = seconds * 1e3
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}" if ms < 0.1 else f"{ms:.2f}" if ms < 10 else f"{ms:.1f}"


def _placement(placement: Mapping[ComputeUnit, float]) -> str:
    shares = sorted(placement.items(), key=lambda pair: -pair[1])
    return " ".join(f"{_UNITS[unit]} {share:.0%}" for unit, share in shares if share >= 0.005)


def show_device_latencies(page: Page, estimates: Sequence[DeviceLatency]) -> None:
    """The estimates that a profile holds, apart from what was measured."""
    if not estimates:
        return
    page.heading("On Apple devices", "estimated from published latencies; nothing of it was measured")
    columns = [
        Column("device", style="cyan"), Column("estimate", is_number=True),
        Column("80 % within", is_number=True), Column("runs on"), Column("waits for"),
    ]  # fmt: skip
    page.table(columns, latency_rows(estimates))
    if any(e.basis == "extrapolated" for e in estimates):
        page.line(_EXTRAPOLATED, "dim", indent=2)
    if estimates[0].left_out:
        page.line(f"without {', '.join(estimates[0].left_out)}: not known", "yellow", indent=2)


def latency_rows(estimates: Sequence[DeviceLatency]) -> list[tuple[str, ...]]:
    """Device, estimate, interval, placement and bound of each."""
    return [
        (
            e.device,
            f"{_ms(e.latency.value)} ms{'' if e.basis == 'calibrated' else '*':1}",
            f"{_ms(e.latency.low)} – {_ms(e.latency.high)}",
            _placement(e.placement),
            e.bound,
        )
        for e in estimates
    ]


def render_estimates_json(results: Sequence[Estimated]) -> str:
    """Estimates as JSON text: a list."""
    return json.dumps(estimates_to_json(results), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def estimates_to_json(results: Sequence[Estimated]) -> list[dict[str, Any]]:
    """Estimates as plain values, one for every model, device and setting."""
    return [_to_json(result) for result in results]


def _to_json(result: Estimated) -> dict[str, Any]:
    e = result.estimate
    kernels = sorted(e.kernels, key=lambda kernel: -kernel.seconds)[:_COSTLIEST]
    return {
        "model": result.model,
        "device": result.device.name,
        "chip": result.device.chip.id,
        "os": str(result.device.os),
        "compute_units": result.compute_units,
        "origin": e.latency.origin,
        "basis": e.basis,
        "latency_ms": {
            "value": e.latency.value * 1e3, "low": e.latency.low * 1e3, "high": e.latency.high * 1e3,
        },
        "frames_per_second": e.per_second,
        "bound": e.bound,
        "parts_ms": {name: seconds * 1e3 for name, seconds in e.parts.items()},
        "placement": dict(e.placement),
        "switches": e.switches,
        "left_out": list(result.left_out),
        "kernels": [
            {
                "name": k.name, "kind": k.kind, "operations": list(k.ops), "unit": k.unit,
                "ms": k.seconds * 1e3, "bound": k.bound,
            }
            for k in kernels
        ],
    }  # fmt: skip
