"""Two recordings of a program, before and after a change."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coremlscope.base.figures import Origin
from coremlscope.results.presentation import Presented
from coremlscope.results.trace import Mistake

#: The name and version of the schema.
_SCHEMA = "coremlscope.recording-changes/1"


class EventChange(msgspec.Struct, frozen=True, kw_only=True):
    """All events of one kind and model, in the recording before and in the one after.

    Attributes:
        model: The model's name, of both recordings where they differ; empty for events without a model.
        kind: The name of the kind of event.
        counts: How many there are.
        totals_s: The sums of their durations, in seconds.
    """

    model: str
    kind: str
    counts: tuple[int, int]
    totals_s: tuple[float, float]

    @property
    def means_s(self) -> tuple[float | None, float | None]:
        """The mean durations; None where there are no events."""
        before, after = (
            total / count if count else None for total, count in zip(self.totals_s, self.counts, strict=True)
        )
        return before, after


class MedianChange(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one kind of event over all models, before and after.

    Attributes:
        kind: The name of the kind of event.
        counts: How many there are.
        totals_s: The sums of their durations, in seconds.
        medians_s: The median durations, in seconds.
        ratio: The median after, as a multiple of the one before.
        low: The lower end of the ratio's 95 % interval; None where there are too few events.
        high: The upper end.
    """

    kind: str
    counts: tuple[int, int]
    totals_s: tuple[float, float]
    medians_s: tuple[float, float]
    ratio: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> Literal["faster", "slower", "unclear"]:
        """Whether events are faster after the change; `unclear` where the interval holds no change."""
        if self.high is not None and self.high < 1:
            return "faster"
        return "slower" if self.low is not None and self.low > 1 else "unclear"


class RecordingChanges(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two recordings.

    Attributes:
        labels: What they are called.
        durations_s: Their lengths in seconds.
        medians: The times of predictions and loads.
        events: The events of both by kind over all models, then by model and kind, the largest change of
            the total first.
        searched: The mistakes that both were searched for, by id.
        gone: Mistakes that only the first one shows.
        left: Mistakes that both show, as the second one has them.
        new: Mistakes that only the second one shows.
        unsearched: Mistakes of one of them that the other one has not the events to show.
    """

    labels: tuple[str, str]
    durations_s: tuple[float, float]
    events: tuple[EventChange, ...]
    medians: tuple[MedianChange, ...] = ()
    searched: tuple[str, ...] = ()
    gone: tuple[Mistake, ...] = ()
    left: tuple[Mistake, ...] = ()
    new: tuple[Mistake, ...] = ()
    unsearched: tuple[Mistake, ...] = ()
    origin: Origin = "measured"

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {"schema": _SCHEMA, **msgspec.to_builtins(self)}
