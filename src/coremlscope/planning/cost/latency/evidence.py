"""Published latencies that are closest to an estimate: similar networks on similar chips.

The table is written by `python -m benchmarks.latency calibrate` from the measurements that the model was
fitted to. It holds facts alone: who published which latency, and what the network consists of in numbers.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import math
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import msgspec.structs

from coremlscope.devices.catalog import all_chips
from coremlscope.devices.chip import Chip
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.planning.cost.latency.structure import Structure, distance
from coremlscope.results.estimate import NearRow

_FILE = "evidence.csv.gz"
#: Distance that a chip of another family, and each generation of Neural Engine between two chips, add.
_OTHER_FAMILY, _GENERATION = 0.05, 0.05
#: The first version that is numbered after a year.
_OF_2025 = 26
#: Sizes of equal networks differ by no more than this.
_EQUAL = 0.01
#: Distance that other compression of weights adds.
_OTHER_PRECISION = 0.1
#: How many rows are shown, and how many of one network, so that one that was published often leaves room.
_NEAR, _MOST_OF_ONE = 5, 2
_TEXTS = ("network", "family", "publication", "url", "date", "os", "chip", "setting", "unit", "precision")
_SAME = ("network", "publication", "chip", "precision")
_NUMBERS = ("measured_ms", "estimated_ms")
_SIZES = tuple(field for field in Structure.__struct_fields__)
#: The columns of the table, in order.
COLUMNS = (*_TEXTS, *_NUMBERS, *_SIZES)


class PublishedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """A published latency.

    Attributes:
        network: The network and the size of its input.
        family: Its family of architectures.
        publication: Who measured it.
        url: Where it was published; may be empty.
        date: Its year and month; may be empty.
        os: The system as published; may be empty.
        chip: The chip's id.
        setting: The setting of compute units.
        unit: The compute unit that ran it.
        precision: `fp16`, `w8`, `pal4`, `sparse75`, `w8a8`, `fp32`.
        measured_ms: The published latency.
        estimated_ms: Our estimate; the row itself may be among those that the model was fitted to.
        structure: What the network consists of.
    """

    network: str
    family: str
    publication: str
    url: str
    date: str
    os: str
    chip: str
    setting: ComputeUnits
    unit: ComputeUnit
    precision: str
    measured_ms: float
    estimated_ms: float
    structure: Structure

    def repeats(self, other: PublishedLatency) -> bool:
        """Returns whether both are of the same network on the same chip, by the same people."""
        return all(getattr(self, name) == getattr(other, name) for name in _SAME)

    @property
    def year(self) -> int | None:
        """The year of its system, else that of the publication."""
        return year_of(self.os) or (int(self.date[:4]) if self.date[:4].isdecimal() else None)


def year_of(system: str) -> int | None:
    """Returns the year of a system: 2019 for `iOS 13.5`; None for a text that names none."""
    named = re.match(r"(iPadOS|iOS|macOS) (\d+)", system)
    if named is None:
        return None
    release = OSRelease("macOS" if named[1] == "macOS" else "iOS", int(named[2])).core_ml[0]
    # The versions of 2025 are numbered after the next year.
    return release + (1999 if release >= _OF_2025 else 2006)


@functools.cache
def load_evidence() -> tuple[PublishedLatency, ...]:
    """Returns the rows included in the package."""
    packed = (Path(__file__).parent / "data" / _FILE).read_bytes()
    return tuple(map(_row, csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))))


def write_evidence(rows: Iterable[PublishedLatency]) -> bytes:
    """Returns the table as a compressed file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        sizes = (f"{getattr(row.structure, name):.4g}" for name in _SIZES)
        numbers = (f"{getattr(row, name):.4g}" for name in _NUMBERS)
        writer.writerow((*(getattr(row, name) for name in _TEXTS), *numbers, *sizes))
    return gzip.compress(text.getvalue().encode(), mtime=0)


def _row(row: dict[str, str]) -> PublishedLatency:
    return PublishedLatency(
        **{name: row[name] for name in _TEXTS},  # type: ignore[arg-type]
        **{name: float(row[name]) for name in _NUMBERS},  # type: ignore[arg-type]
        structure=Structure(**{name: float(row[name]) for name in _SIZES}),
    )


def find_nearest(structure: Structure, unit: ComputeUnit, chip: Chip) -> tuple[NearRow, ...]:
    """Returns the published latencies of a unit that are nearest by structure and chip, nearest first.

    Args:
        structure: What the network consists of.
        unit: The unit; rows of other units are not comparable.
        chip: The chip; rows of others are farther.
    """
    near = sorted(
        (
            (apart, _apart(chip, row.chip), row)
            for apart, row in zip(_distances(structure), load_evidence(), strict=True)
            if row.unit == unit
        ),
        key=lambda item: (item[0] + item[1] + _precision_gap(item[2]), item[2].network, item[2].publication),
    )
    found: list[PublishedLatency] = []
    distances: list[float] = []
    for apart, _, row in near:
        of_one = [other for other in found if other.network == row.network]
        if len(of_one) < _MOST_OF_ONE and not any(map(row.repeats, of_one)):
            found.append(row)
            distances.append(apart)
        if len(found) == _NEAR:
            break
    return tuple(map(_near, found, distances))


@functools.lru_cache(maxsize=8)
def _distances(structure: Structure) -> tuple[float, ...]:
    """Returns the distance of each row of the table; a network has several rows."""
    of_network = functools.cache(functools.partial(distance, structure))
    return tuple(of_network(row.structure) for row in load_evidence())


def find_published(
    name: str, structure: Structure | None, chip: str, setting: ComputeUnits
) -> tuple[PublishedLatency, ...]:
    """Returns the published latencies of a network, equal by name or structure, on a chip under a setting.

    Args:
        name: Its name.
        structure: What it consists of; None where that is not known.
        chip: The chip's id.
        setting: The setting.
    """
    return tuple(
        row
        for row in load_evidence()
        if (row.chip, row.setting) == (chip, setting)
        and row.precision in ("fp16", "fp32")
        and (row.network.lower() == name.lower() or _is_equal(row, structure))
    )


def _is_equal(row: PublishedLatency, structure: Structure | None) -> bool:
    if structure is None:
        return False
    # Weights of 32 bits in the file are computed with 16 on the Neural Engine.
    scale = 2.0 if row.precision == "fp32" else 1.0
    pairs = [
        (getattr(row.structure, size), getattr(structure, size)) for size in ("macs", "traffic", "kernels")
    ]
    pairs.append((row.structure.weight_bytes / scale, structure.weight_bytes))
    return all(math.isclose(*pair, rel_tol=_EQUAL) for pair in pairs)


def _precision_gap(row: PublishedLatency) -> float:
    return 0.0 if row.precision in ("fp16", "fp32") else _OTHER_PRECISION


def _apart(chip: Chip, other: str) -> float:
    known = all_chips()[other]
    if known.id == chip.id:
        return 0.0
    generations = abs(known.neural_engine_generation - chip.neural_engine_generation)
    return _OTHER_FAMILY * (known.family != chip.family) + _GENERATION * generations


def _near(row: PublishedLatency, apart: float) -> NearRow:
    return NearRow(
        network=row.network,
        family=row.family,
        publication=row.publication,
        url=row.url,
        chip=row.chip,
        unit=row.unit,
        precision=row.precision,
        measured_s=row.measured_ms * 1e-3,
        estimated_s=row.estimated_ms * 1e-3,
        distance=round(apart, 3),
    )
