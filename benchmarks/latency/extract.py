"""Extracts the calibration data from a collection of published latencies and packages without weights.

It writes `data/measurements.csv` (rows with their sources) and `data/kernels.csv.gz` (the kernels of every
network), so that calibration and validation do not need the collection.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import msgspec.structs

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE
from coremlscope.formats import container
from coremlscope.model.ir import Program
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from coremlscope.planning.cost.latency.table import KernelTable

DATA = Path(__file__).parent / "data"
MEASUREMENTS = DATA / "measurements.csv"
KERNELS = DATA / "kernels.csv.gz"
#: Measurements beside those of the collection, with the same columns, and the kernels of their networks.
FURTHER_MEASUREMENTS = DATA / "further_measurements.csv"
FURTHER_KERNELS = DATA / "further_kernels.csv.gz"
#: Measurements that never enter a fit, with the same columns, and the kernels of their networks.
HELD_OUT_MEASUREMENTS = DATA / "held_out.csv"
HELD_OUT_KERNELS = DATA / "held_out_kernels.csv.gz"
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
    "ran_on",
    "batch",
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
    ("eks-a9", "EKS-A9"),
    ("whisper.cpp", "whisper.cpp"),
    ("fluidinference", "FluidInference"),
)
#: What the collection notes about where all units ran a network.
_ON_GPU = re.compile(r"ALL (?:ran|runs|is) (?:on )?the GPU")
_ON_NEURAL_ENGINE = re.compile(r"ALL ran on the Neural Engine")
_ON_CPU = re.compile(r"places it on CPU even")
#: Rows of a CPU or GPU whose clock was low, because it was idle between predictions.
_IDLE = re.compile(r"sporadic calls")
#: Rows of the GPU whose plan, printed beside them, uses the CPU for most operations.
_MOSTLY_ELSEWHERE = re.compile(r"puts only")
_SOURCES = ("latencies.csv", "latencies_m_series.csv")


def extract(collection: Path) -> None:
    """Writes both files.

    Args:
        collection: A folder with `latencies.csv`, `latencies_m_series.csv` and `models/`.
    """
    with (collection / "models" / "index.csv").open(newline="") as file:
        index = list(csv.DictReader(file))
    networks = {row: Path(m["file"]).stem for m in index for row in m["latency_rows"].split()}
    kept = [r for r in _rows(collection) if r["row_id"] in networks and r["grade"] in "AB"]
    with_engine = {
        (r["source"], networks[r["row_id"]], r["chip"]) for r in kept if r["compute_units"] == "CPU_AND_NE"
    }
    DATA.mkdir(exist_ok=True)
    with MEASUREMENTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in kept:
            network = networks[row["row_id"]]
            has_engine = (row["source"], network, row["chip"]) in with_engine
            writer.writerow(_measurement(row, network, _ran_on(row, network, has_engine)))
    _write_kernels(KERNELS, collection / "models", {networks[row["row_id"]] for row in kept})


def extract_further(packages: Path) -> None:
    """Writes the kernels of the networks of the further measurements, and of those that enter no fit.

    A network is in one file, that of the collection first.

    Args:
        packages: A folder with a package `NETWORK.mlpackage` for each network that is not yet written.
    """
    known = set(kernels_by_network(KERNELS))
    for measurements, kernels in (
        (FURTHER_MEASUREMENTS, FURTHER_KERNELS),
        (HELD_OUT_MEASUREMENTS, HELD_OUT_KERNELS),
    ):
        with measurements.open(newline="") as file:
            networks = {row["network"] for row in csv.DictReader(file)} - known
        _write_kernels(kernels, packages, networks)
        known |= networks


def _write_kernels(path: Path, packages: Path, networks: Iterable[str]) -> None:
    """Writes the kernels of networks; those without a package keep what is written of them."""
    written = kernels_by_network(path)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("network", "times", *(field for field in KernelTable.__struct_fields__)))
    for network in sorted(networks):
        package = packages / f"{network}.mlpackage"
        lines = written[network] if network in written and not package.exists() else _kernels(package)
        for line in lines:
            writer.writerow((network, *line))
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def kernels_by_network(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Returns the rows of a file of kernels by network; none if there is no such file."""
    if not path.exists():
        return {}
    found: dict[str, list[tuple[object, ...]]] = {}
    for network, *line in list(csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))[1:]:
        found.setdefault(network, []).append(tuple(line))
    return found


def _rows(collection: Path) -> Iterator[dict[str, str]]:
    for name in _SOURCES:
        with (collection / name).open(newline="") as file:
            yield from csv.DictReader(file)


def _ran_on(row: Mapping[str, str], network: str, has_engine: bool) -> str:
    """Returns the unit that ran a network; empty where it is not known, `idle` for GPUs at a low clock."""
    setting, notes = row["compute_units"], row["notes"]
    if _ON_CPU.search(notes) or setting == "CPU_ONLY":
        return "idle" if _IDLE.search(notes) else CPU
    if setting == "CPU_AND_GPU" or (setting == "ALL" and _ON_GPU.search(notes)):
        if _MOSTLY_ELSEWHERE.search(notes):
            return ""
        return "idle" if _IDLE.search(notes) else GPU
    if row["precision"].startswith("fp32") and network.endswith("fp32"):
        return ("idle" if _IDLE.search(notes) else CPU) if setting == "CPU_AND_NE" else ""
    if setting == "CPU_AND_NE" or row["chip"].startswith("A") or _ON_NEURAL_ENGINE.search(notes):
        return NEURAL_ENGINE
    return "" if has_engine else NEURAL_ENGINE


def _measurement(row: dict[str, str], network: str, ran_on: str) -> tuple[str, ...]:
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
        ran_on,
        row["batch"],
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
    counted = Counter(zip(*msgspec.structs.astuple(table), strict=True))
    for (kind, *numbers), times in counted.items():
        yield (
            times,
            KERNEL_KINDS[int(kind)],
            *(f"{number:g}" if number % 1 else int(number) for number in numbers),
        )
