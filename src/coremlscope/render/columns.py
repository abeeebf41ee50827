"""A profile's operations as columns of equal length: what spreadsheets and data frames show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from coremlscope.results.placements import estimated_kernels
from coremlscope.results.plan import DevicePlan, SettingPlan
from coremlscope.results.profile import Profile

__all__ = ["op_columns"]

_OP = (
    "id", "type", "name", "function", "results", "flops", "read_bytes", "written_bytes", "weight_bytes",
    "work_is_complete", "status",
)  # fmt: skip
_GROUP = (
    "group", "group_label", "group_ops", "group_measured_s", "group_low_s", "group_high_s", "group_share",
)  # fmt: skip
_LATER = (
    "fp16_largest", "fp16_overflows", "fp16_infinities", "fp16_nans", "layer", "layer_type", "live_bytes",
)  # fmt: skip


def op_columns(profile: Profile) -> dict[str, list[Any]]:
    """One row an operation, then one for each node that the engine added (the status is `engine`), then those
    that Core ML inserts (`inserted`).

    Rows of operations that share a group repeat the group's time, which is never split among them; likewise
    those of an estimated kernel. What is not known is None. Columns of which nothing is known are left out,
    but for those that every profile has.

    Columns of plans and estimates begin with the device and the setting: `m1.all.unit`,
    `m1.all.planned_ms`, `m1.all.kernel`, `m1.all.kernel_estimated_s`, `m1.all.kernel_bound`.
    """
    inserted = list(dict.fromkeys(op for plan in profile.plans for op in plan.inserted))
    rows = [*_op_rows(profile), *_engine_rows(profile)]
    rows += [(op.id, op.type, "", op.function, "; ".join(op.outputs)) for op in inserted]
    names = (*_OP[:10], "status", *_GROUP, *_LATER)
    columns: dict[str, list[Any]] = {
        name: [row[place] if place < len(row) else None for row in rows] for place, name in enumerate(names)
    }
    for index in range(len(rows) - len(inserted), len(rows)):
        columns["status"][index] = "inserted"
    between = [None] * (len(rows) - len(profile.ops) - len(inserted))
    for plan in profile.plans:
        places = {op: place for place, op in enumerate(plan.inserted, len(profile.ops))}
        for setting in plan.settings:
            for name, values in _planned(profile, plan, setting):
                mine = [values[places[op]] if op in places else None for op in inserted]
                columns[name] = [*values[: len(profile.ops)], *between, *mine]
    always = {*_OP, *_GROUP}
    return {
        name: values
        for name, values in columns.items()
        if name in always or any(value is not None for value in values)
    }


def _op_rows(profile: Profile) -> Iterator[Sequence[Any]]:
    for op in profile.ops:
        facts = (*(getattr(op, name) for name in _OP[:4]), "; ".join(op.outputs))
        work = (getattr(op, name) for name in _OP[5:])
        yield (*facts, *work, *_group(profile, op.group), *(getattr(op, name) for name in _LATER))


def _engine_rows(profile: Profile) -> Iterator[Sequence[Any]]:
    for index, group in enumerate(profile.groups):
        if not group.op_ids:
            nodes = "; ".join(name for name, _ in group.engine_nodes)
            yield (None, None, nodes, *([None] * 7), "engine", *_group(profile, index))


def _group(profile: Profile, index: int) -> Sequence[Any]:
    if index < 0:
        return (None,) * len(_GROUP)
    group = profile.groups[index]
    return (
        index, group.label, len(group.op_ids), group.wall_s, group.low_s, group.high_s, group.share,
    )  # fmt: skip


def _planned(profile: Profile, plan: DevicePlan, setting: SettingPlan) -> Iterator[tuple[str, list[Any]]]:
    """Columns of a plan under one setting, as long as those of the plan."""
    prefix = f"{re.sub(r'[^a-z0-9]+', '-', plan.device.lower())}.{setting.compute_units}"
    backends = list(plan.backends)
    chosen = [backends[index] if index >= 0 else None for index in setting.backend]
    yield f"{prefix}.unit", [name and plan.backends[name] for name in chosen]
    yield f"{prefix}.backend", chosen
    yield (
        f"{prefix}.planned_ms",
        [plan.cost_ms[name][column] if name else None for column, name in enumerate(chosen)],
    )
    if setting.estimate is None:
        return
    kernels = estimated_kernels(profile.ops, plan, setting.estimate)
    numbers: list[int | None] = [*profile.ops.kernel, *([None] * len(plan.inserted))]
    yield f"{prefix}.kernel", numbers
    yield f"{prefix}.kernel_estimated_s", [None if n is None else kernels[n].seconds for n in numbers]
    yield f"{prefix}.kernel_bound", [None if n is None else kernels[n].bound for n in numbers]
