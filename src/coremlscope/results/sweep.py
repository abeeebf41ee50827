"""Summary, progress and result rows of a sweep."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coremlscope.base.figures import Origin
from coremlscope.results.encoding import plain
from coremlscope.results.presentation import Presented

#: The name and version of the schema of `ResultTable`.
RESULT_TABLE = "coremlscope.results/1"

ColumnQuantity = Literal["seconds", "milliseconds", "bytes", "count", "share", "number", "text"]


class SweepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sweep is.

    Attributes:
        done: Number of results so far, failures included, without those that existed before.
        total: Number of results that will be made; None where it is not known yet.
        failed: Number of failures among them.
        known: Number of results that existed before.
        left_s: Seconds that are left, if the rest takes as long as the part that is done; None if unknown.
    """

    done: int
    total: int | None
    failed: int
    known: int
    left_s: float | None


class FailedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a model that do not exist, for one reason.

    Attributes:
        model: The name of the model.
        reason: Why, as a sentence.
        hint: What to do about it.
        exit_code: The exit code of the error.
        results: Number of results.
    """

    model: str
    reason: str
    hint: str
    exit_code: int
    results: int


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a sweep.

    Attributes:
        folder: The folder with the results.
        made: Number of results that were made, without failures.
        known: Number of results that existed before, without failures.
        known_failures: Number of failures of earlier sweeps, which were not tried again.
        imported: Number of results of saved profiles.
        failures: What failed now, by model and reason.
        seconds: How long it took.
        interrupted: Whether Ctrl-C stopped it; a later call continues.
    """

    folder: str
    made: int = 0
    known: int = 0
    known_failures: int = 0
    imported: int = 0
    failures: tuple[FailedModel, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def failed(self) -> int:
        """Number of results that failed now."""
        return sum(one.results for one in self.failures)


class ResultColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the results of sweeps.

    Attributes:
        name: Its name; of labels and numbers of the user `labels.family`, `numbers.accuracy`.
        meaning: What it means; empty for labels and numbers of the user.
        quantity: What its values are.
        origin: The origin of its numbers; None for texts, and the user's numbers.
        values: One value for each row; None where it is unknown.
    """

    name: str
    meaning: str
    quantity: ColumnQuantity
    origin: Origin | None
    values: tuple[str | float | None, ...]


class ResultTable(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """Results of sweeps, for a page.

    Attributes:
        rows: Number of rows.
        columns: Its columns; those without any value are left out.
    """

    rows: int
    columns: tuple[ResultColumn, ...]

    def to_json(self) -> dict[str, Any]:
        """Converts the table to plain JSON values, with the schema's name."""
        return {"schema": RESULT_TABLE, **plain(self)}
