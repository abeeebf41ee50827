"""What a sweep did, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FailedModel", "SweepProgress", "SweepSummary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedModel:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """What a sweep did.

    Attributes:
        folder: The folder with the results.
        made: Number of results that were made, without failures.
        known: Number of results that existed before, without failures.
        known_failures: Number of failures of earlier sweeps, which were not tried again.
        imported: Number of results of saved profiles.
        failures: What failed now, by model and reason.
        seconds: How long it took.
        interrupted: Whether Ctrl-C stopped it; a later call goes on.
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
