"""Reads the published plans with which ours are compared from a shared folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coremlscope.placement.backend import Backend

__all__ = ["FOLDER", "DumpRow", "read_context", "read_dump", "read_support"]

FOLDER = Path(__file__).parents[2].parent / "shared" / "knowledge" / "plan" / "groundtruth"

#: The backends of the M1's dump in the order of its columns.
_COLUMNS: tuple[Backend, ...] = ("ane", "bnns", "classic_cpu", "mps_graph")


@dataclass(frozen=True)
class DumpRow:
    """An operation of the M1's dump.

    Attributes:
        name: Name in the dump: `ios17.conv:9:12`.
        type: Type of the operation without the opset.
        selected: The backend that Core ML selected.
        costs_ms: Core ML's cost estimates for the backends that support it.
        message: Why the Neural Engine rejects it; empty if the Neural Engine supports it.
    """

    name: str
    type: str
    selected: Backend
    costs_ms: Mapping[Backend, float]
    message: str


def read_dump(folder: Path = FOLDER) -> list[DumpRow]:
    """Reads the plan of MobilenetEdgeTPU on an M1 with macOS 14.5."""
    with (folder / "m1_mobilenet_edgetpu.csv").open(newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)][1:]
    found = []
    for row in rows:
        costs = {backend: float(cell) for backend, cell in zip(_COLUMNS, row[7:11], strict=True) if cell}
        selected = row[2].strip('"')
        backend = next(known for known in _COLUMNS if known == selected)
        found.append(DumpRow(row[0], row[1].partition(".")[2], backend, costs, row[11]))
    return found


def read_support(folder: Path = FOLDER) -> list[dict[str, str]]:
    """Reads the units that support each model of one operation on an M4: `model`, `ane`, `gpu`, `note`."""
    with (folder / "m4_isolated_support.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [dict(zip(("model", "ane", "gpu", "note"), row, strict=False)) for row in rows]


def read_context(folder: Path = FOLDER) -> list[tuple[str, str]]:
    """Reads the placement of operations between layers on an M4, with CPU and Neural Engine."""
    with (folder / "m4_context_preferred.csv").open(newline="") as file:
        return [(row[0], row[1]) for row in list(csv.reader(file))[1:]]
