"""Changes of figures, and whether they are more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec
import msgspec.structs

from coremlscope.base.figures import Figure, Origin
from coremlscope.results.answer import ChangeVerdict, PairVerdict
from coremlscope.results.statistics import median_interval

#: The confidence level of the interval of a ratio.
_LEVEL = 0.95
#: Two medians with intervals at this level give an interval of their ratio at
#: `_LEVEL`, even if they are dependent (Bonferroni).
_SIDE_LEVEL = 1 - (1 - _LEVEL) / 2
#: A ratio whose interval holds 1 is no change up to this, where the interval excludes a factor of two.
_SAME, _FACTOR = 0.05, 2.0
#: A ratio that is shown as ±0.0 % is no change, however narrow its interval.
_SHOWN = 5e-4
#: Planned costs in profiles of version 0.1 are rounded to six significant digits.
_ROUNDING = 1e-5


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a figure between two subjects.

    Attributes:
        before: The figure of the base, in the unit that the owner states; None if it has none.
        after: The figure of the other subject.
        ratio: `after` divided by `before`; None if they cannot be compared.
        low: Lower end of the ratio's interval; None if there are too few samples.
        high: Upper end of the interval.
        verdict: The conclusion.
        origin: The origin of both figures; figures of different origins are never compared.
    """

    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: ChangeVerdict
    origin: Origin

    @classmethod
    def apart(cls, before: float | None, after: float | None, origin: Origin) -> Change:
        """Returns a change of figures that are shown but not compared."""
        return cls(
            before=before, after=after, ratio=None, low=None, high=None, verdict="unclear", origin=origin
        )

    @classmethod
    def unsure(cls, before: float, after: float) -> Change:
        """Returns a change of measured figures with too few samples for an interval."""
        return cls(
            before=before,
            after=after,
            ratio=after / before if before else None,
            low=None,
            high=None,
            verdict="unclear",
            origin="measured",
        )

    @classmethod
    def within(cls, before: Figure, after: Figure, *, widened: float = 1.0) -> Change:
        """Returns a change of figures with intervals; the interval of the ratio follows from their ends.

        Args:
            before: Of the base.
            after: The figure of the other subject.
            widened: The possible drift between the two measurements, as a ratio.
        """
        ratio: float | None = None
        low: float | None = None
        high: float | None = None
        verdict: ChangeVerdict = "slower" if after.low > before.high else "unclear"
        if before.value:
            ratio = after.value / before.value
            low = after.low / before.high * min(1.0, 1 / widened)
            high = after.high / before.low * max(1.0, 1 / widened) if before.low else math.inf
            verdict = _verdict(ratio, low, high)
        return cls(
            before=before.value,
            after=after.value,
            ratio=ratio,
            low=low,
            high=high,
            verdict=verdict,
            origin=before.origin,
        )


def _verdict(ratio: float, low: float, high: float) -> ChangeVerdict:
    """Returns the verdict on a ratio and its interval; it never contradicts the ratio next to it."""
    if (low > 1 or high < 1) and abs(ratio - 1) >= _SHOWN:
        return "slower" if low > 1 else "faster"
    is_known = low * _FACTOR >= 1 and high <= _FACTOR
    return "no change" if is_known and abs(ratio - 1) <= _SAME else "unclear"


def change_of_samples(before: Sequence[float], after: Sequence[float]) -> Change:
    """Compares the medians of independent samples, each with a distribution-free interval."""
    medians = statistics.median(before), statistics.median(after)
    intervals = median_interval(before, _SIDE_LEVEL), median_interval(after, _SIDE_LEVEL)
    if intervals[0] is None or intervals[1] is None:
        return Change.unsure(*medians)
    figures = (Figure(m, *i, "measured") for m, i in zip(medians, intervals, strict=True) if i is not None)
    return Change.within(*figures)


def change_of_rounds(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Change:
    """Compares interleaved measurements; the ratio of each round is a sample, so common slowdowns cancel.

    The ratio is that of the two medians, which stand next to it; the interval is that of the rounds' ratios.
    """
    first, second = (statistics.median(s for seconds in side for s in seconds) for side in (before, after))
    ratios = [
        statistics.median(b) / statistics.median(a)
        for a, b in zip(before, after, strict=True)
        if statistics.median(a)
    ]
    interval = median_interval(ratios, _LEVEL) if ratios else None
    if interval is None or not first:
        return Change.unsure(first, second)
    ratio = second / first
    low, high = min(interval[0], ratio), max(interval[1], ratio)
    return Change(
        before=first,
        after=second,
        ratio=ratio,
        low=low,
        high=high,
        verdict=_verdict(ratio, low, high),
        origin="measured",
    )


def change_of_plans(before: Figure, after: Figure) -> Change:
    """Compares planned costs. They have no noise: every difference is a change, except for rounding."""
    change = Change.within(before, after)
    # Older profiles keep six digits.
    if math.isclose(before.value, after.value, rel_tol=_ROUNDING):
        return msgspec.structs.replace(change, ratio=1.0, low=1.0, high=1.0, verdict="no change")
    return change


def change_of_pair(pair: PairVerdict | None) -> Change | None:
    """Returns the change of an estimate, as a pair of answers says it; None where a latency is not known."""
    if pair is None or pair.before is None or pair.after is None:
        return None
    ratio = pair.ratio
    return Change(
        before=pair.before.latency.value,
        after=pair.after.latency.value,
        ratio=None if ratio is None else ratio.value,
        low=None if ratio is None else ratio.low,
        high=None if ratio is None else ratio.high,
        verdict=pair.verdict,
        origin="estimated",
    )
