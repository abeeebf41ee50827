"""One row an operation, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.render.words import compact_type

if TYPE_CHECKING:
    from coremlscope.profile.model import Profile
    from coremlscope.profile.summary import ModelSummary

__all__ = ["render_csv"]

_WORK_COLUMNS = ("flops", "read_bytes", "written_bytes", "weight_bytes")


def render_csv(subject: Profile | ModelSummary) -> str:
    """The operations as comma-separated values with a heading; what is not known is left empty."""
    from coremlscope.profile.summary import ModelSummary

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
    raise NotImplementedError
