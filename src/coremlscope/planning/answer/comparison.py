"""Two models next to each other on a device, each under its own best setting."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import quantiles

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit
from coremlscope.planning.cost.latency.evidence import load_evidence
from coremlscope.results.answer import Answer, AnswerPair, PairVerdict

#: A ratio that is closer to 1 is no difference.
_SAME = 0.03
#: The fewest pairs from which the error of a ratio is known.
_FEWEST = 30


@functools.cache
def ratio_errors(line: str, first: ComputeUnit, second: ComputeUnit) -> tuple[float, float] | None:
    """Returns the 80 % interval of the error of the ratio of two networks' estimates on one chip.

    The errors of a chip and of a publication concern both networks, so pairs of one publication count. None
    for too few pairs. An error is log(measured / estimated) of the second network less that of the first.

    Args:
        line: The line of chips: `a` or `m`.
        first: The unit of the first network.
        second: That of the second.
    """
    groups: dict[tuple[str, ...], dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in load_evidence():
        if row.chip.startswith(line):
            error = math.log(row.measured_ms / row.estimated_ms)
            groups[row.publication, row.chip, row.precision][row.unit].append((row.network, error))
    pairs = [
        after - before
        for units in groups.values()
        for network, before in units.get(first, ())
        for other, after in units.get(second, ())
        if network != other
    ]
    if len(pairs) < _FEWEST:
        return None
    ends = quantiles(pairs, n=10, method="inclusive")
    return min(ends[0], 0.0), max(ends[-1], 0.0)


def compare_answers(base: Sequence[Answer], other: Sequence[Answer]) -> Iterator[AnswerPair]:
    """Yields the pairs of two models' answers on the same devices, each under its best setting.

    Args:
        base: The answers of the base.
        other: Those of the other model.
    """
    firsts = {(one.device, one.os): one for one in reversed(other) if one.is_asked}
    told = set()
    for before in base:
        key = before.device, before.os
        after = firsts.get(key)
        if after is None or key in told:
            continue
        told.add(key)
        if before.best is not None and after.best is not None:
            ratio = _ratio(before, after)
            yield AnswerPair(
                device=before.device,
                os=before.os,
                before=before.best,
                after=after.best,
                ratio=ratio,
                verdict=_verdict(ratio),
            )


def _verdict(ratio: Figure) -> PairVerdict:
    if abs(ratio.value - 1) < _SAME:
        return "no difference"
    if ratio.low > 1:
        return "slower"
    return "faster" if ratio.high < 1 else "unclear"


def _ratio(before: Answer, after: Answer) -> Figure:
    """Returns how much longer the second takes, with an 80 % interval."""
    assert before.best is not None
    assert after.best is not None
    was, will = before.best.latency, after.best.latency
    value = will.value / was.value
    errors = ratio_errors(before.chip[:1], before.best.unit, after.best.unit)
    if errors is None:
        low, high = will.low / was.high, will.high / was.low if was.low else math.inf
    else:
        low, high = value * math.exp(errors[0]), value * math.exp(errors[1])
    return Figure(value, low, high, "estimated")
