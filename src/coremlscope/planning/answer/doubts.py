"""What makes an answer doubtful: its certainty is the worst of its premises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from coremlscope.base.units import format_duration
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.planning.answer.settings import main_unit
from coremlscope.planning.cost.latency.evidence import load_evidence
from coremlscope.results.answer import AnswerTrust, Certainty, PublishedFigure
from coremlscope.results.estimate import Estimate, Kernel, Trust
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, SettingPlan

_WORDS: tuple[Certainty, ...] = get_args(Certainty)
#: The share of the time whose unit is undecided that makes a plan doubtful.
_VISIBLE = 0.2
_LINES = {"a": " of phones and tablets", "m": " of Macs"}

Doubt = tuple[Certainty, str]


def worst(known: Iterable[Certainty]) -> Certainty:
    """Returns the worst of several certainties; `likely` for none."""
    return max(known, key=_WORDS.index, default="likely")


def find_doubts(
    kernels: Sequence[Kernel],
    ops: OpTable,
    plan: Plan | None,
    setting: SettingPlan | None,
    estimate: Estimate,
) -> list[Doubt]:
    """Returns what makes an estimate doubtful, the worst first.

    Args:
        kernels: The kernels of the estimate.
        ops: The op table that they refer to.
        plan: The plan that it follows from; None where there is none.
        setting: The setting of it.
        estimate: The estimate.
    """
    found: list[Doubt] = []
    if estimate.left_out:
        found.append(("unknown", f"nothing is known of {', '.join(estimate.left_out)}"))
    if plan is not None and setting is not None:
        if (other := setting.other_plan) is not None:
            at = "" if other.latency is None else f", estimated at {format_duration(other.latency.value)}"
            text = f"too close to call: {other.moved} operations may run on another unit{at}"
            found.append(("unclear", text))
        elif undecided := _undecided(kernels, ops, plan, estimate):
            found.append(("unclear", undecided))
    if estimate.own is None and estimate.basis == "extrapolated":
        found.append(("unclear", "few published figures are of this chip"))
    return found


def _undecided(kernels: Sequence[Kernel], ops: OpTable, plan: Plan, estimate: Estimate) -> str:
    """Returns which operations may run on another unit, by rates that are assumed or ties; empty for few."""
    held: Counter[str] = Counter()
    for kernel, spent in zip(kernels, estimate.kernel_s, strict=False):
        planned = (plan.ops.get(ops.id[row]) for row in kernel.ops)
        if any(op is not None and op.choices[estimate.compute_units].alternatives for op in planned):
            held[kernel.kind] += spent  # type: ignore[assignment]
    share = sum(held.values()) / estimate.latency.value
    if share < _VISIBLE:
        return ""
    kind = held.most_common(1)[0][0]
    return f"the unit of {kind} operations depends on assumed rates ({share * 100:.0f} % of the time)"


def find_published(path: str, estimate: Estimate) -> tuple[PublishedFigure, ...]:
    """Returns published latencies of the network that a file is named after, on the chip of an estimate.

    Args:
        path: The path of the model.
        estimate: The estimate.
    """
    name, low, high = Path(path).stem.lower(), estimate.latency.low, estimate.latency.high
    unit = main_unit(estimate.placement)
    return tuple(
        PublishedFigure(
            network=row.network,
            seconds=row.measured_ms * 1e-3,
            unit=row.unit,
            publication=row.publication,
            url=row.url,
            is_within=low <= row.measured_ms * 1e-3 <= high,
        )
        for row in load_evidence()
        if row.network.lower() == name and (row.chip, row.unit) == (estimate.chip, unit)
    )


def describe_trust(
    doubts: Sequence[Doubt], trust: Trust | None, published: Sequence[PublishedFigure] = ()
) -> AnswerTrust:
    """Returns the trust in an answer: its doubts, how good such estimates were, and what was published."""
    accuracy = ""
    if trust is not None:
        accuracy = (
            f"Such estimates for {UNIT_WORDS[trust.unit]}{_LINES.get(trust.chips, '')} were off by"
            f" {trust.error * 100:.0f} % (median of {trust.count} published figures);"
            f" {trust.within * 100:.0f} % were within the interval."
        )
    outside = [one for one in published if not one.is_within]
    found = [*doubts]
    for one in outside[:1]:
        at = f"published: {format_duration(one.seconds)} on {UNIT_WORDS[one.unit]}, {one.publication}"
        found.insert(0, ("unclear", f"{at}, outside of this interval"))
    listed = sorted(found, key=lambda one: -_WORDS.index(one[0]))
    return AnswerTrust(
        certainty=worst(word for word, _ in found),
        doubts=tuple(text for _, text in listed),
        # Figures of other networks say less than that of this one.
        accuracy="" if outside else accuracy,
        published=tuple(published),
    )
