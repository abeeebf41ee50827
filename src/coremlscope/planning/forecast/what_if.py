"""Planned and estimated cost of each reason of a plan, in words and numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.base.figures import Figure
from coremlscope.base.findings import least_known
from coremlscope.devices import UNITS, ComputeUnit
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.planning.cost.latency.table import Floats
from coremlscope.planning.placement.hypotheses import Replanned
from coremlscope.results.estimate import Bound, Estimate
from coremlscope.results.plan import COST_RULE, COST_SOURCE, WhatIf, describe_saving, join_fixes

#: Estimates a prediction with operations moved to other units.
Estimator = Callable[[Mapping[str, ComputeUnit]], Estimate]

#: Parts of an estimate that do not belong to a kernel.
_TRANSITIONS: tuple[Bound, ...] = ("dispatch", "switches")


def describe_what_ifs(
    replanned: Sequence[Replanned],
    function: str,
    places: Mapping[str, int],
    estimator: Estimator | None = None,
) -> list[WhatIf]:
    """Describes a function's plans under hypotheses.

    Args:
        replanned: The plans.
        function: The function.
        places: The places of the operations in the plan, by id.
        estimator: Estimates a prediction; None where the function is not estimated.
    """
    now = None if estimator is None else estimator({})
    found = []
    for one in replanned:
        saved = None
        if estimator is not None and now is not None and one.moved:
            saved = estimate_saving(now, estimator(one.moved))
        shown = [reason for id_, reason in one.reasons.items() if id_ in places]
        reason = next(iter(shown), None)
        found.append(
            WhatIf(
                hypothesis=one.hypothesis,
                unit=one.unit,
                function=function,
                rule=reason.rule if reason else COST_RULE if one.hypothesis == "moved" else "",
                reason=reason.text if reason else _reason(one),
                fix=join_fixes(reason.fix for reason in shown),
                confidence=least_known(one.confidence for one in shown) if shown else "measured",
                source=reason.source if reason else COST_SOURCE,
                varies=len({reason.text for reason in shown}) > 1,
                ops=tuple(places[id_] for id_ in one.ops if id_ in places),
                moved=Counter(one.moved.values()),
                planned_ms=one.total_ms,
                saved_ms=one.saved_ms,
                switches=one.switches,
                saved_s=saved,
                effect=_effect(one, replanned, saved),
            )
        )
    return found


def estimate_saving(before: Estimate, after: Estimate, kept: Sequence[int] | None = None) -> Figure:
    """Estimates the time that a prediction takes less, with an 80 % interval.

    Kernels that stay as they are cancel out, and those that stay on their unit count by their difference. The
    errors of the others are taken to be independent before and after, because they are those of two units.

    Args:
        before: The estimate as planned.
        after: The other estimate.
        kept: For each whole kernel of `after`, which one of `before` it is, -1 for a new one; None where all
            are.
    """
    homes = np.array(before.kernel_of or range(len(before.kernel_s)), dtype=np.intp)
    homes_after = np.array(after.kernel_of or range(len(after.kernel_s)), dtype=np.intp)
    if kept is not None:
        homes_after = np.where(homes_after < 0, -1, np.array([*kept, -1], dtype=np.intp)[homes_after])
    most = max(homes.max(initial=-1), homes_after.max(initial=-1))
    was, will = _spent(before, homes, most), _spent(after, homes_after, most)
    common = np.minimum(was, will)
    common[: len(UNITS)] = 0.0  # New kernels, and those that only start.
    spent = [float((was - common).sum()), float((will - common).sum())]
    fewer = sum(before.parts.get(part, 0.0) - after.parts.get(part, 0.0) for part in _TRANSITIONS)
    spent[0 if fewer > 0 else 1] += abs(fewer)
    value = before.latency.value - after.latency.value
    (below, above), (below_after, above_after) = map(_widths, (before.latency, after.latency))
    low = math.hypot(spent[0] * below, spent[1] * above_after)
    high = math.hypot(spent[0] * above, spent[1] * below_after)
    return Figure(value, value - low, value + high, "estimated")


def _spent(found: Estimate, homes: npt.NDArray[np.intp], most: int) -> Floats:
    """Returns the seconds of the parts of each whole kernel on each unit, those of home -1 first.

    Args:
        found: The estimate.
        homes: The whole kernel that each is a part of.
        most: The last whole kernel.
    """
    places = (homes + 1) * len(UNITS) + np.array(found.kernel_unit, dtype=np.intp)
    seconds = np.array(found.kernel_s, dtype=np.float64)
    return np.bincount(places, seconds, (most + 2) * len(UNITS)).astype(np.float64, copy=False)


def _widths(latency: Figure) -> tuple[float, float]:
    """How far the interval reaches below and above, as shares of the value."""
    return 1 - latency.low / latency.value, latency.high / latency.value - 1


def _reason(one: Replanned) -> str:
    unit = UNIT_WORDS[one.unit]
    if one.hypothesis == "without all":
        return f"all rules that keep operations from {unit}, together"
    these, themselves = ("it", "itself") if len(one.ops) == 1 else ("these", "themselves")
    return (
        f"{unit} can run {these} for less by {themselves},"
        " but launches and changes of unit cost more than that"
    )


def _effect(one: Replanned, others: Sequence[Replanned], saved: Figure | None) -> str:
    """Describes the effect of the hypothesis in a sentence."""
    saving = describe_saving(one.saved_ms, one.total_ms, saved)
    without = "without them" if one.hypothesis == "without all" else "without it"
    moves = _describe_moves(one.moved, is_sentence=True)
    match one.hypothesis:
        case "doubt":
            rejects = all(reason.effect in ("rejects", "fails") for reason in one.reasons.values())
            holds = "if it holds (anecdotal)" if rejects else "if that does not hold (anecdotal)"
            moves = _describe_moves(one.moved)
            return f"would move {moves} {holds}: {saving}" if moves else f"would move nothing {holds}"
        case "moved":
            return f"moving {'it' if len(one.ops) == 1 else 'them'}: {saving}{_carried(one, others)}"
        case _ if moves:
            return f"{without} {moves}: {saving}"
        case _ if one.free:
            return f"{without} nothing moves: launches and changes of unit would cost more than that saves"
        case _:
            return f"{without} nothing moves: other rules keep the same operations from this unit"


def _describe_moves(moved: Mapping[str, ComputeUnit], *, is_sentence: bool = False) -> str:
    """`71 operations to the Neural Engine and 3 to the CPU`; in a sentence `71 operations move to …`."""
    counts = Counter(moved.values())
    found: list[str] = []
    for unit in sorted(counts, key=lambda unit: (-counts[unit], UNITS.index(unit))):
        verb = "" if not is_sentence else " move" if counts[unit] > 1 else " moves"
        noun = "" if found else f" operation{'s' if counts[unit] > 1 else ''}{verb}"
        found.append(f"{counts[unit]}{noun} to {UNIT_WORDS[unit]}")
    return " and ".join(found)


def _carried(one: Replanned, others: Sequence[Replanned]) -> str:
    """Which reason, if gone, takes most of these operations along."""
    best, why = 0, ""
    for other in others:
        if other.hypothesis == "without" and other.unit == one.unit:
            along = sum(other.moved.get(id_) == one.unit for id_ in one.ops)
            if along > best:
                best, why = along, _first_clause(next(iter(other.reasons.values())).text)
    if not best:
        return ""
    which = "it moves" if len(one.ops) == 1 else f"{best} of them {'moves' if best == 1 else 'move'}"
    return f"; without the rule that {why}, {which} as well"


def _first_clause(text: str) -> str:
    """Returns a reason up to its first colon outside of brackets."""
    return re.split(r": (?![^(]*\))", text, maxsplit=1)[0]
