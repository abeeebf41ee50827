"""Extracts the kernels of published networks from packages without weights, so that no fit needs these."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec.structs

from coremlscope.formats import container
from coremlscope.model.ir import Program
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from coremlscope.planning.cost.latency.table import KernelTable

DATA = Path(__file__).parents[2] / "tests" / "data" / "latency"
#: Every published latency: one row each, with its source, date, grade, device, system, setting and statistic.
ROWS = DATA / "rows.csv"
#: The kernels of their networks.
KERNELS = DATA / "kernels.csv.gz"
_FORMS = (".mlpackage", ".mlmodel")


def package_of(folder: Path, network: str) -> Path | None:
    """Returns the model of a network in a folder, if it is there."""
    paths = (folder / f"{network}{form}" for form in _FORMS)
    return next((path for path in paths if path.exists()), None)


def extract(packages: Path) -> int:
    """Writes the kernels of the networks of all rows; returns the number of networks.

    Args:
        packages: A folder with models named like the networks; those that it lacks keep what is written.
    """
    with ROWS.open(newline="") as file:
        networks = sorted({row["network"] for row in csv.DictReader(file)})
    written = _written()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("network", "times", *KernelTable.__struct_fields__))
    for network in networks:
        package = package_of(packages, network)
        for line in written[network] if package is None else kernels_of(package):
            writer.writerow((network, *line))
    KERNELS.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return len(networks)


def _written() -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[tuple[object, ...]]] = {}
    for network, *line in list(csv.reader(io.StringIO(gzip.decompress(KERNELS.read_bytes()).decode())))[1:]:
        found.setdefault(network, []).append(tuple(line))
    return found


def kernels_of(path: Path) -> Iterator[tuple[object, ...]]:
    """Yields the distinct kernels of a model with their counts."""
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
