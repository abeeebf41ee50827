"""Extracts the calibration data from a collection of published latencies and packages without weights.

It writes `data/measurements.csv` (rows with their sources) and `data/kernels.csv.gz` (the kernels of every
network), so that calibration and validation do not need the collection.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path

from coremlscope.cost.latency.kernels import fuse
from coremlscope.cost.latency.kinds import KERNEL_KINDS
from coremlscope.cost.latency.table import KernelTable
from coremlscope.formats import container
from coremlscope.ir import Program
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind

DATA = Path(__file__).parent / "data"
MEASUREMENTS = DATA / "measurements.csv"
KERNELS = DATA / "kernels.csv.gz"
COLUMNS = (
    "row",
    "network",
    "family",
    "publication",
    "source",
    "url",
    "model",
    "device",
    "chip",
    "os",
    "compute_units",
    "precision",
    "latency_ms",
    "grade",
)

#: Sources that belong to one publication: the same authors, phone and tool.
_PUBLICATIONS = (
    ("mobileone", "MobileOne"),
    ("fastvit", "FastViT"),
    ("repvit", "RepViT"),
    ("starnet", "StarNet"),
    ("swiftformer", "SwiftFormer"),
    ("iformer", "iFormer"),
    ("repnext", "RepNeXt"),
    ("coremltools", "coremltools"),
    ("snap-research/efficientformer", "EfficientFormer"),
    ("coreml-model-zoo", "coreml-model-zoo"),
    ("mobilevit", "MobileViT"),
    ("woolfel", "ml-macos-performance"),
    ("efficientformer issue", "users"),
    ("cvnets issue", "users"),
)


def extract(collection: Path) -> None:
    """Writes both files.

    Args:
        collection: A folder with `latencies.csv` and `models/`.
    """
    with (collection / "models" / "index.csv").open(newline="") as file:
        index = list(csv.DictReader(file))
    networks = {row: Path(m["file"]).stem for m in index for row in m["latency_rows"].split()}
    with (collection / "latencies.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["row_id"] in networks]
    kept = [r for r in rows if r["grade"] in "AB" and r["batch"] == "1"]
    DATA.mkdir(exist_ok=True)
    with MEASUREMENTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_measurement(row, networks[row["row_id"]]) for row in kept)
    used = sorted({networks[row["row_id"]] for row in kept})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("network", "times", *(field.name for field in fields(KernelTable))))
    for network in used:
        for line in _kernels(collection / "models" / f"{network}.mlpackage"):
            writer.writerow((network, *line))
    KERNELS.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def _measurement(row: dict[str, str], network: str) -> tuple[str, ...]:
    source = row["source"].lower()
    publication = next((name for part, name in _PUBLICATIONS if part in source), row["source"])
    return (
        row["row_id"],
        network,
        row["family"],
        publication,
        row["source"],
        row["url"],
        row["model_published"],
        row["device"],
        row["chip"],
        row["os"],
        row["compute_units"],
        row["precision"],
        row["latency_ms"],
        row["grade"],
    )


def _kernels(path: Path) -> Iterator[tuple[object, ...]]:
    """Yields the distinct kernels of a package with their counts."""
    content = container.read(path).content
    assert isinstance(content, Program)
    function = next(iter(content.functions.values()))
    table = KernelTable.of(fuse(bind(function, OPS).graph))
    counted = Counter(zip(*astuple(table), strict=True))
    for (kind, *numbers), times in counted.items():
        yield (
            times,
            KERNEL_KINDS[int(kind)],
            *(f"{number:g}" if number % 1 else int(number) for number in numbers),
        )
