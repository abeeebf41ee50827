"""Recorded programs that are made without running one."""

from __future__ import annotations

import msgspec.structs
import numpy as np

from coremlscope.results.events import KIND_CODES
from coremlscope.results.trace import Events, Mistake, Site, Trace, TracedModel, TracedProcess

__all__ = ["recorded_program"]


def recorded_program(predictions: int, *, name: str = "net") -> Trace:
    """A program that loads a model and predicts, four events each: the call, two conversions and a run."""
    kinds = ["load", *("predict", "convert input", "run", "convert output") * predictions]
    count = len(kinds)
    offsets = np.array([0, 10, 100, 900]) * 1_000
    lengths = np.array([1_000, 50, 750, 60]) * 1_000
    calls = 50_000_000 + np.arange(predictions, dtype=np.int64) * 1_500_000
    start = np.concatenate([[1_000_000], (calls[:, None] + offsets).ravel()])
    duration = np.concatenate([[40_000_000], np.tile(lengths, predictions)])
    duration[1::4] += np.arange(predictions) % 7 * 1_000
    zeros = np.zeros(count, np.int32)
    events = Events(
        start_ns=start,
        duration_ns=duration,
        kind=np.array([KIND_CODES[kind] for kind in kinds], np.uint8),
        model=zeros,
        process=zeros,
        thread=zeros,
        task=zeros - 1,
        site=zeros,
        detail=np.where(np.arange(count) % 4 == 2, 0, -1).astype(np.int32),
        bytes=np.where(np.arange(count) % 4 == 2, 4096, 0).astype(np.int64),
        address=np.zeros(count, np.int64),
        flags=np.zeros(count, np.uint8),
        depth=np.concatenate([[0], np.tile([0, 1, 1, 1], predictions)]).astype(np.uint8),
    )
    mistake = Mistake(
        id="model-reloaded", title=name, evidence="Evidence.", fix="Fix.", site=0, model=0, gain_s=0.04
    )
    return Trace(
        events=events,
        made="2026-01-31T12:00:00+00:00",
        host="a processor",
        command=(f"{name}.py",),
        duration_ns=int(events.end_ns.max()),
        processes=(TracedProcess(pid=42, ended=True, overhead_s=0.001),),
        models=(TracedModel(name=name, key=name),),
        threads=("MainThread",),
        sites=(Site(f"/app/{name}.py", 3),),
        details=(f"x {name} → float16",),
        mistakes=(msgspec.structs.replace(mistake, events=1),),
    )
