"""Chips and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.base.units import format_cost
from coremlscope.devices.chip import Chip, Fact
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE
from coremlscope.reports.document import Block, Column, Facts, Heading, Hint, Table, Text, Title, numbers
from coremlscope.reports.words import plural

if TYPE_CHECKING:
    from coremlscope.planning.cost.planned.rates import RateTable

#: Characters for the names of the devices of a chip; those that do not fit are counted.
_ROOM = 44


def chips_document(chips: Sequence[Chip]) -> Iterator[Block]:
    """Yields one row a chip."""
    yield Title("Devices", "as published; unpublished numbers are left blank")
    columns = (
        Column("chip", style="cyan"),
        Column("name", most=20, rank=2),
        Column("CPU"),
        *numbers("GPU", "NE", "NE TOPS", "GB/s"),
        Column("gen.", rank=3),
        Column("systems", most=40, rank=3),
        Column("devices", most=_ROOM, least=_ROOM, rank=1),
    )
    yield Table(columns, [_row(chip) for chip in chips])
    yield Hint("CPU: performance + efficiency cores; TOPS: peak of the Neural Engine; GB/s: of the memory")


def _row(chip: Chip) -> tuple[str, ...]:
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
        _products([product.name for product in chip.products]),
    )


def _products(names: Sequence[str]) -> str:
    """Returns as many names as there is room for, each in full, and the number of the others."""
    for shown in range(len(names), 0, -1):
        rest = f" and {len(names) - shown} more" if shown < len(names) else ""
        if len(text := ", ".join(names[:shown]) + rest) <= _ROOM:
            return text
    return plural(len(names), "device") if names else ""


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def chip_document(chip: Chip) -> Iterator[Block]:
    """Yields every number of a chip, with its source."""
    yield Title(chip.name)
    systems = ", ".join(f"{platform} from {first}" for platform, first in chip.releases.items())
    products = ", ".join(product.name for product in chip.products)
    yield Facts([("systems", systems), ("devices", products)])
    parts = (("Neural Engine", chip.units[NEURAL_ENGINE]), ("GPU", chip.units[GPU]), ("CPU", chip.units[CPU]))
    for title, facts in (*parts, ("Memory", chip.memory)):
        if facts:
            yield Heading(title)
            columns = (Column("", style="cyan"), Column("", is_number=True), Column(""), Column(""))
            yield Table(columns, _facts(facts))


def _facts(facts: Mapping[str, Sequence[Fact]]) -> list[tuple[str, ...]]:
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


def rates_document(table: RateTable) -> Iterator[Block]:
    """Yields every rate behind planned costs on a chip: its interval, and where it comes from."""
    yield Title(f"Rates of planned costs on {table.chip}, {table.os}")
    yield Text(table.name, "", 0)
    columns = (
        Column("class", style="cyan"),
        Column("backend", rank=-1),
        *numbers("10⁹/s"),
        Column("interval", rank=1),
        Column("basis"),
        Column("from"),
    )
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
    yield Heading("Rates", "bytes, elements or operations")
    yield Table(columns, rows)
    launches = table.transition_costs.launch_ms.items()
    yield Text(", ".join(f"entering {backend}: {format_cost(ms)}" for backend, ms in launches), "")


def rates_to_json(table: RateTable) -> dict[str, Any]:
    """Every rate behind planned costs on a chip."""
    return {"schema": "coremlscope.rates/1", **msgspec.to_builtins(table)}


def devices_to_json(chips: Sequence[Chip]) -> dict[str, Any]:
    """Everything, with sources."""
    return {"schema": "coremlscope.devices/1", "chips": msgspec.to_builtins(chips)}


def _gigabytes(rate_Bps: float) -> str:  # noqa: N803
    gigabytes = rate_Bps / 1e9
    return f"{gigabytes:.0f}" if gigabytes >= 100 else f"{gigabytes:.3g}"
