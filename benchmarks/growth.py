"""How an estimate grows with the operations of a program: `make bench-waits`, or draws what was measured:

python -m benchmarks.growth            draws docs/growth.svg from docs/growth.csv
"""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import run_measured

__all__ = ["Row", "draw", "measure", "read", "write"]

_DATA = Path(__file__).resolve().parents[1] / "docs" / "growth.csv"
#: Operations of the programs.
_COUNTS = (100, 1_000, 10_000, 100_000)
#: The size of a diagram, and the place of its axes, in pixels.
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 360, 260, 48, 34, 220


class Row(NamedTuple):
    """What the estimate of a program took, on one device with four settings."""

    operations: int
    cpu_s: float
    memory_mb: float


def measure(source: Path, folder: Path) -> list[Row]:
    """Estimates programs of more and more operations, each in a process of its own.

    Args:
        source: The folder of the package.
        folder: Where the programs are written.
    """
    from tests.support.large_models import converted_program

    rows = []
    for count in _COUNTS:
        file = folder / f"{count}.mlmodel"
        file.write_bytes(converted_program(count))
        words = [sys.executable, "-m", "coremlscope", "estimate", str(file), "--device", "m1"]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        _, used = run_measured(words, folder, environment)
        rows.append(Row(count, used.cpu_s, used.memory_mb))
    return rows


def read(path: Path = _DATA) -> list[Row]:
    """Reads what was measured."""
    with path.open(encoding="utf-8", newline="") as opened:
        return [
            Row(int(count), float(cpu), float(memory)) for count, cpu, memory in [*csv.reader(opened)][1:]
        ]


def write(rows: Sequence[Row], path: Path = _DATA) -> None:
    """Writes what was measured, and its diagrams next to it."""
    with path.open("w", encoding="utf-8", newline="") as opened:
        table = csv.writer(opened, lineterminator="\n")
        table.writerow(Row._fields)
        table.writerows((row.operations, f"{row.cpu_s:.2g}", f"{row.memory_mb:.0f}") for row in rows)
    path.with_suffix(".svg").write_text(draw(rows), encoding="utf-8")


def draw(rows: Sequence[Row]) -> str:
    """Draws seconds and megabytes against operations, on logarithmic axes, as SVG."""
    counts = [row.operations for row in rows]
    time = _diagram("CPU, s", counts, [row.cpu_s for row in rows])
    memory = _diagram("memory, MB", counts, [row.memory_mb for row in rows])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {_HEIGHT}"'
        f' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n{time}\n'
        f'<g transform="translate({_WIDTH} 0)">\n{memory}\n</g></svg>\n'
    )


def _diagram(title: str, counts: Sequence[int], values: Sequence[float]) -> str:
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    start, end = math.log10(min(counts)), math.log10(max(counts))

    def across(count: float) -> float:
        return _LEFT + 20 + (math.log10(count) - start) / (end - start) * (_WIDTH - _LEFT - 70)

    def down(value: float) -> float:
        return _BOTTOM - (math.log10(value) - first) / (last - first) * (_BOTTOM - _TOP)

    parts = [f'<text x="{_LEFT}" y="16" font-weight="bold">{title}</text>']
    for power in range(first, last + 1):
        y = down(10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 40}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    places = [f"{across(count):.1f},{down(value):.1f}" for count, value in zip(counts, values, strict=True)]
    parts.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="#1f5fb4" stroke-width="2"/>')
    for count, value in zip(counts, values, strict=True):
        x, y = across(count), down(value)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1f5fb4"/>'
            f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{value:.3g}</text>'
            f'<text x="{x:.1f}" y="{_BOTTOM + 17}" text-anchor="middle">{count:,}</text>'
        )
    middle = (_LEFT + _WIDTH - 40) / 2
    parts.append(f'<text x="{middle:.1f}" y="{_BOTTOM + 34}" text-anchor="middle">operations</text>')
    return "\n".join(parts)


if __name__ == "__main__":
    write(read())
