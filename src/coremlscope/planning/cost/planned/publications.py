"""Reads the published rates behind Core ML's planned costs from `published/*.toml`, one file a system."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.devices.catalog import find_device
from coremlscope.devices.chip import Chip
from coremlscope.devices.release import OSRelease
from coremlscope.planning.placement.backend import BACKENDS, Backend, CostBasis

#: Speed of BNNS relative to the older CPU backend, for arithmetic, not for bytes moved: the ratio of all
#: published pairs.
BNNS_SPEEDUP = 1.1502184867858887

#: How a rate with some number of digits is known, and its relative uncertainty.
_DIGITS: Mapping[str, tuple[CostBasis, float]] = {
    "all": ("recovered", 0.0),
    "five": ("recovered", 1e-5),
    "four": ("recovered", 1e-4),
    "three": ("fitted", 5e-3),
    "two": ("fitted", 3e-2),
}


class PublishedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A published number and its bounds.

    Attributes:
        value: A rate in 10⁹ per second, or a cost in milliseconds.
        low: The smallest value that the publication allows.
        high: The largest value that the publication allows.
        basis: `recovered` or `fitted`; see `CostBasis`.
        note: How it follows from the publication; may be empty.
    """

    value: float
    low: float
    high: float
    basis: CostBasis
    note: str = ""


class Border(msgspec.Struct, frozen=True):
    """The border between two leaves of a decision tree.

    Attributes:
        low: The nearest published size below it.
        high: The nearest published size above it.
        likely: The size that decides between the two.
    """

    low: float
    high: float
    likely: float

    @classmethod
    def between(cls, low: float, high: float) -> Border:
        """Returns a border that lies in the middle of two published sizes, in logarithms."""
        return cls(low, high, math.sqrt(low * high))

    def narrowed(self, others: Iterable[Border]) -> Border:
        """Returns this border at the place which those of others share with it.

        Args:
            others: The same border on other chips, the nearest chip first. Those that contradict it, or a
                nearer one, are left out.
        """
        low, high = self.low, self.high
        for other in others:
            if max(low, other.low) < min(high, other.high):
                low, high = max(low, other.low), min(high, other.high)
        return replace(self, likely=math.sqrt(low * high))


class Borders(msgspec.Struct, frozen=True, kw_only=True):
    """The borders between the leaves of convolutions, in operations per byte.

    Attributes:
        sparse: Between the sparse and the medium leaf.
        dense: Between the medium and the dense leaf.
        long: The latter for convolutions with many products per result.
        products: The least number of products for `long`.
        weights_bytes: The least size of weights for which they were published.
    """

    sparse: Border
    dense: Border
    long: Border
    products: float
    weights_bytes: float


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """The rates in the published plans of one system.

    Attributes:
        chip: The chip.
        os: The system.
        name: Chip and system with all digits: `M4, macOS 27.0.1`.
        source: The publication.
        url: Its address.
        rates: By class of operations and backend.
        only_for: The classes and backends whose rates are transferred to no other `chip`, or only to chips
            with a `system` like it.
        launch_ms: The cost of entering a backend.
        borders: Between leaves of convolutions, those for the largest weights first; none where too few are
            published.
    """

    chip: Chip
    os: OSRelease
    name: str
    source: str
    url: str
    rates: Mapping[str, Mapping[Backend, PublishedNumber]]
    only_for: Mapping[tuple[str, Backend], str] = msgspec.field(default_factory=dict)
    launch_ms: Mapping[Backend, PublishedNumber] = msgspec.field(default_factory=dict)
    borders: tuple[Borders, ...] = ()


@functools.cache
def publications() -> tuple[Publication, ...]:
    """Returns all publications, by file name."""
    import tomllib

    folder = Path(__file__).with_name("published")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda f: f.name)
    return tuple(_publication(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files)


def _publication(table: Mapping[str, Any]) -> Publication:
    device = find_device(table["chip"], table["os"])
    digits = table["digits"]
    return Publication(
        chip=device.chip,
        os=device.os,
        name=f"{device.chip.name}, {table['os']}",
        source=table["source"],
        url=table["url"],
        rates={name: dict(_cpu(dict(_numbers(rates, digits)))) for name, rates in table["rates"].items()},
        only_for={
            (name, backend): what
            for name, rates in table["rates"].items()
            for backend, what in rates.get("only_for", {}).items()
        },
        launch_ms=dict(_numbers(table.get("launch_ms", {}), digits)),
        borders=tuple(_borders(one) for one in table.get("borders", ())),
    )


def _borders(table: Mapping[str, Any]) -> Borders:
    dense = table["dense"]
    return Borders(
        sparse=Border.between(*table["sparse"]),
        dense=Border.between(*dense),
        long=Border.between(*table.get("long", dense)),
        products=table.get("products", float("inf")),
        weights_bytes=table.get("weights_bytes", 0.0),
    )


def _numbers(table: Mapping[str, Any], digits: str) -> Iterator[tuple[Backend, PublishedNumber]]:
    basis, doubt = _DIGITS[table.get("digits", digits)]
    for backend in BACKENDS:
        if backend in table:
            value = float(table[backend])
            low = table.get("low", {}).get(backend, value * (1 - doubt))
            high = table.get("high", {}).get(backend, value * (1 + doubt))
            note = table.get("note", "")
            yield backend, PublishedNumber(value=value, low=low, high=high, basis=basis, note=note)


def _cpu(rates: dict[Backend, PublishedNumber]) -> Iterator[tuple[Backend, PublishedNumber]]:
    """Adds the rate of one CPU backend where only the other is published, in single precision."""
    yield from rates.items()
    if "classic_cpu" in rates and "bnns" not in rates:
        yield "bnns", _scaled(rates["classic_cpu"], BNNS_SPEEDUP)
    if "bnns" in rates and "classic_cpu" not in rates:
        yield "classic_cpu", _scaled(rates["bnns"], 1 / BNNS_SPEEDUP)


def _scaled(one: PublishedNumber, factor: float) -> PublishedNumber:
    value, low, high = (float(np.float32(number * factor)) for number in (one.value, one.low, one.high))
    return PublishedNumber(
        value=value, low=min(low, value), high=max(high, value), basis=one.basis, note=one.note
    )
