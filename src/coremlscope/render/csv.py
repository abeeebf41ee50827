"""One row an operation, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.render.words import compact_type

if TYPE_CHECKING:
    from coremlscope.profiling.profile import Group, Profile
    from coremlscope.profiling.summary import ModelSummary

__all__ = ["render_csv"]

_WORK_COLUMNS = ("flops", "read_bytes", "written_bytes", "weight_bytes", "work_is_complete")


def render_csv(subject: Profile | ModelSummary) -> str:
    """The operations as comma-separated values with a heading; what is not known is left empty."""
    from coremlscope.profiling.summary import ModelSummary

    if isinstance(subject, ModelSummary):
        return _table(("id", "type", "name", "results", *_WORK_COLUMNS), _summary_rows(subject))
    return _profile_csv(subject)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()


def _results(types: Iterable[str]) -> str:
    return "; ".join(map(compact_type, types))


def _summary_rows(model: ModelSummary) -> Iterable[Sequence[Any]]:
    for op in model.op_list:
        yield (op.id, op.type, op.name, _results(op.outputs), *(getattr(op, key) for key in _WORK_COLUMNS))


def _profile_csv(profile: Profile) -> str:
    """Rows of operations that share a group repeat the group's time, which is never split among them."""
    columns = (
        "id", "type", "name", "function", "results", *_WORK_COLUMNS,
        "status", "group", "group_label", "group_ops", "group_measured_s", "group_share",
    )  # fmt: skip
    return _table(columns, _profile_rows(profile))


def _profile_rows(profile: Profile) -> Iterable[Sequence[Any]]:
    for op in profile.ops:
        work = (getattr(op, key) for key in _WORK_COLUMNS)
        row = (op.id, op.type, op.name, op.function, _results(op.outputs), *work, op.status)
        if op.group < 0:
            yield (*row, *([""] * 5))
        else:
            yield (*row, *_group_cells(op.group, profile.groups[op.group]))
    for index, group in enumerate(profile.groups):
        if not group.op_ids:
            nodes = "; ".join(name for name, _ in group.engine_nodes)
            empty = [""] * (2 + len(_WORK_COLUMNS))
            yield ("", "", nodes, *empty, "engine", *_group_cells(index, group))


def _group_cells(index: int, group: Group) -> Sequence[Any]:
    return index, group.label, len(group.op_ids), group.wall_s, group.share
