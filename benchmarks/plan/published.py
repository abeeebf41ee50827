"""Reads the published plans with which ours are compared."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.planning.placement.backend import Backend

__all__ = [
    "FOLDER",
    "DumpRow",
    "Share",
    "read_context",
    "read_dump",
    "read_mobilenet",
    "read_shapes",
    "read_shares",
    "read_support",
]

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "plans"

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


@dataclass(frozen=True)
class Share:
    """The operations of a network on each unit under one setting.

    Attributes:
        model: The name of its file.
        setting: The setting.
        counts: Operations by unit.
    """

    model: str
    setting: ComputeUnits
    counts: Mapping[ComputeUnit, int]


#: The units' names in published shares.
_UNITS: Mapping[str, ComputeUnit] = {"CPU": "cpu", "GPU": "gpu", "ANE": "neural_engine"}


def read_shares(folder: Path = FOLDER) -> list[Share]:
    """Reads the units of five networks at batch 16 on an M4 Pro under three settings."""
    rows = json.loads((folder / "placement-m4-pro.json").read_text())["rows"]
    return [
        Share(
            row["model"],
            row["units"].lower(),
            {_UNITS[unit]: round(share * row["ops"]) for unit, share in row["by_count_fraction"].items()},
        )
        for row in rows
    ]


def read_mobilenet(folder: Path = FOLDER) -> list[tuple[str, ComputeUnit, float]]:
    """Reads MobileNet at batch 16 on an M4 Pro: type, unit and share of cost of each operation."""
    rows = json.loads((folder / "m4_pro_mobilenet_b16_all.json").read_text())["operations"]
    return [(row["operator"].rpartition(".")[2], _UNITS[row["preferred"]], row["cost"]) for row in rows]


def read_shapes(chip: str, folder: Path = FOLDER) -> list[dict[str, str]]:
    """Reads operations with known shapes and costs from plans of one chip: the columns of the table."""
    with (folder / "more_plans.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["chip"].startswith(chip)]
    return [row for row in rows if row["shapes_params"] and row["op_index"].startswith("main")]
