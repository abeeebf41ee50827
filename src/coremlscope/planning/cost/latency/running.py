"""What was published about a Neural Engine while it runs: its power, several requests, deep encoders."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from coremlscope.base.findings import Finding
from coremlscope.devices import NEURAL_ENGINE, all_chips
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from coremlscope.planning.cost.latency.table import KernelTable
from coremlscope.results.estimate import Estimate

#: Watts of a Neural Engine while it runs, on chips without rows: usual, least, most.
_POWER_W = (5.0, 3.5, 7.0)
#: Shares of the time from which a prediction is mostly, and wholly, on the Neural Engine.
_MOST, _WHOLLY = 0.5, 0.95
#: Layers of attention, and weights, from which an encoder in one program takes half a minute and more to
#: load on an M6: six layers of Whisper large, which has 40 MB of weights a layer.
_DEEP, _HEAVY_BYTES = 6, 240e6


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure of a chip, between two ends.

    Attributes:
        kind: What it is of: `power_W`; `two_processes`, relative to one; `with_gpu`, the share of the sum of
            both; `sustained_gpu`, what is left after two minutes; `layers_s`, the first load of 1 and of 16
            layers.
        chip: The chip's id.
        low: The lower end.
        high: The upper end.
        publication: Who measured it.
    """

    kind: str
    chip: str
    low: float
    high: float
    publication: str


@functools.cache
def load_runs() -> tuple[PublishedRun, ...]:
    """Returns the rows included in the package."""
    text = (Path(__file__).parent / "data" / "running.csv").read_text("utf-8")
    return tuple(
        msgspec.convert(row, PublishedRun, strict=False) for row in csv.DictReader(text.splitlines())
    )


def describe_run(found: Estimate) -> Iterator[str]:
    """Yields what is known of predictions in a row and at once on a Neural Engine."""
    share = found.placement.get(NEURAL_ENGINE, 0.0)
    if share <= _MOST:
        return
    if share > _WHOLLY:
        yield _power(found)
    yield _together(found.chip)


def find_slow_loads(estimates: Sequence[Estimate], table: KernelTable) -> Iterator[Finding]:
    """Yields that a first load takes minutes, for chips on which that of deep encoders was published."""
    layers = int((table.kind == KERNEL_KINDS.index("attention")).sum())
    is_deep = layers >= _DEEP and float(table.weight_bytes.sum()) >= _HEAVY_BYTES
    for row in _rows("layers_s") if is_deep else ():
        there = [one for one in estimates if one.chip == row.chip]
        names = dict.fromkeys(one.device for one in there if one.placement.get(NEURAL_ENGINE, 0.0) > _MOST)
        if names:
            yield Finding(
                id="slow-first-load",
                severity="warning",
                text=f"On {', '.join(names)} a first load may compile {layers} layers of attention in one"
                f" program for minutes: {row.low:g} s with one layer of Whisper's encoder and"
                f" {row.high:g} s with 16 were published.",
                hint="split the encoder into several programs",
                confidence="measured",
                source=row.publication,
            )


def _rows(kind: str, chip: str = "") -> list[PublishedRun]:
    return [row for row in load_runs() if row.kind == kind and chip in ("", row.chip)]


def _power(found: Estimate) -> str:
    rows = _rows("power_W", found.chip)
    usual, low, high = _POWER_W
    source = "other chips"
    if rows:
        low, high = min(row.low for row in rows) / 1.25, max(row.high for row in rows) * 1.25
        usual, source = (low * high) ** 0.5, ", ".join(row.publication for row in rows)
    joules = usual * found.latency.value
    return (
        f"the Neural Engine draws about {usual:.1f} W while it runs ({low:.1f} to {high:.1f}; {source}): of"
        f" the order of {joules * 1e3:.2g} mJ a prediction. Sources for GPU and CPU mix definitions"
    )


def _together(chip: str) -> str:
    rows = _rows("two_processes", chip)
    several = [f"two processes reach {row.low:g} times as many predictions" for row in rows]
    shares, left = _rows("with_gpu"), _rows("sustained_gpu")
    ends = [
        f"{min(row.low for row in rows) * 100:.0f} to {max(row.high for row in rows) * 100:.0f} %"
        for rows in (shares, left)
    ]
    engine = several[0] if several else "a Neural Engine serves one at a time"
    names = " and ".join(all_chips()[row.chip].name for row in shares)
    return (
        f"requests at once: {engine}; together with the GPU {ends[0]} of the sum of both. After two minutes"
        f" {ends[1]} of a GPU's rate are left, all of a Neural Engine's (erwinzhang7, {names})"
    )
