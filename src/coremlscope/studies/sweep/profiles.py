"""Rows of results from profiles: those that a sweep makes, and saved ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec.structs

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Measurement
from coremlscope.results.plan import Plan, SettingPlan, unit_counts
from coremlscope.results.profile import Profile
from coremlscope.studies.sweep.rows import Row


def rows_of(profile: Profile) -> Iterator[Row]:
    """Yields a row for each measurement and each estimate of a profile, without keys.

    Args:
        profile: The profile. Plans without estimates give no rows.
    """
    model = profile.model
    work = model.main.work if model.functions else None
    common = Row(
        key="",
        origin="",
        model=model.path,
        kind=model.kind,
        parameters=model.parameters,
        operations=len(profile.ops),
        flops=None if work is None else work.flops,
        weights_bytes=model.weights_bytes,
        size_bytes=model.size_bytes,
        made_at=profile.made.at,
        version=profile.made.version,
    )
    for measurement in profile.measurements:
        yield _measured(common, measurement)
    for estimate in profile.estimates:
        yield _estimated(common, profile, estimate)


def imported_rows(profile: Profile, path: Path) -> Iterator[Row]:
    """Yields the rows of a saved profile. Equal profiles have equal keys, whatever their file is called.

    Args:
        profile: The profile.
        path: Its file, which names a model without a path.
    """
    for row in rows_of(profile):
        named = msgspec.structs.replace(row, model=row.model or path.name)
        key = hashlib.sha256(repr(named).encode()).hexdigest()[:32]
        yield msgspec.structs.replace(named, key=key)


def _measured(common: Row, found: Measurement) -> Row:
    runtime = found.runtime
    row = msgspec.structs.replace(
        common,
        origin="measured",
        function=found.settings.function,
        device=found.machine.processor,
        os=found.machine.os,
        compute_units=found.compute_units,
        compile_s=found.compile.statistics.median if found.compile is not None else None,
        load_s=found.load.statistics.median if found.load is not None else None,
        threads=found.threads,
        peak_bytes=found.peak_memory_bytes,
        runtime=f"{runtime.name} {runtime.version}".strip(),
        is_partial=found.partial is not None,
        made_at=found.measured_at or common.made_at,
    )
    if found.predict is None:
        # What was measured before the failure stays in the row.
        for ending in (finding for finding in found.findings if finding.exit_code):
            return msgspec.structs.replace(
                row, failure=ending.text, hint=ending.hint, exit_code=ending.exit_code
            )
        return row
    times = found.predict.statistics
    return msgspec.structs.replace(
        row,
        measured_s=times.median,
        measured_mean_s=times.mean,
        measured_p95_s=times.p95,
        measured_low_s=times.min,
        measured_high_s=times.max,
        iterations=times.count,
    )


def _estimated(common: Row, profile: Profile, found: Estimate) -> Row:
    peak = found.memory.peak if found.memory is not None else None
    row = msgspec.structs.replace(
        common,
        origin="estimated",
        device=found.device,
        chip=found.chip,
        os=found.os,
        compute_units=found.compute_units,
        estimated_s=found.latency.value,
        estimated_low_s=found.latency.low,
        estimated_high_s=found.latency.high,
        basis=found.basis,
        bound=found.bound,
        neural_engine_share=found.placement.get(NEURAL_ENGINE, 0.0),
        gpu_share=found.placement.get(GPU, 0.0),
        cpu_share=found.placement.get(CPU, 0.0),
        switches=found.switches,
        memory_bytes=int(peak.value) if peak is not None else None,
        left_out="; ".join(found.left_out),
    )
    view = profile.view_of(found)
    if view is None:
        return row
    counts, cost_ms = _placed(view.plan, view.setting)
    return msgspec.structs.replace(
        row,
        planned_ms=cost_ms,
        neural_engine_operations=counts[NEURAL_ENGINE],
        gpu_operations=counts[GPU],
        cpu_operations=counts[CPU],
    )


def _placed(plan: Plan, setting: SettingPlan) -> tuple[Counter[ComputeUnit | None], float]:
    """Returns the number of operations on each unit, and their planned cost in milliseconds."""
    units = setting.compute_units
    return unit_counts(plan.ops, units), sum(op.choices[units].planned_ms or 0.0 for op in plan.ops)
