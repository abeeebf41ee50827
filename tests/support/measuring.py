"""Measures models with an engine, and joins what a measurement says with the op table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from coremlscope.api.assemble import assemble
from coremlscope.measure.contract import MeasuredModel, Progress, resolve_settings
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.model.ir import Model
from coremlscope.results.measurement import Group, Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.base import Engine
from coremlscope.runtime.engines.sampling import Clock

__all__ = ["joined_rows", "measure", "op_ids"]


def measure(
    model: Model,
    settings: Settings | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
) -> Profile:
    """A profile with one measurement."""
    wanted = resolve_settings(model, settings or Settings(), inputs)
    subject = MeasuredModel.of(model, wanted)
    measurer = EngineMeasurer(engine=engine, threads=threads, clock=clock)
    measurement = measurer.measure(subject, wanted, inputs=inputs, progress=progress)
    return assemble(subject.summary, subject.ops, measurements=[measurement])


def op_ids(profile: Profile, group: Group) -> tuple[str, ...]:
    """The ids of a group's operations."""
    return tuple(profile.ops.id[row] for row in group.ops)


def joined_rows(profile: Profile) -> list[SimpleNamespace]:
    """The rows of the op table with the status, group and fp16 ranges of the first measurement."""
    measured, rows = profile.measurement, []
    for place, row in enumerate(profile.ops):
        ranges = measured.fp16
        rows.append(
            SimpleNamespace(
                **{name: getattr(row, name) for name in row.__struct_fields__},
                status=measured.status[place],
                group=measured.group[place],
                fp16_largest=None if ranges is None else ranges.largest[place],
                fp16_overflows=None if ranges is None else ranges.overflows[place],
                fp16_infinities=None if ranges is None else ranges.infinities[place],
                fp16_nans=None if ranges is None else ranges.nans[place],
            )
        )
    return rows
