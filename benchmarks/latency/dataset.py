"""Loads the published measurements and the kernels of their networks from `tests/data/latency/`."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec.structs import replace

from benchmarks.latency.extract import KERNELS, ROWS
from coremlscope.devices import Chip, ComputeUnit, ComputeUnits, Device, OSRelease, all_chips, ios, macos
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from coremlscope.planning.cost.latency.table import Floats, KernelTable

_CHIP_IDS = {"A17 Pro": "a17-pro", "A19 Pro": "a19-pro"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One published latency.

    Attributes:
        row: Its number.
        network: The package with the structure of the network.
        family: The family of architectures.
        publication: The publication.
        date: Its year and month; where it has none, those of the newest system that the row names.
        chip: The chip's id.
        release: The system. Where none was published, that of phones counts as iOS 16, as in most
            publications, or as the first one of later phones, and that of Macs, which all measured in 2025 or
            2026, as macOS 26.
        setting: The setting of compute units.
        ran_on: The unit that ran it: a setting with one accelerator, or what the publication says; empty if
            it is not known; `idle` for a GPU whose clock was low.
        precision: `fp16`, `w8`, `pal4`, `sparse75`, `w8a8`, `fp32`.
        ms: The latency.
        rounding: Half a unit of its last digit.
        grade: `A` or `B`.
        is_fitted: Whether fits may use it. MobileCLIP stays out, so that its rows show how good estimates are
            for networks like those of the article that profiles it.
    """

    row: str
    network: str
    family: str
    publication: str
    date: str
    chip: str
    release: OSRelease
    setting: ComputeUnits
    ran_on: ComputeUnit | Literal["", "idle"]
    precision: str
    ms: float
    rounding: float
    grade: str
    is_fitted: bool = True


def load_measurements() -> list[Measurement]:
    """Loads all measurements."""
    return [measurement_of(row) for row in load_rows()]


def load_rows() -> list[dict[str, str]]:
    """Loads the measurements as text."""
    with ROWS.open(newline="") as file:
        return list(csv.DictReader(file))


def measurement_of(row: Mapping[str, str]) -> Measurement:
    """Returns the measurement of a row of text.

    Args:
        row: The columns of `rows.csv`.

    Raises:
        KeyError: If a column is missing, or its chip is unknown.
        ValueError: If its latency is not a number.
    """
    digits = len(row["latency_ms"].partition(".")[2])
    chip = _CHIP_IDS.get(row["chip"], row["chip"].lower().replace(" ", "-"))
    return Measurement(
        row=row["row"],
        network=row["network"],
        family=row["family"],
        publication=row["publication"],
        date=row["date"],
        chip=chip,
        release=_release(row["os"], all_chips()[chip]),
        setting=row["compute_units"].lower(),  # type: ignore[arg-type]
        ran_on=row["ran_on"],  # type: ignore[arg-type]
        precision=_precision(row["precision"], row["network"]),
        ms=float(row["latency_ms"]),
        rounding=0.5 * 10**-digits,
        grade=row["grade"],
        is_fitted=row["use"] == "fit",
    )


def device_of(m: Measurement) -> Device:
    """Returns the device of a measurement: its chip with its system."""
    return Device(name=m.chip, chip=all_chips()[m.chip], os=m.release)


def _release(text: str, chip: Chip) -> OSRelease:
    named = re.match(r"(?:(iPadOS|iOS|macOS) )?(\d+)(?:\.(\d+))?(?!\d)", text)
    if named is None:
        return ios(max(16, chip.releases["iOS"])) if chip.platform == "iOS" else macos(26)
    # An iPad may have the chip of a Mac.
    return OSRelease("iOS" if named[1] == "iPadOS" else chip.platform, int(named[2]), int(named[3] or 0))


def _precision(text: str, network: str) -> str:
    if network.endswith(("fp32", "int4")):
        # The network is in this precision already.
        return "fp16"
    if "sparse" in text:
        return "sparse" + re.findall(r"\d+", text)[-1]
    if text.startswith("pal"):
        return "pal" + re.findall(r"\d+", text)[0]
    if text.startswith("fp32"):
        return "fp32"
    return "fp16" if text.startswith("fp16") else text


@dataclass(frozen=True, slots=True)
class Network:
    """The kernels of a network and the number of times that each runs."""

    table: KernelTable
    times: Floats


def load_networks() -> dict[str, Network]:
    """Loads all networks by name."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(gzip.decompress(KERNELS.read_bytes()).decode())):
        numbers = {
            name: float(row[name]) for name in ("times", *KernelTable.__struct_fields__) if name != "kind"
        }
        rows[row["network"]].append({**numbers, "kind": KERNEL_KINDS.index(row["kind"])})  # type: ignore[arg-type]
    return {name: network_of(kernels) for name, kernels in rows.items()}


def network_of(kernels: Sequence[Mapping[str, float]]) -> Network:
    """Returns the network of kernels, each with its numbers by name."""
    columns = {name: [kernel[name] for kernel in kernels] for name in kernels[0]}
    return Network(KernelTable.of_columns(columns), np.array(columns["times"]))


def in_precision(table: KernelTable, precision: str) -> KernelTable:
    """Returns the table of a half-precision network for compressed weights or for single precision."""
    if precision == "fp16":
        return table
    if precision == "fp32":
        return replace(table, element_bytes=table.element_bytes * 2, weight_bytes=table.weight_bytes * 2)
    number = int(re.findall(r"\d+", precision)[0])
    if precision.startswith("sparse"):
        # The nonzero elements, and one bit for each element.
        return replace(table, weight_bytes=table.weights * ((1 - number / 100) * 2 + 1 / 8))
    if precision == "w8a8":
        matrix = table.is_kind("conv", "pointwise", "depthwise", "grouped", "linear")
        int8 = np.where(matrix, 1.0, 0.0)
        return replace(table, weight_bytes=table.weights, int8=int8)
    return replace(table, weight_bytes=table.weights * number / 8)


def concatenate(networks: Sequence[Network], precision: str) -> tuple[KernelTable, Floats, np.ndarray]:
    """Concatenates networks; returns the table, the counts of kernels and the first row of each network."""
    parts = [in_precision(network.table, precision) for network in networks]
    columns = {
        name: np.concatenate([getattr(p, name) for p in parts]) for name in KernelTable.__struct_fields__
    }
    begins = np.cumsum([0, *(len(p) for p in parts)])[:-1]
    return KernelTable(**columns), np.concatenate([n.times for n in networks]), begins
