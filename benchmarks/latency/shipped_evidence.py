"""Writes the published latencies that the package ships, beside our estimates of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.latency.dataset import (
    Measurement,
    Network,
    in_precision,
    load_measurements,
    load_networks,
    load_rows,
)
from coremlscope.devices import ComputeUnit, all_chips
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.constants import constants_of, on_system
from coremlscope.planning.cost.latency.evidence import PublishedLatency, write_evidence
from coremlscope.planning.cost.latency.roofline import time_kernels
from coremlscope.planning.cost.latency.structure import structure_of
from coremlscope.planning.cost.latency.table import Floats, KernelTable

EVIDENCE = (
    Path(__file__).parents[2]
    / "src"
    / "coremlscope"
    / "planning"
    / "cost"
    / "latency"
    / "data"
    / "evidence.csv.gz"
)


def published() -> Iterator[PublishedLatency]:
    """Yields every measurement of a known unit with the structure of its network and our estimate."""
    networks, rows = load_networks(), {row["row"]: row for row in load_rows()}
    for m in load_measurements():
        if m.ran_on not in ("", "idle") and m.is_fitted:
            yield _row(m, m.ran_on, networks[m.network], rows[m.row])


def write() -> int:
    """Writes the file, and returns the number of its rows."""
    rows = list(published())
    EVIDENCE.write_bytes(write_evidence(rows))
    return len(rows)


def _row(m: Measurement, unit: ComputeUnit, network: Network, row: Mapping[str, str]) -> PublishedLatency:
    table = in_precision(network.table, m.precision)
    constants = on_system(constants_of(load_calibration(), all_chips()[m.chip], unit), m.release)
    times = time_kernels(table, unit, constants)
    kernels = float((times.total * network.times).sum())
    seconds = max(kernels, float((times.stream * network.times).sum())) + constants.dispatch_s
    return PublishedLatency(
        network=m.network,
        family=m.family,
        publication=m.publication,
        # Files whose repository is not known have no address.
        url=row["url"] if row["url"].startswith("http") else "",
        date=row["date"],
        os=row["os"],
        chip=m.chip,
        setting=m.setting,
        unit=unit,
        precision=m.precision,
        measured_ms=m.ms,
        estimated_ms=seconds * 1e3,
        structure=structure_of(repeated(table, network.times), np.ones(int(network.times.sum()))),
    )


def repeated(table: KernelTable, times: Floats) -> KernelTable:
    """Returns a table with each kernel as often as it is in the network, each with weights of its own."""
    counts = times.astype(int)
    columns = {name: np.repeat(getattr(table, name), counts) for name in KernelTable.__struct_fields__}
    return KernelTable(**columns)
