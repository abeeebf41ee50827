"""One row an operation, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.render.words import compact_type

if TYPE_CHECKING:
    from coremlscope.describe.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = ["render_csv"]

_WORK_COLUMNS = ("flops", "read_bytes", "written_bytes", "weight_bytes", "work_is_complete")


def render_csv(subject: Profile | ModelSummary) -> str:
    """The operations as comma-separated values with a heading; what is not known is left empty."""
    from coremlscope.describe.model import ModelSummary
    from coremlscope.render.columns import op_columns

    columns = _summary_columns(subject) if isinstance(subject, ModelSummary) else op_columns(subject)
    columns["results"] = [compact_type(types or "") for types in columns["results"]]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return file.getvalue()


def _summary_columns(model: ModelSummary) -> dict[str, list[Any]]:
    last = (*_WORK_COLUMNS, "layer", "layer_type")
    names = ("id", "type", "name", "results", *last)
    rows: Iterable[Sequence[Any]] = (
        (op.id, op.type, op.name, "; ".join(op.outputs), *(getattr(op, key) for key in last))
        for op in model.op_list
    )
    columns: Mapping[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return dict(columns)
