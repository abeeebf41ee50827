"""Settings of compute units next to each other: which one is faster, and how sure that is.

Estimates of one network on one chip under two settings do not err independently: how a publication measured,
and how unusual a network is, concern both. So the error of a ratio comes from networks that were published
under both, as pairs.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Mapping

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import CPU, ComputeUnit
from coremlscope.planning.cost.latency.calibration import load_calibration
from coremlscope.planning.cost.latency.evidence import load_evidence
from coremlscope.planning.forecast.what_if import estimate_saving
from coremlscope.results.answer import Certainty
from coremlscope.results.estimate import Estimate

#: The fewest networks that were published on two units from which the error of their ratio is known.
_FEWEST_PAIRS = 10
#: A smaller gain is none: estimates are known to some ten percent.
_LEAST_GAIN = 0.03


@functools.cache
def paired_errors(line: str, first: ComputeUnit, second: ComputeUnit) -> tuple[float, ...]:
    """Returns the errors of the ratio of two units, of networks that were published on both.

    An error is log(measured / estimated) on the second unit, less that on the first.

    Args:
        line: The line of chips: `a` or `m`.
        first: A unit.
        second: Another one.
    """
    found: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    spreads = load_calibration().spreads
    for row in load_evidence():
        # Rows of chips that no fit of the unit uses, as old ones in whole milliseconds, say nothing of it.
        if row.chip.startswith(line) and row.chip in spreads[row.unit].chips:
            key = row.network, row.publication, row.chip, row.precision
            found[key][row.unit].append(math.log(row.measured_ms / row.estimated_ms))
    from statistics import median

    both = (errors for errors in found.values() if first in errors and second in errors)
    return tuple(median(errors[second]) - median(errors[first]) for errors in both)


def compare_settings(before: Estimate, after: Estimate) -> tuple[Figure, Certainty]:
    """Compares a setting with another one on the same device.

    Args:
        before: The estimate under the setting that is compared with.
        after: That under the other one.

    Returns:
        Seconds under the other one, given the estimate before, and how sure it is that they are fewer.
    """
    units = main_unit(before.placement), main_unit(after.placement)
    if units[0] == units[1]:
        saved = estimate_saving(before, after)
        latency = Figure(
            after.latency.value,
            min(max(before.latency.value - saved.high, 0.0), after.latency.value),
            max(before.latency.value - saved.low, after.latency.value),
            "estimated",
        )
        return latency, judge_gain(before.latency.value, latency)
    errors = paired_errors(before.chip[0], *units)
    if len(errors) < _FEWEST_PAIRS:
        return after.latency, "unclear"
    from statistics import quantiles

    ends = quantiles(errors, n=10, method="inclusive")
    value = after.latency.value
    # The estimate stays in its interval, even where pairs say that it is biased.
    low, high = min(ends[0], 0.0), max(ends[-1], 0.0)
    latency = Figure(value, value * math.exp(low), value * math.exp(high), "estimated")
    return latency, judge_gain(before.latency.value, latency)


def judge_gain(before_s: float, after: Figure) -> Certainty:
    """Returns how sure it is that a change from some seconds to others saves a visible part of them."""
    is_visible = after.value < before_s * (1 - _LEAST_GAIN)
    return "likely" if is_visible and after.high < before_s else "unclear"


def main_unit(placement: Mapping[ComputeUnit, float]) -> ComputeUnit:
    """Returns the unit that does most of the work."""
    return max(placement, key=lambda unit: placement[unit]) if placement else CPU
