"""Comma-separated values, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.base.escaping import csv_cell
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.reports.columns import figure_columns, listed_columns, op_columns
from coremlscope.reports.variants import variant_columns
from coremlscope.reports.words import compact_type
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.results.variants import VariantReport


def render_csv(subject: Profile | ModelSummary) -> str:
    """Renders the operations, one row each, with a header; unknown values are empty."""
    columns = listed_columns(subject) if isinstance(subject, ModelSummary) else op_columns(subject)
    return render_columns({**columns, "results": [compact_type(types or "") for types in columns["results"]]})


def render_figures_csv(profiles: Sequence[Profile]) -> str:
    """Renders the measured and estimated times of a prediction of each model, one row per figure."""
    return render_columns(figure_columns(profiles))


def render_compared_csv(comparison: Comparison) -> str:
    """Renders the figures of the profiles that are compared."""
    return render_figures_csv(comparison.profiles)


def render_variants_csv(report: VariantReport) -> str:
    """Renders variants, one row for each device and setting."""
    return render_columns(variant_columns(report))


def render_columns(columns: Mapping[str, Sequence[Any]]) -> str:
    """Renders columns of equal length under their names; no cell is a formula."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(csv_cell, row) for row in zip(*columns.values(), strict=True))
    return file.getvalue()
