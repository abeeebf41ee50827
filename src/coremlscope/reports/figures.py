"""Estimated times as texts, with their marks; and which figures a view shows of a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from coremlscope.base.figures import Figure
from coremlscope.devices.catalog import all_chips
from coremlscope.devices.unit import ComputeUnit
from coremlscope.reports.words import SHORT_UNIT_NAMES, describe_own
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import Plan
from coremlscope.results.profile import Profile

_IS_OWN, _IS_EXTRAPOLATED = "†", "*"
#: Meaning of the mark of an extrapolated estimate.
EXTRAPOLATED = "* extrapolated from the chip's specification: fewer than three publications measured it"


def shown_plans(profile: Profile) -> Sequence[Plan]:
    """Returns the plans whose costs a view shows that was not asked for a plan.

    A view shows what was measured, else what is estimated. Planned costs rank units and are no times, so
    that they are left to `plan`, and stand in only where nothing else is known.
    """
    return () if profile.estimates else profile.plans


def listed_estimates(profile: Profile) -> list[Estimate]:
    """Those that a report lists: one a device next to measurements, all where nothing was measured."""
    return list(profile.headline_estimates() if profile.measurements else profile.estimates)


def mark_of(e: Estimate) -> str:
    """The mark of an estimate: `†` if the user's own measurements refine it, `*` if its chip has none."""
    if e.own is not None:
        return _IS_OWN
    return _IS_EXTRAPOLATED if e.basis == "extrapolated" else ""


def calibrated_on(e: Estimate) -> str:
    """Which of the user's measurements an estimate uses; empty if it uses none."""
    if e.own is None:
        return ""
    return describe_own(e.own, all_chips()[e.chip].name)


def explain_marks(estimates: Iterable[Estimate]) -> Iterator[str]:
    """Yields what the marks of estimates mean."""
    listed = list(estimates)
    if any(mark_of(e) == _IS_EXTRAPOLATED for e in listed):
        yield EXTRAPOLATED
    yield from dict.fromkeys(f"{_IS_OWN} {calibrated_on(e)}" for e in listed if e.own)


def estimate_cell(e: Estimate) -> str:
    """An estimate in milliseconds, with its mark: `≥ 1.20 ms*`."""
    return f"{'≥ ' if e.is_at_least else ''}{milliseconds(e.latency.value)} ms{mark_of(e):1}"


def interval_ms(e: Estimate) -> str:
    """The interval of an estimate, in milliseconds; open at the end of one that leaves something out."""
    return f"{milliseconds(e.latency.low)} – ?" if e.is_at_least else within_ms(e.latency)


def within_ms(latency: Figure) -> str:
    """The interval of a figure in seconds, in milliseconds: `1.20 – 3.40`."""
    return f"{milliseconds(latency.low)} – {milliseconds(latency.high)}"


def milliseconds(seconds: float) -> str:
    """Milliseconds with three digits: the unit in which latencies of networks are given."""
    ms = seconds * 1e3
    if ms < 0.0995:
        return f"{ms:.3g}"
    digits = 3 if ms < 0.9995 else 2 if ms < 9.995 else 1 if ms < 99.95 else 0
    return f"{ms:.{digits}f}"


def format_placement(placement: Mapping[ComputeUnit, float]) -> str:
    """The share of each unit in the time: `NE 93% CPU 7%`."""
    shares = sorted(placement.items(), key=lambda pair: -pair[1])
    return " ".join(f"{SHORT_UNIT_NAMES[unit]} {share:.0%}" for unit, share in shares if share >= 0.005)
