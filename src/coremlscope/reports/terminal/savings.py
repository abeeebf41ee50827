"""Renders time savings on devices: reasons of plans, with the plan without each of them."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.reports.reasons import group_savings
from coremlscope.reports.terminal.plan import show_group
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.words import plural
from coremlscope.results.estimate import Estimate
from coremlscope.results.profile import Profile

__all__ = ["show_savings"]

#: Reasons listed for a single estimate, and estimates up to which the first reason of each is listed.
_LISTED, _SEVERAL = 3, 4


def show_savings(screen: Screen, profile: Profile, estimates: Sequence[Estimate]) -> None:
    """Prints the reasons without which predictions would take less time; nothing where there are none.

    Args:
        screen: The screen.
        profile: The profile, whose plans the estimates follow from.
        estimates: Some of its estimates. For several, the first reason of each is listed; for many, none.
    """
    most = _LISTED if len(estimates) == 1 else 1
    for e in estimates if len(estimates) <= _SEVERAL else ():
        view = profile.view_of(e)
        groups = group_savings(view) if view is not None else []
        if groups:
            screen.heading(
                f"What would save time on {e.device}, {e.compute_units}",
                "planned again without each reason; planned and estimated",
            )
        for group in groups[:most]:
            show_group(screen, group)
        if len(groups) > most:
            rest = plural(len(groups) - most, "more reason")
            screen.line(f"and {rest}: `coremlscope plan MODEL --device NAME`", "dim", indent=2)
