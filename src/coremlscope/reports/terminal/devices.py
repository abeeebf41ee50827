"""Chips and devices, for the console and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coremlscope.devices.chip import Chip, Fact, Facts
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE
from coremlscope.planning.cost.planned.rates import RateTable
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural

__all__ = ["devices_to_json", "rates_to_json", "render_chip", "render_chips", "render_rates"]

#: Width of the other columns of the table of chips, and the least room for names of devices.
_OTHERS_WIDTH, _LEAST_ROOM = 85, 12


def render_chips(chips: Sequence[Chip], *, width: int = 100, color: bool = False) -> str:
    """One row a chip."""
    screen = Screen(width, color)
    screen.title("Devices", "  as published; unpublished numbers are left blank")
    room = max(width - _OTHERS_WIDTH, _LEAST_ROOM)
    columns = [
        Column("chip", style="cyan"),
        Column("name"),
        Column("CPU"),
        Column("GPU", is_number=True),
        Column("NE", is_number=True),
        Column("NE TOPS", is_number=True),
        Column("GB/s", is_number=True),
        Column("gen."),
        Column("systems"),
        Column("devices", most=room, least=room),
    ]
    screen.table(columns, [_row(chip, room) for chip in chips])
    screen.line()
    screen.line(
        "CPU: performance + efficiency cores; TOPS: peak of the Neural Engine; GB/s: of the memory", "dim"
    )
    return screen.text


def _row(chip: Chip, room: int) -> tuple[str, ...]:
    fast, slow = (chip.value(CPU, f"{kind}_cores") for kind in ("performance", "efficiency"))
    peak = chip.value(NEURAL_ENGINE, "peak_OPps")
    memory = chip.memory.get("bandwidth_Bps")
    systems = ", ".join(f"{name} {first}+" for name, first in chip.releases.items() if name != "visionOS")
    return (
        chip.id,
        chip.name,
        f"{_whole(fast)}+{_whole(slow)}" if fast and slow else "",
        _whole(chip.value(GPU, "cores")),
        _whole(chip.value(NEURAL_ENGINE, "cores")),
        f"{peak / 1e12:.3g}" if peak else "",
        _gigabytes(memory[0].value) if memory else "",
        f"H{chip.neural_engine_generation}",
        systems,
        _products([product.name for product in chip.products], room),
    )


def _products(names: Sequence[str], room: int) -> str:
    """Returns as many names as there is room for, each in full, and the number of the others."""
    for shown in range(len(names), 0, -1):
        rest = f" and {len(names) - shown} more" if shown < len(names) else ""
        if len(text := ", ".join(names[:shown]) + rest) <= room:
            return text
    return plural(len(names), "device") if names else ""


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def render_chip(chip: Chip, *, width: int = 100, color: bool = False) -> str:
    """Every number of a chip, with its source."""
    screen = Screen(width, color)
    screen.title(chip.name)
    systems = ", ".join(f"{platform} from {first}" for platform, first in chip.releases.items())
    products = ", ".join(product.name for product in chip.products)
    screen.pairs([("systems", systems), ("devices", products)])
    parts = (("Neural Engine", chip.units[NEURAL_ENGINE]), ("GPU", chip.units[GPU]), ("CPU", chip.units[CPU]))
    for title, facts in (*parts, ("Memory", chip.memory)):
        if facts:
            screen.heading(title)
            columns = [Column("", style="cyan"), Column("", is_number=True), Column(""), Column("")]
            screen.table(columns, _facts(facts))
    return screen.text


def _facts(facts: Facts) -> list[tuple[str, ...]]:
    return [
        (_fact_name(name) if index == 0 else "", _amount(name, fact.value), fact.kind, _source(fact))
        for name, several in facts.items()
        for index, fact in enumerate(several)
    ]


def _fact_name(name: str) -> str:
    """Returns what a figure is called: `fp16 rate` for `fp16_FLOPps`."""
    for ending, _, _, noun in _AMOUNTS:
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}{noun}".replace("_", " ").replace("dram", "DRAM")
    return name.replace("_", " ")


def _source(fact: Fact) -> str:
    return f"{fact.source}{f' ({fact.note})' if fact.note else ''}"


#: By the end of a name: the factor, the unit that people read, and what they call the figure.
_AMOUNTS = (
    ("_OPps", 1e-12, "TOPS", " rate"),
    ("_FLOPps", 1e-12, "TFLOP/s", " rate"),
    ("_Bps", 1e-9, "GB/s", ""),
    ("_Hz", 1e-9, "GHz", ""),
    ("_bytes", 1e-6, "MB", ""),
    ("_s", 1e3, "ms", ""),
)


def _amount(name: str, value: float) -> str:
    for ending, factor, unit, _ in _AMOUNTS:
        if name.endswith(ending):
            return f"{value * factor:.4g} {unit}"
    return f"{value:g}"


def render_rates(table: RateTable, *, width: int = 100, color: bool = False) -> str:
    """Every rate behind planned costs on a chip: its interval, and where it comes from."""
    screen = Screen(width, color)
    screen.title(f"Rates of planned costs on {table.chip}, {table.os}")
    screen.line(table.name)
    columns = [
        Column("class", style="cyan"),
        Column("backend"),
        Column("10⁹/s", is_number=True),
        Column("interval", rank=1),
        Column("basis"),
        Column("from"),
    ]
    rows = [
        (
            name if index == 0 else "",
            backend,
            f"{rate.value:.5g}",
            f"{rate.low:.4g} … {rate.high:.4g}" if rate.low < rate.high else "",
            rate.basis,
            "; ".join(filter(None, (rate.publication, rate.law, rate.note))),
        )
        for name, rates in table.rates.items()
        for index, (backend, rate) in enumerate(rates.items())
    ]
    screen.heading("Rates", "bytes, elements or operations")
    screen.table(columns, rows)
    launches = table.transition_costs.launch_ms.items()
    screen.line(", ".join(f"entering {backend}: {ms:g} ms" for backend, ms in launches), indent=2)
    return screen.text


def rates_to_json(table: RateTable) -> dict[str, Any]:
    """Every rate behind planned costs on a chip."""
    return {
        "schema": "coremlscope.rates/1",
        "chip": table.chip,
        "os": table.os,
        "name": table.name,
        "rates": {
            name: {backend: msgspec.to_builtins(rate) for backend, rate in rates.items()}
            for name, rates in table.rates.items()
        },
        "transition_costs": msgspec.to_builtins(table.transition_costs),
    }


def devices_to_json(chips: Sequence[Chip]) -> dict[str, Any]:
    """Everything, with sources."""
    return {"schema": "coremlscope.devices/1", "chips": [_chip(chip) for chip in chips]}


def _chip(chip: Chip) -> dict[str, Any]:
    return {
        "id": chip.id,
        "name": chip.name,
        "family": chip.family,
        "platform": chip.platform,
        "releases": dict(chip.releases),
        "devices": [msgspec.to_builtins(product) for product in chip.products],
        "units": {unit: _plain(facts) for unit, facts in chip.units.items()},
        "memory": _plain(chip.memory),
    }


def _plain(facts: Facts) -> dict[str, Any]:
    return {name: [msgspec.to_builtins(fact) for fact in several] for name, several in facts.items()}


def _gigabytes(rate_Bps: float) -> str:  # noqa: N803
    gigabytes = rate_Bps / 1e9
    return f"{gigabytes:.0f}" if gigabytes >= 100 else f"{gigabytes:.3g}"
